/* The last steps of a process on its way inside: terminal, identity, the walls; then it reports,
 * waits for the word and executes the program. The first process of a container and those of exec
 * go the same way.
 *
 * OC-9  no_new_privs, brig's filter, Landlock and the reduced capabilities are in force before a
 * program of the container runs, whatever the configuration says; the container's own filter comes
 * on top. */
#include "base/cleanup.h"
#include "base/text.h"
#include "oci/build.h"
#include "os/execute_child.h"
#include "os/landlock.h"
#include "os/rights.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define TTY_MAJOR 5 /* of /dev/tty, which is whatever terminal the process has */
#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

void oci_say(int fd, enum oci_word word)
{
    struct oci_step step = {.word = word};
    if (send(fd, &step, sizeof step, MSG_NOSIGNAL) != (ssize_t)sizeof step)
        _exit(125);
}

bool oci_heard(int fd)
{
    struct oci_step step;
    ssize_t n;
    while ((n = recv(fd, &step, sizeof step, 0)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t)sizeof step && step.word == OCI_WORD_GO;
}

_Noreturn void oci_give_up(int fd, struct err *err)
{
    struct oci_step step = {.word = OCI_WORD_FAIL, .err = *err};
    send(fd, &step, sizeof step, MSG_NOSIGNAL);
    _exit(err_exit_status(err));
}

/* ---- terminal ---- */

/* The terminal is one of the container's own; its other side goes to who asked for it, and is not
 * kept. */
static int send_master(int console, int master, struct err *err)
{
    char name[] = "/dev/ptmx";
    struct iovec part = {name, sizeof name - 1};
    ssize_t n = rights_send(console, &part, 1, &master, 1, 0);
    if (n >= 0)
        return 0;
    errno = (int)-n;
    return err_sys(err, "hand over the terminal");
}

static int bind_console(int slave, struct err *err)
{
    char path[32];
    int number = -1;
    if (ioctl(slave, TIOCGPTN, &number) < 0) {
        char link[64], name[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", slave);
        ssize_t n = readlink(link, name, sizeof name - 1);
        if (n <= 0 || n > 31)
            return 0;
        memcpy(path, name, (size_t)n);
        path[n] = '\0';
    } else {
        snprintf(path, sizeof path, "/dev/pts/%d", number);
    }
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? err_sys(err, "open the root")
                    : oci_bind_inside(path, root, "/dev/console", 0, err);
}

static int take_terminal(const struct oci_become *p, struct err *err)
{
    int unlock = 0;
    struct winsize size = {.ws_col = p->process->columns, .ws_row = p->process->rows};
    cleanup_fd int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0) {
        err_sys(err, "open a terminal inside");
        return err_hint(err, "process.terminal needs a devpts mounted on /dev/pts");
    }
    cleanup_fd int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return err_sys(err, "open the inner side of the terminal");
    if (size.ws_col && size.ws_row && ioctl(master, TIOCSWINSZ, &size) < 0)
        return err_sys(err, "set the size of the terminal");
    if (fchown(slave, p->process->uid, (gid_t)-1) < 0 && errno != EPERM && errno != EINVAL)
        return err_sys(err, "give the terminal to its user");
    if (p->start_fd >= 0 && bind_console(slave, err) < 0)
        return err_number(err);
    if (send_master(p->console_fd, master, err) < 0)
        return err_number(err);
    for (int fd = 0; fd < 3; fd++)
        if (dup2(slave, fd) < 0)
            return err_sys(err, "connect the terminal");
    return ioctl(0, TIOCSCTTY, 0) < 0 ? err_sys(err, "take the terminal") : 0;
}

/* Programs open /dev/stdout anew. Files and devices of the host stay whose they are. */
static void give_pipes(uid_t uid)
{
    for (int fd = 0; fd < 3; fd++) {
        struct stat sb;
        if (fstat(fd, &sb) == 0 && S_ISFIFO(sb.st_mode) && sb.st_uid != uid)
            (void)!fchown(fd, uid, (gid_t)-1);
    }
}

/* A node of the host's that came along open could still be changed by its descriptor: the same one
 * by the way of the container takes its place, where that is read-only (OC-14). */
static int own_device(int fd, struct err *err)
{
    struct stat sb, now;
    if (fstat(fd, &sb) < 0 || !S_ISCHR(sb.st_mode))
        return 0;
    for (size_t i = 0; i < oci_devices_len; i++) {
        const struct oci_device *d = &oci_devices[i];
        if (major(sb.st_rdev) != d->major || minor(sb.st_rdev) != d->minor)
            continue;
        if (d->major == TTY_MAJOR)
            return err_set(
                err, ERR_UNSUPPORTED,
                "descriptor %d is /dev/tty, which would be the host's: give the terminal "
                "by its own name",
                fd);
        int flags = fcntl(fd, F_GETFL);
        cleanup_fd int own =
            open(d->path, (flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
        if (own < 0 || fstat(own, &now) < 0 || !S_ISCHR(now.st_mode) || now.st_rdev != sb.st_rdev)
            return err_set(err, ERR_REFUSED, "%s in the container is not that device", d->path);
        return fcntl(own, F_SETFL, flags) < 0 || dup2(own, fd) < 0
                   ? err_sys(err, "open %s anew", d->path)
                   : 0;
    }
    return 0;
}

static int own_devices(const struct oci_become *p, struct err *err)
{
    for (int fd = 0; fd < 3 + (int)p->keep; fd++)
        if (own_device(fd, err) < 0)
            return err_number(err);
    return 0;
}

/* ---- identity and walls ---- */

static int limit_bounding(uint64_t keep, struct err *err)
{
    for (int cap = 0; cap < 64; cap++) {
        if (keep & 1ull << cap)
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return errno == EINVAL ? 0
                                   : err_sys(err, "drop capability %d", cap); /* past the last */
    }
    return 0;
}

static int set_caps(const uint64_t caps[static OCI_CAPS_COUNT], struct err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    uint64_t permitted = caps[OCI_CAPS_PERMITTED] & caps[OCI_CAPS_BOUNDING];
    uint64_t effective = caps[OCI_CAPS_EFFECTIVE] & permitted;
    uint64_t inheritable = caps[OCI_CAPS_INHERITABLE] & permitted;
    uint64_t ambient = caps[OCI_CAPS_AMBIENT] & inheritable;
    for (int i = 0; i < 2; i++)
        data[i] =
            (struct __user_cap_data_struct){.permitted = (uint32_t)(permitted >> (32 * i)),
                                            .effective = (uint32_t)(effective >> (32 * i)),
                                            .inheritable = (uint32_t)(inheritable >> (32 * i))};
    if (syscall(SYS_capset, &head, data) < 0)
        return err_sys(err, "set the capabilities");
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int cap = 0; cap < 64; cap++)
        if ((ambient & 1ull << cap) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            return err_sys(err, "keep capability %d", cap);
    return 0;
}

/* No device node can be made, and nothing mounted or unmounted, whatever rights there are. */
static int restrict_files(const struct oci_become *p, struct err *err)
{
    struct landlock_ruleset r = {.handled_access_fs = LL_MAKE_CHAR | LL_MAKE_BLOCK};
    if (!p->devices_abi)
        return 0;
    cleanup_fd int fd = landlock_create(&r, sizeof r.handled_access_fs);
    return fd < 0 || landlock_restrict(fd) < 0 ? err_sys(err, "Landlock") : 0;
}

static int take_identity(const struct oci_become *p, struct err *err)
{
    const struct oci_process *u = p->process;
    if (limit_bounding(p->caps[OCI_CAPS_BOUNDING], err) < 0)
        return err_number(err);
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return err_sys(err, "keep the capabilities");
    if (p->drop_groups && syscall(SYS_setgroups, u->group_count, u->groups) < 0)
        return err_sys(err, "set the groups");
    if (!p->drop_groups && u->group_count)
        return err_set(err, ERR_UNSUPPORTED,
                       "an ordinary user cannot give a container more groups");
    if (syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
        syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
        return err_sys(err, "become user %u, group %u", u->uid, u->gid);
    return 0;
}

static int load_filter(const struct sock_filter *code, uint16_t len, unsigned flags,
                       struct err *err)
{
    struct sock_fprog program = {.len = len, .filter = (struct sock_filter *)(uintptr_t)code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0)
        return err_sys(err, "load a system call filter");
    return 0;
}

static int enter_folder(const struct oci_become *p, struct err *err)
{
    char where[PATH_MAX];
    if (p->engine->booth)
        return oci_booth_enter(p->process->cwd, err);
    if (chdir(p->process->cwd) < 0)
        return err_sys(err, "enter folder %.200s", p->process->cwd);
    /* A descriptor of the host that came along would show as a place that cannot be named. */
    if (syscall(SYS_getcwd, where, sizeof where) < 0 || where[0] != '/')
        return err_set(err, ERR_REFUSED, "the working folder %.200s is not inside the container",
                       p->process->cwd);
    return 0;
}

/* ---- the program ---- */

static const char *path_of(char *const *env)
{
    for (; *env; env++) {
        bool marked = text_begins(*env, OCI_VARIABLE);
        const char *entry = *env + (marked ? sizeof OCI_VARIABLE - 1 : 0);
        if (text_begins(entry, "PATH="))
            return entry + 5;
    }
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

static bool can_run(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISREG(sb.st_mode) && access(path, X_OK) == 0;
}

/* Found before the container is created, so that create can say that it is not there. */
static int find_program(const struct oci_become *p, char out[static PATH_MAX], struct err *err)
{
    const char *name = json_string(json_at(p->process->args, 0));
    int worst = ENOENT;
    if (strchr(name, '/')) {
        snprintf(out, PATH_MAX, "%s", name);
        if (can_run(out))
            return 0;
        worst = errno ? errno : EACCES;
    }
    for (const char *at = path_of(p->envp); !strchr(name, '/') && *at;) {
        size_t len = strcspn(at, ":");
        if (snprintf(out, PATH_MAX, "%.*s/%s", (int)len, at, name) < PATH_MAX && can_run(out))
            return 0;
        at += len + (at[len] == ':');
    }
    if (worst == ENOENT) {
        err_set(err, ERR_NOT_FOUND,
                "exec: \"%.200s\": executable file not found in the container's $PATH", name);
        return err_number(err);
    }
    err_set(err, ERR_NOT_EXEC, "exec: \"%.200s\": permission denied", name);
    return err_number(err);
}

/* With the rights that the program has, and before the filter, which may refuse openat2. */
static int open_module(const struct oci_become *p, int *ret, struct err *err)
{
    if (!p->engine->booth)
        return 0;
    *ret = oci_booth_module(json_string(json_at(p->process->args, 0)), p->process->cwd,
                            path_of(p->envp), err);
    return *ret < 0 ? err_number(err) : 0;
}

static void build_walls(const struct oci_become *p, int *ret_module, struct err *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        err_sys(err, "no_new_privs");
    else if (sys_stop_merging() < 0)
        err_sys(err, "keep memory from being merged with that of others");
    else if (restrict_files(p, err) == 0 && take_identity(p, err) == 0 &&
             set_caps(p->caps, err) == 0 && open_module(p, ret_module, err) == 0)
        load_filter(p->floor.code, p->floor.len, 0, err);
    if (err->code != ERR_NONE)
        oci_give_up(p->sync_fd, err);
}

/* The program, or the engine in its place. */
static int choose_program(const struct oci_become *p, int module, char out[static PATH_MAX],
                          struct err *err)
{
    if (p->engine->booth) {
        snprintf(p->number, OCI_NUMBER_SIZE, "%d", module);
        snprintf(out, PATH_MAX, "%s", OCI_BOOTH_ENGINE);
        return 0;
    }
    /* Of exec the Sentry says whether it is there: not all that it sees is seen here. */
    if ((!p->engine->user_kernel || p->start_fd >= 0) && find_program(p, out, err) < 0)
        return err_number(err);
    if (p->engine->user_kernel)
        snprintf(out, PATH_MAX, "/proc/self/fd/%d", p->engine->sentry.fd[OCI_SENTRY_ENGINE]);
    return 0;
}

/* All that was opened for the engine goes along, but its own program. */
static void keep_open(const struct oci_become *p, int module)
{
    if (module >= 0)
        fcntl(module, F_SETFD, 0);
    for (int i = OCI_SENTRY_ENGINE + 1; i < OCI_SENTRY_FDS; i++)
        if (p->engine->user_kernel && p->engine->sentry.fd[i] >= 0)
            fcntl(p->engine->sentry.fd[i], F_SETFD, 0);
}

/* Where the word to start comes from, and the answer goes to. */
static int wait_for_start(const struct oci_become *p)
{
    char word;
    int fd;
    if (p->start_fd < 0)
        return oci_heard(p->sync_fd) ? p->sync_fd : -1;
    for (;;) {
        while ((fd = accept4(p->start_fd, NULL, NULL, SOCK_CLOEXEC)) < 0 &&
               (errno == EINTR || errno == ECONNABORTED))
            ;
        if (fd < 0)
            return -1;
        ssize_t n = recv(fd, &word, 1, 0);
        if (n == 1)
            return fd;
        close(fd); /* a caller that died before it said anything */
    }
}

/* It is closed when the code has begun, or will not. */
static void hand_on_answer(const struct oci_become *p, int answer)
{
    snprintf(p->number, OCI_NUMBER_SIZE, "%d", answer);
    fcntl(answer, F_SETFD, 0);
}

_Noreturn void oci_become(const struct oci_become *p)
{
    struct err err = ERR_INIT;
    char program[PATH_MAX];
    int module = -1;
    /* The caller's keys stay outside. Where the kernel has none, there is nothing to leave. */
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    if (setsid() < 0)
        err_sys(&err, "start a session");
    else if (p->console_fd >= 0)
        take_terminal(p, &err);
    else
        give_pipes(p->process->uid);
    if (err.code == ERR_NONE && own_devices(p, &err) == 0 && enter_folder(p, &err) == 0 &&
        p->process->has_umask)
        umask((mode_t)p->process->umask);
    if (err.code != ERR_NONE)
        oci_give_up(p->sync_fd, &err);
    build_walls(p, &module, &err);
    if (choose_program(p, module, program, &err) < 0)
        oci_give_up(p->sync_fd, &err);
    exec_default_signals();
    if (sys_close_range(3 + p->keep, ~0u, 4) < 0) { /* CLOSE_RANGE_CLOEXEC */
        err_sys(&err, "close the other descriptors");
        oci_give_up(p->sync_fd, &err);
    }
    keep_open(p, module);
    oci_say(p->sync_fd, OCI_WORD_READY);
    /* A caller that dies before it has looked and written down that there is a container takes it
     * along. */
    if (p->start_fd >= 0 && !oci_heard(p->sync_fd))
        _exit(125);
    int answer = wait_for_start(p);
    if (answer < 0)
        _exit(125);
    if (p->engine->user_kernel && p->start_fd >= 0)
        hand_on_answer(p, answer);
    if (p->own.len == 0 || load_filter(p->own.code, p->own.len, p->own.flags, &err) == 0) {
        execve(program, p->argv, p->envp);
        err_sys(&err, "exec: \"%.200s\"", program);
        err.code = ERR_NOT_EXEC;
    }
    oci_give_up(answer, &err);
}
