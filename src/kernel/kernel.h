/* BOUNDARY 1: which kernel runs the code, and how much of it the code can reach.
 *
 * Both tiers run on the host's kernel, narrowed: no-new-privs, no capability, a default-deny system
 * call filter whose refusals are seen. The container tier adds namespaces of every kind.
 *
 * K-5  After set-up init has no more rights than the code.
 * K-6  The code's first instruction comes after the attestation.
 * K-7  No process of the sandbox has a host-root uid or a capability over the host, from its first
 * instruction on. K-8  Namespaces of the sandbox differ from the supervisor's, all seven of them
 * (container tier).
 * K-13  What the host and other sandboxes do with files that are shared is not seen.
 * K-14  No table of the whole host, and none that brig needs, can be used up from inside.
 * K-15  A socket file of the host is out of reach unless the policy says otherwise.
 * K-16  A name in /dev/shm is never that of the host or of another sandbox.
 * K-17  A flood of calls that the supervisor answers costs the sandbox, not the host.
 * K-18  No call of the code's waits for anything with a pipe locked. The kernel's splice and
 * sendfile do, for a socket or a terminal that has nothing to say, and everybody else at that pipe
 * waits with them, with O_NONBLOCK or without; tee and vmsplice do not. (Memory that does not
 * answer: os/pump.h.)
 * K-19  Root inside is a name: there is no capability and no call more, and its id is an
 * unprivileged one of the host that no other sandbox has. Where it is there beside an ordinary user
 * two ids are mapped, and nobody can become the other one.
 * K-20  No descriptor that brig was started with reaches the code.
 * K-21  No memory of the code's is merged with equal pages of others (KSM): the time of a write
 * would tell what they have. */
#pragma once

#include "audit/asked.h"
#include "audit/denial.h"
#include "audit/evidence.h"
#include "base/err.h"
#include "kernel/gvisor.h"
#include "kernel/machine.h"
#include "kernel/process/broker_connect.h"
#include "kernel/process/filter.h"
#include "kernel/subids.h"
#include "kernel/tier.h"
#include "os/errand.h"
#include "os/procfs.h"
#include "plan/plan.h"
#include "plan/stage.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <sys/types.h>

#define KERNEL_PLACES_MAX 160
/* Never set in a leased uid: with it, the uid is that of the same sandbox's brig-proxy. */
#define KERNEL_UID_PROXY (1u << 27)
/* Changed in a leased uid, it is that of root in the same sandbox, where there are two users: with
 * the same pid, no other supervisor has either of them. */
#define KERNEL_UID_BESIDE (1u << 26)
/* Leased uids come in blocks; a template process and its clones share one. */
#define KERNEL_LEASE_SIZE (1u << 22)
/* Of an ordinary user's template process, inside. */
#define KERNEL_STEM_UID 1000

struct kernel_place {
    const char *path; /* as the code names it; empty: the whole root, of which all can be written */
    bool writable;
    bool own; /* the private folder of the process tier */
};

/* Learn mode; see process/learn.h. */
struct kernel_learn {
    struct asked_set *asked; /* NULL: nothing is learned */
    uint64_t unix_used;      /* UNIX sockets that were made */
    uint64_t refused[FIX_COUNT];
};

struct kernel {
    enum tier tier;
    const struct gvisor_build *sentry;    /* NULL: on no tier but gvisor */
    const struct kernel_machine *machine; /* NULL: on no tier but vm */
    bool privileged;                      /* the supervisor is root */
    uid_t inside_uid;
    uid_t host_uid;
    gid_t host_gid;
    bool beside;    /* root is there as well, as a second user; see init/beside_child.c */
    uid_t root_uid; /* then: its id and that of its group, as the host sees them */
    gid_t root_gid;
    struct subids subids; /* an ordinary user's, of which they are one */
    int lease_fd;
    /* There: the user namespace. What of root's tasks the host shows to nobody but their own user,
     * it shows to processes in this namespace; ER-5. -1: not needed. */
    int users_fd;
    bool tty;
    bool own_clock;       /* the time since boot is the sandbox's own */
    bool stem;            /* a template process: it is in namespaces of its own, but not sealed */
    uint64_t keep_caps;   /* of a stem, in its own user namespace */
    uint64_t set_up_caps; /* more than every set-up needs, until it is sealed */
    uint64_t foreign[NS_COUNT]; /* of a clone: the namespaces of its stem */
    uint64_t own[NS_COUNT];     /* the supervisor's, once they were read */
    uint64_t socket_buffer;     /* the most that one of a brokered connection may hold; 0: any */
    struct filter_options options;
    struct filter_program filter;
    int listener_fd; /* seccomp notifications, -1 if none */
    bool report;     /* list refused files by path */
    struct kernel_learn learn;
    bool watch_only; /* connects are watched for the log alone, no rule needs it */
    bool shm_used;   /* there may be names in /dev/shm (process/broker_shm.c) */
    bool unseen;     /* somebody else listens: refused calls are refused but not counted */
    uint64_t seen_count;
    uint64_t seen_from_us, seen_busy_us; /* when the first call was shown; how long all took */
    uint64_t asked_count, rested_count; /* calls that were shown, also when seen_rest last looked */
    pid_t init_pid;                     /* for brokered signals */
    struct kernel_place places[KERNEL_PLACES_MAX]; /* what the code sees, for brokers and reports */
    unsigned place_count;
    /* Process tier with a network: the code's connections. */
    struct connect_broker connects;
    struct errand hand; /* process/hand.h */
    /* Gets the other end of a connection of the code's, non-blocking, and the address that was
     * asked for. The descriptor is closed after the call: pass it on, or copy it. Negative: the
     * code is told that the connection was refused. */
    int (*connected)(void *ctx, int fd, const struct sockaddr *asked, socklen_t len);
    void *connected_ctx;
    /* With a network namespace, for the log only: is this an address at which nothing inside
     * listens, and a report that the code tried it. */
    bool (*unserved)(void *ctx, const struct sockaddr *asked, socklen_t len);
    void (*refused)(void *ctx, const struct sockaddr *asked, socklen_t len);
    struct filter_program
        plain; /* the filter without reports and learning, to tell a report from a refusal */
};

struct kernel_request {
    const struct policy *policy;
    bool host_folders;  /* any grant, or another root: socket files of the host may lie there */
    bool host_writable; /* any grant to write */
    bool overlay;       /* init makes one */
    bool tty;
    bool network; /* some host may be reached */
    bool watched; /* or not, and where it tries to go is told */
    bool stem;
    bool session;            /* it lives on, and serves requests */
    struct asked_set *learn; /* NULL: not in learn mode */
    uid_t lease;             /* the block of host uids to take one from; 0: any */
};

/* A block of host uids for sandboxes that root makes. */
uid_t kernel_lease(void);
/* The one of that block (0: a new one) that belongs to this process while it lives. */
uid_t kernel_leased_uid(uid_t lease);
void kernel_init(struct kernel *k);
/* Decides the tier and builds the filter. */
int kernel_open(struct kernel *k, const struct kernel_request *request, struct err *err);
/* What must exist before the start: the listeners of the process tier's network. */
int kernel_prepare(struct kernel *k, struct err *err);
int kernel_plan(struct kernel *k, enum plan_stage stage, struct plan *plan, struct err *err);
/* pid: the process that will become the code; init: its parent, or, in a session, itself. */
int kernel_attest(struct kernel *k, pid_t init, pid_t pid, struct evidence *out, struct err *err);
/* Besides, of the process that starts what root is asked for. */
int kernel_attest_beside(struct kernel *k, pid_t init, pid_t pid, struct err *err);
/* Besides, of a clone that waits beside init: it was not executed by init, so that everything that
 * it has is looked at. `waiting`: it has not been let go yet. */
int kernel_attest_clone(struct kernel *k, pid_t init, pid_t pid, bool waiting, struct err *err);
void kernel_teardown(struct kernel *k);
/* What stands around the code inside of a machine. */
int kernel_plan_guest(struct plan *plan, struct err *err);
/* The program of init, for a machine's initramfs. */
const void *kernel_init_program(size_t *len);

/* launch.c: start init in its namespaces, as the sandbox's uid, with these descriptors and nothing
 * else. */
struct launch {
    int stdio[3];
    int ctl_fd; /* init's end */
    int plan_fd;
    const int *trees;
    unsigned tree_count;
    int cgroup_fd;       /* CLONE_INTO_CGROUP, or -1 */
    const int *join_fds; /* the child's first act: write "0" to each of these */
    unsigned join_count;
};
/* Returns the pid; *pidfd is the caller's. The child waits until kernel_map has run. */
int kernel_launch(struct kernel *k, const struct launch *l, pid_t *pid, int *pidfd,
                  struct err *err);
/* clone.c: ask a template process for it instead. The clone presents itself on the control socket
 * (CTL_BORN, with its pidfd), writes its own identity maps and waits for CTL_MAPPED. The plan must
 * be complete. `channel` becomes the interpreter's descriptors 3 and 4. */
int kernel_clone(struct kernel *k, const struct launch *l, int door, int image,
                 const int channel[2], struct err *err);
/* The image of init, sealed. */
int kernel_image(struct err *err);
/* Write the identity maps of the new user namespace. */
int kernel_map(struct kernel *k, pid_t pid, struct err *err);
#define KERNEL_MAP_SIZE 64
/* One line, as procfs_id_map reads it. `root_id`: of the second user, where there is one. */
void kernel_map_text(const struct kernel *k, uint32_t host_id, uint32_t root_id,
                     char out[static KERNEL_MAP_SIZE]);

/* seen.c: answer one pending notification; adds to the list. Returns 0, or negative if the listener
 * is useless. */
int seen_answer(struct kernel *k, struct denial_list *list);
/* Let the next one wait so long: a flood of calls costs the sandbox, not the host. Mostly 0. */
unsigned seen_pause_ms(const struct kernel *k);
/* Called every now and then: what nobody asked for since the last time is not kept. */
void seen_rest(struct kernel *k);
/* The code is ended: nothing will be asked any more. */
void seen_end(struct kernel *k);
