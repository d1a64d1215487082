/* One sandbox while it lives. The only place where all five boundaries meet. */
#pragma once

#include "approvals/approval.h"
#include "credentials/credentials.h"
#include "filesystem/filesystem.h"
#include "guests/guests.h"
#include "kernel/kernel.h"
#include "lifecycle/lifecycle.h"
#include "network/network.h"
#include "os/pump.h"
#include "os/tty.h"
#include "sandbox/learner.h"
#include "sandbox/link.h"
#include "sandbox/netrecord.h"
#include "sandbox/notary.h"
#include "sandbox/parked.h"
#include "sandbox/platform.h"
#include "sandbox/sandbox.h"
#include "sandbox/stream.h"
#include "wire/interp.h"

#include <limits.h>

#define RECEIPT_TIME_SIZE 24
#define EGRESS_QUESTIONS  8 /* at one time */
#define PUMP_DIED         "its pump died"

/* What a connection that a monitor carries may hold in the kernel, each way: what all of them hold
 * together is part of the monitor's own memory. */
#define MACHINE_SOCKET 65536
#define MACHINE_FILES  81920 /* descriptors of a monitor: what the guest knows and has open */

/* What monitors are handed, each of it or some: machine.c. */
enum machine_hand {
    HAND_KVM,
    HAND_KERNEL,
    HAND_INITRAMFS,
    HAND_MEMORY,
    HAND_STATE,
    HAND_PLAN,
    HAND_COUNT,
};

struct sandbox {
    const struct run_request *request;
    struct run_result *result;
    char id[32];
    bool session; /* serves requests instead of running one command; warden/warden.c */
    /* Sessions of `brig serve`, see stem.h. */
    const struct stem_files *stem;     /* it is the sandbox of a template process */
    const struct clone_source *source; /* it is to be cloned from one; NULL: started */
    const struct parked *park;         /* a machine that is to be parked here */
    const struct parked *parked;       /* a machine that is to be cloned from here */
    struct {
        pid_t pid;            /* of the interpreter; 0: not there yet */
        pid_t inside;         /* as the sandbox counts */
        int fds[INTERP_ENDS]; /* ours */
        bool checked;
    } cloned;

    /* Where there are two users: root's part of init. */
    struct {
        int fd; /* its control socket, our end */
        pid_t pid;
    } beside;

    struct {
        char program[PATH_MAX]; /* "": the tier has none, the code is started itself */
        char module[PATH_MAX];
        char leader[PATH_MAX];  /* sessions of the gvisor tier: brig-lead */
    } engine;                   /* engine.c */
    struct gvisor_build sentry; /* the gvisor tier; sentry.c */
    struct {
        bool on;
        enum machine_way way;
        char why_not[128];      /* it has a parked machine and cannot be cloned from it */
        char program[PATH_MAX]; /* the monitor's */
        char monitor[MONITOR_SIZE];
        int fds[HAND_COUNT];
        struct guest_kernel guest;
        struct kernel_machine facts;
        uint64_t boot_seconds; /* that the guest has to come up */
        char numbers[10][24];
        char *argv[12];
    } machine; /* the vm tier; machine.c */
    struct kernel kernel;
    struct filesystem filesystem;
    struct network network;
    struct credentials credentials;
    struct lifecycle lifecycle;
    struct state_machine state;

    struct egress egress; /* the rules of this run, with placeholders */
    struct quiet_socket {
        int fd;
        int32_t value;              /* as CTL_SOCKET has it */
    } quiet[NETWORK_PORTS_MAX + 3]; /* session: bound inside, waiting for rules */
    unsigned quiet_count;
    int names_fd; /* a run without rules: where the code asks for names (names.c); else -1 */
    struct link link;
    struct netlog *netlog; /* NULL: no network */
    struct netrecord netrecord;
    /* Sessions: hears of each message of brig-proxy. */
    void (*proxy_said)(void *ctx, const struct channel_msg *msg);
    void *proxy_said_ctx;
    struct buf trust_bundle, trust_java;
    bool discard;            /* what was changed is not wanted */
    int reviews_fd;          /* the folder of reviews, where this one is to be kept; else -1 */
    struct egress_question { /* network.ask */
        char place[288];     /* "host:port"; empty: none */
        uint32_t number;     /* the proxy's */
        struct approval *approval; /* NULL: it waits for its turn on the terminal */
    } questions[EGRESS_QUESTIONS];
    unsigned questions_asked;

    struct learner *learner; /* NULL: not in learn mode */

    struct {
        uint64_t born_us, booted;   /* when it was made: by the clock, and since 1970 */
        uint64_t seen_us, cpu_usec; /* when the averages were last moved on, and what was used */
        struct proc_numbers numbers;
    } own; /* the view `own` of /proc; proc_numbers.c */
    struct plan plan;
    int ctl_fd; /* the supervisor's end */
    pid_t init_pid;
    int init_pidfd;
    pid_t code_pid; /* the process that becomes the code */
    struct ctl_evidence evidence;
    bool reaped;

    struct stream out, errout;
    struct feed in;
    bool pumped; /* a pump carries what the code reads and writes by pipes (os/pump.h) */
    struct pump pump;
    struct stream_hash out_hash, err_hash, in_hash; /* for the receipt */
    struct stream_hash commands;                    /* session: of all of them; bytes: how many */
    char started[RECEIPT_TIME_SIZE];
    struct notary notary;
    struct err notary_err; /* why there is no signature, or none yet */
    int tty_master;
    int tty_sizes; /* of a pump: where its size goes; then there is no master here */
    int signal_fd;

    uint64_t out_bytes, err_bytes; /* let through, kept after the streams are closed */
    bool exec_failed;
    struct err exec_err;
    bool have_status;
    int wait_status;
    uint64_t rusage_cpu_usec;
    uint64_t rusage_peak;
    uint64_t stopped_us;       /* time spent stopped by ^Z, not counted against the deadline */
    int forwarded;             /* signals of the caller passed on so far */
    int ended_by_signal;       /* SIGINT, SIGTERM, … that made us end the sandbox */
    const char *ended_because; /* a part of brig's own failed: "its pump died"; or NULL */
    struct buf
        boundaries; /* attested facts, JSON object text; stays empty if no receipt is wanted */
};

/* sandbox.c */
struct sandbox *sandbox_new(const struct run_request *request, struct run_result *result);
void sandbox_free(struct sandbox *s);
void sandbox_note_weaker(struct sandbox *s);
/* Ends and removes everything, whatever happened; fills in the result. */
int sandbox_finish(struct sandbox *s, int result, struct err *err);

/* open.c: up to the plan. */
int sandbox_open(struct sandbox *s, struct err *err);
/* What init will do, from what the boundaries know of policy and host. */
int sandbox_make_plan(struct sandbox *s, struct err *err);
/* provision.c: from there up to "attested". */
int sandbox_provision(struct sandbox *s, struct err *err);
/* Reads back what is in force, into s->boundaries. Part of provisioning; may be repeated. */
int sandbox_attest(struct sandbox *s, struct err *err);
/* engine.c: after the tier is known; before the arguments of the code. Both do nothing on a tier
 * that has no engine. */
int engine_open(struct sandbox *s, struct err *err);
void engine_plan(struct sandbox *s);
/* Where the module is. FS-7: it is shown to the sandbox as a grant is, and like a grant it is
 * reached through no link that a sandbox may have made. */
int engine_take_module(struct sandbox *s, const char *name, struct err *err);
/* The program of brig's own that is shown inside; or NULL. */
const char *engine_program(const struct sandbox *s);
/* What the engine is to run, if that is a program of brig's own, or NULL. */
const char *engine_runs(const struct sandbox *s);
/* What no engine that takes the place of the code has yet: refused, one by one. */
int engine_check_request(const struct sandbox *s, struct err *err);
int engine_refuse(enum tier tier, const char *what, struct err *err);
/* For the engine's arguments: one folder, and all that the policy shows. */
void engine_give(struct plan *plan, const char *name, const char *folder, bool writable);
void engine_give_folders(const struct sandbox *s, struct plan *plan);

/* cells.c: it lives on a tier that runs modules, so that interpreters are all that it runs. */
bool cells_only(const struct sandbox *s);
int cells_open(struct sandbox *s, struct err *err);
/* How one is started, but for its variables and its folder. */
void cells_plan(const struct sandbox *s, struct plan *plan);
/* Is there one for the language? What else it has not: refused. */
int cells_check(const struct sandbox *s, const char *language, struct err *err);
int cells_refuse(const struct sandbox *s, const char *what, struct err *err);
/* sentry.c: the part of it that is the gvisor tier's. What is asked for and not offered there;
 * which runsc; the arguments before the code's. */
int sentry_check(const struct sandbox *s, struct err *err);
int sentry_check_policy(const struct policy *p, struct err *err);
int sentry_open(struct sandbox *s, struct err *err);
void sentry_plan(struct sandbox *s);
/* Sessions: what init is to start there before all else; and in the place of each program: what
 * stands before its arguments, for a program with so many descriptors. */
void sentry_plan_boot(const struct sandbox *s, struct plan *plan);
struct sentry_program {
    const char *name;    /* of the engine's socket */
    const char *folder;  /* that the program starts in */
    unsigned count;      /* of its descriptors */
    uint64_t cols, rows; /* of its terminal; 0: it has none */
};
/* "COLSxROWS", or "-": as both engines' join reads it. */
void sentry_plan_size(const struct sentry_program *program, struct plan *plan);
void sentry_plan_join(const struct sandbox *s, const struct sentry_program *program,
                      struct plan *plan);
/* supervise.c: let the code run until the end. */
int sandbox_supervise(struct sandbox *s, struct err *err);
/* end.c: kill what is left, wait for it, read final usage. Safe on half-built state. */
void sandbox_end(struct sandbox *s);
/* What the pump carried is lost: the run must not look as if all had come. */
void sandbox_lost_pump(struct sandbox *s, const char *why);

/* egress.c: the run's network, where it has one; each does nothing where it has not. */
int sandbox_egress_open(struct sandbox *s, struct err *err);
int sandbox_egress_start(struct sandbox *s, struct err *err);
int sandbox_egress_trust(struct sandbox *s, struct err *err);
int sandbox_egress_await(struct sandbox *s, struct err *err);
int sandbox_egress_listener(struct sandbox *s, int fd, int32_t value, struct err *err);
/* Sessions: the sockets that were made beforehand begin to listen, and brig-proxy serves them. */
int sandbox_egress_serve(struct sandbox *s, struct err *err);
/* Sessions: takes these rules in place of all others; starts brig-proxy if there is none. */
int sandbox_egress_replace(struct sandbox *s, struct egress *fresh, struct err *err);
/* What programs that know proxies look for. */
void sandbox_egress_variables(const struct sandbox *s,
                              void (*set)(void *ctx, const char *name, const char *value),
                              void *ctx);
void sandbox_retry_variables(bool offline,
                             void (*set)(void *ctx, const char *name, const char *value),
                             void *ctx);
void sandbox_egress_events(struct sandbox *s);
void sandbox_egress_change(struct sandbox *s);
void sandbox_egress_end(struct sandbox *s);
void sandbox_egress_teardown(struct sandbox *s);

/* names.c: it leads there, and there are no rules: a denial with what would allow it. */
void sandbox_deny_place(struct sandbox *s, const char *what, const struct target *t);

/* Answers the questions that wait on this socket, each of which is a denial. */
void sandbox_names_answer(struct sandbox *s, int fd);

/* proc_numbers.c: the view `own` of /proc. Before the plan is written, and after each look at the
 * sandbox; both do nothing where there is no such view. */
int sandbox_own_begin(struct sandbox *s, struct err *err);
void sandbox_own_refresh(struct sandbox *s);
/* How many processors the limit is: a part of one is a whole one, and more than there are cannot be
 * had. */
unsigned sandbox_cpus(const struct policy *p);

/* egress_ask.c: network.ask, for the loop of a run. */
void sandbox_ask_begin(struct sandbox *s, const struct channel_msg *msg);
/* A descriptor that is readable when there is something to hear, the caller's to close; -1 while no
 * question stands. To be opened anew after each event of the proxy's and each step. */
int sandbox_ask_open(const struct sandbox *s, int *ret);
unsigned sandbox_ask_wait_ms(const struct sandbox *s);
bool sandbox_ask_holds_terminal(const struct sandbox *s);
void sandbox_ask_step(struct sandbox *s);
void sandbox_ask_end(struct sandbox *s);

/* machine.c: the vm tier. What of a policy it does not have is refused. */
int machine_check_policy(const struct policy *p, struct err *err);
uint64_t machine_boot_ms(void);
/* Each does nothing on another tier. */
int sandbox_machine_open(struct sandbox *s, struct err *err);
int sandbox_machine_prepare(struct sandbox *s, struct err *err);
/* Appends what the monitor is handed; how many. */
unsigned sandbox_machine_hand(struct sandbox *s, int *fds);
/* The plan of the code inside the guest. */
int sandbox_machine_write(struct sandbox *s, struct err *err);
void sandbox_machine_done(struct sandbox *s);
/* Sessions: what init is to start before all else; the socket that is its first descriptor after
 * stdio, and brings it what sandbox_machine_hand names, which is held here no longer (a socket of
 * its own, because init must never hold that); and in the place of each program, what stands before
 * its arguments. */
void machine_plan_boot(const struct sandbox *s, struct plan *plan);
int machine_hand_over(struct sandbox *s, int *theirs, struct err *err);
/* A clone that did not come up: all that a boot in its place needs, with the same plan. */
int machine_boot_instead(struct sandbox *s, struct err *err);
/* Of a machine that was parked, for its clones. */
struct parked_facts machine_facts(const struct sandbox *s);
void machine_plan_connect(const struct sandbox *s, const char *name, int port, struct plan *plan);
void machine_plan_join(const struct sandbox *s, const struct sentry_program *program,
                       struct plan *plan);

/* message.c */
int message_send(int fd, uint32_t type, int32_t value);
/* The same with descriptors, for sessions. */
int message_ask(int fd, const struct ctl_msg *msg, const int *fds, unsigned count);
/* 1 with a message, 0 at end of file; *fd gets a passed descriptor or -1, *pid the sender. Without
 * `fd` none becomes ours, and none is closed by us. */
int message_receive(int ctl, struct ctl_msg *msg, int *fd, pid_t *pid, int flags, struct err *err);

/* receipt.c: each does nothing where no receipt, or no signature, is wanted. */
void sandbox_receipt_begin(struct sandbox *s);
int sandbox_notary_start(struct sandbox *s, struct err *err);
int sandbox_notary_await(struct sandbox *s, struct err *err);
/* The body, before the teardown; and its signature, after it. */
void sandbox_receipt_write(struct sandbox *s);
void sandbox_receipt_end(struct sandbox *s, int result);
