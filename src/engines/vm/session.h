/* What the monitor and init in the guest say to each other, and the code's input and output. */
#pragma once

#include "base/err.h"
#include "engines/vm/vsock.h"
#include "plan/guest.h"

#include <poll.h>
#include <time.h>

#define SESSION_BOOT_MAX 3600u
#define SESSION_FDS      4 /* that it watches: 0, 1, 2 and signals */

struct session {
    struct vsock *vsock;
    const uint8_t *plan;
    size_t plan_len, plan_sent;
    struct guest_hello hello;
    bool greeted;
    bool terminal;    /* descriptors 0 to 2 are one; the code has its own, in the guest */
    const char *name; /* it serves programs that are joined by this name; NULL: it runs one */
    bool up;          /* then: init in the guest said so, and the name was told */
    bool in_ended;
    bool closed[2]; /* who reads output 1 or 2 has gone */
    int signal_fd;
    struct timespec begun;
    unsigned seconds;       /* to come up */
    struct guest_word word; /* GUEST_EXIT or GUEST_FAIL, once it came */
    bool over;
    int signal; /* end by it */
};

int session_open(struct session *s, struct vsock *v, int plan, uint32_t uid, bool terminal,
                 struct err *err);
/* It runs no code by itself: `name` is written to descriptor 1 when the guest is up, and the
 * session lasts until the machine ends. After session_open. */
void session_serve(struct session *s, const char *name);
/* From now on the guest has a time limit to come up. */
void session_begin(struct session *s, unsigned seconds);
/* Fills in the first SESSION_FDS. */
void session_watch(struct session *s, struct pollfd *fds);
/* Milliseconds until the guest must have come up; -1: it has. */
int session_patience(const struct session *s);
/* After a poll; an exit status, or -1: it goes on. */
int session_step(struct session *s, const struct pollfd *fds);
/* The machine ended before the code did; an exit status. */
int session_lost(struct session *s, const char *why);
/* If a signal ended the code, it ends this process. */
void session_end_as(const struct session *s);
