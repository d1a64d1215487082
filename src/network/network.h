/* BOUNDARY 3: where the code can go: nowhere, or to what the rules name, through brig-proxy.
 *
 * N-1  Container tier: an empty network namespace with nothing but loopback; there is no route that
 *      could be opened. With rules, every address is local to it, and the listeners that answer
 * were made inside and are served by brig-proxy outside. No proxy, no network. A session makes the
 * sockets whether there are rules or not: without, they are bound and nobody listens, and a
 * connection is refused as on any host. A run without rules has one socket on 127.0.0.1, on which
 * the supervisor hears for which names the code asks, to say so; it never passes one on. N-2
 * Process tier:
 * no socket of a network family can be made (system call filter), and Landlock refuses TCP besides.
 * With rules, TCP sockets can be made, and each connect is done by the supervisor on its own copy
 * of the address, to brig-proxy and nothing else; Landlock still refuses what the code would do by
 * itself. */
#pragma once

#include "audit/evidence.h"
#include "base/err.h"
#include "network/channel.h"
#include "plan/plan.h"
#include "plan/stage.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <sys/types.h>

#define NETWORK_PORTS_MAX 128
#define NETWORK_DNS_PORT  53

struct network {
    bool namespaced;
    bool allowlist;   /* else off */
    bool prepared;    /* off, but rules may come: everything is made, nobody listens yet */
    bool hears_names; /* off, and no rules will come: names are asked for, and refused in words */
    uint16_t proxy_port; /* of the explicit proxy, inside */
    uint16_t ports[NETWORK_PORTS_MAX];
    unsigned port_count;
    unsigned rules;
    uint64_t socket_buffer;  /* the most that one of TCP's may hold; 0: as the kernel has it */
    unsigned listeners;      /* planned */
    unsigned listeners_seen; /* handed out by init and passed on */
    pid_t proxy_pid;
};

int network_open(struct network *n, const struct policy *p, bool namespaced, struct err *err);
/* In its place, for a sandbox whose rules may come, or change, while it lives. */
int network_open_prepared(struct network *n, const struct policy *p, struct err *err);
int network_plan(struct network *n, enum plan_stage stage, struct plan *plan, struct err *err);
/* The same inside of a virtual machine, where init keeps the listeners and carries what comes. */
void network_plan_guest(const struct network *n, struct plan *plan);
/* A listener that init made: is it one that was planned, and does it stand inside? */
int network_take(struct network *n, int fd, int32_t value, struct err *err);
/* Does this socket belong to the supervisor's own network? */
bool network_is_ours(int fd);
/* The meaning of an address that the code asks for, on the process tier. */
enum channel_listener network_kind(const struct network *n, const char *address, uint16_t port);
/* Does anybody inside answer there? What the code itself listens on counts only on loopback. */
bool network_serves(const struct network *n, const char *address, uint16_t port);
int network_attest(struct network *n, pid_t pid, struct evidence *out, struct err *err);
