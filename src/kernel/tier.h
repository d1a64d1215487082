/* The table of tiers: all that the rest of brig asks about one, in one row.
 *
 * A tier is a kind of wall between the code and the host's kernel. `process` and `container` start
 * the code itself. Every other tier starts an engine in its place (a monitor of virtual machines, a
 * runner of modules), as the code of a container-tier sandbox: all five boundaries stand around the
 * engine as they stand around code, and who breaks out of the engine is where code would be.
 *
 * What a policy must know of tiers, without a host (their words, their order, whether they have
 * namespaces), is in POLICY_TIERS (policy/policy.h). A new engine is a line there, a row here, and
 * a folder in engines/. */
#pragma once

#include "base/err.h"
#include "policy/policy.h"

#include <stdbool.h>

/* What a tier needs of the host's kernel. */
enum {
    TIER_NEEDS_SECCOMP = 1,
    TIER_NEEDS_LANDLOCK = 2,
    TIER_NEEDS_NAMESPACES = 4,
};

/* Is it available here; if not: why, and what would enable it. */
struct tier_answer {
    bool available;
    char why[256];
    char how[256];
};

struct tier_row {
    const char *about;  /* the wall, in a few words */
    unsigned needs;     /* of the host's kernel: TIER_NEEDS_… */
    const char *engine; /* a program of brig's own (os/beside.h) that is started in the place of the
                           code and gets it as its arguments; NULL: the code is started itself */
    bool user_kernel; /* the engine is a kernel in user space: it stops and steers the processes of
                         the code, and runs the host's own programs */
    bool module;      /* the code is a file of the host's for the engine, not a program */
    bool machine;     /* the engine is a monitor, and the code runs on a kernel of its own */
    bool terminal;    /* the code can have one */
    bool served;      /* `brig serve` can have sandboxes of it */
    bool cloned;      /* a template process can be cloned into one; of a machine, it itself is */
    /* Besides what it needs of the kernel: is the engine there, and what it runs on? NULL: nothing
     * else is needed. Fills in why and how where it is not. */
    bool (*probe)(struct tier_answer *ret);
};

/* Of TIER_PROCESS and what follows it. */
const struct tier_row *tier_row(enum tier tier);
/* Each tier that the policy may end on is available from `brig serve`. */
bool tier_served(const struct policy *p);
#define TIER_NAMES_SIZE 64
/* Those of which it has sandboxes, for a message: "container, gvisor". */
void tier_served_names(char out[static TIER_NAMES_SIZE]);
/* Whichever tier the policy ends on, sandboxes of it can be cloned. */
bool tier_cloned(const struct policy *p);
/* Whichever tier the policy ends on, its sandboxes are machines. */
bool tier_machine(const struct policy *p);
/* Tries it on this host, in children where something has to be made. */
void tier_probe(enum tier tier, struct tier_answer *ret);

/* What a level asks for where neither a policy nor the operator names a tier. */
enum tier tier_of_level(enum level level);
/* The tier of a run. What the host cannot give is refused with the reason, never replaced. */
int tier_decide(const struct policy *p, enum tier *ret, struct err *err);
/* Can a user namespace with mounts be made here? Tries it in a child. */
bool tier_probe_namespaces(char why[static 256], char how[static 256]);
bool tier_probe_seccomp(void);
