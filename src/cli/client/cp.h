/* Copying between the caller's files and a sandbox. */
#pragma once

#include "cli/client/client.h"

struct copy {
    const struct client *client;
    const char *id;
    const char *inside; /* path in the sandbox */
    const char *here;   /* path of the caller's */
    bool recursive;
    uint64_t files, bytes;
};

/* cp_in.c: from here into the sandbox. Links are left out, and said. */
int copy_in(struct copy *c, struct err *err);
/* cp_out.c: from the sandbox to here. Every name in its listing is hostile: nothing is written but
 * below the target, no link is followed or made, and only plain permission bits are kept. */
int copy_out(struct copy *c, struct err *err);
/* cp_name.c. Names that are not UTF-8 are escaped in what the daemon says and is told
 * (base/utf8.h): a name of the caller's as text, and back; a path that the caller wrote. Each
 * starts the buffer. */
void copy_text_of(struct buf *out, const char *name);
void copy_name_of(struct buf *out, const char *text);
void copy_mend(struct buf *out, const char *path);
/* The target for one file: an existing folder takes it under its own name. */
const char *copy_base(const char *path);
