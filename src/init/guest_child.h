/* init as the first process of a guest: see guest_child.c. */
#pragma once

#include "base/err.h"
#include "plan/guest.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Never comes back: the machine ends with it. */
int guest_main(void);
/* A new stream of the monitor's, which may still be about to be connected where `wait` is false. */
int guest_dial(uint32_t port, bool wait, struct err *err);

/* What stands around the code, and what it starts with. */
struct guest_code {
    const void *walls; /* a plan */
    size_t walls_len;
    const struct apply_state *places; /* what was done of it beforehand */
    const void *block; /* a plan of OP_ARG, OP_ENV and OP_CWD; NULL: they are with the walls */
    size_t block_len;
    uint32_t uid;
    const int *fds; /* become its descriptors 0, 1, … */
    unsigned count;
    int terminal; /* its side of one, else -1 */
    int report;   /* closed when it is executed; else a struct err comes */
};
/* In a child. */
void guest_become(const struct guest_code *c) __attribute__((noreturn));
/* Both sides of a terminal, the inner one the user's. */
int guest_terminal(uint32_t uid, const struct guest_size *size, int *outer, int *inner,
                   struct err *err);
/* Processes that this kernel has killed for want of memory. */
uint32_t guest_oom_kills(void);
int guest_read_all(int fd, void *to, size_t len, struct err *err);

/* guest_serve_child.c: programs that are asked for one by one, while the machine lasts. `up` is
 * said on `control` when they can be. */
struct guest_serve {
    int control, signals;
    const void *walls;
    size_t walls_len;
    const struct apply_state *places;
    uint32_t uid;
};
void guest_serve(const struct guest_serve *s) __attribute__((noreturn));

/* guest_network_child.c: the ways out that the plan has, and a process that carries what takes
 * them. After the loopback is up; control: init's own stream, which that process does not keep. */
int guest_network_start(const void *plan, size_t len, int control, struct err *err);
/* Is this operation a part of it? */
bool guest_network_has(enum op_kind kind);
