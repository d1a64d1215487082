/* The supervisor's side of one brig-proxy: starts it, feeds it, hears from it, ends it. What it
 * says is hostile input. */
#pragma once

#include "base/buf.h"
#include "network/channel.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <sys/types.h>

struct link {
    pid_t pid;
    int pidfd;
    int fd;      /* -1: none, or it is dead */
    int lost_fd; /* what fd was before it died, until link_done; or -1 */
    bool started;
    bool ready;
    bool died;     /* without having been told to */
    pid_t keeper;  /* 0: it has none */
    int keeper_fd; /* or -1 */
    struct buf ca;
    struct channel_msg *msg; /* what link_next received last */
};

struct run_values;
struct link_config {
    const struct egress *egress;
    const struct run_values *values; /* what the environment does not have; or NULL */
    const char *token;               /* standalone: what clients must show */
    uid_t uid;            /* who to become when started by root; 0: the proxy's own choice */
    bool check;           /* only see whether the secrets are available: CH_CHECKED for each */
    const char *resolver; /* "ADDRESS:PORT"; NULL: as the host resolves */
    bool learn;           /* see proxy/proxy.h */
    uint32_t cpus_milli;  /* its share of a processor; 0: all of one */
};

/* Where brig-proxy is. */
int link_program(char *ret, size_t size, struct err *err);

void link_init(struct link *l);
/* Starts the program and sends the configuration; does not wait for it. */
int link_start(struct link *l, const struct link_config *c, struct err *err);
/* Until it is sealed and ready, or says why not. `signal_fd` interrupts; -1: nothing does. */
int link_await(struct link *l, int signal_fd, struct err *err);
int link_replace(struct link *l, const struct link_config *c, struct err *err);
/* Both take over nothing: the caller closes its copy. */
int link_listener(struct link *l, int fd, enum channel_listener kind, uint16_t port);
int link_connection(struct link *l, int fd, enum channel_listener kind, const char *address,
                    uint16_t port);
/* CH_SYNCED with this value comes when it has told of all that it has decided by now. */
int link_sync(struct link *l, uint32_t value);
/* Tells the proxy that the code asked for an address at which nothing listens. */
void link_refused(struct link *l, const char *address, uint16_t port);
/* 1: l->msg is filled in; 0: nothing now; negative: it is gone, and l->fd is -1. A loop
 * that watched it must forget it now. */
int link_next(struct link *l);
/* The keeper, which holds the secrets of this proxy and revokes them at the end: it outlives a
 * proxy that was killed. 0: there is none, or it has ended. */
pid_t link_keeper(const struct link *l);
/* Tells it to finish, hands every last message to fn, reaps it. Kills it if it takes too long. */
void link_end(struct link *l, void (*fn)(void *ctx, const struct channel_msg *msg), void *ctx);
void link_done(struct link *l); /* safe on half-built state */
