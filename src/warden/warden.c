/* The main loop of a warden: claims, requests of the front, reports of init, limits, and the end of
 * the sandbox. */
#include "warden/warden.h"

#include "base/cleanup.h"
#include "base/container.h"
#include "base/text.h"
#include "sandbox/image.h"
#include "warden/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* init answers at once; a sandbox whose init does not is broken. */
#define LATE_MS 1000

void warden_end(struct warden *w, const char *reason)
{
    if (w->over)
        return;
    w->over = true;
    snprintf(w->reason_text, sizeof w->reason_text, "%s", reason);
    loop_stop(w->loop);
}

/* What a user may watch is counted, and others of his can use it up: a sandbox whose end, limits or
 * orders nobody would hear of is not kept up. */
void warden_listen(struct warden *w, struct loop_io *io)
{
    if (loop_watch(w->loop, io, EPOLLIN) >= 0 || w->over)
        return;
    w->s->ended_because = "a part of it could not be watched";
    warden_end(w, w->s->ended_because);
}

void warden_watch(struct warden *w, struct loop_io *io, int fd,
                  void (*fn)(struct loop_io *io, uint32_t events))
{
    *io = (struct loop_io){.fd = fd, .fn = fn};
    if (fd >= 0)
        warden_listen(w, io);
}

/* ---- to the front ---- */

static void tell(struct warden *w, enum wire_type type, uint32_t request, int64_t value,
                 const char *text, size_t len, const int *fds, unsigned count)
{
    if (w->front_gone)
        return;
    if (wire_send(w->front.fd, type, request, value, text, len, fds, count) < 0) {
        w->front_gone = true;
        warden_end(w, "the daemon is gone");
    }
}

void warden_done(struct warden *w, uint32_t request, int64_t value, const char *text, size_t len,
                 const int *fds, unsigned count)
{
    tell(w, WIRE_DONE, request, value, text, len, fds, count);
}

void warden_exited(struct warden *w, pid_t pid, int status, bool oom)
{
    const char *plain = JSON_SMALL(JSON_NUMBER("pid", pid));
    const char *killed = JSON_SMALL(JSON_NUMBER("pid", pid), JSON_FLAG("oom_killed", true));
    const char *text = oom ? killed : plain;
    watch_tell(w, true); /* what was refused to it is known before its end is */
    tell(w, WIRE_EXITED, 0, status, text, strlen(text), NULL, 0);
}

void warden_event(struct warden *w, const char *text, size_t len)
{
    tell(w, WIRE_EVENT, 0, 0, text, len, NULL, 0);
}

void warden_stats(struct warden *w, uint32_t request, const char *text, size_t len)
{
    tell(w, WIRE_STATS, request, 0, text, len, NULL, 0);
}

void warden_fail(struct warden *w, uint32_t request, const struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, 8192);
    wire_err_write(err, &text);
    tell(w, WIRE_FAIL, request, 0, buf_text(&text), text.len, NULL, 0);
}

/* What this sandbox is held to; it may be less than the template that the front knows. */
static void write_policy(const struct warden *w, struct json_writer *j)
{
    const struct policy *p = w->s->request->policy;
    char hash[72];
    policy_hash(p, hash);
    jw_key(j, "policy");
    jw_object_begin(j);
    jw_kv_string(j, "hash", hash);
    jw_kv_uint(j, "cpus_milli", p->cpus_milli);
    jw_kv_uint(j, "memory", p->memory);
    jw_kv_uint(j, "disk", p->disk);
    jw_kv_bool(j, "root", p->uid == 0);
    jw_kv_bool(j, "root_beside", p->root_beside);
    if (w->tightened)
        template_write_commands(w->template, j);
    jw_object_end(j);
}

void warden_ready(struct warden *w, pid_t pid, const struct err *why, const int *fds,
                  unsigned count)
{
    cleanup_buf struct buf text;
    struct json_writer j;
    buf_init(&text, WIRE_TEXT_MAX);
    jw_init(&j, &text, false);
    jw_object_begin(&j);
    jw_key(&j, "pid");
    if (pid > 0)
        jw_int(&j, pid);
    else
        jw_null(&j);
    jw_kv_int(&j, "warden", getpid());
    jw_kv_int(&j, "init", w->s->init_pid);
    jw_kv_string(&j, "interpreter", pid > 0 ? w->template->interpreter : NULL);
    jw_kv_string(&j, "interpreter_error", why ? why->message : NULL);
    bool cloned = w->s->source || w->s->machine.way == MACHINE_CLONE;
    jw_kv_string(&j, "start", cloned ? "clone" : "cold");
    jw_kv_bool(&j, "pumped", w->s->pumped);
    write_policy(w, &j);
    jw_key(&j, "boundaries");
    jw_written(&j, &w->s->boundaries);
    jw_key(&j, "states_usec");
    state_write_json(&w->s->state, &j);
    jw_object_end(&j);
    tell(w, WIRE_READY, 0, pid, buf_text(&text), text.len, fds, count);
    w->ready = true;
}

static void tell_end(struct warden *w)
{
    cleanup_buf struct buf text;
    struct json_writer j;
    const struct usage *u = &w->s->lifecycle.usage;
    buf_init(&text, WIRE_TEXT_MAX);
    jw_init(&j, &text, false);
    jw_object_begin(&j);
    jw_kv_string(&j, "reason", w->reason_text);
    jw_kv_string(&j, "limit_hit", w->s->result->limit_hit);
    jw_key(&j, "usage");
    jw_object_begin(&j);
    jw_kv_uint(&j, "cpu_usec", u->cpu_usec);
    jw_kv_uint(&j, "memory_peak", u->memory_peak);
    jw_kv_uint(&j, "oom_kills", u->oom_kills + u->outlived);
    jw_object_end(&j);
    jw_key(&j, "receipt");
    const struct buf *r = &w->s->result->receipt;
    /* A receipt that does not fit is left out; the message must be sent. */
    if (r->len < WIRE_TEXT_MAX / 2)
        jw_written(&j, r);
    else
        jw_null(&j);
    jw_object_end(&j);
    if (!w->front_gone)
        wire_send(w->front.fd, WIRE_ENDED, 0, 0, buf_text(&text), text.len, NULL, 0);
}

/* ---- from the front ---- */

static struct json *warden_text(struct warden *w, const struct wire_msg *msg)
{
    struct json *root = NULL;
    struct err err = ERR_INIT;
    if (json_parse(msg->text, msg->text_len, &json_default_limits, &root, &err) == 0 &&
        json_type(root) == JSON_OBJECT)
        return root;
    json_free(root);
    err_set(&err, ERR_PROTOCOL, "%s without an object", wire_type_name(msg->type));
    warden_fail(w, msg->request, &err);
    return NULL;
}

static int claim_env(struct warden *w, const struct json *env, struct err *err)
{
    if (!env || json_type(env) == JSON_NULL)
        return 0;
    if (json_type(env) != JSON_OBJECT)
        return err_set(err, ERR_USAGE, "env: expected an object of texts");
    for (size_t i = 0; i < json_count(env); i++) {
        const char *name = json_key_at(env, i);
        const char *value = json_string(json_value_at(env, i));
        if (!value || !environment_name_ok(name))
            return err_set(err, ERR_USAGE, "env: a malformed variable");
        if (environment_set(&w->env, name, value) < 0)
            return err_set(err, ERR_LIMIT, "env: too many variables");
    }
    return 0;
}

/* Everything is attested once more; what was found when the sandbox entered the pool does not
 * count. An interpreter that waits may run code as soon as the front is told, so the front is told
 * only after init has made itself undumpable. */
static int claim(struct warden *w, const struct wire_msg *msg, const struct json *j,
                 struct err *err)
{
    if (w->claimed)
        return err_set(err, ERR_REFUSED, "the sandbox is claimed already");
    if (claim_env(w, json_get(j, "env"), err) < 0 ||
        rules_claim(w, json_get(j, "network"), err) < 0 || sandbox_attest(w->s, err) < 0 ||
        state_enter(&w->s->state, STATE_EXECUTING, err) < 0)
        return err_number(err);
    struct ask *a = ask_new(w, msg->type, msg->request, err);
    struct ctl_msg hide = {.type = CTL_HIDE};
    if (!a || ask_send(a, &hide, NULL, 0, err) < 0)
        return err_number(err);
    w->claimed = true;
    sandbox_receipt_begin(w->s);
    watch_start(w);
    return 0;
}

void warden_claimed(struct warden *w, uint32_t request)
{
    cleanup_buf struct buf text;
    struct json_writer out;
    buf_init(&text, WIRE_TEXT_MAX);
    jw_init(&out, &text, false);
    jw_object_begin(&out);
    jw_key(&out, "boundaries");
    jw_written(&out, &w->s->boundaries);
    jw_object_end(&out);
    warden_done(w, request, 0, buf_text(&text), text.len, NULL, 0);
}

static int end(struct warden *w, const struct json *j)
{
    const struct json *reason = json_get(j, "reason");
    const char *text = reason ? json_string(reason) : NULL;
    warden_end(w, text ? text : "ended");
    return 0;
}

static int obey(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err)
{
    bool needs_claim = msg->type == WIRE_SPAWN || msg->type == WIRE_FILE ||
                       msg->type == WIRE_CONNECT || msg->type == WIRE_NETWORK;
    if (needs_claim && !w->claimed)
        return err_set(err, ERR_REFUSED, "the sandbox is not claimed");
    if (w->frozen && (needs_claim || msg->type == WIRE_SIGNAL))
        return err_set(err, ERR_REFUSED, "the sandbox is paused");
    switch (msg->type) {
    case WIRE_CLAIM:
        return claim(w, msg, j, err);
    case WIRE_SPAWN:
        return spawn_start(w, msg, j, err);
    case WIRE_FILE:
        return file_start(w, msg, j, err);
    case WIRE_SIGNAL:
        return ask_signal(w, msg, j, err);
    case WIRE_CONNECT:
        return ask_connect(w, msg, j, err);
    case WIRE_NETWORK:
        return rules_change(w, msg, j, err);
    case WIRE_REVIEW:
        return review_ask(w, msg, j, err);
    case WIRE_END:
        return end(w, j);
    default:
        return err_set(err, ERR_PROTOCOL, "the warden does not know %s", wire_type_name(msg->type));
    }
}

static void take_order(struct warden *w, const struct wire_msg *msg)
{
    struct err err = ERR_INIT;
    struct json *root = NULL;
    if (msg->type == WIRE_STATS) {
        watch_stats(w, msg->request);
        return;
    }
    if (msg->type == WIRE_SETTLE) {
        rules_settle(w, msg->request);
        return;
    }
    if (msg->type == WIRE_FREEZE) {
        if (ask_freeze(w, msg, &err) < 0)
            warden_fail(w, msg->request, &err);
        return;
    }
    root = warden_text(w, msg);
    if (root && obey(w, msg, root, &err) < 0)
        warden_fail(w, msg->request, &err);
    json_free(root);
}

static void on_front(struct loop_io *io, uint32_t events)
{
    struct warden *w = container_of(io, struct warden, front);
    (void)events;
    for (int i = 0; i < 16 && !w->over; i++) {
        int r = wire_receive(io->fd, w->msg, MSG_DONTWAIT);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            w->front_gone = true;
            warden_end(w, "the daemon is gone");
            return;
        }
        wire_close_fds(w->msg); /* it has none to give */
        take_order(w, w->msg);
    }
}

/* ---- the sandbox's own ends ---- */

static void on_ctl(struct loop_io *io, uint32_t events)
{
    (void)events;
    ask_hear(container_of(io, struct warden, ctl), false);
}

static void on_beside(struct loop_io *io, uint32_t events)
{
    (void)events;
    ask_hear(container_of(io, struct warden, beside), true);
}

static void on_init(struct loop_io *io, uint32_t events)
{
    (void)events;
    warden_end(container_of(io, struct warden, init), "the sandbox's first process ended");
}

static void on_guardian(struct loop_io *io, uint32_t events)
{
    struct warden *w = container_of(io, struct warden, guardian);
    (void)events;
    w->s->ended_because = "its guardian died";
    warden_end(w, w->s->ended_because);
}

static void on_late(struct loop_timer *t)
{
    struct warden *w = container_of(t, struct warden, late);
    uint64_t now = loop_now_ms(w->loop);
    struct err err = ERR_INIT;
    err_set(&err, ERR_SYSTEM, "the sandbox does not answer");
    for (struct ask *a = w->asks, *next; a; a = next) {
        next = a->next;
        if (!w->frozen && !a->disowned && now >= a->due_ms)
            ask_fail(a, &err);
    }
    loop_timer_set(w->loop, t, LATE_MS);
}

/* ---- the life of one sandbox ---- */

/* What the plan lists is what everything starts with. */
static int take_environment(struct warden *w, struct err *err)
{
    struct plan_reader r;
    struct op op;
    int got = plan_read_begin(&r, w->s->plan.bytes.data, w->s->plan.bytes.len, err);
    while (got >= 0 && (got = plan_read_next(&r, &op, err)) > 0) {
        if (op.kind != OP_ENV || !op.a)
            continue;
        char name[256];
        size_t len = strcspn(op.a, "=");
        if (len >= sizeof name)
            continue;
        memcpy(name, op.a, len);
        name[len] = '\0';
        if (environment_set(&w->env, name, op.a[len] ? op.a + len + 1 : "") < 0)
            return err_memory(err);
    }
    return got < 0 ? got : 0;
}

static int provision(struct warden *w, struct err *err)
{
    struct sandbox *s = w->s;
    if (sandbox_open(s, err) < 0)
        return err_number(err);
    if (!tier_row(s->kernel.tier)->served)
        return err_set(err, ERR_UNSUPPORTED, "the daemon has no sandboxes of the %s tier",
                       tier_name(s->kernel.tier));
    s->result->tier = s->kernel.tier;
    s->result->level = s->request->policy->level;
    if (state_enter(&s->state, STATE_PROVISIONING, err) < 0 || sandbox_provision(s, err) < 0 ||
        take_environment(w, err) < 0 || state_enter(&s->state, STATE_RUNNING, err) < 0)
        return err_number(err);
    plan_done(&s->plan);
    plan_init(&s->plan);
    sandbox_note_weaker(s);
    helped_look(&s->lifecycle); /* LC-11: from here on it is the code's */
    if (message_send(s->ctl_fd, CTL_GO, 0) < 0 ||
        (s->kernel.beside && message_send(s->beside.fd, CTL_GO, 0) < 0))
        return err_set(err, ERR_SYSTEM, "the sandbox died before it was of use");
    return 0;
}

static void watch_all(struct warden *w)
{
    struct sandbox *s = w->s;
    warden_watch(w, &w->ctl, s->ctl_fd, on_ctl);
    warden_watch(w, &w->beside, s->beside.fd, on_beside);
    warden_watch(w, &w->init, s->init_pidfd, on_init);
    warden_watch(w, &w->guardian, s->lifecycle.guardian.pidfd, on_guardian);
    warden_watch(w, &w->seen, s->kernel.listener_fd, watch_seen);
    rules_watch(w);
    w->late.fn = on_late;
    w->sampling.fn = watch_sample;
    w->seen_pause.fn = watch_seen_again;
    w->telling.fn = watch_telling;
    loop_timer_set(w->loop, &w->late, LATE_MS);
}

void warden_settled(struct warden *w)
{
    struct err err = ERR_INIT;
    if (w->s->cloned.pid > 0)
        spawn_adopt(w, w->s->cloned.inside, w->s->cloned.fds, ARRAY_LEN(w->s->cloned.fds));
    else if (!w->template->interpreter[0] || spawn_interpreter(w, &err) < 0)
        warden_ready(w, 0, err.code ? &err : NULL, NULL, 0);
}

static int serve(struct warden *w, struct err *err)
{
    const char *why_not = w->s->machine.why_not;
    struct err booted = ERR_INIT;
    if (why_not[0] && err_set(&booted, ERR_UNSUPPORTED, "%s", why_not) < 0)
        warden_cold(w, &booted);
    watch_all(w);
    warden_watch(w, &w->front, w->front.fd, on_front);
    if (!sentry_wanted(w))
        warden_settled(w);
    else if (sentry_boot(w, err) < 0)
        return err_number(err);
    if (!w->over)
        loop_run(w->loop);
    if (w->sentry.err.code == ERR_NONE)
        return 0;
    *err = w->sentry.err;
    return err_number(err);
}

/* A limit that ended it is named before anything is torn down. */
static void tell_limit(struct warden *w)
{
    struct err err = ERR_INIT;
    const char *limit = limit_name(w->s->lifecycle.hit);
    bool own_end = strcmp(w->reason_text, "limit") == 0;
    bool init_died = text_begins(w->reason_text, "the sandbox's first") || w->sentry.gone;
    if (init_died) /* if it was killed for want of memory, that is the verdict */
        lifecycle_sample(&w->s->lifecycle);
    else
        watch_outlived(w);
    if (own_end || (init_died && w->s->lifecycle.hit != LIMIT_NONE)) {
        limit = limit_name(w->s->lifecycle.hit);
        snprintf(w->reason_text, sizeof w->reason_text, "limit: %s", limit);
        err_set(&err, ERR_LIMIT, "the sandbox was ended: it reached its limit of %s", limit);
        err_hint(&err, "raise lifecycle.%s in the template", limit);
        err_at(&err, BOUNDARY_LIFECYCLE);
        warden_fail(w, 0, &err);
    } else if (init_died || w->s->ended_because) {
        err_set(&err, ERR_SYSTEM, "the sandbox ended: %s", w->reason_text);
        if (w->sentry.gone && w->s->kernel.sentry)
            err_hint(&err, "a Sentry ends when it gets no memory or task; without a cgroup nobody "
                           "says so: raise lifecycle.memory or lifecycle.pids");
        err_at(&err, BOUNDARY_LIFECYCLE);
        warden_fail(w, 0, &err);
    }
}

static void warden_free(struct warden *w)
{
    sandbox_free(w->s);
    environment_done(&w->env);
    loop_free(w->loop);
    free(w->started);
    free(w->msg);
    free(w);
}

static bool make_sandbox(struct warden *w, const char *id, const struct run_request *request,
                         struct run_result *result, const struct stem_source *source)
{
    if (!(w->s = sandbox_new(request, result)))
        return false;
    w->s->session = true;
    w->s->source = source && !source->machine ? &source->process : NULL;
    w->s->parked = source && source->machine ? &source->parked : NULL;
    snprintf(w->s->id, sizeof w->s->id, "brig-%s", id);
    snprintf(result->sandbox_id, sizeof result->sandbox_id, "%s", w->s->id);
    return true;
}

static struct warden *warden_new(int sock, const struct template *t)
{
    struct warden *w = calloc(1, sizeof *w);
    struct err err = ERR_INIT;
    if (!w || loop_new(&w->loop, &err) < 0 || !(w->msg = calloc(1, sizeof *w->msg)))
        return NULL; /* the process ends */
    w->template = t;
    w->front.fd = sock;
    return w;
}

static void note(struct warden *w, const char *boundary, const char *kind, const char *rule,
                 const struct err *err)
{
    cleanup_buf struct buf text;
    struct json_writer j;
    buf_init(&text, 4096);
    jw_init(&j, &text, false);
    jw_object_begin(&j);
    jw_kv_string(&j, "boundary", boundary);
    jw_kv_string(&j, "kind", kind);
    jw_kv_string(&j, "what", err->message);
    jw_kv_string(&j, "rule", rule);
    jw_kv_string(&j, "hint", err->hint);
    jw_kv_uint(&j, "count", 1);
    jw_object_end(&j);
    warden_event(w, buf_text(&text), text.len);
}

/* What cannot be cloned is started; the template process may be gone, or busy beyond patience, the
 * parked machine may be another one's. Of a machine the launcher hears: it can see nothing itself.
 */
void warden_cold(struct warden *w, const struct err *why)
{
    struct err said = *why;
    said.hint[0] = '\0';
    note(w, "kernel", "cold start", "it could not be cloned from its template", &said);
    if (w->door >= 0)
        send(w->door, said.message, strlen(said.message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Tell the operator: nobody else can remove it. */
static void note_left(struct warden *w)
{
    const struct err *left = &w->s->result->left;
    if (left->code)
        note(w, boundary_name((enum boundary_id)left->boundary), "left behind",
             "nothing stays after the end of a sandbox (LC-2)", left);
}

static void finish(struct warden *w, int outcome, struct err *err)
{
    if (outcome < 0) {
        warden_fail(w, 0, err);
        snprintf(w->reason_text, sizeof w->reason_text, "%s", "it could not be provisioned");
    } else {
        tell_limit(w);
        watch_tell(w, true);
    }
    asks_abandon(w);
    review_stop(w);
    sentry_done(w);
    carriers_look(w); /* for the receipt */
    sandbox_finish(w->s, outcome, err);
    carriers_end(w); /* last of all that was connected to the code */
    note_left(w);
    tell_end(w);
}

static void close_source(const struct stem_source *source)
{
    if (!source)
        return;
    close(source->machine ? source->parked.memory : source->process.door);
    close(source->machine ? source->parked.state : source->process.image);
}

static int read_order(const struct warden_order *o, struct template *t, struct run_values *values,
                      struct err *err)
{
    int r = o->policy ? template_tighten(t, o->policy, strlen(o->policy), err) : 0;
    if (r == 0 && o->headers)
        r = template_set_headers(t, o->network, o->headers, values, err);
    if (o->headers)
        explicit_bzero(o->message, o->message_len);
    return r;
}

int warden_main(int sock, struct template *t, const char *id, const struct stem_source *source,
                const struct warden_order *order)
{
    struct err err = ERR_INIT;
    struct run_result result;
    struct run_values values = {.count = 0};
    struct run_request request = {.policy = &t->policy,
                                  .values = &values,
                                  .stdin_fd = -1,
                                  .stdout_fd = -1,
                                  .stderr_fd = -1,
                                  .receipt = true};
    request.review = request.review_dest = order->project;
    prctl(PR_SET_NAME, "brig-warden");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    run_result_init(&result);
    int outcome = read_order(order, t, &values, &err);
    cleanup_image struct image image = IMAGE_INIT;
    if (outcome == 0 && reference_of_root(t->policy.root)) {
        request.image = &image;
        outcome = sandbox_image_open(&t->policy, &image, &err);
    }
    if (outcome == 0 && request.image)
        outcome = sandbox_image_apply(&t->policy, &image, &err);
    struct warden *w = warden_new(sock, t);
    if (!w || !make_sandbox(w, id, &request, &result, source))
        return 125;
    w->door = source && source->machine ? source->door : -1;
    w->tightened = order->policy != NULL;
    if (outcome == 0)
        outcome = provision(w, &err);
    close_source(source);
    if (outcome < 0 && w->s->source) {
        warden_cold(w, &err);
        sandbox_finish(w->s, outcome, &err);
        sandbox_free(w->s);
        environment_done(&w->env);
        if (!make_sandbox(w, id, &request, &result, NULL))
            return 125;
        err = (struct err)ERR_INIT;
        outcome = provision(w, &err);
    }
    if (outcome >= 0)
        outcome = serve(w, &err);
    finish(w, outcome, &err);
    warden_free(w);
    run_values_wipe(&values);
    run_result_done(&result);
    close(sock);
    return outcome < 0 ? 125 : 0;
}
