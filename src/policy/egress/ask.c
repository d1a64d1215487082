/* network.ask: hosts that no rule names, but that a person may be asked about. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/egress/internal.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct host_pattern *x = a, *y = b;
    int text = strcmp(x->host.text, y->host.text);
    return text ? text : (int)x->stars - (int)y->stars;
}

int egress_ask(struct egress *e, const char *pattern, struct err *err)
{
    struct host_pattern p;
    struct quoted q;
    int r = host_pattern_parse(pattern, strlen(pattern), &p, err);
    if (r < 0)
        return err_wrap(err, "%s is not a host", quote(&q, pattern));
    if (p.host.kind != HOST_NAME)
        return err_set(err, ERR_USAGE,
                       "%s is an address, expected a name: a person is never asked "
                       "about addresses",
                       quote(&q, pattern));
    e->asks = true;
    for (size_t i = 0; i < e->ask_count; i++)
        if (pattern_equal(&e->ask[i], &p))
            return 0;
    if (e->ask_count >= EGRESS_BLOCKED_MAX)
        return err_set(err, ERR_LIMIT, "too many hosts to ask about, expected at most %d",
                       EGRESS_BLOCKED_MAX);
    struct host_pattern *more = realloc(e->ask, (e->ask_count + 1) * sizeof *more);
    if (!more)
        return err_memory(err);
    e->ask = more;
    more[e->ask_count++] = p;
    qsort(more, e->ask_count, sizeof *more, compare);
    return 0;
}

/* Names of the Internet: neither bare words nor those that are private by convention, where clouds
 * have their metadata. */
static bool is_public_name(const char *name)
{
    static const char *const private[] = {".internal",
                                          ".local",
                                          ".localhost",
                                          ".arpa",
                                          ".localdomain",
                                          "metadata.goog",
                                          "metadata.tencentyun.com"};
    size_t len = strlen(name);
    for (size_t i = 0; i < ARRAY_LEN(private); i++) {
        size_t n = strlen(private[i]);
        if (len >= n && strcmp(name + len - n, private[i]) == 0)
            return false;
    }
    return strchr(name, '.') != NULL;
}

bool egress_asks(const struct egress *e, const struct host *host)
{
    if (!e->asks || host->kind != HOST_NAME || !is_public_name(host->text) ||
        egress_blocks(e, host))
        return false;
    for (size_t i = 0; i < e->ask_count; i++)
        if (host_pattern_match(&e->ask[i], host))
            return true;
    return e->ask_count == 0;
}

void egress_ask_write(const struct egress *e, struct json_writer *w)
{
    if (e->ask_count == 0) {
        jw_bool(w, e->asks);
        return;
    }
    jw_array_begin(w);
    for (size_t i = 0; i < e->ask_count; i++) {
        cleanup_buf struct buf host;
        buf_init(&host, 512);
        pattern_text(&e->ask[i], &host);
        jw_string(w, buf_text(&host));
    }
    jw_array_end(w);
}

static int fail_at(struct item_reader *r, const struct json *j)
{
    r->at = (struct item_place){json_line(j), json_column(j)};
    if (r->err->code == ERR_USAGE)
        r->err->code = ERR_POLICY;
    return err_number(r->err);
}

int egress_ask_read(struct item_reader *r, const struct json *j)
{
    bool list = json_type(j) == JSON_ARRAY && json_count(j) > 0;
    if (json_type(j) == JSON_BOOL) {
        r->e->asks = json_bool(j);
        return 0;
    }
    for (size_t i = 0; list && i < json_count(j); i++) {
        const struct json *item = json_at(j, i);
        if (json_type(item) != JSON_STRING)
            list = false;
        else if (egress_ask(r->e, json_string(item), r->err) < 0)
            return fail_at(r, item);
    }
    if (list)
        return 0;
    err_set(r->err, ERR_POLICY, "expected true, false or a list of hosts such as [*.example.org]");
    return fail_at(r, j);
}

void egress_ask_forget(struct egress *e)
{
    free(e->ask);
    e->ask = NULL;
    e->ask_count = 0;
    e->asks = false;
}

int egress_ask_copy(struct egress *to, const struct egress *from, struct err *err)
{
    struct host_pattern *copy = NULL;
    if (from->ask_count && !(copy = calloc(from->ask_count, sizeof *copy)))
        return err_memory(err);
    for (size_t i = 0; i < from->ask_count; i++)
        copy[i] = from->ask[i];
    egress_ask_forget(to);
    to->ask = copy;
    to->ask_count = from->ask_count;
    to->asks = from->asks;
    return 0;
}

/* ---- a request ---- */

static bool is_covered(const struct egress *have, const struct host_pattern *want)
{
    for (size_t i = 0; i < have->ask_count; i++)
        if (pattern_covers(&have->ask[i], want))
            return true;
    return have->asks && have->ask_count == 0;
}

int egress_ask_tighten(const struct egress *have, const struct egress *want, struct err *err)
{
    bool fits = !want->asks || (have->asks && (want->ask_count > 0 || have->ask_count == 0));
    for (size_t i = 0; fits && i < want->ask_count; i++)
        fits = is_covered(have, &want->ask[i]);
    if (fits)
        return 0;
    err_set(err, ERR_REFUSED,
            "a request may only tighten the policy: network.ask asks about hosts "
            "that the policy denies unasked");
    return err_hint(err, "the operator can widen network.ask in the policy file or by an option");
}
