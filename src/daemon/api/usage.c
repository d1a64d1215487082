/* What each key makes the daemon hold (account.h), for those who want to know: records of refusals,
 * metrics, GET /accounts. */
#include "daemon/api/call.h"
#include "daemon/box/box_internal.h"

#include <string.h>

#define SAY_MS   60000u /* refusals of one account become one record in this time */
#define KEYS_MAX 256u   /* that the metrics name */

static uint64_t limit_of(const struct account *a, enum account_kind kind)
{
    return a->used[kind] + account_room(a, kind);
}

/* ---- refusals ---- */

/* The first is written at once, those that follow are counted: a client that is refused tries
 * again. */
static void on_refused(void *ctx, struct account *a, enum account_kind kind)
{
    struct core *c = ctx;
    uint64_t now = loop_now_ms(c->loop);
    a->unsaid++;
    if (!a->key || (a->said_ms && now - a->said_ms < SAY_MS))
        return;
    core_record(
        c, "account.refused", NULL, a->key,
        JSON_SMALL(JSON_TEXT("what", account_kind_name(kind)), JSON_NUMBER("used", a->used[kind]),
                   JSON_NUMBER("limit", limit_of(a, kind)), JSON_NUMBER("count", a->unsaid)));
    a->said_ms = now;
    a->unsaid = 0;
}

void usage_watch(struct core *c)
{
    accounts_on_refused(c->accounts, on_refused, c);
}

void usage_unwatch(struct core *c)
{
    accounts_on_refused(c->accounts, NULL, NULL);
}

/* ---- metrics ---- */

struct lines {
    struct buf *out;
    unsigned keys;
    bool refused; /* which of the two metrics */
};

static void write_lines(void *ctx, const struct account *a)
{
    struct lines *l = ctx;
    bool any = false;
    for (unsigned i = 0; i < ACCOUNT_KINDS; i++) {
        uint64_t value = l->refused ? a->refused[i] : a->used[i];
        if (!value || l->keys >= KEYS_MAX)
            continue;
        any = true;
        buf_fmt(l->out, "%s{key=\"%s\",kind=\"%s\"} %llu\n",
                l->refused ? "brig_account_refused_total" : "brig_account_used", a->key->id,
                account_kind_name((enum account_kind)i), (unsigned long long)value);
    }
    l->keys += any;
}

static void write_totals(struct core *c, struct buf *out, bool limits)
{
    static const char *const classes[] = {
        [ACCOUNT_OF_KEY] = "keys", [ACCOUNT_OF_ADDRESS] = "addresses"};
    for (enum account_class of = 0; of < ACCOUNT_CLASSES; of++)
        for (enum account_kind i = 0; i < ACCOUNT_KINDS; i++) {
            uint64_t most = accounts_limit(c->accounts, of, i)->all;
            if (most)
                buf_fmt(out, "brig_accounts_%s{of=\"%s\",kind=\"%s\"} %llu\n",
                        limits ? "limit" : "used", classes[of], account_kind_name(i),
                        (unsigned long long)(limits ? most : accounts_used(c->accounts, of, i)));
        }
}

void usage_metrics(struct core *c, struct buf *out)
{
    struct lines used = {.out = out}, refused = {.out = out, .refused = true};
    buf_str(out, "# HELP brig_account_used What is held for a key now\n"
                 "# TYPE brig_account_used gauge\n");
    accounts_each(c->accounts, write_lines, &used);
    buf_str(out, "# HELP brig_account_refused_total What a key was refused for want of room\n"
                 "# TYPE brig_account_refused_total counter\n");
    accounts_each(c->accounts, write_lines, &refused);
    buf_str(out, "# HELP brig_accounts_used What is held for all keys, and for all addresses\n"
                 "# TYPE brig_accounts_used gauge\n");
    write_totals(c, out, false);
    buf_str(out, "# HELP brig_accounts_limit The most that may be held for all of them\n"
                 "# TYPE brig_accounts_limit gauge\n");
    write_totals(c, out, true);
}

/* ---- GET /accounts ---- */

struct rows {
    struct json_writer w;
    const struct key *asks;
};

static void write_row(void *ctx, const struct account *a)
{
    struct rows *r = ctx;
    if (a->key != r->asks && !r->asks->operator_key)
        return;
    jw_object_begin(&r->w);
    jw_kv_string(&r->w, "key", a->key->id);
    jw_kv_string(&r->w, "name", a->key->name);
    for (unsigned i = 0; i < ACCOUNT_KINDS; i++) {
        jw_kv_object(&r->w, account_kind_name((enum account_kind)i));
        jw_kv_uint(&r->w, "used", a->used[i]);
        jw_kv_uint(&r->w, "limit", limit_of(a, (enum account_kind)i));
        jw_kv_uint(&r->w, "peak", a->peak[i]);
        jw_kv_uint(&r->w, "refused", a->refused[i]);
        jw_object_end(&r->w);
    }
    jw_object_end(&r->w);
}

void usage_get(struct call *call)
{
    struct buf out cleanup_buf = {0};
    struct rows r = {.asks = call->key};
    call_buf(call, &out, 8u << 20);
    jw_init(&r.w, &out, false);
    jw_array_begin(&r.w);
    accounts_each(core_accounts(call->core), write_row, &r);
    jw_array_end(&r.w);
    call_reply(call, 200, &out);
}
