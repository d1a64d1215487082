/* The parts of brig-vmm: one machine, its devices, and what they are connected with. */
#pragma once

#include "engines/vm/egress.h"
#include "engines/vm/fs.h"
#include "engines/vm/joins.h"
#include "engines/vm/machine.h"
#include "engines/vm/session.h"
#include "engines/vm/vsock.h"

#include <poll.h>

enum monitor_mode {
    MONITOR_RUNS,   /* one program */
    MONITOR_SERVES, /* programs that are joined to it */
    MONITOR_PARKS,  /* none: it boots a guest, and ends when that waits for its identity */
    MONITOR_CLONES, /* serves, in a copy of a guest that was parked */
};

struct monitor {
    enum monitor_mode mode;
    struct machine machine;
    struct vsock vsock;
    struct fs fs;
    struct session session;
    struct egress egress;
    struct joins joins;
    int ended_fd;            /* a processor stopped for good */
    _Atomic int end;         /* MACHINE_GOES_ON until one did by itself */
    _Atomic unsigned halted; /* processors that were stopped */
    int threads[MACHINE_CPUS_MAX];
    pthread_barrier_t sealed;
};

/* processors.c. Each has a thread, which is sealed before it waits for the others at `sealed`. */
int processors_start(struct monitor *m, struct err *err);
/* All of them stop, with nothing half done, and stay so. */
int processors_halt(struct monitor *m, struct err *err);
/* What is said of a machine that ended by itself. */
const char *processors_end(const struct monitor *m);

/* bells.c: queues of which the driver says that there is something in them. */
#define BELLS_FDS (MACHINE_DEVICES_MAX * DEVICE_QUEUES_MAX)
/* Fills in at most so many; their number. */
unsigned bells_watch(const struct monitor *m, struct pollfd *fds);
/* After a poll. */
void bells_answer(struct monitor *m, const struct pollfd *fds);
/* As if the driver had rung all of them. */
void bells_ring(const struct monitor *m);

/* seal.c, VM-13 */
int seal_processor(struct err *err);
int seal_devices(const struct monitor *m, struct err *err);

/* park.c: until the guest waits and its state is in the file; then it is parked. */
int park(struct monitor *m, int state, unsigned seconds, struct err *err);
/* Before machine_load would be called; in its place. */
int park_restore(struct monitor *m, int state, struct err *err);
