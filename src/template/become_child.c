/* Runs in the template's memory (see clone.c): no heap, no locks, no stdio, and nothing that the
 * template would find changed. */
#include "template/become_child.h"

#include "base/cleanup.h"
#include "init/exec_child.h"
#include "init/perform_child.h"
#include "os/raw_child.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Where the descriptors lie while the plan is applied, after INIT_FD_CTL, INIT_FD_PLAN and the
 * trees. */
struct places {
    int image, stdio[3], channel[2], end;
};

static void give_up(int ctl, struct err *err)
{
    struct ctl_msg msg = {.type = CTL_FAIL, .err = *err};
    if (msg.err.boundary == BOUNDARY_NONE)
        msg.err.boundary = BOUNDARY_KERNEL;
    send(ctl, &msg, sizeof msg, MSG_NOSIGNAL);
    _exit(125);
}

/* The warden is no parent of this process: what holds it is this descriptor. */
static int present_self(struct err *err)
{
    cleanup_fd int self = sys_pidfd_open(getpid());
    if (self < 0)
        return err_sys(err, "open the clone's own pidfd");
    struct ctl_msg msg = {.type = CTL_BORN};
    return ctl_send(&msg, self) < 0 ? err_sys(err, "reach the warden") : 0;
}

static int join_groups(const struct clone_job *j, struct err *err)
{
    for (unsigned i = 0; i < j->request.join_count; i++)
        if (write(j->fds[CLONE_FD_MORE + i], "0", 1) != 1)
            return err_sys(err, "join a cgroup");
    return 0;
}

static int wanted_at(const struct clone_job *j, const struct places *p, int place)
{
    const int *trees = j->fds + CLONE_FD_MORE + j->request.join_count;
    if (place == INIT_FD_CTL)
        return j->fds[CLONE_FD_CTL];
    if (place == INIT_FD_PLAN)
        return j->fds[CLONE_FD_PLAN];
    if (place < p->image)
        return trees[place - INIT_FD_TREES];
    return j->fds[CLONE_FD_IMAGE + (place - p->image)];
}

/* T-2: everything at its place, nothing else open. The template's own table is another one. */
static int place_descriptors(const struct clone_job *j, struct places *p, struct err *err)
{
    int source[CLONE_FDS_MAX + INIT_FD_TREES];
    p->image = INIT_FD_TREES + (int)j->request.tree_count;
    for (int i = 0; i < 3; i++)
        p->stdio[i] = p->image + 1 + i;
    for (int i = 0; i < 2; i++)
        p->channel[i] = p->image + 4 + i;
    p->end = p->image + 6;
    for (int i = INIT_FD_CTL; i < p->end; i++)
        if ((source[i] = fcntl(wanted_at(j, p, i), F_DUPFD_CLOEXEC, p->end)) < 0)
            return err_sys(err, "move a descriptor");
    for (int i = INIT_FD_CTL; i < p->end; i++)
        if (dup3(source[i], i, O_CLOEXEC) < 0)
            return err_sys(err, "place descriptor %d", i);
    if (sys_close_range(0, INIT_FD_CTL - 1, 0) < 0 || sys_close_range((unsigned)p->end, ~0u, 0) < 0)
        return err_sys(err, "close the template's descriptors");
    return 0;
}

static int write_file(const char *path, const char *text, struct err *err)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return err_sys(err, "write %s", path);
    return 0;
}

/* The owner of a user namespace may map its own uid and gid, and no other, once nobody in there can
 * change groups. */
static int write_maps(const struct clone_request *r, struct err *err)
{
    char uid[40], gid[40];
    snprintf(uid, sizeof uid, "%u %u 1", r->inside_uid, r->outside_uid);
    snprintf(gid, sizeof gid, "%u %u 1", r->inside_uid, r->outside_gid);
    if (write_file("/proc/self/setgroups", "deny", err) < 0 ||
        write_file("/proc/self/uid_map", uid, err) < 0)
        return err_number(err);
    return write_file("/proc/self/gid_map", gid, err);
}

static int take_identity(const struct clone_request *r, struct err *err)
{
    if (write_maps(r, err) < 0)
        return err_number(err);
    if (syscall(SYS_setresgid, r->inside_uid, r->inside_uid, r->inside_uid) < 0 ||
        syscall(SYS_setresuid, r->inside_uid, r->inside_uid, r->inside_uid) < 0)
        return err_sys(err, "take uid %u", r->inside_uid);
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    return unshare(CLONE_NEWCGROUP) < 0 ? err_sys(err, "make a cgroup namespace") : 0;
}

/* A number is used up by a process that ends at once, in our memory and on our stack. */
static void burn_pid(void)
{
    long pid = raw_syscall5(__NR_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        for (;;)
            raw_syscall(__NR_exit_group, 0, 0, 0, 0);
    while (pid > 0 && waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Libraries tell a fork by the changed pid. In a new pid namespace the clone could well have the
 * number that the template has in its own, and go on with the template's random numbers: it gets
 * one that nobody else is likely to have. */
static int choose_pid(const struct clone_job *j, struct err *err)
{
    uint32_t random;
    char text[16];
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_sys(err, "random number");
    unsigned last = 300 + random % 30000;
    if (last < (unsigned)j->template_pid && last + 4 >= (unsigned)j->template_pid)
        last += 4;
    snprintf(text, sizeof text, "%u", last);
    if (write_file("/proc/sys/kernel/ns_last_pid", text, err) == 0)
        return 0;
    /* A kernel without checkpoints: small numbers, and still not the template's (see be_clone). */
    *err = (struct err)ERR_INIT;
    for (unsigned i = 0; i < 2 + random % 60; i++)
        burn_pid();
    return 0;
}

static bool wait_for(uint32_t type)
{
    struct ctl_msg msg;
    ssize_t n;
    while ((n = recv(INIT_FD_CTL, &msg, sizeof msg, 0)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t)sizeof msg && msg.type == type;
}

/* Everything up to the seal, as init does it. */
static int apply_plan(struct apply_state *st, const void *plan, size_t len, struct err *err)
{
    if (!plan || perform_plan(st, plan, len, NULL, err) < 0)
        return err_number(err);
    /* The parent is the template, whose end is not the clone's. The clone ends with its control
     * socket, with its warden's guardian, and with the template's sandbox. */
    return prctl(PR_SET_PDEATHSIG, 0) < 0 ? err_sys(err, "leave the template") : 0;
}

static int connect_clone(const struct apply_state *st, const struct places *p, struct err *err)
{
    if (setsid() < 0)
        return err_sys(err, "start a session");
    if (chdir(st->cwd ? st->cwd : "/") < 0)
        return err_sys(err, "enter folder %s", st->cwd);
    for (int i = 0; i < 3; i++)
        if (dup2(p->stdio[i], i) < 0)
            return err_sys(err, "connect descriptor %d", i);
    if (exec_limits(st, err) < 0)
        return err_number(err);
    /* What the warden reads about it in /proc must be readable, as that of a program. */
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        return err_sys(err, "show the clone to its warden");
    struct ctl_msg msg = {.type = CTL_CLONED, .pid = getpid()};
    return ctl_send(&msg, -1) < 0 ? err_sys(err, "reach the warden") : 0;
}

/* T-3: the clone waits here, with five descriptors and the pipe, until its warden has looked. That
 * all others are closed ends another pipe: init says so. */
static int await_word(const struct places *p, int go, struct err *err)
{
    char word;
    for (int i = 0; i < 2; i++)
        if (dup3(p->channel[i], INIT_FD_CTL + i, O_CLOEXEC) < 0)
            return err_sys(err, "connect the channel");
    if (dup3(go, CLONE_FD_GO, O_CLOEXEC) < 0 || sys_close_range(CLONE_FD_GO + 1, ~0u, 0) < 0)
        return err_sys(err, "close the template's descriptors");
    ssize_t n;
    while ((n = read(CLONE_FD_GO, &word, 1)) < 0 && errno == EINTR)
        ;
    if (n != 1)
        _exit(125);
    close(CLONE_FD_GO);
    return 0;
}

static int be_clone(struct clone_job *j, struct apply_state *st, const struct places *p, int go)
{
    struct err err = ERR_INIT;
    if (connect_clone(st, p, &err) < 0)
        give_up(INIT_FD_CTL, &err);
    if (await_word(p, go, &err) < 0)
        _exit(125);
    if (getpid() == j->template_pid)
        _exit(125);
    st->envp[st->envc] = NULL;
    j->envp = st->envp;
    return 1;
}

/* Both will find 0 to 2 open; the clone gets its own in their place. */
static int open_nulls(struct err *err)
{
    for (int fd = 0; fd < 3; fd++)
        if (open("/dev/null", O_RDWR) != fd)
            return err_sys(err, "open /dev/null");
    return 0;
}

static int open_pipe(const struct places *p, int ends[2], struct err *err)
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, p->end);
        close(low[i]);
    }
    return ends[0] < 0 || ends[1] < 0 ? err_sys(err, "pipe") : 0;
}

static void be_init(const struct apply_state *st, const struct places *p, pid_t clone, int go,
                    int settled)
{
    struct err err = ERR_INIT;
    char pid[16], before[16], after[16], files[24];
    snprintf(pid, sizeof pid, "%d", clone);
    snprintf(before, sizeof before, "%d", st->evidence.landlock_before);
    snprintf(after, sizeof after, "%d", st->evidence.landlock_after);
    snprintf(files, sizeof files, "%llu", (unsigned long long)st->code_files);
    char *const argv[] = {INIT_NAME, CLONE_ADOPT, pid, before, after, files, NULL};
    char *const envp[] = {NULL};
    int image = fcntl(p->image, F_DUPFD_CLOEXEC, p->end);
    /* Only what init finds at its fixed numbers outlives the exec. */
    if (image >= 0 && fcntl(INIT_FD_CTL, F_SETFD, 0) == 0 && dup2(go, INIT_FD_GO) == INIT_FD_GO &&
        dup2(settled, INIT_FD_SETTLED) == INIT_FD_SETTLED)
        syscall(SYS_execveat, image, "", argv, envp, SYS_AT_EMPTY_PATH);
    err_sys(&err, "execute init");
    give_up(INIT_FD_CTL, &err);
}

struct borrowed {
    const void *plan; /* mapped into the template's memory, from which it must go again */
    size_t len;
};

/* The point of no return for what T borrowed: B copies it, A forgets it. */
static int divide(struct clone_job *j, struct apply_state *st, const struct places *p,
                  const struct borrowed *b, struct err *err)
{
    int go[2] = {-1, -1}, settled[2] = {-1, -1};
    if (open_nulls(err) < 0 || open_pipe(p, go, err) < 0 || open_pipe(p, settled, err) < 0)
        return err_number(err);
    pid_t clone = fork();
    if (clone < 0)
        return err_sys(err, "fork the template");
    if (clone == 0) {
        close(go[1]);
        return be_clone(j, st, p, go[0]);
    }
    munmap((void *)(uintptr_t)b->plan, b->len);
    be_init(st, p, clone, go[1], settled[0]);
    __builtin_unreachable();
}

int become_child(struct clone_job *j)
{
    struct err err = ERR_INIT;
    struct apply_state st;
    struct places places;
    struct borrowed b = {NULL, 0};
    int ctl = j->fds[CLONE_FD_CTL];
    signal(SIGCHLD, SIG_DFL); /* the template ignores it */
    if (join_groups(j, &err) < 0 || place_descriptors(j, &places, &err) < 0)
        give_up(ctl, &err);
    /* A warden that died shows as end of file. */
    if (present_self(&err) < 0 || !wait_for(CTL_MAPPED))
        _exit(125);
    if (take_identity(&j->request, &err) < 0 || choose_pid(j, &err) < 0)
        give_up(INIT_FD_CTL, &err);
    perform_init(&st);
    umask(022);
    b.plan = perform_map(INIT_FD_PLAN, &b.len, &err);
    int result = apply_plan(&st, b.plan, b.len, &err);
    if (result == 0)
        result = divide(j, &st, &places, &b, &err);
    if (result == 1)
        return 1;
    if (b.plan)
        munmap((void *)(uintptr_t)b.plan, b.len);
    give_up(INIT_FD_CTL, &err);
    __builtin_unreachable();
}
