/* The other side of audit/notary.h: `brig-daemon sign`, started beside a run, which signs its
 * receipt. Nothing here waits for it but what must: the run goes on while it starts, and what is
 * left of the sandbox is removed while it signs. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct notary {
    pid_t pid; /* -1: none */
    int pidfd;
    int fd;
    bool ready, asked;
};

void notary_init(struct notary *n);
int notary_start(struct notary *n, struct err *err);
/* Waits until the notary is ready to sign. signal_fd: gives up when a signal arrives there. */
int notary_await(struct notary *n, int signal_fd, struct err *err);
/* The code is about to run. */
void notary_begins(struct notary *n, const char *id);
/* Nothing was run after all. */
void notary_forget(struct notary *n);
int notary_ask(struct notary *n, const struct buf *body, struct err *err);
/* The member `signature` of the receipt that was asked for. */
int notary_answer(struct notary *n, struct buf *ret, struct err *err);
void notary_done(struct notary *n);
