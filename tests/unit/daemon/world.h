/* A launcher, a recorder and wardens at the other ends of real sockets, on the same loop as the
 * core, with a clock that the test turns. */
#pragma once

#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

#include "base/cleanup.h"
#include "base/container.h"
#include "daemon/box/box_internal.h"
#include "daemon/core/core.h"

#ifndef cr_assert /* a fuzzer brings its own */
#include <criterion/criterion.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define WARDENS_MAX 256

struct ward { /* one warden */
    struct loop_io io;
    char id[BOX_ID_LEN + 1];
    bool claimed, ended;
    uint32_t held[WIRE_TYPE_COUNT]; /* requests without an answer yet */
    char claim_text[4096];
};

static struct {
    struct loop *loop;
    struct core *core;
    uint64_t now;
    struct loop_io launcher, recorder;
    struct ward wards[WARDENS_MAX];
    unsigned ward_count;
    struct wire_msg msg;

    /* what the doubles do */
    bool hold[WIRE_TYPE_COUNT];
    int launch_fails; /* so many times, with launch_errno */
    int launch_errno;
    int claim_fails, fail_errno;
    enum err_code fail_code;
    bool no_ready, no_gone;
    bool with_interpreter;

    /* what they saw */
    char records[1 << 18];
    unsigned record_count, puts, put_nulls, launches, retires, kills, stops, claims, ends, live,
        most_live;
    unsigned signals, last_signal;
    int64_t last_signal_pid;
    bool last_group;
    char last_text[1 << 16], cleaned[4096];

    /* the other ends of what was handed out last */
    int pid;
    int out, err, in, requests, channel;
} w;

static struct key owner = {.id = "k_owner", .max_boxes = 0};
static struct key other = {.id = "k_other"};
static struct key boss = {.id = "k_boss", .operator_key = true};

static uint64_t world_clock(void)
{
    return w.now;
}

static void round_done(struct loop_task *t)
{
    (void)t;
    loop_stop(w.loop);
}

/* A socket takes ten packets and no more: what the doubles say waits here. */
struct waiting_msg {
    struct waiting_msg *next;
    int fd, fds[WIRE_FDS_MAX];
    enum wire_type type;
    uint32_t request;
    int64_t value;
    unsigned count;
    char text[];
};
static struct waiting_msg *waiting_first, **waiting_last = &waiting_first;

static void flush_waiting(void)
{
    struct waiting_msg **at = &waiting_first, *m;
    int full = -1;
    while ((m = *at)) {
        int r = m->fd == full ? -EAGAIN
                              : wire_send(m->fd, m->type, m->request, m->value, m->text,
                                          strlen(m->text), m->fds, m->count);
        if (r == -EAGAIN) {
            full = m->fd;
            at = &m->next;
            continue;
        }
        *at = m->next;
        for (unsigned i = 0; i < m->count; i++)
            close(m->fds[i]);
        free(m);
    }
    waiting_last = at;
}

/* Everything that is on its way arrives. */
static void settle(void)
{
    for (int i = 0; i < 40 || waiting_first; i++) {
        cr_assert_lt(i, 100000, "nobody listens");
        flush_waiting();
        struct loop_task end = {.fn = round_done};
        loop_defer(w.loop, &end);
        cr_assert_eq(loop_run(w.loop), 0);
    }
}

/* In steps, so that timers which set timers come at their time. */
static void pass(uint64_t ms)
{
    while (ms > 0) {
        uint64_t step = ms > 250 ? 250 : ms;
        w.now += step;
        ms -= step;
        settle();
    }
}

static void send_text(int fd, enum wire_type type, uint32_t request, int64_t value,
                      const char *text, const int *fds, unsigned count)
{
    struct waiting_msg *m = malloc(sizeof *m + strlen(text) + 1);
    *m = (struct waiting_msg){
        .fd = fd, .type = type, .request = request, .value = value, .count = count};
    memcpy(m->text, text, strlen(text) + 1);
    for (unsigned i = 0; i < count; i++)
        m->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    *waiting_last = m;
    waiting_last = &m->next;
    flush_waiting();
}

static void send_fail(int fd, uint32_t request, enum err_code code, int sys_errno)
{
    struct err err = {.code = code, .sys_errno = sys_errno};
    cleanup_buf struct buf text;
    snprintf(err.message, sizeof err.message, "made to fail");
    buf_init(&text, 4096);
    wire_err_write(&err, &text);
    send_text(fd, WIRE_FAIL, request, 0, buf_text(&text), NULL, 0);
}

/* ---- wardens ---- */

static void ward_close(struct ward *d)
{
    if (d->io.fd < 0)
        return;
    loop_forget(w.loop, &d->io);
    close(d->io.fd);
    d->io.fd = -1;
}

static void ward_gone(struct ward *d, int status)
{
    char text[64];
    snprintf(text, sizeof text, "{\"id\":\"%s\"}", d->id);
    w.live--;
    send_text(w.launcher.fd, WIRE_GONE, 0, status, text, NULL, 0);
}

static void ward_end(struct ward *d)
{
    if (d->ended)
        return;
    d->ended = true;
    static const char last[] =
        "{\"reason\":\"asked\",\"usage\":{\"cpu_usec\":1000,\"memory_peak\":4096}}";
    if (d->io.fd >= 0)
        send_text(d->io.fd, WIRE_ENDED, 0, 0, last, NULL, 0);
    ward_close(d);
    if (!w.no_gone)
        ward_gone(d, 0);
}

static void set_end(int *place, int fd)
{
    if (*place >= 0)
        close(*place);
    *place = fd;
}

/* The front's ends of it; the driver's are the world's. */
static void make_channel(int fds[INTERP_ENDS])
{
    int requests[2], answers[2];
    cr_assert(pipe2(requests, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(answers, O_CLOEXEC) == 0);
    fds[INTERP_REQUESTS] = requests[1];
    fds[INTERP_ANSWERS] = answers[0];
    set_end(&w.requests, requests[0]);
    set_end(&w.channel, answers[1]);
}

static void ward_spawn(struct ward *d, uint32_t request, const char *text)
{
    int out[2], err[2], in[2], fds[INTERP_ENDS];
    unsigned n = 0;
    bool interp = strstr(text, "\"interpreter\":\"") != NULL;
    bool tty = strstr(text, "\"tty\":{") != NULL;
    cr_assert(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    if (interp) {
        make_channel(fds);
        n = INTERP_STDOUT;
    } else if (strstr(text, "\"stdin\":true")) {
        cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
        fds[n++] = in[1];
        set_end(&w.in, in[0]);
    }
    (void)tty;
    fds[n++] = out[0];
    fds[n++] = err[0];
    set_end(&w.out, out[1]);
    set_end(&w.err, err[1]);
    send_text(d->io.fd, WIRE_DONE, request, ++w.pid, "", fds, n);
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

static void ward_file(struct ward *d, uint32_t request, const char *text)
{
    int out[2], in[2], fds[2];
    unsigned n = 0;
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    fds[n++] = out[0];
    set_end(&w.out, out[1]);
    if (strstr(text, "\"op\":\"write\"")) {
        cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
        fds[n++] = in[1];
        set_end(&w.in, in[0]);
    }
    send_text(d->io.fd, WIRE_DONE, request, 0, "", fds, n);
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

static void ward_exited(struct ward *d, int64_t pid, int status)
{
    char text[64];
    snprintf(text, sizeof text, "{\"pid\":%lld}", (long long)pid);
    send_text(d->io.fd, WIRE_EXITED, 0, status, text, NULL, 0);
}

static void ward_answer(struct ward *d, enum wire_type type, uint32_t request, const char *text)
{
    int pair[2];
    switch (type) {
    case WIRE_CLAIM:
        w.claims++;
        snprintf(d->claim_text, sizeof d->claim_text, "%s", text);
        if (w.claim_fails > 0) {
            w.claim_fails--;
            send_fail(d->io.fd, request, w.fail_code ? w.fail_code : ERR_ATTEST, w.fail_errno);
            return;
        }
        d->claimed = true;
        send_text(d->io.fd, WIRE_DONE, request, 0, "{}", NULL, 0);
        return;
    case WIRE_SPAWN:
        ward_spawn(d, request, text);
        return;
    case WIRE_FILE:
        ward_file(d, request, text);
        return;
    case WIRE_CONNECT:
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        send_text(d->io.fd, WIRE_DONE, request, 0, "", pair, 1);
        close(pair[0]);
        set_end(&w.channel, pair[1]);
        return;
    case WIRE_STATS:
        send_text(d->io.fd, WIRE_STATS, request, 0,
                  "{\"cpu_usec\":5000,\"memory\":1048576,\"pids\":3}", NULL, 0);
        return;
    default:
        send_text(d->io.fd, WIRE_DONE, request, 0, "", NULL, 0);
    }
}

static void ward_signal(const char *text)
{
    struct json *tree = NULL;
    cr_assert_eq(json_parse(text, strlen(text), NULL, &tree, NULL), 0);
    w.signals++;
    w.last_signal = (unsigned)json_int(json_get(tree, "signal"));
    w.last_signal_pid = json_int(json_get(tree, "pid"));
    w.last_group = json_bool(json_get(tree, "group"));
    json_free(tree);
}

static void ward_hear(struct ward *d)
{
    snprintf(w.last_text, sizeof w.last_text, "%s", w.msg.text);
    enum wire_type type = w.msg.type;
    if (type == WIRE_SIGNAL)
        ward_signal(w.msg.text);
    if (type == WIRE_END)
        w.ends++;
    if (w.hold[type])
        d->held[type] = w.msg.request;
    else if (type == WIRE_END)
        ward_end(d);
    else
        ward_answer(d, type, w.msg.request, w.msg.text);
}

static void on_ward(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct ward *d = container_of(io, struct ward, io);
    while (d->io.fd >= 0) {
        int r = wire_receive(io->fd, &w.msg, MSG_DONTWAIT);
        if (r == -EAGAIN)
            return;
        if (r <= 0)
            ward_end(d);
        else
            ward_hear(d);
    }
}

static void ward_ready(struct ward *d)
{
    if (!w.with_interpreter) {
        send_text(d->io.fd, WIRE_READY, 0, 0, "{\"pid\":null,\"boundaries\":{}}", NULL, 0);
        return;
    }
    int out[2], err[2], fds[INTERP_ENDS];
    cr_assert(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    make_channel(fds);
    fds[INTERP_STDOUT] = out[0];
    fds[INTERP_STDERR] = err[0];
    set_end(&w.out, out[1]);
    set_end(&w.err, err[1]);
    send_text(d->io.fd, WIRE_READY, 0, ++w.pid, "{\"pid\":7,\"interpreter\":\"python\"}", fds,
              INTERP_ENDS);
    for (unsigned i = 0; i < INTERP_ENDS; i++)
        close(fds[i]);
}

/* ---- launcher ---- */

static void double_launch(uint32_t request, const struct json *tree)
{
    int pair[2];
    char text[64];
    w.launches++;
    if (w.launch_fails > 0) {
        w.launch_fails--;
        send_fail(w.launcher.fd, request, w.fail_code ? w.fail_code : ERR_SYSTEM, w.launch_errno);
        return;
    }
    cr_assert_lt(w.ward_count, WARDENS_MAX);
    struct ward *d = &w.wards[w.ward_count++];
    *d = (struct ward){.io = {.fn = on_ward}};
    snprintf(d->id, sizeof d->id, "%s", json_text(tree, "id"));
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    d->io.fd = pair[1];
    loop_watch(w.loop, &d->io, EPOLLIN);
    if (++w.live > w.most_live)
        w.most_live = w.live;
    snprintf(text, sizeof text, "{\"id\":\"%s\"}", d->id);
    send_text(w.launcher.fd, WIRE_LAUNCHED, request, 0, text, pair, 1);
    close(pair[0]);
    if (!w.no_ready)
        ward_ready(d);
}

static void on_double_launcher(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct json *tree = NULL;
    int r = wire_receive(io->fd, &w.msg, MSG_DONTWAIT);
    if (r == -EAGAIN)
        return;
    if (r <= 0) {
        loop_forget(w.loop, io);
        return;
    }
    if (w.msg.type == WIRE_RETIRE)
        w.retires++;
    w.kills += w.msg.type == WIRE_KILL;
    if (w.msg.type == WIRE_STOP)
        w.stops++;
    if (w.msg.type == WIRE_CLEAN) {
        snprintf(w.cleaned, sizeof w.cleaned, "%s", w.msg.text);
        send_text(io->fd, WIRE_DONE, w.msg.request, 1, "", NULL, 0);
    }
    if (w.msg.type != WIRE_LAUNCH)
        return;
    cr_assert_eq(json_parse(w.msg.text, w.msg.text_len, NULL, &tree, NULL), 0);
    if (w.hold[WIRE_LAUNCH])
        w.launches++;
    else
        double_launch(w.msg.request, tree);
    json_free(tree);
}

/* ---- recorder ---- */

static void recorder_hear(struct loop_io *io)
{
    if (w.msg.type == WIRE_RECORD) {
        struct json *tree = NULL;
        cr_assert_eq(json_parse(w.msg.text, w.msg.text_len, NULL, &tree, NULL), 0,
                     "a record is JSON: %s", w.msg.text);
        json_free(tree);
        size_t len = strlen(w.records);
        snprintf(w.records + len, sizeof w.records - len, "%s\n", w.msg.text);
        w.record_count++;
    } else if (w.msg.type == WIRE_PUT) {
        w.puts++;
        w.put_nulls += strstr(w.msg.text, "\"value\":null") != NULL;
    } else {
        send_text(io->fd, WIRE_DONE, w.msg.request, 0, "{\"records\":[]}", NULL, 0);
    }
}

static void on_double_recorder(struct loop_io *io, uint32_t events)
{
    int r;
    (void)events;
    while ((r = wire_receive(io->fd, &w.msg, MSG_DONTWAIT)) > 0)
        recorder_hear(io);
    if (r != -EAGAIN)
        loop_forget(w.loop, io);
}

/* How often a record of this kind was made. */
static unsigned recorded(const char *kind)
{
    char text[64];
    unsigned n = 0;
    snprintf(text, sizeof text, "\"kind\":\"%s\"", kind);
    for (const char *at = w.records; (at = strstr(at, text)); at++)
        n++;
    return n;
}

/* ---- the world ---- */

static bool world_ready;
static void on_world_ready(void *ctx, const struct err *err)
{
    (void)ctx;
    world_ready = !err;
}

static const char *world_rows[8]; /* what the recorder gives back */
static void world_begin_with(const struct core_config *config, const char *templates)
{
    int a[2], b[2];
    struct err err = ERR_INIT;
    char hello[8192];
    signal(SIGPIPE, SIG_IGN);
    memset(&w, 0, sizeof w);
    w.now = 1000000;
    w.pid = 100;
    w.out = w.err = w.in = w.requests = w.channel = -1;
    cr_assert_eq(loop_new(&w.loop, NULL), 0);
    loop_set_clock(w.loop, world_clock);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, a), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, b), 0);
    struct core_config with = *config;
    with.boxes = &core_boxes;
    cr_assert_eq(core_new(&w.core, w.loop, &with, a[0], b[0], &err), 0, "%s", err.message);
    w.launcher = (struct loop_io){.fd = a[1], .fn = on_double_launcher};
    w.recorder = (struct loop_io){.fd = b[1], .fn = on_double_recorder};
    loop_watch(w.loop, &w.launcher, EPOLLIN);
    loop_watch(w.loop, &w.recorder, EPOLLIN);
    core_when_ready(w.core, on_world_ready, NULL);
    snprintf(hello, sizeof hello, "{\"version\":\"0\",\"templates\":%s,\"leftovers\":[]}",
             templates);
    send_text(w.launcher.fd, WIRE_HELLO, 0, 0, hello, NULL, 0);
    for (unsigned i = 0; world_rows[i]; i++)
        send_text(w.recorder.fd, WIRE_RESTORE, 0, 0, world_rows[i], NULL, 0);
    send_text(w.recorder.fd, WIRE_DONE, 0, 0, "", NULL, 0);
    settle();
    cr_assert(world_ready);
}

#define BASE                                                                                       \
    "{\"name\":\"base\",\"aliases\":[\"b\"],\"cpus_milli\":2000,\"memory\":536870912,"             \
    "\"disk\":1000,\"pool\":{\"min\":0,\"max\":0}}"
#define PYTHON                                                                                     \
    "{\"name\":\"python\",\"aliases\":[\"code-interpreter-v1\"],\"cpus_milli\":2000,"              \
    "\"memory\":536870912,\"disk\":1000,\"pool\":{\"min\":2,\"max\":6,\"idle_ms\":60000}}"

static void world_begin(void)
{
    struct core_config config = {.max_boxes = 20};
    world_begin_with(&config, "[" BASE "]");
}

static void world_end(void)
{
    settle();
    core_free(w.core);
    loop_forget(w.loop, &w.launcher);
    loop_forget(w.loop, &w.recorder);
    close(w.launcher.fd);
    close(w.recorder.fd);
    for (unsigned i = 0; i < w.ward_count; i++)
        ward_close(&w.wards[i]);
    int *ends[] = {&w.out, &w.err, &w.in, &w.requests, &w.channel};
    for (unsigned i = 0; i < 5; i++)
        set_end(ends[i], -1);
    loop_free(w.loop);
}

/* ---- asking ---- */

struct got {
    struct box *box;
    struct err err;
    unsigned calls;
};

static void on_box(void *ctx, struct box *b, const struct err *err)
{
    struct got *g = ctx;
    g->calls++;
    g->box = b;
    if (err)
        g->err = *err;
}

static void on_done(void *ctx, const struct err *err)
{
    struct got *g = ctx;
    g->calls++;
    g->err = err ? *err : (struct err)ERR_INIT;
}

static void ask_box(const struct key *key, const char *template_name, struct got *g)
{
    struct box_request r = {.template_name = template_name, .owner = key, .timeout_ms = 60000};
    *g = (struct got){0};
    box_create(w.core, &r, on_box, g);
}

static struct box *make_box_of(const char *template_name)
{
    struct got g;
    ask_box(&owner, template_name, &g);
    settle();
    cr_assert_eq(g.calls, 1);
    cr_assert_not_null(g.box, "%s", g.err.message);
    return g.box;
}

static struct box *make_box(void)
{
    return make_box_of("base");
}

static struct ward *ward_of(const struct box *b)
{
    for (unsigned i = 0; i < w.ward_count; i++)
        if (strcmp(w.wards[i].id, box_info(b)->id) == 0)
            return &w.wards[i];
    cr_assert_fail("no warden of that id");
    return NULL;
}
