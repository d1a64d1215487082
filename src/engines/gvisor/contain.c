/* A container of `brig oci` behind the Sentry, and further programs in it. Both are started in the
 * place of the container's program, with descriptors that `brig oci` opened outside:
 *
 *   brig-gvisor contain PLATFORM CONFS INPUT MEMORY CPUS RUNSC SPEC LISTENER WAIT SIGNALS BEGUN
 *   brig-gvisor exec SPEC WAIT SIGNALS
 *
 * The control socket is one with a name in the container's state folder, outside: in a pod's
 * network others could reach an abstract one. BEGUN is closed when the code has begun, for whom
 * `start` waits. SPEC is what the Sentry is told of the code, all but
 * the mounts; of exec, the argument of the call.
 *
 * The first is the container's PID 1: who loses his parent becomes its child. The second has a
 * guard, a process that ends the program behind the Sentry if it is killed itself: nothing that it
 * could do catches SIGKILL. */
#include "engines/gvisor/gvisor.h"

#include "base/cleanup.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_EXECUTABLE 126
#define NOT_FOUND      127
#define CONTAIN_ARGS   13
#define EXEC_ARGS      5
#define SPEC_MAX       (8u << 20)
#define ANSWER_MAX     65536
#define MAGIC_PROC     0x9fa0
#define MAGIC_SYSFS    0x62656572

static char *read_spec(int fd, size_t *len)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0 || sb.st_size <= 0 || sb.st_size > SPEC_MAX)
        engine_fail(NOT_EXECUTABLE, "there is no description of the code");
    *len = (size_t)sb.st_size;
    char *text = malloc(*len + 1);
    if (!text || pread(fd, text, *len, 0) != (ssize_t)*len)
        engine_fail(NOT_EXECUTABLE, "cannot read the description of the code");
    close(fd);
    text[*len] = '\0';
    return text;
}

/* A folder of the image's own: by a link it could be one of the kernel's file systems, which the
 * code could change its engine by. */
static bool has_tmp(void)
{
    struct statfs fs;
    cleanup_fd int fd = open("/tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type != MAGIC_PROC && fs.f_type != MAGIC_SYSFS;
}

static int descriptor(const char *text)
{
    int fd = (int)engine_number(text);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

/* It was executed by a number. */
static void name_process(void)
{
    prctl(PR_SET_NAME, "brig-gvisor", 0, 0, 0);
}

void contain_take(int argc, char *argv[], struct sentry_code *code, struct control *control)
{
    static char *name[] = {"the program", NULL};
    struct err err = ERR_INIT;
    if (argc != CONTAIN_ARGS)
        engine_fail(NOT_EXECUTABLE, "brig oci starts this program");
    *code = (struct sentry_code){.platform = argv[2],
                                 .mount_confs = strcmp(argv[3], "confs") == 0,
                                 .terminal = strcmp(argv[4], "terminal") == 0,
                                 .memory = engine_number(argv[5]),
                                 .cpus = engine_number(argv[6]),
                                 .contained = true,
                                 .runsc_fd = descriptor(argv[7]),
                                 .tmp = has_tmp(),
                                 .begun = descriptor(argv[12]),
                                 .argv = name};
    name_process();
    int spec = descriptor(argv[8]);
    *control = (struct control){.listener = descriptor(argv[9]),
                                .wait = descriptor(argv[10]),
                                .signals = descriptor(argv[11])};
    size_t len;
    cleanup_free char *text = read_spec(spec, &len);
    if (json_parse(text, len, &json_default_limits, &code->spec, &err) < 0)
        engine_fail(NOT_EXECUTABLE, "the description of the code: %s", err.message);
}

/* ---- one more program ---- */

struct exec {
    int wait, signals, caught;
    int guard; /* a pipe: its end without a byte is our end before the program's */
    int64_t pid;
    char text[ANSWER_MAX];
    size_t len;
};

static int send_signal(const struct exec *e, int number)
{
    cleanup_buf struct buf argument;
    struct json_writer w;
    struct err err = ERR_INIT;
    char dropped[4096];
    while (recv(e->signals, dropped, sizeof dropped, MSG_DONTWAIT) > 0)
        ;
    jw_begin(&w, &argument, 512);
    jw_kv_string(&w, "CID", SENTRY_NAME);
    jw_kv_int(&w, "Signo", number);
    jw_kv_int(&w, "PID", e->pid);
    jw_kv_int(&w, "Mode", 0);
    jw_object_end(&w);
    return control_ask(e->signals, "containerManager.Signal", &argument, &err);
}

__attribute__((noreturn)) static void sentry_gone(void)
{
    fputs("brig-gvisor: the Sentry ended before the program did\n", stderr);
    engine_end_by(SIGKILL);
}

/* Blocks until the answer is complete. */
static void hear(struct exec *e, struct control_answer *ret)
{
    int r = 0;
    e->len = 0;
    while (r == 0) {
        ssize_t n = recv(e->wait, e->text + e->len, sizeof e->text - e->len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            sentry_gone();
        e->len += (size_t)n;
        r = control_parse(e->text, e->len, ret);
    }
    if (r < 0)
        sentry_gone();
}

__attribute__((noreturn)) static void not_started(const char *why)
{
    bool missing = strstr(why, "no such file or directory") || strstr(why, "not found");
    engine_fail(missing ? NOT_FOUND : NOT_EXECUTABLE, "cannot start the program: %s", why);
}

static void start(struct exec *e, int spec)
{
    size_t len;
    cleanup_free char *text = read_spec(spec, &len);
    cleanup_buf struct buf argument;
    struct control_answer answer;
    struct err err = ERR_INIT;
    const int fds[] = {0, 1, 2};
    buf_init(&argument, SPEC_MAX);
    buf_add(&argument, text, len);
    if (control_send(e->wait, "containerManager.ExecuteAsync", &argument, fds, 3, &err) < 0)
        engine_fail(NOT_EXECUTABLE, "%s", err.message);
    hear(e, &answer);
    if (!answer.success)
        not_started(answer.why);
    if (answer.result <= 0 || answer.result > INT32_MAX)
        sentry_gone();
    e->pid = answer.result;
}

static void await(struct exec *e)
{
    cleanup_buf struct buf argument;
    struct json_writer w;
    struct err err = ERR_INIT;
    jw_begin(&w, &argument, 512);
    jw_kv_string(&w, "CID", SENTRY_NAME);
    jw_kv_int(&w, "PID", e->pid);
    jw_object_end(&w);
    if (control_ask(e->wait, "containerManager.WaitPID", &argument, &err) < 0)
        sentry_gone();
}

/* It has nothing of the program's open, which would keep a pipe from ending. */
static void post_guard(struct exec *e)
{
    int ends[2];
    char byte;
    if (pipe2(ends, O_CLOEXEC) < 0)
        engine_fail(NOT_EXECUTABLE, "make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        engine_fail(NOT_EXECUTABLE, "start a guard: %s", strerror(errno));
    close(ends[pid == 0]);
    e->guard = ends[pid != 0];
    if (pid > 0)
        return;
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    close(e->wait);
    ssize_t n;
    while ((n = read(e->guard, &byte, 1)) < 0 && errno == EINTR)
        ;
    if (n == 0)
        send_signal(e, SIGKILL);
    _exit(0);
}

__attribute__((noreturn)) static void end_as(struct exec *e, int status)
{
    (void)!write(e->guard, "", 1);
    if (WIFSIGNALED(status))
        engine_end_by(WTERMSIG(status));
    _exit(WEXITSTATUS(status));
}

__attribute__((noreturn)) static void follow(struct exec *e)
{
    struct signalfd_siginfo info;
    struct control_answer answer;
    struct pollfd fds[] = {{.fd = e->wait, .events = POLLIN}, {.fd = e->caught, .events = POLLIN}};
    await(e);
    do {
        if (poll(fds, 2, -1) > 0 && fds[1].revents &&
            read(e->caught, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD)
            send_signal(e, (int)info.ssi_signo);
    } while (!fds[0].revents);
    hear(e, &answer);
    if (!answer.success)
        sentry_gone();
    end_as(e, (int)answer.result);
}

void exec_main(int argc, char *argv[])
{
    static struct exec e;
    sigset_t all;
    if (argc != EXEC_ARGS)
        engine_fail(NOT_EXECUTABLE, "brig oci starts this program");
    name_process();
    int spec = descriptor(argv[2]);
    e.wait = descriptor(argv[3]);
    e.signals = descriptor(argv[4]);
    int r = seal_engine();
    if (r < 0)
        engine_fail(NOT_EXECUTABLE, "cannot narrow itself: %s", strerror(-r));
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if ((e.caught = signalfd(-1, &all, SFD_CLOEXEC)) < 0)
        engine_fail(NOT_EXECUTABLE, "cannot watch signals: %s", strerror(errno));
    start(&e, spec);
    post_guard(&e);
    follow(&e);
}
