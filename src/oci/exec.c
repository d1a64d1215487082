/* exec: one more process in a container that runs. It is born here, joins every namespace of the
 * container's first process and then goes the same way as that one did: same floor, same filter of
 * the configuration as it was at create, and the capabilities of the list at most (OC-2, OC-9). */
#include "oci/container.h"

#include "base/cleanup.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ALL_OTHERS                                                                                 \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

struct joining {
    struct oci_state state;
    struct oci_config config;
    struct oci_become become;
    struct oci_engine engine;
    struct oci_cgroup groups;
    int pidfd;
    int sync[2];
    pid_t pid;
};

static _Noreturn void joiner(const struct joining *j)
{
    struct err err = ERR_INIT;
    if (!oci_heard(j->become.sync_fd))
        _exit(125);
    if (setns(j->pidfd, j->become.drop_groups ? ALL_OTHERS : ALL_OTHERS & ~CLONE_NEWUSER) < 0) {
        err_sys(&err, "join the container's namespaces");
        oci_give_up(j->become.sync_fd, &err);
    }
    if (j->become.drop_groups && syscall(SYS_setgroups, (size_t)0, NULL) < 0) {
        err_sys(&err, "drop the groups of the caller");
        oci_give_up(j->become.sync_fd, &err);
    }
    /* The root inside, where there is one, until the process's own identity is taken. */
    if (syscall(SYS_setresgid, 0, 0, 0) == 0)
        (void)!syscall(SYS_setresuid, 0, 0, 0);
    oci_become(&j->become);
}

static _Noreturn void born(const struct joining *j)
{
    close(j->sync[0]);
    close(j->state.dir_fd);
    close(j->state.root_fd);
    joiner(j);
}

/* Root: this process goes to the container's pid namespace, which only its children notice, and
 * comes back. */
static long birth_of_root(const struct joining *j, struct err *err)
{
    cleanup_fd int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    struct sys_clone_args args = {.exit_signal = SIGCHLD};
    if (own < 0 || setns(j->pidfd, CLONE_NEWPID) < 0)
        return err_sys(err, "join the container's pid namespace");
    long child = sys_clone3(&args);
    if (child == 0)
        born(j);
    int code = errno;
    if (setns(own, CLONE_NEWPID) < 0)
        return err_sys(err, "leave the container's pid namespace");
    errno = code;
    return child < 0 ? err_sys(err, "start a process") : child;
}

/* An ordinary user has the right to join only inside the container's user namespace, from which
 * there is no way back: a process in between goes there, and has a child for us. */
static _Noreturn void between(const struct joining *j, int tell)
{
    struct sys_clone_args args = {.flags = CLONE_PARENT};
    long child = -1;
    if (setns(j->pidfd, CLONE_NEWUSER | CLONE_NEWPID) == 0)
        child = sys_clone3(&args);
    if (child == 0) {
        close(tell);
        born(j);
    }
    int32_t pid = child < 0 ? -errno : (int32_t)child;
    _exit(write(tell, &pid, sizeof pid) == sizeof pid ? 0 : 1);
}

static long birth_of_user(const struct joining *j, struct err *err)
{
    int tell[2];
    int32_t pid = -EPERM;
    if (pipe2(tell, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    pid_t helper = fork();
    if (helper == 0)
        between(j, tell[1]);
    close(tell[1]);
    ssize_t n = helper < 0 ? -1 : read(tell[0], &pid, sizeof pid);
    close(tell[0]);
    while (helper > 0 && waitpid(helper, NULL, 0) < 0 && errno == EINTR)
        ;
    if (n == sizeof pid && pid > 0)
        return pid;
    errno = n == sizeof pid ? -pid : EPERM;
    return err_sys(err, "join the container's namespaces");
}

static int give_birth(struct joining *j, struct err *err)
{
    /* What runs inside sees it from the first moment on, and must not be able to look into it. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    long child = j->become.drop_groups ? birth_of_root(j, err) : birth_of_user(j, err);
    if (child < 0)
        return err_number(err);
    j->pid = (pid_t)child;
    close(j->sync[1]);
    j->sync[1] = -1;
    return 0;
}

static int prepare(struct joining *j, const struct oci_request *r, struct err *err)
{
    size_t len;
    struct oci_operator o;
    enum oci_status status = oci_state_status(&j->state);
    if (status != OCI_RUNNING)
        return err_set(err, ERR_REFUSED, "cannot exec in a container that is %s",
                       oci_status_name(status));
    cleanup_free char *text = oci_state_config(&j->state, &len, err);
    if (!text || oci_config_parse(text, len, &j->config, err) < 0 || oci_operator_load(&o, err) < 0)
        return err_number(err);
    int judged = oci_judge_process(r->process, &o, err);
    oci_operator_done(&o);
    if (judged < 0)
        return judged;
    if (oci_engine_judge(j->state.tier, r->process, r->keep, err) < 0 ||
        oci_engine_judge_exec(j->state.tier, r->process, &j->config, err) < 0 ||
        oci_engine_find(&j->engine, j->state.tier, err) < 0)
        return err_number(err);
    if ((j->pidfd = oci_state_pidfd(&j->state)) < 0)
        return err_set(err, ERR_REFUSED, "container not running");
    if (j->state.grouped && oci_cgroup_find(j->state.cgroup, &j->groups, err) < 0)
        return err_number(err);
    j->state.host_writable |= oci_brings_files(r->keep);
    if (oci_become_init(&j->become, r->process, &j->engine, j->config.seccomp, &j->state, err) < 0)
        return err_number(err);
    if (oci_engine_describe_exec(&j->engine, r->process, &j->state, &j->become, err) < 0)
        return err_number(err);
    j->become.keep = r->keep;
    if (r->process->terminal != (r->console_socket != NULL))
        return err_set(err, ERR_USAGE, "a terminal and --console-socket go together");
    if (r->console_socket &&
        (j->become.console_fd = oci_console_connect(r->console_socket, err)) < 0)
        return err_number(err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, j->sync) < 0)
        return err_sys(err, "socket pair");
    j->become.sync_fd = j->sync[1];
    return 0;
}

/* The end means that the program was executed. */
static int await_exec(int fd, struct err *err)
{
    struct oci_step step;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r;
    while ((r = poll(&p, 1, 60000)) < 0 && errno == EINTR)
        ;
    if (r <= 0)
        return err_set(err, ERR_SYSTEM, "the process did not start within 60 seconds");
    ssize_t n = recv(fd, &step, sizeof step, 0);
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof step || !err_code_known(step.err.code))
        return err_set(err, ERR_PROTOCOL, "the process said something else");
    *err = step.err;
    err->message[sizeof err->message - 1] = err->hint[sizeof err->hint - 1] = '\0';
    return err_number(err);
}

static int lead_inside(struct joining *j, const struct oci_request *r, struct err *err)
{
    if (oci_cgroup_enter(&j->groups, j->pid, err) < 0 ||
        oci_oom_score(j->pid, r->process, err) < 0 || oci_tell_go(j->sync[0], err) < 0 ||
        oci_expect(j->sync[0], OCI_WORD_READY, err) < 0 ||
        oci_limits_apply(j->pid, &j->become, err) < 0 || oci_attest(j->pid, &j->become, err) < 0 ||
        (j->become.drop_groups && oci_attest_namespaces(j->pid, err) < 0) ||
        (r->pid_file && oci_pid_file(r->pid_file, j->pid, err) < 0) ||
        oci_tell_go(j->sync[0], err) < 0)
        return err_number(err);
    return await_exec(j->sync[0], err);
}

static void release(struct joining *j)
{
    const int fds[] = {j->pidfd, j->sync[0], j->sync[1], j->become.console_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    oci_become_done(&j->become);
    oci_engine_close(&j->engine);
    oci_config_done(&j->config);
    oci_close(&j->state);
    free(j);
}

int oci_exec(const struct oci_request *r, pid_t *ret_pid, struct err *err)
{
    struct joining *j = calloc(1, sizeof *j);
    if (!j)
        return err_memory(err);
    j->pidfd = j->sync[0] = j->sync[1] = j->become.start_fd = j->become.console_fd = -1;
    j->state.root_fd = j->state.dir_fd = -1;
    oci_engine_init(&j->engine);
    int result = oci_open(r, &j->state, err);
    if (result == 0)
        result = prepare(j, r, err);
    if (result == 0 && (give_birth(j, err) < 0 || lead_inside(j, r, err) < 0)) {
        result = err_number(err);
        if (j->pid > 0) {
            kill(j->pid, SIGKILL);
            while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        }
    }
    if (result == 0)
        *ret_pid = j->pid;
    release(j);
    return result;
}
