/* A folder as the root of a sandbox, and file workers in it: forked, in that root, without rights,
 * with two pipes, as init would start them. */
#pragma once

#include "base/cleanup.h"
#include "files/files.h"
#include "os/remove.h"
#include "os/syscalls.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAB_UID  12345
#define LAB_SEEN 8

static struct {
    char base[64]; /* holds "root" and what lies outside of it */
    int root;      /* descriptor of base/root */
    bool old;      /* as with a filter that hides openat2 and a kernel that links nothing */
    int (*before)(void), (*after)(void); /* in the worker's process: before chroot, at the end */
} lab;

struct answer {
    bool headed, ended;
    int error, end, finish, feed; /* finish, feed: what the reader said */
    uint64_t size, bytes;
    uint64_t sum; /* of the bytes, each times its place */
    char start[64];
    unsigned entries, unsorted, events; /* unsorted: not behind the one before */
    char last[FILES_TEXT_MAX + 1];
    struct files_entry entry[LAB_SEEN];
    struct files_event event[64];
    int status;
};

/* ---- the place ---- */

static inline void lab_begin(void)
{
    const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(lab.base, sizeof lab.base, "%s/files-lab-XXXXXX", place);
    cr_assert(mkdtemp(lab.base));
    chmod(lab.base, 0755);
    umask(0);
    int base = open(lab.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(mkdirat(base, "root", 0755), 0);
    lab.root = openat(base, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(base);
    if (geteuid() == 0)
        cr_assert_eq(fchown(lab.root, LAB_UID, LAB_UID), 0);
    signal(SIGPIPE, SIG_IGN);
}

static inline void lab_end(void)
{
    int base = open(lab.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert(remove_contents(base) == 0);
    close(base);
    close(lab.root);
    rmdir(lab.base);
}

static inline void lab_own(const char *path)
{
    if (geteuid() == 0)
        cr_assert_eq(fchownat(lab.root, path, LAB_UID, LAB_UID, AT_SYMLINK_NOFOLLOW), 0);
}

static inline void lab_dir(const char *path)
{
    cr_assert_eq(mkdirat(lab.root, path, 0755), 0, "%s", path);
    lab_own(path);
}

static inline void lab_file(const char *path, const char *text, mode_t mode)
{
    int fd = openat(lab.root, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, mode);
    cr_assert_geq(fd, 0, "%s", path);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    lab_own(path);
}

static inline void lab_link(const char *target, const char *path)
{
    cr_assert_eq(symlinkat(target, lab.root, path), 0);
    lab_own(path);
}

static inline bool lab_has(const char *path)
{
    return faccessat(lab.root, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline struct stat lab_stat(const char *path)
{
    struct stat sb;
    cr_assert_eq(fstatat(lab.root, path, &sb, AT_SYMLINK_NOFOLLOW), 0, "%s", path);
    return sb;
}

static inline const char *lab_text(const char *path)
{
    static char text[256];
    int fd = openat(lab.root, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd < 0)
        return "(none)";
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static inline unsigned lab_count(const char *path)
{
    unsigned count = 0;
    struct {
        char block[4096];
    } b __attribute__((aligned(8)));
    int fd = openat(lab.root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long n; (n = syscall(SYS_getdents64, fd, b.block, sizeof b.block)) > 0;)
        for (long at = 0; at < n; count++) {
            uint16_t step;
            memcpy(&step, b.block + at + 16, sizeof step);
            at += step;
        }
    close(fd);
    return count - 2;
}

/* ---- the worker ---- */

static inline void lab_write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        _exit(97);
    close(fd);
}

static inline void lab_hide_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(96);
}

/* Into the root, without the rights that it takes to get there. */
static inline void lab_enter(void)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0)) < 0)
        _exit(95);
    if (uid) {
        lab_write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "%d %u 1", LAB_UID, uid);
        lab_write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "%d %u 1", LAB_UID, gid);
        lab_write_file("/proc/self/gid_map", map);
    }
    /* By its path: the descriptor belongs to the namespace that was left. */
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(lab.base) < 0 ||
        chdir("root") < 0 || (lab.before && lab.before() < 0) || chroot(".") < 0)
        _exit(94);
    if (uid == 0 && (setgroups(0, NULL) < 0 || setresgid(LAB_UID, LAB_UID, LAB_UID) < 0 ||
                     setresuid(LAB_UID, LAB_UID, LAB_UID) < 0))
        _exit(93);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    if (uid && syscall(SYS_capset, &head, none) < 0)
        _exit(92);
    /* A worker that hangs ends with its test. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (lab.old)
        lab_hide_calls();
}

struct started {
    pid_t pid;
    int in, out; /* our ends */
};

static inline struct started lab_start(const struct files_request *r)
{
    int in[2], out[2];
    struct started s;
    cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    s.pid = fork();
    cr_assert_geq(s.pid, 0);
    if (s.pid == 0) {
        close(in[1]);
        close(out[0]);
        lab_enter();
        int status = files_work_child(r, r->op == FILES_WRITE ? in[0] : -1, out[1]);
        if (lab.after)
            status = lab.after();
        _exit(status);
    }
    close(in[0]);
    close(out[1]);
    s.in = in[1];
    s.out = out[0];
    fcntl(s.in, F_SETFL, O_NONBLOCK);
    return s;
}

/* ---- its answer ---- */

static inline void on_head(void *ctx, int error, uint64_t size)
{
    struct answer *a = ctx;
    cr_assert(!a->headed);
    a->headed = true;
    a->error = error;
    a->size = size;
}

static inline void on_entry(void *ctx, const struct files_entry *e)
{
    struct answer *a = ctx;
    a->unsorted += a->entries && strcmp(a->last, e->path) >= 0;
    snprintf(a->last, sizeof a->last, "%s", e->path);
    if (a->entries < LAB_SEEN)
        a->entry[a->entries] = *e;
    a->entries++;
}

static inline void on_event(void *ctx, const struct files_event *e)
{
    struct answer *a = ctx;
    if (a->events < 64)
        a->event[a->events] = *e;
    a->events++;
}

static inline void on_data(void *ctx, const void *bytes, size_t len)
{
    struct answer *a = ctx;
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++, a->bytes++) {
        if (a->bytes < sizeof a->start - 1)
            a->start[a->bytes] = (char)at[i];
        a->sum += at[i] * (a->bytes + 1);
    }
}

static inline void on_end(void *ctx, int error)
{
    struct answer *a = ctx;
    cr_assert(a->headed && !a->ended);
    a->ended = true;
    a->end = error;
}

static const struct files_sink lab_sink = {
    .head = on_head, .entry = on_entry, .event = on_event, .data = on_data, .end = on_end};

static inline struct files_reader *lab_reader(enum files_op op, struct answer *a)
{
    struct files_reader *reader;
    struct files_sink sink = lab_sink;
    sink.ctx = a;
    memset(a, 0, sizeof *a);
    cr_assert_eq(files_reader_new(&reader, op, &sink, NULL), 0);
    return reader;
}

static inline void lab_feed(struct started *s, const char **data, size_t *len)
{
    ssize_t n = *len ? write(s->in, *data, *len) : 0;
    if (n > 0) {
        *data += n;
        *len -= (size_t)n;
    }
    if (*len == 0 || (n < 0 && errno != EAGAIN)) {
        close(s->in);
        s->in = -1;
    }
}

/* One request from its start to its end. */
static inline struct answer *lab_run(const struct files_request *r, const char *data, size_t len)
{
    static struct answer a;
    static char block[1 << 16];
    struct started s = lab_start(r);
    struct files_reader *reader = lab_reader(r->op, &a);
    for (;;) {
        struct pollfd p[2] = {{.fd = s.out, .events = POLLIN}, {.fd = s.in, .events = POLLOUT}};
        poll(p, 2, -1);
        if (p[1].revents)
            lab_feed(&s, &data, &len);
        if (!p[0].revents)
            continue;
        ssize_t n = read(s.out, block, sizeof block);
        if (n <= 0)
            break;
        a.feed = files_reader_feed(reader, block, (size_t)n, NULL);
        cr_assert_eq(a.feed, 0);
    }
    a.finish = files_reader_finish(reader, NULL);
    files_reader_free(reader);
    close(s.out);
    if (s.in >= 0)
        close(s.in);
    cr_assert_eq(waitpid(s.pid, &a.status, 0), s.pid);
    cr_assert_eq(a.status, 0, "worker ended with %x", (unsigned)a.status);
    cr_assert_eq(a.finish, 0);
    cr_assert(a.headed && a.ended);
    return &a;
}

static inline struct files_request lab_request(enum files_op op, const char *path)
{
    return (struct files_request){.op = op,
                                  .path = path,
                                  .home = FILES_HOME,
                                  .depth = 1,
                                  .limit = op == FILES_LIST ? FILES_ENTRIES_MAX : FILES_BYTES_MAX};
}

static inline struct answer *lab_do(enum files_op op, const char *path)
{
    struct files_request r = lab_request(op, path);
    return lab_run(&r, NULL, 0);
}

static inline struct answer *lab_write(const char *path, const char *text)
{
    struct files_request r = lab_request(FILES_WRITE, path);
    return lab_run(&r, text, strlen(text));
}

static inline struct answer *lab_move(const char *path, const char *to)
{
    struct files_request r = lab_request(FILES_MOVE, path);
    r.to = to;
    return lab_run(&r, NULL, 0);
}

#define assert_error(call, code)                                                                   \
    do {                                                                                           \
        struct answer *got_ = (call);                                                              \
        cr_assert_eq(got_->error, code, "error %d", got_->error);                                  \
    } while (0)

/* Every promise holds both ways. */
#define LAB_TEST(suite, name)                                                                      \
    static void name(void);                                                                        \
    Test(suite, name)                                                                              \
    {                                                                                              \
        name();                                                                                    \
    }                                                                                              \
    Test(suite, name##_without_new_calls)                                                          \
    {                                                                                              \
        lab.old = true;                                                                            \
        name();                                                                                    \
    }                                                                                              \
    static void name(void)
