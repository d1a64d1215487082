/* What init carries from one operation to the next. The boundaries' apply functions (the *_child.c
 * files) share it; they use no heap, no locks and no stdio. */
#pragma once

#include "plan/control.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <sys/types.h>

struct apply_state {
    int root_fd; /* the new root, until the pivot */
    int work_fd; /* the writable tmpfs */
    int kept_fd; /* with a writable root: the tmpfs of what stays read-only, until the pivot */
    unsigned layer_count;
    int view_fd;    /* the tmpfs of the sandbox's own files of /proc, until the pivot */
    int ruleset_fd; /* Landlock, between begin and enforce */
    const char *landlock_probe;
    int aside_fd; /* a file system that is mounted nowhere, for the probe; -1 */
    struct ctl_evidence evidence;
    pid_t network_pid; /* the helper that makes the network namespace */
    bool tty;
    int tty_fd;          /* the inner side of a terminal made inside, else -1 */
    int tty_to;          /* the socket by which its outer side is handed out */
    uint64_t code_scope; /* Landlock scope of the code alone, so that it cannot signal init */
    uint64_t code_files; /* RLIMIT_NOFILE of the code alone; 0: as init has it */
    int handed_end;      /* the code gets descriptors from 5 up to this one; 0: none */
    bool kill_all;       /* kill(-1) reaches only the sandbox (own pid namespace, own uid or scoped
                            signals) */
    const char *cwd;
    char **argv; /* NULL-terminated, room for PLAN_MAX_OPS */
    char **envp;
    size_t argc;
    size_t envc;
    int beside_fd;    /* inner end of the control socket of root's part, until it has it; else -1 */
    int as_root_fd;   /* what listens inside, until root's part has it; else -1 */
    pid_t beside;     /* root's part of init; 0: none, or this is it */
    bool session;     /* serve requests instead of running one command */
    bool keep_status; /* session: the program gets the request's status pipe (plan/join.h) */
    /* Takes a listener that was made, and owns it from then on. */
    int (*keep_listener)(int fd, const struct op *op, struct err *err);
};

typedef int apply_fn(struct apply_state *st, const struct op *op, struct err *err);

/* kernel/process/apply_child.c */
apply_fn apply_no_new_privs, apply_drop_caps, apply_seccomp, apply_tty, apply_scope_code;
/* kernel/container/apply_child.c */
apply_fn apply_hostname, apply_quotas, apply_own_clock;
/* network/apply_child.c */
apply_fn apply_network_start, apply_network_join;
/* network/egress_child.c */
apply_fn apply_network_local, apply_network_listen;
/* filesystem/root_child.c, mount_child.c, overlay_child.c, layer_child.c, proc_child.c,
 * proc_own_child.c, landlock_child.c */
apply_fn apply_mounts_private, apply_look_as, apply_root, apply_dir, apply_file, apply_copy,
    apply_symlink, apply_bind, apply_overlay, apply_layer, apply_work, apply_work_dir,
    apply_kept_dir, apply_shut, apply_cover, apply_devpts, apply_proc, apply_pivot, apply_proc_file,
    apply_cwd;
apply_fn apply_landlock_begin, apply_landlock_allow, apply_landlock_grant, apply_landlock_enforce;
/* landlock_child.c: a file system that is mounted nowhere, for processes that may not make one
 * any more when the domain begins. */
int landlock_aside(struct err *err);
/* lifecycle/apply_child.c */
apply_fn apply_rlimit, apply_subreaper, apply_die_with_parent;
/* credentials/apply_child.c */
apply_fn apply_env;
/* init/beside_child.c */
apply_fn apply_beside_door, apply_beside;
/* init/perform_child.c */
apply_fn apply_arg, apply_session, apply_hand, apply_keep_status;

/* files/serve_child.c: carries out the file request in a sealed block, in a process of
 * its own; returns its exit status. */
int file_worker_child(const void *block, size_t len, int in, int out);

/* control_child.c: from here on the process ends with the supervisor (LC-1). One whose ids change
 * is no longer tied, and has to be once more. */
int tie_to_supervisor(struct err *err);
/* Send one message, with a descriptor if fd >= 0. */
int ctl_send(const struct ctl_msg *msg, int fd);
/* Over another socket: to the pump that carries the bytes of a terminal or connection. */
int ctl_send_over(int to, enum ctl_type type, int fd);
/* The number of descriptors that came with it, which are the caller's; negative: end or nonsense.
 */
int ctl_receive(struct ctl_msg *msg, int fds[static CTL_FDS_MAX]);
/* A keep_listener: to the supervisor, who hands it to brig-proxy. */
int ctl_hand_listener(int fd, const struct op *op, struct err *err);
