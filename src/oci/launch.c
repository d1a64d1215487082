/* What create and exec share, outside: the sealed copy of this program, the console socket, the
 * filter, the steps of the process on its way inside, and what is looked at before its program may
 * run. */
#include "oci/container.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/coredump.h"
#include "os/fd.h"
#include "os/landlock.h"
#include "os/procfs.h"
#include "os/rights.h"
#include "os/sys.h"
#include "sandbox/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define STEP_SECONDS  120
#define VARIABLES_MAX 16 /* that brig adds */

/* ---- the program itself ---- */

int oci_sealed_copy(int from, struct err *err)
{
    ssize_t n;
    cleanup_fd int fd = memfd_empty("brig", true, err);
    if (fd < 0)
        return err_number(err);
    while ((n = sendfile(fd, from, NULL, 1u << 30)) > 0)
        ;
    if (n < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return err_sys(err, "copy a program");
    return fd_steal(&fd);
}

void oci_own_path(char out[static 4096])
{
    ssize_t n = readlink("/proc/self/exe", out, 4000);
    out[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(out, '/');
    snprintf(slash ? slash + 1 : out, 8, "brig");
}

int oci_reseal(char *const argv[], struct err *err)
{
    cleanup_fd int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (self < 0)
        return err_sys(err, "open this program");
    int seals = fcntl(self, F_GET_SEALS);
    if (seals >= 0 && (seals & F_SEAL_WRITE) && (seals & F_SEAL_SEAL))
        return 0;
    cleanup_fd int copy = oci_sealed_copy(self, err);
    if (copy < 0)
        return err_number(err);
    syscall(SYS_execveat, copy, "", argv, environ, SYS_AT_EMPTY_PATH);
    return err_sys(err, "execute a sealed copy of this program");
}

/* ---- files and sockets that the caller names ---- */

/* O-09: a socket of the caller's own, which takes the connection at once. */
int oci_console_connect(const char *path, struct err *err)
{
    struct stat sb;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    cleanup_fd int at = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0 || fstat(at, &sb) < 0)
        return err_sys(err, "open the console socket %.200s", path);
    if (!S_ISSOCK(sb.st_mode) || sb.st_uid != geteuid())
        return err_set(err, ERR_REFUSED, "the console socket %.200s is not a socket of yours",
                       path);
    snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d", at);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return err_sys(err, "connect to the console socket %.200s", path);
    return fd_steal(&fd);
}

int oci_pid_file(const char *path, pid_t pid, struct err *err)
{
    char folder[PATH_MAX], text[24];
    const char *slash = strrchr(path, '/');
    if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                 slash ? path : ".") >= (int)sizeof folder)
        return err_set(err, ERR_USAGE, "--pid-file: the path is too long");
    cleanup_fd int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(err, "open the folder of --pid-file %.200s", path);
    int n = snprintf(text, sizeof text, "%d", pid);
    return oci_file_replace(dir, slash ? slash + 1 : path, text, (size_t)n, 0644, err);
}

/* ---- the process on its way ---- */

static char **texts(const struct json *list)
{
    bool good = true;
    char **out = calloc(json_count(list) + 1, sizeof *out);
    for (size_t i = 0; out && good && i < json_count(list); i++)
        good = (out[i] = strdup(json_string(json_at(list, i)))) != NULL;
    if (!good)
        oci_engine_free(out);
    return good ? out : NULL;
}

/* ---- the environment ---- */

struct environment {
    char **items;
    size_t count, room;
    bool failed;
};

/* In the place of one of the same name, which an image may have brought. */
static void set_variable(void *ctx, const char *name, const char *value)
{
    struct environment *e = ctx;
    char *entry = NULL;
    size_t len = strlen(name), at = 0;
    while (at < e->count && !(strncmp(e->items[at], name, len) == 0 && e->items[at][len] == '='))
        at++;
    if (at == e->room || asprintf(&entry, "%s=%s", name, value) < 0) {
        e->failed = true;
        return;
    }
    if (at < e->count)
        free(e->items[at]);
    else
        e->count++;
    e->items[at] = entry;
}

/* With rules, the variables that tell programs of the proxy. Each entry is owned. */
static char **environment_of(const struct json *list, uint16_t proxy_port)
{
    struct environment e = {.room = json_count(list) + VARIABLES_MAX};
    e.items = calloc(e.room + 1, sizeof *e.items);
    for (size_t i = 0; e.items && i < json_count(list); i++)
        e.failed |= !(e.items[e.count++] = strdup(json_string(json_at(list, i))));
    if (e.items && !e.failed && proxy_port)
        sandbox_proxy_variables(proxy_port, set_variable, &e);
    if (!e.failed)
        return e.items;
    oci_engine_free(e.items);
    return NULL;
}

/* A user namespace of an ordinary user's may forbid it for ever. */
static bool may_drop_groups(void)
{
    char word[16];
    return geteuid() == 0 && (file_read(AT_FDCWD, "/proc/self/setgroups", word, sizeof word) <= 0 ||
                              !text_begins(word, "deny"));
}

bool oci_brings_files(unsigned keep)
{
    bool found = false;
    for (int fd = 0; fd < 3 + (int)keep; fd++) {
        struct stat sb;
        struct statfs fs;
        /* A sealed or unlinked one is nowhere on the host. */
        found |= fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_nlink > 0 &&
                 fstatfs(fd, &fs) == 0 && !(fs.f_flags & ST_NOSUID);
    }
    return found;
}

/* A file capability that root inside sets is one on the host too where both are the same user. No
 * filter can tell it from other attributes of files, so that the right to set one goes. */
static void choose_caps(struct oci_become *b, const struct oci_process *p,
                        const struct oci_state *s)
{
    uint64_t never = s->host_writable && s->maps_host_root ? 1ull << CAP_SETFCAP : 0;
    for (size_t i = 0; i < OCI_CAPS_COUNT; i++)
        b->caps[i] = p->caps[i] & ~never;
}

int oci_become_init(struct oci_become *b, const struct oci_process *p,
                    const struct oci_engine *engine, const struct json *seccomp,
                    const struct oci_state *s, struct err *err)
{
    struct filter_options options = {.isolated_pids = true,
                                     .isolated_ipc = true,
                                     .isolated_net = true,
                                     .unix_sockets = true,
                                     .own_view = true,
                                     .scoped_truncate = true,
                                     .counted_memory = s->grouped,
                                     .host_writable = s->host_writable,
                                     .tracer = engine->user_kernel};
    b->process = p;
    b->engine = engine;
    choose_caps(b, p, s);
    b->drop_groups = may_drop_groups();
    b->devices_abi = landlock_abi();
    b->argv = texts(p->args);
    b->envp = environment_of(p->env, s->proxy_port);
    if (!b->argv || !b->envp)
        return err_memory(err);
    if (oci_engine_become(engine, p, &b->argv, b->envp, &b->number, err) < 0)
        return err_number(err);
    if (oci_filter_compile(seccomp, &b->own, err) < 0)
        return err_number(err);
    if (engine->user_kernel) /* it is for the code, which the Sentry is told */
        b->own.len = 0;
    return filter_build(&options, &b->floor, err);
}

void oci_become_done(struct oci_become *b)
{
    oci_engine_free(b->argv);
    oci_engine_free(b->envp);
    b->argv = b->envp = NULL;
}

int oci_tell_go(int fd, struct err *err)
{
    struct oci_step step = {.word = OCI_WORD_GO};
    return send(fd, &step, sizeof step, MSG_NOSIGNAL) == (ssize_t)sizeof step
               ? 0
               : err_sys(err, "speak to the container");
}

/* Hears one step; a descriptor that came along is *ret_fd, where there is room for one. */
static int hear(int fd, struct oci_step *step, int *ret_fd, struct err *err)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r;
    while ((r = poll(&p, 1, STEP_SECONDS * 1000)) < 0 && errno == EINTR)
        ;
    if (r == 0)
        return err_set(err, ERR_SYSTEM, "the container was not built within %d seconds",
                       STEP_SECONDS);
    struct iovec part = {step, sizeof *step};
    struct rights rights = {.fds = ret_fd, .room = ret_fd != NULL};
    ssize_t n = rights_receive(fd, &part, 1, 0, &rights);
    if (n != (ssize_t)sizeof *step || rights.cut) {
        rights_close(&rights);
        return err_set(err, ERR_SYSTEM, "the container's first process died while it was built");
    }
    if (step->word != OCI_WORD_FAIL || !err_code_known(step->err.code))
        return 0;
    rights_close(&rights);
    *err = step->err;
    err->message[sizeof err->message - 1] = err->hint[sizeof err->hint - 1] = '\0';
    return err_number(err);
}

static int said_else(struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "the container's first process said something else");
}

int oci_expect(int fd, enum oci_word word, struct err *err)
{
    struct oci_step step;
    if (hear(fd, &step, NULL, err) < 0)
        return err_number(err);
    return step.word == word ? 0 : said_else(err);
}

int oci_expect_number(int fd, enum oci_word word, int32_t *ret, struct err *err)
{
    struct oci_step step = {0};
    if (hear(fd, &step, NULL, err) < 0)
        return err_number(err);
    *ret = step.number;
    return step.word == word ? 0 : said_else(err);
}

int oci_expect_listener(int fd, int32_t *ret, struct err *err)
{
    struct oci_step step = {0};
    cleanup_fd int got = -1;
    if (hear(fd, &step, &got, err) < 0)
        return err_number(err);
    *ret = step.number;
    return step.word == OCI_WORD_LISTENER && got >= 0 ? fd_steal(&got) : said_else(err);
}

/* From outside: raising one needs a right over the host, which the process does not have. */
int oci_limits_apply(pid_t pid, const struct oci_become *b, struct err *err)
{
    const struct oci_process *p = b->process;
    uint64_t core_files = 0;
    /* The code's are the Sentry's to keep, which could not start with some of them. */
    for (size_t i = 0; i < p->rlimit_count && !b->engine->user_kernel; i++) {
        const struct oci_rlimit *l = &p->rlimits[i];
        struct rlimit limit = {.rlim_cur = (rlim_t)l->soft, .rlim_max = (rlim_t)l->hard};
        if (prlimit(pid, (unsigned)l->resource, &limit, NULL) < 0)
            return err_sys(err, "config: process.rlimits: set limit %d", l->resource);
    }
    /* OC-12: whatever was asked for. */
    if (coredump_limit(&core_files, err) < 0)
        return err_number(err);
    struct rlimit core = {.rlim_cur = core_files, .rlim_max = core_files};
    return prlimit(pid, RLIMIT_CORE, &core, NULL) < 0
               ? err_sys(err, "keep crashes from programs of the host")
               : 0;
}

int oci_oom_score(pid_t pid, const struct oci_process *p, struct err *err)
{
    char path[64], text[16];
    if (!p->has_oom_score)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
    snprintf(text, sizeof text, "%d", p->oom_score);
    int r = file_write(AT_FDCWD, path, text);
    if (r == 0)
        return 0;
    errno = -r;
    err_sys(err, "config: set process.oomScoreAdj");
    return err_hint(err, "whoever asks for less than he has needs CAP_SYS_RESOURCE on the host "
                         "(containerd: restrict_oom_score_adj = true)");
}

int oci_attest_namespaces(pid_t pid, struct err *err)
{
    uint64_t own[NS_COUNT], its[NS_COUNT];
    if (procfs_namespaces(0, own, err) < 0 || procfs_namespaces(pid, its, err) < 0)
        return err_number(err);
    for (int ns = 0; ns < NS_COUNT; ns++)
        if (own[ns] == its[ns])
            return err_set(err, ERR_ATTEST, "the container shares a namespace with the host: %s",
                           proc_ns_name(ns));
    return 0;
}

/* K-6 for a container: what is in force is read from outside, before its program may run. */
int oci_attest(pid_t pid, const struct oci_become *b, struct err *err)
{
    struct proc_status st;
    if (procfs_status(pid, &st, err) < 0)
        return err_number(err);
    if (st.no_new_privs != 1 || st.seccomp != 2)
        return err_set(err, ERR_ATTEST, "the container has no filter, or may gain rights");
    uint64_t most = b->caps[OCI_CAPS_BOUNDING];
    if ((st.cap_bnd & ~most) || (st.cap_prm & ~most) || (st.cap_eff & ~most) ||
        (st.cap_inh & ~most) || (st.cap_amb & ~most))
        return err_set(err, ERR_ATTEST, "the container has more capabilities than planned");
    return 0;
}

/* ---- waiting ---- */

static volatile sig_atomic_t child_pid;

static void hand_on(int sig)
{
    if (child_pid > 0)
        kill((pid_t)child_pid, sig);
}

int oci_wait(pid_t pid)
{
    static const int handed[] = {SIGTERM, SIGINT,  SIGHUP,   SIGQUIT,
                                 SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
    int status = 0;
    struct sigaction act = {.sa_handler = hand_on};
    child_pid = pid;
    for (size_t i = 0; i < ARRAY_LEN(handed); i++)
        sigaction(handed[i], &act, NULL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 125;
    child_pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
