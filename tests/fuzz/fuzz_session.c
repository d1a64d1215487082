/* What init says once the code runs, to a warden and to `brig run`: hostile, every byte and every
 * descriptor of it (W-1). Whatever it is, each request of the front is answered at most once, what
 * the front hears is well-formed, no descriptor is lost, and nobody is kept busy for ever.
 *
 * The input is a list of acts. The first byte says who listens. */
#include "warden/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ACTS_MAX 48
#define ASKS     7

static void require(int condition)
{
    if (!condition)
        abort();
}

struct input {
    const uint8_t *data;
    size_t left;
};

static uint8_t take(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->data++;
}

static void take_bytes(struct input *in, void *to, size_t len)
{
    size_t n = in->left < len ? in->left : len;
    memset(to, 0, len);
    memcpy(to, in->data, n);
    in->data += n;
    in->left -= n;
}

static int32_t take_number(struct input *in)
{
    uint8_t kind = take(in);
    int32_t number = 0;
    if (kind & 0x80)
        take_bytes(in, &number, sizeof number);
    else
        number = kind;
    return number;
}

/* ---- the other side ---- */

static int open_something(uint8_t kind)
{
    int ends[2];
    switch (kind % 5) {
    case 1:
        if (pipe2(ends, O_CLOEXEC) < 0)
            return -1;
        close(ends[1]);
        return ends[0];
    case 2:
        return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    case 3:
        return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    case 4:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    default:
        return -1;
    }
}

static void speak(int fd, struct input *in)
{
    struct ctl_msg msg = {.type = take(in) % (CTL_TYPE_COUNT + 2)};
    msg.request = (uint32_t)take_number(in);
    msg.pid = take_number(in);
    msg.value = take_number(in);
    msg.err.code = take_number(in);
    msg.err.boundary = take_number(in);
    uint8_t form = take(in);
    size_t text = take(in);
    take_bytes(in, msg.err.message, text);
    memset(msg.err.message + text, form & 8 ? 'x' : 0, sizeof msg.err.message - text);
    size_t len = form & 16 ? take(in) * 4u : sizeof msg;
    int each = open_something(form);
    struct iovec iov = {.iov_base = &msg, .iov_len = len < sizeof msg ? len : sizeof msg};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (each >= 0) {
        const int fds[2] = {each, each};
        unsigned count = form & 32 ? 2 : 1;
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS,
                                        .cmsg_len = CMSG_LEN(count * sizeof(int))};
        memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
    }
    (void)!sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (each >= 0)
        close(each);
}

/* ---- a sandbox of which nothing is real but its sockets ---- */

static struct policy policy;
static struct run_request request = {
    .policy = &policy, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .receipt = true};
static struct run_result result;

static struct sandbox *make_sandbox(int *ret_inside)
{
    int pair[2], on = 1;
    if (!policy.root)
        require(policy_init(&policy, LEVEL_HIGH) == 0);
    policy.timeout_ms = POLICY_UNLIMITED;
    run_result_init(&result);
    struct sandbox *s = sandbox_new(&request, &result);
    require(s && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    s->ctl_fd = pair[0];
    buf_str(&s->boundaries, "{}");
    *ret_inside = pair[1];
    s->lifecycle.policy = &policy;
    s->lifecycle.namespaced = true;
    s->lifecycle.proc_fd = open("/proc/self/ns", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s;
}

static void drop_sandbox(struct sandbox *s)
{
    if (s->ctl_fd >= 0)
        close(s->ctl_fd);
    if (s->beside.fd >= 0)
        close(s->beside.fd);
    if (s->init_pidfd >= 0)
        close(s->init_pidfd);
    s->ctl_fd = s->beside.fd = s->init_pidfd = -1;
    lifecycle_unwatch(&s->lifecycle);
    sandbox_free(s);
    run_result_done(&result);
}

/* ---- brig run ---- */

static void run_supervisor(struct input *in)
{
    int inside;
    struct err err = ERR_INIT;
    struct sandbox *s = make_sandbox(&inside);
    s->init_pid = s->code_pid = take(in) & 1 ? getpid() : 1;
    for (int i = 0; in->left && i < ACTS_MAX; i++)
        speak(inside, in);
    /* init is gone: what it said before is heard, and that is the end. */
    s->init_pidfd = eventfd(1, EFD_CLOEXEC);
    close(inside);
    require(sandbox_supervise(s, &err) == 0 || err.code != ERR_NONE);
    if (s->exec_failed)
        require(err_code_known(s->exec_err.code) &&
                memchr(s->exec_err.message, 0, sizeof s->exec_err.message));
    drop_sandbox(s);
}

/* ---- a warden ---- */

struct lab {
    struct warden w;
    int inside, beside, front; /* the other ends; the second one is root's part of init */
    int status[ASKS];          /* the ends that the programs hold */
    unsigned answers[256];     /* by the front's number of the request */
    struct wire_msg msg;
};

static void on_nothing(struct loop_io *io, uint32_t events)
{
    (void)io, (void)events;
}

static void no_sample(struct loop_timer *t)
{
    (void)t;
}

/* One request of each kind. */
static void ask_all(struct lab *l)
{
    static const enum wire_type types[ASKS] = {WIRE_SPAWN,  WIRE_SPAWN, WIRE_CONNECT, WIRE_SIGNAL,
                                               WIRE_FREEZE, WIRE_FILE,  WIRE_READY};
    for (unsigned i = 0; i < ASKS; i++) {
        int ends[2];
        struct err err = ERR_INIT;
        struct ask *a = ask_new(&l->w, types[i], 100 + i, &err);
        require(a && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
        a->freezes = types[i] == WIRE_FREEZE;
        a->beside = i == 1 || types[i] == WIRE_FREEZE || types[i] == WIRE_FILE;
        warden_watch(&l->w, &a->status, ends[0], on_nothing);
        l->status[i] = ends[1];
        if (types[i] == WIRE_FILE)
            a->fds[a->fd_count++] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
}

static void hear_front(struct lab *l)
{
    struct wire_msg *m = &l->msg;
    while (wire_receive(l->front, m, MSG_DONTWAIT) > 0) {
        struct json *tree = NULL;
        if (m->text_len) {
            require(json_parse(m->text, m->text_len, NULL, &tree, NULL) == 0 &&
                    json_type(tree) == JSON_OBJECT);
            json_free(tree);
        }
        if (m->type == WIRE_DONE || m->type == WIRE_FAIL)
            require(m->request == 0 || (m->request < 256 && ++l->answers[m->request] == 1));
        else
            require(m->type == WIRE_EXITED || m->type == WIRE_READY || m->type == WIRE_EVENT);
        for (unsigned i = 0; i < m->fd_count; i++) /* PU-5 */
            require(ioctl(m->fds[i], TIOCGPTN, &(int){0}) < 0);
        wire_close_fds(m);
    }
}

static void act(struct lab *l, struct input *in)
{
    uint8_t what = take(in);
    int *status = &l->status[what % ASKS];
    struct err junk = {.code = take(in)};
    switch (what >> 5) {
    case 0: /* the program was executed */
        if (*status >= 0)
            close(*status);
        *status = -1;
        break;
    case 1: /* or says why not, in its own words */
        take_bytes(in, junk.message, 40);
        if (*status >= 0)
            (void)!write(*status, &junk, what & 16 ? sizeof junk : (size_t)junk.code);
        break;
    default:
        speak(what & 16 ? l->beside : l->inside, in);
    }
}

static void run_warden(struct input *in)
{
    static const struct template template = {.interpreter = "python"};
    static struct lab l;
    int pair[2];
    memset(&l, 0, sizeof l);
    l.w.s = make_sandbox(&l.inside);
    require(loop_new(&l.w.loop, NULL) == 0 &&
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    l.w.front.fd = pair[0];
    l.front = pair[1];
    l.w.sampling.fn = no_sample;
    l.w.claimed = true;
    l.w.template = &template;
    int on = 1, more[2];
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, more) == 0);
    setsockopt(more[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    l.w.s->beside.fd = more[0];
    l.beside = more[1];
    l.w.beside = (struct loop_io){.fd = more[0], .fn = on_nothing};
    l.w.ctl = (struct loop_io){.fd = l.w.s->ctl_fd, .fn = on_nothing};
    ask_all(&l);
    for (int i = 0; in->left && i < ACTS_MAX && !l.w.over; i++) {
        act(&l, in);
        ask_hear(&l.w, false);
        ask_hear(&l.w, true);
        for (struct ask *a = l.w.asks, *next; a; a = next) {
            next = a->next;
            if (a->type == WIRE_SPAWN || a->type == WIRE_READY)
                spawn_settle(a);
        }
        hear_front(&l);
    }
    asks_abandon(&l.w);
    hear_front(&l);
    require(!l.w.asks && l.w.ask_count == 0);
    for (unsigned i = 0; i < ASKS; i++)
        if (l.status[i] >= 0)
            close(l.status[i]);
    close(l.inside);
    close(l.beside);
    close(pair[0]);
    close(pair[1]);
    free(l.w.started);
    loop_free(l.w.loop);
    drop_sandbox(l.w.s);
}

static int lowest_free(void)
{
    int fd = dup(2);
    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    signal(SIGPIPE, SIG_IGN); /* as a warden does, and brig run of what it watches */
    struct input in = {data, size};
    int before = lowest_free();
    if (take(&in) & 1)
        run_supervisor(&in);
    else
        run_warden(&in);
    require(lowest_free() == before);
    return 0;
}
