/* Texts with a placeholder in them, and what becomes of them. For inject.c alone. */
#pragma once

#include "base/buf.h"
#include "credentials/secret.h"

enum swap_escape {
    SWAP_RAW,
    SWAP_JSON, /* inside a string of JSON */
    SWAP_FORM, /* percent-encoded */
};

/* A buffer whose bytes are wiped when it goes. */
void wiped_done(struct buf *b);
#define cleanup_wiped __attribute__((cleanup(wiped_done)))

void swap_add_value(struct buf *out, const struct secret *value, enum swap_escape how);
/* `text` with every `placeholder` replaced, into `out`; returns how many. */
size_t swap_text(const char *text, size_t len, const char *placeholder, const struct secret *value,
                 enum swap_escape how, struct buf *out);
bool swap_found(const char *text, size_t len, const char *placeholder);

/* "Basic BASE64": the user and password that it holds. False where it is no such thing. */
bool basic_decode(const char *header, struct buf *out);
void basic_encode(const char *plain, size_t len, struct buf *out); /* with "Basic " */

/* Is this member of a query, up to its '=', the one of that name to a lenient server? */
bool query_same_name(const char *piece, size_t len, const char *name);
/* `target` with `name`=`value` as its first query parameter and no other of that name. */
void query_set(const char *target, const char *name, const struct secret *value, struct buf *out);
