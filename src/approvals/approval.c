/* Asks a question: opens its socket, shows it on the terminal, and waits for the answer. */
#include "approvals/approval.h"

#include "approvals/internal.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "os/runstate.h"
#include "os/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CLIENTS_MAX 6
#define LINE_SIZE   64
_Static_assert(CLIENTS_MAX + 2 <= APPROVAL_FDS_MAX, "a place for each");

struct approval {
    enum approval_kind kind;
    char id[APPROVAL_ID_SIZE];
    char run[32];
    struct buf text, reason; /* as they are shown */
    uint64_t deadline_us;
    int dir;       /* with the file of our name; -1: nobody can find us */
    int listen_fd; /* -1 with dir */
    int clients[CLIENTS_MAX];
    int tty;
    char line[LINE_SIZE]; /* typed so far */
    size_t line_len;
    enum approval_answer answer;
    char by[24];
};

const char *approval_kind_name(enum approval_kind kind)
{
    static const char *const names[] = {"command", "egress", "tool"};
    return (size_t)kind < ARRAY_LEN(names) ? names[kind] : "unknown";
}

const char *approval_answer_name(enum approval_answer answer)
{
    static const char *const names[] = {"pending", "allowed", "denied", "timed out"};
    return (size_t)answer < ARRAY_LEN(names) ? names[answer] : "unknown";
}

const char *approval_id(const struct approval *a)
{
    return a->id;
}

const char *approval_by(const struct approval *a)
{
    return a->by;
}

bool approval_has_terminal(const struct approval *a)
{
    return a->tty >= 0;
}

/* ---- to be found ---- */

static int listen_as(struct approval *a)
{
    struct sockaddr_un name;
    socklen_t len = approval_socket_name(a->id, &name);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, len) < 0 || listen(fd, CLIENTS_MAX) < 0)
        return -1;
    a->listen_fd = fd_steal(&fd);
    return 0;
}

static void drop_file(struct approval *a)
{
    if (a->dir >= 0) {
        unlinkat(a->dir, a->id, 0);
        close(a->dir);
    }
    a->dir = -1;
}

/* The socket first: a name in the folder that nobody answers to is taken for a leftover. */
static void become_known(struct approval *a)
{
    int dir = runstate_open(APPROVAL_FOLDER, true);
    for (int tries = 0; dir >= 0 && tries < 8; tries++) {
        uint32_t number;
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            break;
        snprintf(a->id, sizeof a->id, "ask-%08" PRIx32, number);
        if (listen_as(a) < 0)
            continue;
        cleanup_fd int fd = openat(dir, a->id, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
            a->dir = dir;
            return;
        }
        close(a->listen_fd);
        a->listen_fd = -1;
    }
    if (dir >= 0)
        close(dir);
}

/* ---- the terminal ---- */

static void tell_terminal(const struct approval *a)
{
    static const char *const what[] = {"before this command is run", "before this is connected to",
                                       "before this tool is called"};
    /* What was printed before may have left colours or another character set behind. */
    static const char reset[] = "\033[0m\033(B\017";
    cleanup_buf struct buf out;
    buf_init(&out, 3 * APPROVAL_TEXT_MAX);
    buf_fmt(&out, "%s\r\nbrig: the policy asks %s:\r\n    %s\r\n", reset, what[a->kind],
            buf_text(&a->text));
    if (a->reason.len)
        buf_fmt(&out, "  because: %s\r\n", buf_text(&a->reason));
    buf_fmt(&out, "  %" PRIu64 " s to answer", (a->deadline_us - clock_us() + 999999) / 1000000);
    if (a->dir >= 0)
        buf_fmt(&out, ", here or by `brig approve %s`", a->id);
    buf_str(&out, "; allow it? [y/N] ");
    tty_say(a->tty, buf_text(&out), out.len);
}

static void leave_terminal(struct approval *a, const char *words)
{
    if (a->tty < 0)
        return;
    if (words)
        tty_say(a->tty, words, strlen(words));
    close(a->tty);
    a->tty = -1;
}

/* ---- the end ---- */

static void decide(struct approval *a, enum approval_answer answer, const char *by)
{
    a->answer = answer;
    snprintf(a->by, sizeof a->by, "%s", by);
    drop_file(a);
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        if (a->clients[i] >= 0)
            close(a->clients[i]);
        a->clients[i] = -1;
    }
    if (a->listen_fd >= 0)
        close(a->listen_fd);
    a->listen_fd = -1;
    bool elsewhere = strcmp(by, "terminal") != 0;
    leave_terminal(a, !elsewhere                     ? NULL
                      : answer == APPROVAL_ALLOWED   ? "allowed elsewhere\r\n"
                      : answer == APPROVAL_TIMED_OUT ? "no answer: denied\r\n"
                                                     : "denied elsewhere\r\n");
}

/* ---- asking ---- */

static int cannot_ask(struct err *err)
{
    err_set(err, ERR_REFUSED,
            "the policy asks a person first, and nobody can be asked: there is no "
            "terminal, and no folder of runs to leave the question in");
    return err_hint(err,
                    "set HOME or XDG_STATE_HOME to a folder of yours, or run it on a terminal");
}

static void take_text(struct buf *out, const char *text, bool is_shown, size_t max)
{
    if (is_shown)
        buf_str(out, text);
    else
        approval_show_text(out, text, strlen(text), max);
}

int approval_ask(struct approval **ret, const struct approval_question *q, struct err *err)
{
    struct approval *a = calloc(1, sizeof *a);
    if (!a)
        return err_memory(err);
    a->dir = a->listen_fd = a->tty = -1;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        a->clients[i] = -1;
    a->kind = q->kind;
    snprintf(a->run, sizeof a->run, "%s", q->run ? q->run : "");
    buf_init(&a->text, 2 * APPROVAL_TEXT_MAX);
    buf_init(&a->reason, APPROVAL_TEXT_MAX);
    take_text(&a->text, q->text, q->text_is_shown, APPROVAL_TEXT_MAX);
    take_text(&a->reason, q->reason ? q->reason : "", q->reason_is_shown, APPROVAL_TEXT_MAX / 4);
    uint64_t ms = q->timeout_ms ? q->timeout_ms : APPROVAL_TIMEOUT_MS;
    ms = ms < APPROVAL_TIMEOUT_MAX_MS ? ms : APPROVAL_TIMEOUT_MAX_MS;
    a->deadline_us = clock_us() + ms * 1000;
    become_known(a);
    if (q->terminal)
        a->tty = tty_foreground();
    if ((a->dir < 0 && a->tty < 0) || a->text.failed) {
        approval_free(a);
        return cannot_ask(err);
    }
    if (a->tty >= 0)
        tell_terminal(a);
    *ret = a;
    return 0;
}

void approval_free(struct approval *a)
{
    if (!a)
        return;
    if (a->answer == APPROVAL_PENDING)
        decide(a, APPROVAL_DENIED, "");
    buf_done(&a->text);
    buf_done(&a->reason);
    free(a);
}

/* ---- waiting ---- */

size_t approval_poll(const struct approval *a, struct pollfd fds[static APPROVAL_FDS_MAX])
{
    size_t count = 0;
    if (a->listen_fd >= 0)
        fds[count++] = (struct pollfd){.fd = a->listen_fd, .events = POLLIN};
    if (a->tty >= 0)
        fds[count++] = (struct pollfd){.fd = a->tty, .events = POLLIN};
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (a->clients[i] >= 0)
            fds[count++] = (struct pollfd){.fd = a->clients[i], .events = POLLIN};
    return count;
}

int approval_wait_ms(const struct approval *a)
{
    uint64_t now = clock_us();
    if (a->answer != APPROVAL_PENDING || now >= a->deadline_us)
        return 0;
    return (int)((a->deadline_us - now + 999) / 1000);
}

static void describe(const struct approval *a, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "id", a->id);
    jw_kv_string(&w, "kind", approval_kind_name(a->kind));
    jw_kv_string(&w, "run", a->run[0] ? a->run : NULL);
    jw_kv_int(&w, "pid", getpid());
    jw_kv_string(&w, "text", buf_text(&a->text));
    jw_kv_string(&w, "reason", a->reason.len ? buf_text(&a->reason) : NULL);
    jw_kv_int(&w, "remaining_ms", approval_wait_ms(a));
    jw_object_end(&w);
}

static void show(const struct approval *a, int fd)
{
    cleanup_buf struct buf text;
    buf_init(&text, APPROVAL_REPLY_MAX);
    describe(a, &text);
    if (!text.failed)
        (void)send(fd, text.data, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Answers one message of one client. True: its connection can be closed. */
static bool serve(struct approval *a, int fd)
{
    char op = 0, taken = OP_TAKEN, by[24];
    uid_t uid = 0;
    ssize_t n = recv(fd, &op, sizeof op, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n != 1 || (op != OP_SHOW && op != OP_ALLOW && op != OP_DENY))
        return true;
    if (op == OP_SHOW) {
        show(a, fd);
        return true;
    }
    if (!approval_is_peer(fd, &uid))
        return true;
    /* Before the others are told that it is over. */
    (void)send(fd, &taken, sizeof taken, MSG_NOSIGNAL | MSG_DONTWAIT);
    snprintf(by, sizeof by, "uid %u", (unsigned)uid);
    decide(a, op == OP_ALLOW ? APPROVAL_ALLOWED : APPROVAL_DENIED, by);
    return false;
}

static void accept_clients(struct approval *a)
{
    uid_t uid;
    for (size_t i = 0; i < CLIENTS_MAX && a->listen_fd >= 0; i++) {
        if (a->clients[i] >= 0)
            continue;
        int fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (approval_is_peer(fd, &uid))
            a->clients[i] = fd;
        else
            close(fd);
    }
}

static void serve_clients(struct approval *a)
{
    accept_clients(a);
    for (size_t i = 0; i < CLIENTS_MAX && a->answer == APPROVAL_PENDING; i++) {
        if (a->clients[i] < 0 || !serve(a, a->clients[i]))
            continue;
        close(a->clients[i]);
        a->clients[i] = -1;
    }
}

static void take_line(struct approval *a)
{
    static const char again[] = "please answer y or n: ";
    const char *s = a->line;
    a->line[a->line_len] = '\0';
    a->line_len = 0;
    if (!strcmp(s, "y") || !strcmp(s, "Y") || !strcmp(s, "yes"))
        decide(a, APPROVAL_ALLOWED, "terminal");
    else if (!*s || !strcmp(s, "n") || !strcmp(s, "N") || !strcmp(s, "no"))
        decide(a, APPROVAL_DENIED, "terminal");
    else
        tty_say(a->tty, again, sizeof again - 1);
}

static void read_terminal(struct approval *a)
{
    char typed[LINE_SIZE];
    ssize_t n = a->tty >= 0 ? read(a->tty, typed, sizeof typed) : 0;
    if (a->tty < 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    if (n == 0 || (n < 0 && a->dir < 0)) {
        decide(a, APPROVAL_DENIED, "terminal");
        return;
    }
    if (n < 0) /* it is gone; others may still answer */
        leave_terminal(a, NULL);
    for (ssize_t i = 0; i < n && a->answer == APPROVAL_PENDING; i++) {
        if (typed[i] == '\n')
            take_line(a);
        else if (a->line_len < LINE_SIZE - 1)
            a->line[a->line_len++] = typed[i];
    }
}

enum approval_answer approval_step(struct approval *a)
{
    if (a->answer == APPROVAL_PENDING && clock_us() >= a->deadline_us)
        decide(a, APPROVAL_TIMED_OUT, "time");
    if (a->answer == APPROVAL_PENDING)
        serve_clients(a);
    if (a->answer == APPROVAL_PENDING)
        read_terminal(a);
    return a->answer;
}

enum approval_answer approval_wait(struct approval *a, int interrupt_fd)
{
    struct pollfd fds[APPROVAL_FDS_MAX + 1];
    while (approval_step(a) == APPROVAL_PENDING) {
        size_t count = approval_poll(a, fds);
        fds[count] = (struct pollfd){.fd = interrupt_fd, .events = POLLIN};
        if (poll(fds, count + 1, approval_wait_ms(a)) > 0 && fds[count].revents)
            decide(a, APPROVAL_DENIED, "interrupt");
    }
    return a->answer;
}
