/* Where one run of `brig verify` keeps its canaries, and how an attack inside finds them. Nothing
 * here is secret: what proves a break-in (the token) is known outside only. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PLACE_PATH 96

struct place {
    char folder[64]; /* of this run, unguessable, removed at the end */
    char mark[16];   /* what the tasks of one sandbox are called */
    /* in the folder */
    char tool[PLACE_PATH];   /* this program, for use inside */
    char file[PLACE_PATH];   /* holds the token; anybody may read and write it */
    char drop[PLACE_PATH];   /* a folder in which anybody may write, and nothing may appear */
    char socket[PLACE_PATH]; /* somebody listens */
    char ro[PLACE_PATH];     /* granted to one sandbox */
    char rw[PLACE_PATH];
    char mqueue[40];   /* a POSIX message queue that holds the token */
    char abstract[40]; /* an abstract socket */
    char variable[40]; /* of the caller's environment; holds the token */
    /* numbers */
    int32_t victim;     /* a process of the caller's */
    int32_t leaked;     /* a descriptor that the supervisor forgot to close; -1 if none */
    int32_t shm_key;    /* System V shared memory that holds the token */
    int32_t limit;      /* what the scene is limited to */
    int32_t patience;   /* milliseconds that a limit which is kept by looking has to be noticed */
    int32_t namespaced; /* container tier */
    int32_t guest;      /* vm tier */
    int32_t caller;     /* uid that runs brig verify: has a folder in /run/user */
    uint16_t tcp, tcp6, udp;
    /* the servers behind brig-proxy: with a secret, without, without a rule; names */
    uint16_t bound, plain, closed, names;
};

/* Numbers that travel as one word, in this order. */
#define PLACE_NUMBERS 15
void place_derive(struct place *p);
void place_write(const struct place *p, char *out, size_t size);
/* What the hidden verb was started with. */
int place_read(struct place *p, const char *text, struct err *err);
