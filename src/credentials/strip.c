/* Credentials of the client's own, out of requests to hosts that a secret is bound to (C-10). */
#include "credentials/inject.h"
#include "credentials/places.h"
#include "credentials/shape.h"
#include "credentials/swap.h"
#include "http/name.h"
#include "os/weaken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The placeholder stands there alone, behind at most one word: "P", "Bearer P", "key=P". What
 * stands beside it could be another credential. */
static bool is_placeholder_alone(const char *value, const char *placeholder)
{
    static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    size_t len = strlen(value), size = placeholder ? strlen(placeholder) : 0;
    if (!size || len < size || strcmp(value + len - size, placeholder) != 0)
        return false;
    size_t before = len - size;
    return before == 0 ||
           (before <= 32 && strspn(value, word) == before - 1 && strchr(" =", value[before - 1]));
}

static bool holds_placeholder(const struct egress *e, const char *value)
{
    for (size_t i = 0; i < e->secret_count; i++)
        if (is_placeholder_alone(value, e->secrets[i].placeholder) ||
            is_basic_of(value, e->secrets[i].placeholder))
            return true;
    return false;
}

/* Where secrets of this host are put, whatever the name looks like. */
static bool is_place_of_secret(const struct egress *e, const struct host *host, const char *name,
                               size_t len, bool query)
{
    for (size_t i = 0; i < e->secret_count; i++) {
        const struct egress_secret *s = &e->secrets[i];
        if (!host_equal(&s->host, host))
            continue;
        if (query ? s->form == INJECT_QUERY && query_same_name(name, len, s->inject_name)
                  : header_of(s) && same_header(name, header_of(s)))
            return true;
    }
    return false;
}

struct strip {
    const struct egress *e;
    const struct egress_rule *rule;
    const struct host *host;
    int count;
    char *first;
};

/* Whether it goes; those that something else comes for are not worth a word. */
static bool strip_takes(struct strip *s, const char *name, size_t len, const char *value,
                        bool query)
{
    bool place = is_place_of_secret(s->e, s->host, name, len, query);
    bool shaped =
        query ? shape_is_credential_member(name, len) : shape_is_credential_header(name, value);
    if ((!place && !shaped) || (s->rule && rule_passes(s->rule, name, len, query)))
        return false;
    if (!place && s->count++ == 0)
        snprintf(s->first, INJECT_NAME_MAX, "%s%.*s", query ? "?" : "",
                 len < INJECT_NAME_MAX - 2 ? (int)len : INJECT_NAME_MAX - 2, name);
    return true;
}

static void strip_headers(struct strip *s, struct http_headers *h)
{
    for (size_t i = 0; i < h->count;) {
        const struct http_header *item = &h->items[i];
        if (!holds_placeholder(s->e, item->value) &&
            strip_takes(s, item->name, strlen(item->name), item->value, false))
            http_header_remove_at(h, i);
        else
            i++;
    }
}

static int set_target(struct http_request *r, struct buf *kept, struct err *err)
{
    char *target = kept->failed ? NULL : strdup(buf_text(kept));
    if (!target)
        return err_memory(err);
    secret_wipe(r->target, strlen(r->target));
    free(r->target);
    r->target = target;
    return 0;
}

static void begin_target(struct buf *kept, const struct http_request *r)
{
    buf_init(kept, HTTP_TARGET_MAX + 1);
    buf_room(kept, strlen(r->target) + 1);
}

/* Where a parameter of a path begins (";jsessionid=…"), in any spelling; 0: not here. */
static size_t parameter_border(const char *p)
{
    return *p == ';' ? 1 : strncasecmp(p, "%3b", 3) == 0 ? 3 : 0;
}

static int strip_path(struct strip *s, struct http_request *r, struct err *err)
{
    bool taken = false;
    struct buf kept cleanup_wiped;
    const char *at = r->target;
    begin_target(&kept, r);
    while (*at && *at != '?') {
        size_t border = parameter_border(at), len = border ? border : 1;
        while (border && at[len] && !strchr("/?", at[len]) && !parameter_border(at + len))
            len++;
        const char *equals = memchr(at + border, '=', len - border);
        size_t name = equals ? (size_t)(equals - at) - border : len - border;
        if (border && strip_takes(s, at + border, name, "", true))
            taken = true;
        else
            buf_add(&kept, at, len);
        at += len;
    }
    buf_str(&kept, at);
    return taken ? set_target(r, &kept, err) : 0;
}

static int strip_query(struct strip *s, struct http_request *r, struct err *err)
{
    const char *at = strchr(r->target, '?');
    struct query_member m;
    bool taken = false;
    if (!at)
        return 0;
    struct buf kept cleanup_wiped;
    begin_target(&kept, r);
    buf_add(&kept, r->target, (size_t)(at - r->target));
    for (char parting = '?'; query_member_next(&at, &m);) {
        if (strip_takes(s, m.text, m.name_len, "", true)) {
            taken = true;
            continue;
        }
        /* As it was parted before: to some servers ';' is no border. */
        buf_chr(&kept, parting == '?' ? parting : m.text[-1]);
        buf_add(&kept, m.text, m.len);
        parting = '&';
    }
    return taken ? set_target(r, &kept, err) : 0;
}

/* C-10 */
int inject_strip(const struct egress *e, const struct egress_rule *rule, const struct target *t,
                 struct http_request *r, char first[static INJECT_NAME_MAX], struct err *err)
{
    struct strip s = {.e = e, .rule = rule, .host = &t->host, .first = first};
    bool bound = false;
    first[0] = '\0';
    for (size_t i = 0; i < e->secret_count && !bound; i++)
        bound = host_equal(&e->secrets[i].host, &t->host);
    if (!bound || guard_left_out(GUARD_ORIGIN))
        return 0;
    strip_headers(&s, &r->headers);
    if (r->target && (strip_path(&s, r, err) < 0 || strip_query(&s, r, err) < 0))
        return err_number(err);
    return s.count;
}
