/* The bytes of a YAML policy: white space, comments and scalars. Structure is yaml_parse.c's, types
 * are yaml_type.c's. */
#pragma once

#include "base/buf.h"
#include "base/json_build.h"

struct yaml_reader {
    struct json_cursor cursor;
    struct json_builder build;
    struct buf scratch; /* the scalar being read */
};

struct yaml_scalar {
    char *text; /* owned */
    bool plain; /* had no quotes */
    struct json_pos pos;
};

int yaml_scan_init(struct yaml_reader *r, const char *text, size_t len,
                   const struct json_limits *limits, struct err *err);
void yaml_scan_done(struct yaml_reader *r);
void yaml_scalar_done(struct yaml_scalar *s);
#define cleanup_scalar __attribute__((cleanup(yaml_scalar_done)))

int yaml_scan_peek(const struct yaml_reader *r);
/* "found what is there, expected what should be". */
int yaml_scan_fail(struct yaml_reader *r, const char *expected);

/* To the first content of the document, past an optional "---". */
int yaml_scan_start(struct yaml_reader *r);
/* Over white space, comments and line ends to the next content. */
int yaml_scan_next(struct yaml_reader *r);
/* Over spaces only. */
void yaml_scan_spaces(struct yaml_reader *r);
/* Is there nothing more on this line but a comment? */
bool yaml_scan_line_ends(const struct yaml_reader *r);
/* Where the content stands, counted from 0; -1 at the end of the text. */
int yaml_scan_indent(const struct yaml_reader *r);
/* Is this the "- " of a block sequence? */
bool yaml_scan_dash(const struct yaml_reader *r);
/* Is this the ':' after a key? */
bool yaml_scan_colon(const struct yaml_reader *r, bool flow);

/* One scalar of one line. In flow context commas and brackets end a plain one. */
int yaml_scan_scalar(struct yaml_reader *r, bool flow, struct yaml_scalar *ret);
