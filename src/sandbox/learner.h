/* Learn mode, where the boundaries meet: what each of them refused becomes proposals. While the
 * code runs things are only written down; the host is looked at after its end. */
#pragma once

#include "audit/asked.h"
#include "audit/netlog.h"
#include "base/err.h"
#include "policy/learn/learn.h"

#define LEARNER_HOSTS_MAX 128

struct sandbox;

/* One place of the network that was denied. */
struct learner_host {
    char host[256];
    char scheme[8];
    char asked[200]; /* "GET http://host:port/path" */
    char reason[32];
    char text[160];
    uint16_t port;
    bool name_only; /* its name was asked for, nothing more */
    uint64_t count;
};

struct learner {
    struct asked_set asked;
    struct learner_host hosts[LEARNER_HOSTS_MAX];
    size_t host_count;
    uint64_t dropped;
};

struct learner *learner_new(void);
void learner_free(struct learner *l);
/* The error where another process already listens to refused calls: nothing could be learned. */
int learner_blind(struct err *err);
/* A netlog_heard. */
void learner_hear(void *learner, const struct netlog_denied *d);
/* After the end, while the boundaries' knowledge is still there. NULL: no memory. */
struct learn *learner_settle(struct sandbox *s);

/* learner_files.c, learner_hosts.c */
void learner_files(struct sandbox *s, struct learn *l);
/* For learn_merge: may this folder be proposed, for reading, in the place of what lies in it? */
bool learner_may_merge(void *ctx, const char *folder);
void learner_hosts(const struct learner *r, struct learn *l);
