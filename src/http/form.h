/* The names of the members that a request's body carries, so that a method which the body names can
 * be found: a form ("a=1&b=2"), multipart/form-data, or an object in JSON (its outermost members).
 * Of other kinds of multipart, whose parts servers name in ways of their own, every word counts.
 * Piece by piece; values are not looked at, nothing is kept. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum form_kind {
    FORM_NONE, /* no such body */
    FORM_URLENCODED,
    FORM_MULTIPART,
    FORM_JSON,
    FORM_WORDS,   /* multipart, but no form-data */
    FORM_UNCLEAR, /* servers disagree about what it is */
};
/* `type`: the Content-Type, or NULL. Without one, servers take a body for a form; an empty one is
 * none. */
enum form_kind form_kind_of(const char *type);

/* Is this the name that is looked for? As it stands in the body: of a form, percent-encoded. */
typedef bool form_name_fn(const char *name, size_t len);

struct form_reader;
int form_open(enum form_kind kind, const char *type, form_name_fn *wanted, struct form_reader **ret,
              struct err *err);
void form_close(struct form_reader *f); /* takes NULL */
/* 1: a member has that name; 0: none so far; negative: a multipart body, or JSON, that is none. */
int form_feed(struct form_reader *f, const char *data, size_t len, struct err *err);
