/* Writes a layer: a tar archive, plain, whose digest is known at the end. Whoever writes one
 * decides what goes into it; names are relative to the root of the image. */
#pragma once

#include "base/err.h"
#include "base/sha256.h"
#include "policy/reference.h"

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct tar {
    int fd;
    struct sha256 sha;
    uint64_t size;    /* bytes written */
    uint64_t entries; /* entries written */
    char *chunk;
};
int tar_begin(struct tar *t, int fd, struct err *err);
void tar_done(struct tar *t);
int tar_end(struct tar *t, char digest[static DIGEST_SIZE], struct err *err);

int tar_folder(struct tar *t, const char *name, mode_t mode, time_t time, struct err *err);
int tar_link(struct tar *t, const char *name, const char *target, time_t time, struct err *err);
/* A name that was written before. */
int tar_hard_link(struct tar *t, const char *name, const char *to, struct err *err);
/* What is in `fd`, of this size: one that is shorter by now is refused. `of` is for the message. */
int tar_file(struct tar *t, const char *name, int fd, uint64_t size, mode_t mode, time_t time,
             const char *of, struct err *err);
int tar_text(struct tar *t, const char *name, const void *data, size_t len, mode_t mode,
             struct err *err);
