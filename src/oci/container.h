/* The verbs of a runtime on one container. */
#pragma once

#include "oci/build.h"
#include "oci/state.h"

struct oci_request {
    const char *root; /* of all states; NULL: the usual place */
    const char *id;
    const char *bundle; /* NULL: the current folder */
    const char *pid_file, *console_socket;
    const char *log; /* the engine's; or NULL */
    bool log_json;
    bool systemd;  /* the groups are the service manager's to make */
    unsigned keep; /* descriptors after stderr that stay */
    /* exec */
    const struct oci_process *process;
    bool detach;
};

/* The program itself must not be a file of the host that something inside could reach: it is
 * executed again from a sealed copy. Returns only if it already is one, or cannot be. */
int oci_reseal(char *const argv[], struct err *err);
/* The name of the copy: "brig" in the folder that this program is in. */
void oci_own_path(char out[static 4096]);

/* Up to the point where it waits for start. *ret_pid: its first process, a child of the caller. */
int oci_create(const struct oci_request *r, pid_t *ret_pid, struct err *err);
int oci_start(const struct oci_request *r, struct err *err);
int oci_kill(const struct oci_request *r, int sig, bool all, struct err *err);
int oci_delete(const struct oci_request *r, bool force, struct err *err);
int oci_pause(const struct oci_request *r, bool on, struct err *err);
int oci_update(const struct oci_request *r, const struct oci_resources *res, struct err *err);
/* exec.c: *ret_pid is a child of the caller, which has started. */
int oci_exec(const struct oci_request *r, pid_t *ret_pid, struct err *err);
/* A state for reading; s->root_fd and s->dir_fd are the caller's (oci_close). */
int oci_open(const struct oci_request *r, struct oci_state *s, struct err *err);
void oci_close(struct oci_state *s);
/* Waits for a child of ours, hands signals on, and returns its exit status as a shell would. */
int oci_wait(pid_t pid);

/* launch.c: what create and exec share. */
int oci_console_connect(const char *path, struct err *err);
/* Do files that come from here lie on the host (a redirection)? What holds for a bind of one holds
 * for them: 0 to 2 and the `keep` after them. */
bool oci_brings_files(unsigned keep);
int oci_become_init(struct oci_become *b, const struct oci_process *p,
                    const struct oci_engine *engine, const struct json *seccomp,
                    const struct oci_state *s, struct err *err);
void oci_become_done(struct oci_become *b);
int oci_expect(int sync_fd, enum oci_word word, struct err *err);
int oci_expect_number(int sync_fd, enum oci_word word, int32_t *ret, struct err *err);
/* The socket; *ret: its kind and port. */
int oci_expect_listener(int sync_fd, int32_t *ret, struct err *err);
int oci_tell_go(int sync_fd, struct err *err);
int oci_limits_apply(pid_t pid, const struct oci_become *b, struct err *err);
int oci_attest(pid_t pid, const struct oci_become *b, struct err *err);
/* Root's, and everybody's before it is closed to their looks. */
int oci_attest_namespaces(pid_t pid, struct err *err);
int oci_pid_file(const char *path, pid_t pid, struct err *err);
int oci_oom_score(pid_t pid, const struct oci_process *p, struct err *err);
