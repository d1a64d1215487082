/* Starts runsc's two processes: the gofer, which opens files, and the Sentry, which is the kernel
 * of the code and opens none.
 *
 * `runsc run` would start them the same way, but puts each into new namespaces and mounts a root
 * for it, for which it needs rights that no process of a sandbox has. Here both stand in the
 * sandbox that is there already (docs/decisions/0010-gvisor-without-namespaces.md). Nothing is
 * written to a disk: the description is a memory file, and there is no state folder. */
#include "engines/gvisor/gvisor.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOUNTS 2 /* at most: the root and /tmp, as spec.c names them */
#define ARGS   48
#define WORDS  4096 /* that are kept of what runsc writes to stderr */

/* Arguments with numbers in them need a place of their own. */
struct command {
    char *argv[ARGS];
    char text[ARGS][64];
    unsigned count;
};

__attribute__((format(printf, 2, 3))) static void add(struct command *c, const char *format, ...)
{
    va_list args;
    if (c->count + 1 >= ARGS)
        return;
    va_start(args, format);
    vsnprintf(c->text[c->count], sizeof c->text[0], format, args);
    va_end(args);
    c->argv[c->count] = c->text[c->count];
    c->count++;
}

/* The flag about tests has one effect here: the gofer serves the root that the description names,
 * and not a folder that it would have had to mount. Of the measures that it leaves out, new
 * namespaces and an empty root, none is made in this process anyway. */
static void add_common(struct command *c, const struct sentry_code *code, const char *name)
{
    add(c, "%s", name);
    add(c, "--platform=%s", code->platform);
    add(c, "--network=host");
    add(c, "--host-uds=none");
    add(c, "--file-access=shared");
    add(c, "--ignore-cgroups");
    if (code->contained) /* the filter that the container's configuration has */
        add(c, "--oci-seccomp");
    add(c, "--TESTONLY-unsafe-nonroot");
    if (code->mount_confs) {
        add(c, "--directfs=false");
        add(c, "--overlay2=none");
    }
}

static int mount_count(const struct sentry_code *code)
{
    return code->contained && !code->tmp ? 1 : MOUNTS;
}

static void add_mounts(struct command *c, const struct sentry_code *code, const int io[MOUNTS])
{
    int count = mount_count(code);
    for (int i = 0; i < count; i++)
        add(c, "--io-fds=%d", io[i]);
    if (code->mount_confs)
        add(c, "--gofer-mount-confs=%s", count == 1 ? "lisafs:none" : "lisafs:none,lisafs:none");
}

/* With these descriptors and no other, no variable, and nothing to read. No signal to this
 * process's group is theirs: the file server would end of what the code only handles. A terminal is
 * for its own session alone, in which the Sentry gets a group. */
static pid_t start(const struct sentry_code *code, struct command *c, bool terminal, int words,
                   const int *keep, unsigned count)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if ((terminal ? setpgid(0, 0) : setsid()) < 0)
        _exit(126);
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2(i == 2 && words >= 0 ? words : null, i);
    for (unsigned i = 0; i < count; i++)
        fcntl(keep[i], F_SETFD, 0);
    char *none[] = {NULL};
    if (code->contained)
        syscall(SYS_execveat, code->runsc_fd, "", c->argv, none, AT_EMPTY_PATH);
    else
        execve(code->runsc, c->argv, none);
    _exit(126);
}

/* Each reads it from its beginning. */
static int open_spec(const struct sentry_code *code, int ret[2], struct err *err)
{
    cleanup_buf struct buf text;
    char path[40];
    buf_init(&text, 4u << 20);
    spec_write(code, &text);
    cleanup_fd int fd = memfd_create("brig-spec", MFD_CLOEXEC);
    if (text.failed)
        return err_set(err, ERR_LIMIT, "the command or its variables are too long");
    if (fd < 0 || write(fd, buf_text(&text), text.len) != (ssize_t)text.len)
        return err_sys(err, "write the description of the code");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int i = 0; i < 2; i++)
        if ((ret[i] = open(path, O_RDONLY | O_CLOEXEC)) < 0)
            return err_sys(err, "open the description of the code");
    return 0;
}

static pid_t start_gofer(const struct sentry_code *code, int words, int spec, int mounts,
                         const int io[MOUNTS])
{
    struct command c = {.count = 0};
    const int keep[] = {spec, mounts, io[0], io[1]};
    add_common(&c, code, "runsc-gofer");
    add(&c, "gofer");
    add(&c, "--bundle=/");
    add(&c, "--apply-caps=false");
    add(&c, "--setup-root=false");
    add(&c, "--spec-fd=%d", spec);
    add(&c, "--mounts-fd=%d", mounts);
    add_mounts(&c, code, io);
    return start(code, &c, false, words, keep, sizeof keep / sizeof keep[0]);
}

struct boot_fds {
    int words, spec, mounts, listener, ready;
    const int *io, *stdio;
};

static pid_t start_boot(const struct sentry_code *code, const struct boot_fds *f)
{
    struct command c = {.count = 0};
    const int keep[] = {f->spec,  f->mounts,   f->listener, f->ready,   f->io[0],
                        f->io[1], f->stdio[0], f->stdio[1], f->stdio[2]};
    add_common(&c, code, "runsc-sandbox");
    add(&c, "boot");
    add(&c, "--bundle=/");
    add(&c, "--attached");
    add(&c, "--cpu-num=%" PRIu64, code->cpus);
    add(&c, "--total-memory=%" PRIu64, code->memory);
    add(&c, "--spec-fd=%d", f->spec);
    add(&c, "--mounts-fd=%d", f->mounts);
    add(&c, "--controller-fd=%d", f->listener);
    add(&c, "--start-sync-fd=%d", f->ready);
    for (int i = 0; i < 3; i++)
        add(&c, "--stdio-fds=%d", f->stdio[i]);
    add_mounts(&c, code, f->io);
    add(&c, SENTRY_NAME);
    return start(code, &c, code->terminal, f->words, keep, sizeof keep / sizeof keep[0]);
}

static int open_pairs(const struct sentry_code *code, int ours[MOUNTS], int theirs[MOUNTS],
                      struct err *err)
{
    for (int i = 0; i < mount_count(code); i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
            return err_sys(err, "join the Sentry and its file server");
        ours[i] = pair[0];
        theirs[i] = pair[1];
    }
    return 0;
}

static int copy_stdio(const struct sentry_code *code, int copies[3], struct err *err)
{
    for (int i = 0; i < 3; i++) {
        copies[i] =
            code->serves ? open("/dev/null", O_RDWR | O_CLOEXEC) : fcntl(i, F_DUPFD_CLOEXEC, 3);
        if (copies[i] < 0)
            return err_sys(err, "copy the code's input and output");
    }
    return 0;
}

/* It cannot grow: runsc is told that there is no place, and goes on. Nobody waits for a reader. */
static int open_words(void)
{
    int fd = memfd_create("brig-words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, WORDS) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void sentry_last_words(const struct sentry *s, char *ret, size_t size)
{
    static const char *const marks[] = {"FATAL ERROR: ", "panic: "};
    char text[WORDS + 1];
    ssize_t n = s->words >= 0 ? pread(s->words, text, WORDS, 0) : 0;
    const char *from = NULL;
    text[n > 0 ? n : 0] = '\0';
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *found = strstr(text, marks[i]);
        if (found && !from)
            from = found + strlen(marks[i]);
    }
    size_t len = from ? strcspn(from, "\n") : 0, out = 0;
    for (size_t i = 0; i < len && out + 1 < size; i++)
        ret[out++] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
    ret[out] = '\0';
}

/* This process ends with the code: what it leaves open until then is close-on-exec, and the ends of
 * pipes that tell of an end are closed. */
int sentry_start(const struct sentry_code *code, const struct control *c, struct sentry *ret,
                 struct err *err)
{
    int spec[2] = {-1, -1}, mounts[2], ready[2];
    int sentry_io[MOUNTS] = {-1, -1}, gofer_io[MOUNTS] = {-1, -1}, stdio[3] = {-1, -1, -1};
    if (open_spec(code, spec, err) < 0 || open_pairs(code, sentry_io, gofer_io, err) < 0 ||
        copy_stdio(code, stdio, err) < 0)
        return err_number(err);
    if (pipe2(mounts, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0)
        return err_sys(err, "make pipes for the Sentry");
    ret->words = open_words();
    ret->gofer = start_gofer(code, ret->words, spec[0], mounts[1], gofer_io);
    close(mounts[1]);
    for (int i = 0; i < MOUNTS; i++)
        close(gofer_io[i]);
    struct boot_fds fds = {ret->words, spec[1], mounts[0], c->listener, ready[1], sentry_io, stdio};
    ret->boot = ret->gofer < 0 ? -1 : start_boot(code, &fds);
    close(ready[1]);
    close(mounts[0]);
    close(c->listener);
    for (int i = 0; i < 3; i++)
        close(stdio[i]);
    for (int i = 0; i < MOUNTS; i++)
        close(sentry_io[i]);
    ret->ready = ready[0];
    return ret->boot < 0 ? err_sys(err, "start runsc") : 0;
}
