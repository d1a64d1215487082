/* The launcher's side of `brig serve --tls`: reads the certificate and its key, starts brig-tls,
 * which alone has the key (src/tls), gives it another pair at SIGHUP, and starts it again if it
 * dies.
 *
 * The listening sockets are the launcher's and brig-tls's, never the front's: while there is no
 * brig-tls, connections wait, and nothing is served without TLS. The bytes of the key are in none
 * of the launcher's memory, of which every warden begins with a copy: the kernel moves them from
 * the file to a sealed one. */
#pragma once

#include "base/err.h"
#include "os/loop.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GATEKEEPER_LISTENERS_MAX 8

/* Sealed files; -1: none. */
struct tls_pair {
    int certificate, key;
};

struct gatekeeper {
    struct loop *loop;
    const char *certificate, *key; /* paths */
    const char *domain;            /* or NULL */
    int listeners[GATEKEEPER_LISTENERS_MAX];
    unsigned listener_count;
    void (*say)(void *ctx, const char *text);
    void (*warn)(void *ctx, const char *text);
    void *ctx;
    /* its own */
    struct loop_io control;
    struct loop_timer again, overdue; /* a start; an answer */
    struct wire_msg *msg;
    /* The front's end and brig-tls's. Both are kept, so that a brig-tls that is started again takes
     * the place of the last one and the front need not know. */
    int door[2];
    struct tls_pair now, next; /* in force; being looked at */
    uint32_t request;
    bool asked;     /* for a pair, and not answered yet */
    bool once_more; /* SIGHUP came meanwhile */
    bool closing;
    pid_t pid; /* 0: there is none */
    uint64_t started_ms;
    unsigned pause_ms;
};

/* Before anything else is called: nothing is open. */
void gatekeeper_init(struct gatekeeper *k);
/* Reads the pair, starts brig-tls, and waits until it has taken it. */
int gatekeeper_open(struct gatekeeper *k, struct err *err);
/* What happens is said later. */
void gatekeeper_reload(struct gatekeeper *k);
void gatekeeper_child(struct gatekeeper *k, pid_t pid, int status);
/* It ends when it has sent what it has; gatekeeper_child hears of it. */
void gatekeeper_close(struct gatekeeper *k);
void gatekeeper_kill(struct gatekeeper *k);
void gatekeeper_done(struct gatekeeper *k);
