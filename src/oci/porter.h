/* The ways out of a container that asked for some. A process of brig's own stands beside it while
 * it runs, the porter: it starts brig-proxy, gives it the listeners that were made inside, hears
 * what was denied, and tells the logs. It ends with the container, and brig-proxy with it.
 *
 * OC-11  With rules the only way out is brig-proxy: the namespace has loopback and no route, as
 * seen from outside before the program runs. No porter, no proxy, no network. */
#pragma once

#include "network/network.h"
#include "oci/judge.h"
#include "oci/log.h"
#include "oci/state.h"
#include "plan/plan.h"

#define OCI_LISTENERS_MAX (NETWORK_PORTS_MAX + 4)
#define OCI_NETWORK_FILE  "network.json" /* of the state: what the porter has seen, at its end */

struct oci_porter {
    bool asked; /* else there is none, and no way out */
    struct policy policy;
    struct network network;
    struct plan plan;
    struct {
        int fd;
        int32_t number;
    } listeners[OCI_LISTENERS_MAX];
    unsigned count;
    pid_t pid; /* 0: not started */
};

/* Decides what is asked for, and plans it. Nothing is made. */
int oci_porter_plan(struct oci_porter *p, const struct oci_config *c, const struct oci_operator *o,
                    struct err *err);
/* What the first process hands out while it builds. */
int oci_porter_take(struct oci_porter *p, int sync_fd, struct err *err);
/* Returns when brig-proxy is ready and has the listeners. `container` is its first process. */
int oci_porter_start(struct oci_porter *p, pid_t container, struct oci_state *s,
                     const struct oci_log *log, struct err *err);
/* OC-11, as an object of JSON. */
int oci_porter_attest(struct oci_porter *p, pid_t container, struct json_writer *w,
                      struct err *err);
/* The container has ended: waits until the porter has told what there is to tell. */
void oci_porter_await(const struct oci_state *s);
void oci_porter_done(struct oci_porter *p); /* safe on half-built state */
