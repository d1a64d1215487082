/* A digest that is made beside: whoever has the next piece fills it in and goes on while a thread
 * hashes it. Taking off the compression and hashing take about the same time, and most machines
 * have two processors. */
#pragma once

#include "base/sha256.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASHER_PIECE  (256u << 10)
#define HASHER_PIECES 8u

struct hasher {
    struct sha256 sha;
    pthread_t thread;
    bool off;    /* no digest is wanted: the pieces are only passed on */
    bool beside; /* there is a thread; otherwise it is done at once */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t added, done; /* pieces */
    bool end;
    size_t len[HASHER_PIECES];
    char pieces[HASHER_PIECES][HASHER_PIECE];
};

void hasher_start(struct hasher *h, bool off);
/* Where the next piece goes, of at most HASHER_PIECE bytes. It may be read until HASHER_PIECES - 1
 * others were asked for. */
char *hasher_room(struct hasher *h);
void hasher_add(struct hasher *h, size_t len);
void hasher_finish(struct hasher *h, uint8_t ret[static SHA256_SIZE]);
