/* What an attack is: a function that tries one thing which the sandbox must not allow. The same
 * function runs inside, where it has to fail, and outside as the control, where it has to work:
 * otherwise its failure inside proves nothing. */
#pragma once

#include "verify/place.h"

#include <stdbool.h>
#include <stddef.h>

struct attempt {
    const struct place *place;
    bool outside;     /* the control */
    bool monitor;     /* in the place of a virtual machine's, with what that is handed */
    char detail[240]; /* what was seen or read; printable */
};

/* 0: it worked. Positive: the errno that stopped it. ATTACK_NOTHING: it was let through and found
 * nothing. */
typedef int attack_fn(struct attempt *a);
#define ATTACK_NOTHING (-1)

/* What a row's attack came to, as it crosses from inside. */
struct outcome {
    bool reported;
    bool worked;
    int code;   /* errno, or ATTACK_NOTHING */
    int signal; /* that ended the attempt, 0 if none */
    char detail[240];
};

/* outcome.c: run it in a process of its own. `private_ns`: in namespaces of its own, so that a
 * control changes nothing of the host's. False: that could not be made. */
bool outcome_try(attack_fn *fn, struct attempt *a, bool private_ns, struct outcome *ret);
/* "refused (EPERM)", "killed by signal 31", … */
void outcome_text(const struct outcome *o, char *out, size_t size);
/* One line for the other side. */
void outcome_line(const char *id, const struct outcome *o, char *out, size_t size);

/* helpers for attacks */
int attack_result(long result);               /* 0 or errno */
int attack_open(const char *path, int flags); /* and close */
/* Connects to a socket file; EAGAIN, a full queue, counts as reached too. */
int attack_dial(const char *path);
/* Reads the beginning of a file into the detail. */
int attack_read(struct attempt *a, const char *path);
void attack_say(struct attempt *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* $HOME, or NULL. */
const char *attack_home(void);
/* Where the code may write: $HOME, or the canaries' folder outside. */
const char *attack_scratch(const struct attempt *a);

/* kernel.c */
attack_fn attack_int80, attack_x32, attack_unshare_user, attack_unshare_all, attack_clone_mount,
    attack_mount, attack_remount, attack_umount, attack_fsopen, attack_open_tree, attack_pivot,
    attack_chroot, attack_setns, attack_pidfd_getfd, attack_ptrace, attack_vm_read, attack_tiocsti;
/* kernel_calls.c */
attack_fn attack_io_uring, attack_bpf, attack_perf, attack_add_key, attack_find_key, attack_reboot,
    attack_kexec, attack_module, attack_swap, attack_clock, attack_acct, attack_syslog, attack_iopl,
    attack_userfault, attack_handle, attack_quota, attack_hostname, attack_personality, attack_kcmp,
    attack_modify_ldt;
/* kernel_view.c */
attack_fn attack_inherited, attack_descriptors, attack_own_image, attack_see_host, attack_signal,
    attack_other_memory, attack_shm, attack_mqueue, attack_cgroup_path, attack_cgroup_files,
    attack_proc_sys, attack_proc_kernel, attack_devices, attack_sysfs, attack_host_name;
/* filesystem.c */
attack_fn attack_read_canary, attack_write_canary, attack_stat_canary, attack_create, attack_link,
    attack_list_tmp, attack_list_homes, attack_proc_root, attack_climb, attack_shadow,
    attack_landlock, attack_device_node, attack_exec_written, attack_system_write, attack_socket;
/* filesystem_grants.c: with folders granted */
attack_fn attack_grant_write, attack_grant_meta, attack_grant_set_id, attack_grant_socket,
    attack_grant_climb, attack_grant_bind, attack_grant_special;
/* engine.c: in the place of an engine, all that code on the container tier would try. */
attack_fn attack_as_engine;
/* network.c */
attack_fn attack_tcp, attack_tcp6, attack_udp, attack_abstract, attack_packet, attack_raw,
    attack_netlink, attack_vsock, attack_interfaces, attack_any_address;
/* ask.c: requests through brig-proxy, as HTTP_PROXY names it */
struct answer {
    int status; /* of HTTP; 0: none came */
    char text[4096];
};
int ask_proxy(const char *request, struct answer *ret);
/* GET of a URL with this Host (NULL: the URL's own) and these further headers. */
int ask_get(const char *host, uint16_t port, const char *path, const char *host_header,
            const char *more, struct answer *ret);
#define HOST_BOUND  "bound.brig.test"
#define HOST_PLAIN  "plain.brig.test"
#define HOST_CLOSED "closed.brig.test"
#define HOST_INNER  "inner.brig.test"
#define SECRET_NAME "BRIG_VERIFY_SECRET"
/* network_proxy.c: through brig-proxy */
attack_fn attack_no_rule, attack_literal, attack_metadata, attack_port, attack_mismatch,
    attack_connect, attack_lookalike, attack_private_name, attack_dns_tunnel, attack_allowed;
/* credentials.c */
attack_fn attack_environment, attack_task_environments, attack_agents, attack_engines,
    attack_placeholder, attack_reflect, attack_other_origin, attack_redirect, attack_query;
/* attack_engines, by an ordinary user who has nothing to do with the caller. */
attack_fn attack_engines_as_nobody;
/* Variables by which agents and tools are found, or which are a key themselves; ends with NULL. The
 * judge puts the token into each of its own. */
extern const char *const agent_variables[];
/* lifecycle.c */
attack_fn attack_fork_bomb, attack_memory, attack_open_files, attack_disk, attack_inodes,
    attack_flood, attack_deadline, attack_cpu, attack_leave_tasks, attack_wait_for_kill,
    attack_nice, attack_realtime, attack_raise_limit, attack_core;
