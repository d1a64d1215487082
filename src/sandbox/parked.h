/* A parked machine: a guest that was booted up to where it waits to hear who it is, as two files in
 * memory, its own memory and the state of processors and devices. No process belongs to it.
 *
 * VM-31  Its files are made before the monitor that fills them, and sealed when that has ended:
 * nobody can change what clones are made from. One that cannot be sealed is not used.
 * VM-32  What is in them is for monitors alone. Nobody else reads or maps them; what a clone must
 * have in common with its parked machine is told by the process that had it made, not by them.
 * VM-33  Clones of one machine share its contents, and nothing that one of them could change: each
 * opens the files for itself, and its monitor keeps none of them. */
#pragma once

#include "base/err.h"
#include "kernel/machine.h"

#include <stdbool.h>
#include <stdint.h>

/* How a machine comes up. */
enum machine_way {
    MACHINE_BOOT,
    MACHINE_PARK,  /* it is booted, and ends where it waits to hear who it is */
    MACHINE_CLONE, /* it goes on from there */
};

#define MONITOR_SIZE 128

/* What a clone has in common with it, and its receipt says. */
struct parked_facts {
    struct kernel_machine machine;
    char monitor[MONITOR_SIZE]; /* which file it was: another build may mean something else */
    uint32_t uid;               /* of the code */
};

struct parked {
    int memory, state;
    struct parked_facts facts;
};

#define PARKED_NONE ((struct parked){.memory = -1, .state = -1})
int parked_make(struct parked *p, struct err *err);
void parked_close(struct parked *p);
/* For one clone, to read. An open file has a place, flags and an owner, which all who hold it can
 * change: clones have none in common. */
int parked_read(const struct parked *p, int *memory, int *state, struct err *err);
/* Before anybody maps it: it can neither grow nor shrink from then on. */
int parked_size(const struct parked *p, uint64_t bytes, struct err *err);
/* Fails while somebody has it mapped for writing. */
int parked_seal(const struct parked *p, struct err *err);
bool parked_sealed(const struct parked *p);
/* Can what these facts say be made from it? If not: why, for a log. */
bool parked_fits(const struct parked *p, const struct parked_facts *wanted, char why[static 128]);
