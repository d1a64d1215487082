/* Where `brig run --receipt FILE` writes to. It is opened before anything runs, so that what cannot
 * be kept is not run; and it takes its place whole, or not at all. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct receipt_file {
    int dir; /* of the file; -1: it is written to as it stands (a pipe, a terminal) */
    int fd;
    char name[256], fresh[64];
};
#define RECEIPT_FILE_INIT                                                                          \
    {                                                                                              \
        .dir = -1, .fd = -1                                                                        \
    }

int receipt_file_open(struct receipt_file *f, const char *path, struct err *err);
int receipt_file_write(struct receipt_file *f, const struct buf *receipt, struct err *err);
void receipt_file_done(struct receipt_file *f);
