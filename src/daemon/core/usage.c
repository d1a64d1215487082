/* What each key makes the daemon hold (account.h): records of what was refused, and metrics. */
#include "daemon/core/core_internal.h"

#include <string.h>

#define SAY_MS   60000u /* refusals of one account become one record in this time */
#define KEYS_MAX 256u   /* that the metrics name */

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
                   JSON_NUMBER("limit", account_most(a, kind)), JSON_NUMBER("count", a->unsaid)));
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
