/* What goes over the pair between brig-proxy and its keeper. For keeper.c and keeper_loop.c. */
#pragma once

#include "credentials/keeper.h"

#define KEEPER_MAGIC 0x6b656570u
#define KEEPER_FD    3 /* the keeper's end, in the keeper */

enum keeper_type {
    KEEPER_ASK = 1, /* to the keeper; nothing follows */
    KEEPER_VALUE,   /* the bytes of a value follow */
    KEEPER_FAILED,  /* a struct err follows */
    KEEPER_BYE,     /* the same: everything is revoked, or why not */
};

struct keeper_message {
    uint32_t magic;
    uint32_t type;
    uint32_t index;
    uint32_t len; /* of what follows */
    uint64_t lifetime_ms;
    char payload[SECRET_MAX];
};
#define KEEPER_HEAD offsetof(struct keeper_message, payload)

/* 0 or -EAGAIN or another negative errno. */
int keeper_send(int fd, enum keeper_type type, size_t index, uint64_t lifetime_ms, const void *data,
                size_t len);
/* Is what was received (`got` bytes) a message, from the side that may send it? */
bool keeper_message_ok(const struct keeper_message *m, size_t got, bool from_keeper);
/* The keeper itself; does not return. */
void keeper_main(const struct egress *e, int fd, const struct keeper_transport *t)
    __attribute__((noreturn));
