/* A connection whose destination is known, but not what is spoken on it. The first bytes say it:
 *
 *   TLS    the server name must be the host that was decided on, then the handshake is passed on
 *          untouched, or answered here where a rule or a secret looks inside;
 *   HTTP   goes through the codec, request by request;
 *   else   a stream of bytes, where a rule allows one.
 *
 * N-7  What is spoken never widens what is allowed: each branch asks egress_decide for its scheme.
 * N-11  A ClientHello that cannot be read, that hides its name, or that names another host is
 * refused; it never falls back to a stream of bytes under a rule that means TLS. */
#include "base/container.h"
#include "network/hello_parse.h"
#include "proxy/ask.h"
#include "proxy/held.h"
#include "proxy/proxy.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SILENCE_MS  300   /* where the server may be the one to speak first */
#define PATIENCE_MS 10000 /* from the connection to the end of the ClientHello */
#define METHOD_MAX  24

struct sniff {
    struct sniff *next, **link;
    struct proxy *px;
    struct rules *rules;
    struct stream *client;
    enum entry entry;
    struct target target;
    size_t rule;
    bool counted; /* its connection, in the budgets */
    bool tls;     /* a ClientHello was seen */
    bool alerted; /* the client has been told already */
    struct dial *dial;
    struct asking *asking;
    struct loop_timer timer;
    struct loop_task task;
    uint64_t started_ms, deadline_ms;
    uint8_t *seen;
    size_t len, room;
    struct held held; /* for `seen` */
};

/* ---- the ends ---- */

static void free_task(struct loop_task *t)
{
    struct sniff *s = container_of(t, struct sniff, task);
    free(s->seen);
    held_set(&s->held, 0);
    free(s);
}

/* The stream has gone to its next owner, or is closed. */
static void sniff_done(struct sniff *s)
{
    if (s->next)
        s->next->link = s->link;
    *s->link = s->next;
    s->next = NULL;
    s->link = &s->next;
    loop_timer_cancel(s->px->loop, &s->timer);
    dial_cancel(s->dial);
    s->dial = NULL;
    ask_cancel(s->asking);
    s->asking = NULL;
    if (s->counted)
        budget_disconnect(&s->px->budgets, s->rule);
    rules_drop(s->rules);
    s->rules = NULL;
    s->task.fn = free_task;
    loop_defer(s->px->loop, &s->task);
}

static struct stream *take_client(struct sniff *s)
{
    struct stream *client = s->client;
    s->client = NULL;
    stream_want(client, 0);
    stream_on(client, NULL, NULL);
    return client;
}

/* The client is told in the words of what it speaks, as far as they exist. */
static void turn_away(struct sniff *s)
{
    static const uint8_t access_denied[] = {0x15, 3, 3, 0, 2, 2, 49};
    struct linger at_once = {.l_onoff = 1};
    if (s->tls && !s->alerted)
        stream_write(s->client, access_denied, sizeof access_denied);
    else if (!s->tls)
        setsockopt(s->client->io.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    stream_close(s->client);
    s->client = NULL;
    sniff_done(s);
}

static void refuse(struct sniff *s, enum deny_reason reason, const char *hint, const char *note)
{
    struct event ev = {
        .entry = s->entry,
        .target = &s->target,
        .reason = reason != DENY_NONE && ask_was_denied(s->px, &s->target) ? DENY_ASKED : reason,
        .rule = s->rule,
        .hint = hint,
        .note = note,
        .ms = loop_now_ms(s->px->loop) - s->started_ms,
    };
    event_send(s->px, &ev);
    turn_away(s);
}

static bool decide(struct sniff *s, enum scheme scheme, struct verdict *ret)
{
    struct target t = s->target;
    t.scheme = scheme;
    egress_decide(&s->px->rules->egress, &t, ret);
    return ret->allow;
}

static bool allows(struct sniff *s, enum scheme scheme)
{
    struct verdict v;
    return decide(s, scheme, &v);
}

/* ---- a tunnel ---- */

static void on_dialled(void *ctx, struct stream *upstream, enum deny_reason reason,
                       const struct err *err)
{
    struct sniff *s = ctx;
    s->dial = NULL;
    if (!upstream) {
        refuse(s, reason, err->hint, err->message);
        return;
    }
    struct tunnel_options o = {
        .px = s->px,
        .target = s->target,
        .entry = s->entry,
        .rule = s->rule,
        .first_up = s->seen,
        .first_up_len = s->len,
    };
    s->counted = false; /* it is the tunnel's now */
    tunnel_start(&o, take_client(s), upstream);
    sniff_done(s);
}

static void start_tunnel(struct sniff *s, enum scheme scheme)
{
    struct verdict v;
    s->target.scheme = scheme;
    bool allowed = decide(s, scheme, &v);
    s->rule = v.rule;
    if (!allowed) {
        refuse(s, v.reason, v.hint, NULL);
        return;
    }
    enum deny_reason over = budget_connect(&s->px->budgets, v.rule);
    s->counted = over == DENY_NONE;
    if (over == DENY_NONE)
        over = budget_request(&s->px->budgets, v.rule, loop_now_ms(s->px->loop));
    if (over != DENY_NONE) {
        refuse(s, over, NULL, NULL);
        return;
    }
    stream_want(s->client, 0);
    loop_timer_cancel(s->px->loop, &s->timer);
    s->dial = dial_start(s->px, &s->target, v.rule, false, on_dialled, s);
    if (!s->dial)
        refuse(s, DENY_NONE, NULL, ERR_MEMORY_TEXT);
}

/* ---- HTTP, plain or behind TLS ---- */

static void start_session(struct sniff *s, enum scheme scheme)
{
    struct target fixed = s->target;
    fixed.scheme = scheme;
    bool https = scheme == SCHEME_HTTPS;
    http_session_start(s->px, take_client(s), s->entry, &fixed, https ? NULL : s->seen,
                       https ? 0 : s->len);
    sniff_done(s);
}

static void on_accepted(void *ctx, int result, const struct err *err)
{
    struct sniff *s = ctx;
    if (result == 0) {
        start_session(s, SCHEME_HTTPS);
        return;
    }
    s->alerted = true; /* by the handshake */
    refuse(s, DENY_NONE, NULL, err->message);
}

static void intercept(struct sniff *s)
{
    struct verdict v;
    struct err err = ERR_INIT;
    bool allowed = decide(s, SCHEME_HTTPS, &v);
    s->rule = v.rule;
    if (!allowed) {
        refuse(s, v.reason, v.hint, NULL);
        return;
    }
    if (!tls_authority_pem(s->px->tls)) {
        refuse(s, DENY_SCHEME, "start the run anew: its rules did not look inside TLS before",
               "this run has no authority to look inside TLS with");
        return;
    }
    loop_timer_cancel(s->px->loop, &s->timer);
    if (tls_accept(s->px->tls, s->client, &s->target.host, s->seen, s->len, on_accepted, s, &err) <
        0)
        refuse(s, DENY_NONE, NULL, err.message);
}

static bool looks_inside(struct sniff *s)
{
    const struct egress *e = &s->px->rules->egress;
    return egress_looks_inside(e, &s->target.host, s->target.port) ||
           inject_binds(e, &s->target.host, s->target.port);
}

/* ---- the first bytes ---- */

static const char *name_problem(const struct sniff *s, const struct hello *h)
{
    if (h->has_ech)
        return "the server name is encrypted";
    if (!h->has_sni)
        return s->target.host.kind == HOST_NAME ? "the handshake names no server" : NULL;
    return host_equal(&h->sni, &s->target.host) ? NULL : "the handshake names another server";
}

/* 0: more is needed. */
static int judge_tls(struct sniff *s)
{
    struct hello h = {0};
    struct err err = ERR_INIT;
    int r = hello_parse(s->seen, s->len, &h, &err);
    if (r == 0 && s->len < HELLO_MAX)
        return 0;
    s->tls = true;
    s->target.scheme = SCHEME_HTTPS;
    struct verdict v;
    bool allowed = decide(s, SCHEME_HTTPS, &v);
    s->rule = v.rule;
    const char *problem = r == 1 ? name_problem(s, &h) : NULL;
    if (!allowed)
        refuse(s, v.reason, v.hint, NULL);
    else if (r != 1)
        refuse(s, DENY_MALFORMED, NULL, r < 0 ? err.message : "the ClientHello is too long");
    else if (problem)
        refuse(s, DENY_SNI, NULL, problem);
    else if (looks_inside(s))
        intercept(s);
    else
        start_tunnel(s, SCHEME_HTTPS);
    return 1;
}

/* "GET /", "CONNECT h", "OPTIONS *": 1 yes, 0 cannot be said yet, -1 no. */
static int looks_like_http(const uint8_t *data, size_t len)
{
    size_t i = 0;
    while (i < len && i < METHOD_MAX && isupper(data[i]))
        i++;
    if (i == len && i < METHOD_MAX)
        return 0;
    if (i < 3 || data[i] != ' ')
        return -1;
    if (i + 1 == len)
        return 0;
    return strchr("/h*H", data[i + 1]) ? 1 : -1;
}

/* Where nothing at all is allowed the branches still differ in how the client is told. */
static int judge(struct sniff *s)
{
    bool https = allows(s, SCHEME_HTTPS), http = allows(s, SCHEME_HTTP),
         tcp = allows(s, SCHEME_TCP);
    bool none = !https && !http && !tcp;
    if (s->len == 0)
        return 0;
    if (s->seen[0] == 0x16 && (https || none || !tcp))
        return judge_tls(s);
    int spoken = http || none || !tcp ? looks_like_http(s->seen, s->len) : -1;
    if (spoken == 0)
        return 0;
    if (spoken > 0)
        start_session(s, SCHEME_HTTP);
    else
        start_tunnel(s, SCHEME_TCP);
    return 1;
}

static bool make_room(struct sniff *s)
{
    if (s->len < s->room)
        return true;
    size_t room = s->room ? s->room * 4 : 1024;
    if (room > HELLO_MAX)
        room = HELLO_MAX;
    bool may = room > s->room && held_set(&s->held, room);
    uint8_t *seen = may ? realloc(s->seen, room) : NULL;
    if (!seen)
        return false;
    s->seen = seen;
    s->room = room;
    return true;
}

/* The client connected and sent nothing. That is no denial, but learn mode notes that the
 * connection was wanted. */
static void leave(struct sniff *s)
{
    struct verdict v;
    if (s->px->learn && !decide(s, SCHEME_ANY, &v)) {
        refuse(s, v.reason, v.hint, NULL);
        return;
    }
    stream_close(s->client);
    s->client = NULL;
    sniff_done(s);
}

static void on_readable(void *ctx, unsigned ready)
{
    (void)ready;
    struct sniff *s = ctx;
    if (!make_room(s)) {
        refuse(s, DENY_MALFORMED, NULL, NULL);
        return;
    }
    ssize_t n = stream_read(s->client, s->seen + s->len, s->room - s->len);
    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        leave(s);
        return;
    }
    s->len += (size_t)n;
    judge(s);
}

static void hello_is_late(struct sniff *s)
{
    uint64_t now = loop_now_ms(s->px->loop);
    if (s->deadline_ms > now) {
        loop_timer_set(s->px->loop, &s->timer, s->deadline_ms - now);
        return;
    }
    s->target.scheme = SCHEME_HTTPS;
    refuse(s, DENY_MALFORMED, NULL, "the ClientHello did not come in time");
}

/* Silence: either the server speaks first, or nobody ever does. */
static void on_silence(struct loop_timer *t)
{
    struct sniff *s = container_of(t, struct sniff, timer);
    struct verdict v;
    bool tcp = allows(s, SCHEME_TCP), any = decide(s, SCHEME_ANY, &v);
    if (s->len > 0 && s->seen[0] == 0x16 && (!tcp || allows(s, SCHEME_HTTPS)))
        hello_is_late(s);
    else if (tcp || s->len > 0)
        start_tunnel(s, SCHEME_TCP);
    else if (any)
        leave(s);
    else
        refuse(s, v.reason, v.hint, NULL);
}

static void begin(struct sniff *s);

static void on_answer(void *ctx)
{
    struct sniff *s = ctx;
    s->asking = NULL;
    s->deadline_ms = loop_now_ms(s->px->loop) + PATIENCE_MS;
    begin(s);
}

/* Nothing is read before the person has answered: the protocol makes no difference to the
 * answer. */
static bool waits_for_answer(struct sniff *s)
{
    struct verdict v;
    if (!decide(s, SCHEME_ANY, &v))
        s->asking = ask_start(s->px, &s->target, v.reason, on_answer, s);
    return s->asking != NULL;
}

static void begin(struct sniff *s)
{
    if (waits_for_answer(s) || judge(s) != 0)
        return;
    bool quick = allows(s, SCHEME_TCP) || !allows(s, SCHEME_ANY);
    loop_timer_set(s->px->loop, &s->timer, quick ? SILENCE_MS : PATIENCE_MS);
    stream_on(s->client, on_readable, s);
    stream_want(s->client, STREAM_READABLE);
}

static void begin_task(struct loop_task *t)
{
    begin(container_of(t, struct sniff, task));
}

static enum scheme usual_scheme(uint16_t port)
{
    return port == 80 ? SCHEME_HTTP : port == 443 ? SCHEME_HTTPS : SCHEME_TCP;
}

void sniff_start(struct proxy *px, struct stream *client, enum entry entry, const struct host *host,
                 uint16_t port, const void *seen, size_t seen_len)
{
    struct sniff *s = calloc(1, sizeof *s);
    if (s && seen_len > 0) {
        s->room = seen_len > 1024 ? seen_len : 1024;
        s->seen = held_set(&s->held, s->room) ? malloc(s->room) : NULL;
    }
    if (!s || (seen_len > 0 && !s->seen)) {
        if (s)
            held_set(&s->held, 0);
        free(s);
        stream_close(client);
        return;
    }
    s->px = px;
    s->client = client;
    s->entry = entry;
    s->target = (struct target){.scheme = usual_scheme(port), .host = *host, .port = port};
    s->rule = SIZE_MAX;
    s->rules = rules_hold(px->rules);
    s->started_ms = loop_now_ms(px->loop);
    s->deadline_ms = s->started_ms + PATIENCE_MS;
    s->timer.fn = on_silence;
    s->task.fn = begin_task;
    if (seen_len > 0)
        memcpy(s->seen, seen, seen_len);
    s->len = seen_len;
    s->next = px->sniffs;
    s->link = &px->sniffs;
    if (px->sniffs)
        px->sniffs->link = &s->next;
    px->sniffs = s;
    /* The caller may be in a callback of this very stream. */
    loop_defer(px->loop, &s->task);
}

/* Those that were not decided yet will be, by the new rules. */
unsigned sniffs_review(struct proxy *px)
{
    unsigned ended = 0;
    for (struct sniff *s = px->sniffs, *next; s; s = next) {
        next = s->next;
        enum deny_reason reason = DENY_NONE;
        if (s->counted) {
            s->counted = rules_follow(px, s->rules, &s->target, NULL, &s->rule, &reason);
            ended += !s->counted;
        }
        rules_drop(s->rules);
        s->rules = rules_hold(px->rules);
        if (reason != DENY_NONE)
            refuse(s, reason, NULL, NULL);
    }
    return ended;
}
