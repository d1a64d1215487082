/* multipart/form-data, piece by piece and strictly: no preamble, CRLF everywhere, part heads
 * bounded, a part without a plain Content-Disposition is refused, and so is what only other readers
 * would take for the border of a part. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_HEAD_MAX     8192
#define MULTIPART_NAME_MAX     4096

enum multipart_event {
    MULTIPART_MORE, /* everything was taken, more is needed */
    MULTIPART_PART, /* a part begins: name, filename */
    MULTIPART_DATA, /* a piece of it: data, data_len, valid until the next call */
    MULTIPART_END,  /* the part is complete */
    MULTIPART_DONE, /* all is complete */
};

struct multipart {
    char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF "--" boundary */
    size_t delimiter_len;
    int state;
    size_t matched; /* of the delimiter */
    size_t of_line; /* of the delimiter without its CR LF, from the beginning of a line on */
    char head[MULTIPART_HEAD_MAX];
    size_t head_len;
    char name[MULTIPART_NAME_MAX + 1], filename[MULTIPART_NAME_MAX + 1];
    bool has_filename;
    bool escapes; /* a backslash stands before a quote: readers disagree on where the name ends */
    const char *data;
    size_t data_len;
};

/* From the value of Content-Type. */
int multipart_init(struct multipart *m, const char *content_type, struct err *err);
/* Looks at data[0..len), takes some of it and says what it found. Returns how much was taken. */
ssize_t multipart_read(struct multipart *m, const char *data, size_t len, enum multipart_event *ret,
                       struct err *err);
bool multipart_complete(const struct multipart *m); /* the last delimiter was seen */
