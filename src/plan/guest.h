/* What is said between the monitor and init in a guest, over streams of its vsock.
 *
 * The monitor begins, with a hello and the plan of the code; init answers with words. What comes
 * from the guest is hostile input to the monitor, also before the code runs: its kernel may have
 * been taken over. */
#pragma once

#include "base/err.h"

#include <stdint.h>

enum guest_port {
    GUEST_CONTROL = 1,
    GUEST_STDIN,
    GUEST_STDOUT,
    GUEST_STDERR,
    GUEST_NAMES, /* questions for names and their answers: datagrams, each behind its length */
    GUEST_CARRY, /* a connection of the code's, many at a time: a guest_target, then its bytes; what
                    comes back comes in pieces, each behind its length (two bytes, the higher first)
                    and a piece of none at its end: one that ends without was broken off */
    GUEST_JOIN,  /* a program of a sandbox that lives on, many at a time: dialled beforehand, and
                    used  when the monitor sends a guest_order; plan/lines.h */
};

#define GUEST_MAGIC   0x74736775u
#define GUEST_ENTROPY 64u

/* Of a terminal. */
struct guest_size {
    uint16_t rows, columns;
};

/* Followed by the plan. */
struct guest_hello {
    uint32_t magic, plan_len;
    uint64_t seconds; /* since 1970 */
    uint32_t nanoseconds;
    uint32_t uid; /* of the code; its gid is the same */
    uint32_t
        terminal; /* 1: the code gets one, of this size; its bytes are GUEST_STDIN and _STDOUT */
    struct guest_size size;
    uint32_t serves; /* 1: no code is started yet; who comes over GUEST_JOIN says which. The plan
                        has its walls */
    uint8_t entropy[GUEST_ENTROPY]; /* of the host's, for this guest alone (VM-30) */
};

/* What to start, as the monitor passes it on over GUEST_JOIN: then comes a plan of OP_ARG, OP_ENV
 * and OP_CWD, then frames. Or a port to connect to: then come frames, of channels 0 (to it) and 1.
 */
struct guest_order {
    uint32_t magic, plan_len;
    uint32_t descriptors; /* of the program: 3, or 5 with an interpreter's channel */
    uint32_t terminal;    /* 1: it gets one, of this size */
    struct guest_size size;
    uint32_t port; /* 0: it is a program */
};

enum guest_word_type {
    GUEST_SIGNAL = 1, /* monitor: send it to the code's process group */
    GUEST_EXIT, /* init: the code ended with this wait status, and all that it wrote was sent */
    GUEST_FAIL, /* init: it could not be started; `err` says why */
    GUEST_SIZE, /* monitor: the terminal has another size */
    GUEST_UP,   /* init, where it serves: programs can be started */
};
struct guest_word {
    uint32_t type;
    int32_t value;
    uint32_t
        oom_kills; /* GUEST_EXIT: processes that the guest's kernel killed for want of memory */
    struct guest_size size; /* GUEST_SIZE */
    struct err err;         /* GUEST_FAIL */
};

/* What there is of a network around the monitor. */
enum guest_network {
    GUEST_NETWORK_NONE,
    GUEST_NETWORK_NAMES, /* no rules; who asks for a name is told so */
    GUEST_NETWORK_RULES,
};

/* Where a connection of the code's leads. */
struct guest_target {
    uint8_t address[16]; /* IPv6, or IPv4 in it (::ffff:a.b.c.d) */
    uint8_t port[2];     /* the higher byte first */
    uint8_t zero[2];
};
/* A datagram on GUEST_NAMES: its length, the higher byte first, and as many bytes. */
#define GUEST_NAME_LEAST 12u
#define GUEST_NAME_MOST  512u

/* Where the modules lie in the initramfs: numbered, in the order in which they are loaded. */
#define GUEST_MODULE "/modules/%02u.ko"
/* How init is told that it is the first process of a guest. */
#define GUEST_ARGUMENT "guest"
/* The tag of the file system that the monitor serves. */
#define GUEST_VIEW "view"
