/* One program behind a Sentry that is there already, in a sandbox of `brig serve`. init starts this
 * in the place of the program, with the program's descriptors:
 *
 *   brig-gvisor join NAME LEADER UID DESCRIPTORS SIZE FOLDER -- COMMAND [ARG…]
 *
 * It connects to the Sentry's control socket, whose name the warden was told, narrows itself as the
 * engine does (GV-2), and has the Sentry execute LEADER with those descriptors and two pipes
 * (lead.h). From then on it holds none of what it was given, passes signals on, and ends as the
 * leader did. What could not be started it says on JOIN_STATUS, a pipe of the warden's.
 *
 * That nobody can catch SIGKILL does no harm: the end of its pipe makes the leader end the group.
 * Nobody but the one request waits for it, however long the Sentry takes to answer. It does not
 * hide itself: who watches memory without a cgroup has to see what it has open, and it has nothing
 * that is not this request's. */
#include "engines/gvisor/gvisor.h"
#include "engines/gvisor/lead.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIXED_ARGS  9
#define ANSWER_MAX  65536
#define PROGRAM_MAX 5 /* descriptors of a program: three, and an interpreter's channel */
#define STARTED_ALL (PROGRAM_MAX + 2)

struct join {
    const char *name, *leader, *size, *folder;
    uint64_t uid;
    unsigned count; /* descriptors of the program */
    char **argv, **env;
    int control, signals;
    int down, up;   /* ours; up is -1 after the leader's word */
    int theirs[2];  /* the other ends */
    bool executing; /* the Sentry was asked for the leader, and has not answered */
    bool told;      /* the warden knows how the start went */
    struct lead_word word;
    size_t word_len;
    char text[ANSWER_MAX];
    size_t len;
};

/* ---- to the warden ---- */

__attribute__((noreturn)) static void fail(const struct err *err)
{
    (void)!write(JOIN_STATUS, err, sizeof *err);
    _exit(err_exit_status(err));
}

__attribute__((noreturn)) static void fail_with(enum err_code code, const char *what,
                                                const char *why)
{
    struct err err = ERR_INIT;
    err_set(&err, code, "%s%s%.300s", what, why ? ": " : "", why ? why : "");
    fail(&err);
}

static const char *search_path(const struct join *j)
{
    for (char **each = j->env; *each; each++)
        if (text_begins(*each, "PATH="))
            return *each + 5;
    return "its usual places";
}

/* In the words of the container tier. */
__attribute__((noreturn)) static void fail_as_told(const struct join *j)
{
    struct err err = ERR_INIT;
    const char *name = j->argv[0];
    errno = j->word.why;
    switch (j->word.stage) {
    case LEAD_FOLDER:
        err_sys(&err, "cannot enter folder %.300s", j->folder);
        err.code = ERR_NOT_FOUND;
        break;
    case LEAD_EXECUTE:
        if (errno != ENOENT) {
            err_sys(&err, "cannot execute %.300s", name);
            err.code = ERR_NOT_EXEC;
            break;
        }
        err_set(&err, ERR_NOT_FOUND, "%.300s: command not found inside the sandbox", name);
        err_hint(&err, "it was looked for in %.200s; grant a folder that has it with --ro DIR",
                 strchr(name, '/') ? name : search_path(j));
        break;
    case LEAD_TERMINAL:
        err_sys(&err, "make a terminal behind the Sentry");
        break;
    default:
        err_sys(&err, "start a process behind the Sentry");
        err_hint(&err, "the limit of processes (lifecycle.pids) may be reached");
        break;
    }
    fail(&err);
}

/* ---- what it was asked for ---- */

static void take_options(int argc, char *argv[], struct join *j)
{
    if (argc <= FIXED_ARGS || strcmp(argv[FIXED_ARGS - 1], "--") != 0)
        fail_with(ERR_USAGE, "brig starts this program, in a sandbox of brig serve", NULL);
    *j = (struct join){.name = argv[2],
                       .leader = argv[3],
                       .uid = engine_number(argv[4]),
                       .count = (unsigned)engine_number(argv[5]),
                       .size = argv[6],
                       .folder = argv[7],
                       .argv = &argv[FIXED_ARGS],
                       .env = engine_variables()};
    if (j->count < 3 || j->count > PROGRAM_MAX)
        fail_with(ERR_USAGE, "a program has 3 to 5 descriptors", NULL);
    for (char **each = j->argv; *each; each++)
        if (!engine_is_text(*each))
            fail_with(ERR_NOT_EXEC,
                      "an argument is not UTF-8, which what is said to gVisor must be", NULL);
    for (char **each = j->env; *each; each++)
        if (!engine_is_text(*each))
            fail_with(ERR_NOT_EXEC, "a variable is not UTF-8, which what is said to gVisor must be",
                      NULL);
    if (!engine_is_text(j->folder))
        fail_with(ERR_NOT_FOUND, "the folder is not UTF-8, which what is said to gVisor must be",
                  NULL);
}

static void write_list(struct json_writer *w, const char *key, char *const *list)
{
    jw_kv_array(w, key);
    for (; *list; list++)
        jw_string(w, *list);
    jw_array_end(w);
}

static void write_arguments(struct json_writer *w, const struct join *j)
{
    char count[12];
    snprintf(count, sizeof count, "%u", j->count);
    jw_kv_array(w, "argv");
    jw_string(w, LEADER_NAME);
    jw_string(w, count);
    jw_string(w, j->size);
    jw_string(w, j->folder);
    for (char **each = j->argv; *each; each++)
        jw_string(w, *each);
    jw_array_end(w);
}

/* Where nothing is said of capabilities, a leader with the id 0 would have all of them. */
static void write_no_capabilities(struct json_writer *w)
{
    static const char *const sets[] = {"PermittedCaps", "InheritableCaps", "EffectiveCaps",
                                       "BoundingCaps", "AmbientCaps"};
    jw_kv_object(w, "Capabilities");
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        jw_kv_uint(w, sets[i], 0);
    jw_object_end(w);
}

/* The leader is started in the root: while a folder does not answer, the Sentry, which starts one
 * process after the other, would hold its lock for that. Builds before 2023 number the descriptors
 * by themselves. */
static void write_execution(const struct join *j, struct buf *out)
{
    struct json_writer w;
    jw_begin(&w, out, 4u << 20);
    jw_kv_string(&w, "ContainerID", SENTRY_NAME);
    jw_kv_string(&w, "filename", j->leader);
    write_arguments(&w, j);
    write_list(&w, "envv", j->env);
    jw_kv_string(&w, "wd", "/");
    jw_kv_uint(&w, "KUID", j->uid);
    jw_kv_uint(&w, "KGID", j->uid);
    write_no_capabilities(&w);
    jw_kv_array(&w, "GuestFDs");
    for (unsigned i = 0; i < j->count + 2; i++)
        jw_uint(&w, i);
    jw_array_end(&w);
    jw_object_end(&w);
}

/* ---- the start ---- */

/* Ours never block: a leader that does not read, because the code stopped it, loses signals. */
static void make_pipes(struct join *j)
{
    int down[2], up[2];
    struct err err = ERR_INIT;
    if (pipe2(down, O_CLOEXEC) < 0 || pipe2(up, O_CLOEXEC) < 0 ||
        fcntl(down[1], F_SETFL, O_NONBLOCK) < 0 || fcntl(up[0], F_SETFL, O_NONBLOCK) < 0) {
        err_sys(&err, "make pipes for the leader");
        fail(&err);
    }
    j->theirs[0] = down[0];
    j->down = down[1];
    j->up = up[0];
    j->theirs[1] = up[1];
}

/* What the program has is open nowhere else after this: its other side must see its end. */
static void ask_for_leader(struct join *j)
{
    cleanup_buf struct buf argument;
    struct err err = ERR_INIT;
    int fds[STARTED_ALL];
    unsigned count = 0;
    write_execution(j, &argument);
    for (; count < j->count; count++)
        fds[count] = (int)count;
    fds[count++] = j->theirs[0];
    fds[count++] = j->theirs[1];
    if (argument.failed)
        fail_with(ERR_LIMIT, "the command or its variables are too long", NULL);
    if (control_send(j->control, "containerManager.ExecuteAsync", &argument, fds, count, &err) < 0)
        fail(&err);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    j->executing = true;
}

static void watch_signals(struct join *j)
{
    sigset_t all;
    struct err err = ERR_INIT;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if ((j->signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK)) >= 0)
        return;
    err_sys(&err, "watch signals");
    fail(&err);
}

/* ---- while it runs ---- */

static void pass_on(const struct join *j)
{
    struct signalfd_siginfo info;
    while (read(j->signals, &info, sizeof info) == sizeof info) {
        unsigned char number = (unsigned char)info.ssi_signo;
        (void)!write(j->down, &number, 1);
    }
}

/* GV-5: one word, and no more is read. */
static void hear_leader(struct join *j)
{
    char *at = (char *)&j->word + j->word_len;
    ssize_t n = read(j->up, at, sizeof j->word - j->word_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && (j->word_len += (size_t)n) < sizeof j->word)
        return;
    close(j->up);
    j->up = -1;
    if (lead_word_parse(&j->word, j->word_len, &j->word) < 0)
        return; /* it has ended, or was made to say this: its status is told in a moment */
    if (j->word.stage != LEAD_STARTED)
        fail_as_told(j);
    j->told = true;
    close(JOIN_STATUS);
}

__attribute__((noreturn)) static void sentry_gone(const struct join *j)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_SYSTEM, "the Sentry ended before the process began");
    if (!j->told)
        fail(&err);
    engine_end_by(SIGKILL);
}

__attribute__((noreturn)) static void end_as(struct join *j, int status)
{
    while (j->up >= 0) { /* what it said is there, and its end */
        struct pollfd up = {.fd = j->up, .events = POLLIN};
        if (poll(&up, 1, 1000) <= 0)
            break;
        hear_leader(j);
    }
    if (!j->told)
        fail_with(ERR_SYSTEM, "the process could not be started: its leader was ended", NULL);
    if (WIFSIGNALED(status))
        engine_end_by(WTERMSIG(status));
    _exit(WEXITSTATUS(status));
}

static void await_end(struct join *j, int64_t leader)
{
    cleanup_buf struct buf argument;
    struct json_writer w;
    struct err err = ERR_INIT;
    if (leader <= 0 || leader > INT32_MAX)
        sentry_gone(j);
    jw_begin(&w, &argument, 512);
    jw_kv_string(&w, "CID", SENTRY_NAME);
    jw_kv_int(&w, "PID", leader);
    jw_object_end(&w);
    if (control_ask(j->control, "containerManager.WaitPID", &argument, &err) < 0)
        sentry_gone(j);
}

static void hear_sentry(struct join *j)
{
    struct control_answer answer;
    ssize_t n = recv(j->control, j->text + j->len, sizeof j->text - j->len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        sentry_gone(j);
    j->len += (size_t)n;
    int r = control_parse(j->text, j->len, &answer);
    if (r == 0)
        return;
    /* It answers what it was asked, and one thing at a time. */
    if (r < 0 || answer.len != j->len)
        sentry_gone(j);
    j->len = 0;
    if (!j->executing && answer.success)
        end_as(j, (int)answer.result);
    if (!j->executing)
        sentry_gone(j);
    if (!answer.success)
        fail_with(ERR_SYSTEM, "the Sentry cannot start a process", answer.why);
    j->executing = false;
    await_end(j, answer.result);
}

__attribute__((noreturn)) static void follow(struct join *j)
{
    for (;;) {
        struct pollfd fds[3] = {{.fd = j->up, .events = POLLIN},
                                {.fd = j->control, .events = POLLIN},
                                {.fd = j->signals, .events = POLLIN}};
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            sentry_gone(j);
        if (fds[0].revents)
            hear_leader(j);
        if (fds[2].revents)
            pass_on(j);
        if (fds[1].revents)
            hear_sentry(j);
    }
}

void join_main(int argc, char *argv[])
{
    static struct join j;
    struct err err = ERR_INIT;
    fcntl(JOIN_STATUS, F_SETFD, FD_CLOEXEC);
    take_options(argc, argv, &j);
    watch_signals(&j);
    if ((j.control = control_join(j.name, &err)) < 0)
        fail(&err);
    int r = seal_engine();
    errno = -r;
    if (r < 0 && err_sys(&err, "narrow the process that starts another") < 0)
        fail(&err);
    make_pipes(&j);
    ask_for_leader(&j);
    follow(&j);
}
