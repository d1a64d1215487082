/* The values of the secrets: fetched by the keeper before anything is served, renewed by it in
 * time, dropped when they end, when it says that they are lost, or when it is gone. Requests that
 * need a value that is not there are refused (inject.c).
 *
 * The redactor knows the values of now and some of those before: what an upstream was sent earlier
 * it may still echo. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "credentials/keeper.h"
#include "proxy/proxy.h"
#include "proxy/vault_tls.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#define FETCH_MS    60000
#define FAREWELL_MS 11000 /* it takes ten at most */
/* Of each secret so many values that it had before are looked for: what a server was sent it may
 * repeat much later, and a value is often good for longer than it is kept here. */
#define EARLIER 7

struct key {
    struct keyring *k;
    size_t index;
    bool answered;
    struct loop_timer timer;
};

struct keyring {
    struct proxy *px;
    pid_t pid;
    struct loop_io io;
    size_t count;
    struct key *keys;
    struct secret **values; /* now, then those before, the latest first: (1 + EARLIER) × count */
};

static const struct egress_secret *secret_of(const struct keyring *k, size_t i)
{
    return &k->px->rules->egress.secrets[i];
}

/* ---- values ---- */

static void renew_redactor(struct keyring *k)
{
    /* Without a redactor that knows the new value, the value must not be used. */
    if (redactor_renew(k->px->redactor, k->values, (1 + EARLIER) * k->count, NULL) == 0)
        return;
    for (size_t i = 0; i < k->count; i++) {
        secret_free(k->values[i]);
        k->values[i] = NULL;
    }
}

static bool same_value(const struct secret *a, const struct secret *b)
{
    size_t len_a, len_b;
    if (!a || !b)
        return false;
    const char *bytes_a = secret_expose(a, &len_a), *bytes_b = secret_expose(b, &len_b);
    return len_a == len_b && memcmp(bytes_a, bytes_b, len_a) == 0;
}

/* The value of now becomes the latest of those before, each of which is there once. */
static void put_aside(struct keyring *k, size_t i)
{
    size_t last = 1;
    while (last < EARLIER && !same_value(k->values[last * k->count + i], k->values[i]))
        last++;
    secret_free(k->values[last * k->count + i]);
    for (; last > 0; last--)
        k->values[last * k->count + i] = k->values[(last - 1) * k->count + i];
    k->values[i] = NULL;
}

static void set_value(struct keyring *k, size_t i, struct secret *value)
{
    if (k->values[i] && !same_value(k->values[i], value))
        put_aside(k, i);
    secret_free(k->values[i]);
    k->values[i] = value;
}

/* The keeper brings a new one before that; if it does not, nobody uses the old one any more. */
static void schedule(struct key *key)
{
    struct loop *loop = key->k->px->loop;
    uint64_t left = secret_lifetime_left(key->k->values[key->index]);
    if (left == SECRET_FOREVER)
        loop_timer_cancel(loop, &key->timer);
    else
        loop_timer_set(loop, &key->timer, left);
}

static void on_timer(struct loop_timer *t)
{
    struct key *key = container_of(t, struct key, timer);
    struct secret *value = key->k->values[key->index];
    if (value && !secret_expired(value))
        schedule(key);
    else
        set_value(key->k, key->index, NULL);
}

static void keeper_gone(struct keyring *k)
{
    if (k->io.fd < 0)
        return;
    loop_forget(k->px->loop, &k->io);
    close(k->io.fd);
    k->io.fd = -1;
    for (size_t i = 0; i < k->count; i++) {
        loop_timer_cancel(k->px->loop, &k->keys[i].timer);
        set_value(k, i, NULL);
    }
}

/* ---- answers ---- */

/* 1: one answer; 0: the keeper is gone; -EAGAIN: none. */
static int take_answer(struct keyring *k, size_t *ret_index, struct err *err)
{
    struct secret *value = NULL;
    size_t i = SIZE_MAX;
    int r = keeper_answer(k->io.fd, &i, &value, err);
    if (r == -EAGAIN)
        return r;
    if (r <= 0 || i >= k->count) {
        secret_free(value);
        return 0;
    }
    *ret_index = i;
    k->keys[i].answered = true;
    set_value(k, i, value);
    if (value)
        schedule(&k->keys[i]);
    return 1;
}

static void on_keeper(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct keyring *k = container_of(io, struct keyring, io);
    bool changed = false;
    for (;;) {
        size_t i;
        int r = take_answer(k, &i, NULL);
        if (r == -EAGAIN)
            break;
        if (r == 0) {
            keeper_gone(k);
            break;
        }
        changed = true;
    }
    if (changed)
        renew_redactor(k);
}

/* ---- the start ---- */

static int wait_readable(int fd, int control_fd, uint64_t end_ms, uint64_t now_ms)
{
    struct pollfd p[2] = {{fd, POLLIN, 0}, {control_fd, 0, 0}};
    int r = poll(p, 2, end_ms > now_ms ? (int)(end_ms - now_ms) : 0);
    if (r < 0 && errno == EINTR)
        return 1;
    if (p[1].revents & (POLLHUP | POLLERR))
        return -EPIPE; /* the supervisor is gone */
    return r <= 0 ? -ETIMEDOUT : 1;
}

static uint64_t now_ms(void)
{
    return clock_us() / 1000;
}

/* The next answer, waited for. */
static int next_answer(struct keyring *k, uint64_t end_ms, size_t *ret_index, struct err *ret_why,
                       struct err *err)
{
    for (;;) {
        int r = take_answer(k, ret_index, ret_why);
        if (r > 0)
            return 1;
        if (r == 0)
            return err_set(err, ERR_SYSTEM, "the process that fetches the secrets has ended");
        r = wait_readable(k->io.fd, k->px->control_fd, end_ms, now_ms());
        if (r < 0)
            return err_set(err, ERR_SYSTEM, "the secrets could not be fetched in time");
    }
}

int keyring_new(struct proxy *px, struct keyring **ret, struct err *err)
{
    size_t count = px->rules->egress.secret_count;
    struct keyring *k = calloc(1, sizeof *k);
    if (!k || !(k->keys = calloc(count, sizeof *k->keys)) ||
        !(k->values = calloc((1 + EARLIER) * count, sizeof(*k->values)))) {
        if (k)
            free(k->keys);
        free(k);
        return err_memory(err);
    }
    k->px = px;
    k->count = count;
    k->io = (struct loop_io){.fd = -1, .fn = on_keeper};
    for (size_t i = 0; i < count; i++)
        k->keys[i] = (struct key){.k = k, .index = i, .timer.fn = on_timer};
    px->injector.values = k->values;
    *ret = k;
    keeper_use_transport(&vault_transport);
    keeper_use_transport(&vault_transport);
    if (keeper_start(&px->rules->egress, &k->pid, &k->io.fd, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < count; i++)
        if (keeper_ask(k->io.fd, i, err) < 0)
            return err_wrap(err, "secret %s", secret_of(k, i)->name);
    return 0;
}

static bool all_answered(const struct keyring *k)
{
    for (size_t i = 0; i < k->count; i++)
        if (!k->keys[i].answered)
            return false;
    return true;
}

int keyring_fetch(struct keyring *k, struct err *err)
{
    uint64_t end = now_ms() + FETCH_MS;
    while (!all_answered(k)) {
        size_t i = 0;
        struct err why = ERR_INIT;
        if (next_answer(k, end, &i, &why, err) < 0)
            return err_number(err);
        if (k->values[i])
            continue;
        *err = why;
        if (err->code == ERR_NONE)
            err_set(err, ERR_SYSTEM, "no value");
        err_wrap(err, "secret %s", secret_of(k, i)->name);
        return err_at(err, BOUNDARY_CREDENTIALS);
    }
    return redactor_new(k->values, (1 + EARLIER) * k->count, &k->px->redactor, err);
}

static int send_checked(struct keyring *k, size_t i, const struct err *why, struct err *err)
{
    const struct egress_secret *s = secret_of(k, i);
    struct buf text cleanup_buf;
    buf_init(&text, CHANNEL_TEXT_MAX);
    struct json_writer w;
    jw_init(&w, &text, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "name", s->name);
    jw_kv_string(&w, "source", s->source);
    jw_kv_bool(&w, "ok", k->values[i] != NULL);
    jw_key(&w, "error");
    if (k->values[i])
        jw_null(&w);
    else
        jw_bytes(&w, why->message, strlen(why->message));
    jw_object_end(&w);
    int r = text.failed
                ? -EMSGSIZE
                : channel_send(k->px->control_fd, CH_CHECKED, (uint32_t)i, 0, text.data, -1, NULL);
    errno = -r;
    return r < 0 ? err_sys(err, "tell of secret %s", s->name) : 0;
}

int keyring_check(struct keyring *k, struct err *err)
{
    uint64_t end = now_ms() + FETCH_MS;
    while (!all_answered(k)) {
        size_t i = 0;
        struct err why = ERR_INIT;
        if (next_answer(k, end, &i, &why, err) < 0 || send_checked(k, i, &why, err) < 0)
            return err_number(err);
    }
    return 0;
}

int keyring_watch(struct keyring *k, struct err *err)
{
    int r = loop_watch(k->px->loop, &k->io, EPOLLIN);
    errno = -r;
    return r < 0 ? err_sys(err, "watch the keeper") : 0;
}

/* What it could not revoke, or nothing. */
static void wait_for_keeper(struct keyring *k, struct err *ret_why)
{
    uint64_t end = now_ms() + FAREWELL_MS;
    keeper_end(k->io.fd);
    for (;;) {
        size_t i;
        int r = take_answer(k, &i, ret_why);
        if (r == 0)
            return;
        struct pollfd p = {k->io.fd, POLLIN, 0};
        uint64_t now = now_ms();
        if (r == -EAGAIN && (now >= end || poll(&p, 1, (int)(end - now)) == 0)) {
            err_set(ret_why, ERR_SYSTEM, "the leases are still being revoked");
            return;
        }
        *ret_why = (struct err)ERR_INIT;
    }
}

void keyring_free(struct keyring *k, struct err *ret_why)
{
    if (!k)
        return;
    if (ret_why && k->io.fd >= 0)
        wait_for_keeper(k, ret_why);
    keeper_gone(k);
    for (size_t i = 0; i < (1 + EARLIER) * k->count; i++)
        secret_free(k->values[i]);
    k->px->injector.values = NULL;
    free(k->values);
    free(k->keys);
    free(k);
}
