/* Theory of operation.
 *
 * A secret is bound when scheme, host and port of the request are its own and its methods and
 * paths, if it has any, allow it. For each request all bound secrets are applied in three steps, so
 * that no step sees what a later one adds: take out what the client sent in the places that are
 * ours, swap placeholders in what is left, put the values in.
 *
 * The one thing of the client's that stays in a place of ours is "Basic" with the placeholder as
 * user or password: that is how git and others carry a token, and some servers take it in no other
 * form. */
#include "credentials/inject.h"

#include "credentials/places.h"
#include "credentials/swap.h"
#include "http/name.h"
#include "os/weaken.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- who is bound ---- */

static bool listed(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return list->count == 0;
}

static bool path_listed(const struct text_list *list, const char *path)
{
    for (size_t i = 0; path && i < list->count; i++)
        if (path_pattern_match(list->items[i], path))
            return true;
    return list->count == 0;
}

/* C-2 */
static bool is_bound(const struct egress_secret *s, const struct target *t)
{
    if (guard_left_out(GUARD_ORIGIN))
        return true;
    return s->scheme == t->scheme && s->port == t->port && host_equal(&s->host, &t->host) &&
           listed(&s->methods, t->method) && path_listed(&s->paths, t->path);
}

bool inject_binds(const struct egress *e, const struct host *host, uint16_t port)
{
    for (size_t i = 0; i < e->secret_count; i++)
        if (e->secrets[i].port == port && host_equal(&e->secrets[i].host, host))
            return true;
    return false;
}

bool inject_depends(const struct egress *e, const struct host *host, uint16_t port)
{
    for (size_t i = 0; i < e->secret_count; i++) {
        const struct egress_secret *s = &e->secrets[i];
        if (s->port == port && host_equal(&s->host, host) && (s->methods.count || s->paths.count))
            return true;
    }
    return false;
}

/* ---- headers of the client's ---- */

bool same_header(const char *a, const char *b)
{
    struct folded f;
    name_fold(a, strlen(a), false, &f);
    return name_same(&f, b);
}

static size_t count_like(const struct http_headers *h, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < h->count; i++)
        count += same_header(h->items[i].name, name);
    return count;
}

static int remove_like(struct http_headers *h, const char *name, struct err *err)
{
    for (size_t i = 0; i < h->count;) {
        if (!same_header(h->items[i].name, name)) {
            i++;
            continue;
        }
        char *copy = strdup(h->items[i].name);
        if (!copy)
            return err_memory(err);
        http_header_remove(h, copy);
        free(copy);
        i = 0;
    }
    return 0;
}

static bool same_bytes(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

/* What stands beside a key that is sent as the user name, and means nothing to the service.
 * Anything else could be a key of the client's own: many services look at the password alone. */
static bool is_filler(const char *text, size_t len)
{
    static const char *const words[] = {"",      "x-oauth-basic", "x",    "api_token",
                                        "token", "unused",        "none", "password"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (same_bytes(text, len, words[i]))
            return true;
    return false;
}

#define USER_MAX 19 /* keys are longer */

/* The name of a user, and no key of the client's own: other services look at the user alone. */
static bool is_user(const char *text, size_t len)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyz-_";
    return len <= USER_MAX || memchr(text, '@', len) || memchr(text, '+', len) ||
           memchr(text, '$', len) || (strspn(text, word) >= len);
}

bool is_basic_of(const char *header, const char *placeholder)
{
    struct buf plain cleanup_wiped;
    buf_init(&plain, HTTP_HEAD_MAX);
    if (!placeholder || !basic_decode(header, &plain))
        return false;
    size_t len = strlen(placeholder);
    const char *colon = memchr(buf_text(&plain), ':', plain.len);
    if (!colon)
        return false;
    size_t user = (size_t)(colon - plain.data), password = plain.len - user - 1;
    bool of_user = user == len && memcmp(plain.data, placeholder, len) == 0;
    bool of_password = password == len && memcmp(colon + 1, placeholder, len) == 0;
    return of_user ? of_password || is_filler(colon + 1, password)
                   : of_password && is_user(plain.data, user);
}

const char *header_of(const struct egress_secret *s)
{
    return s->form == INJECT_BASIC    ? "Authorization"
           : s->form == INJECT_HEADER ? s->inject_name
                                      : NULL;
}

/* The client put the placeholder there in the one form that we leave to it. */
static bool client_chose(const struct egress_secret *s, const struct http_headers *h)
{
    const char *name = header_of(s), *value = name ? http_header_get(h, name) : NULL;
    return value && s->swap_header && strcasecmp(name, "Authorization") == 0 &&
           count_like(h, name) == 1 && is_basic_of(value, s->placeholder);
}

/* The response must come whole and readable, or it could not be searched. */
static int keep_searchable(struct http_headers *h, struct err *err)
{
    static const char *const names[] = {"Accept-Encoding", "Range", "If-Range",
                                        "Sec-WebSocket-Extensions"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (remove_like(h, names[i], err) < 0)
            return err_number(err);
    return http_header_add(h, "Accept-Encoding", "identity", err);
}

/* ---- swapping ---- */

static int swap_value(struct http_headers *h, size_t i, const struct egress_secret *s,
                      const struct secret *value, struct err *err)
{
    const char *text = h->items[i].value;
    struct buf plain cleanup_wiped, swapped cleanup_wiped, out cleanup_wiped;
    buf_init(&plain, HTTP_HEAD_MAX);
    buf_init(&swapped, HTTP_HEAD_MAX);
    buf_init(&out, HTTP_HEAD_MAX);
    bool basic = strcasecmp(h->items[i].name, "Authorization") == 0 && basic_decode(text, &plain) &&
                 swap_found(buf_text(&plain), plain.len, s->placeholder);
    if (basic) {
        swap_text(plain.data, plain.len, s->placeholder, value, SWAP_RAW, &swapped);
        basic_encode(buf_text(&swapped), swapped.len, &out);
    } else if (swap_found(text, strlen(text), s->placeholder)) {
        swap_text(text, strlen(text), s->placeholder, value, SWAP_RAW, &out);
    } else {
        return 0;
    }
    if (swapped.failed || out.failed)
        return err_set(err, ERR_REFUSED, "the headers would be too long with the secret %s",
                       s->name);
    return http_header_replace(h, i, buf_text(&out), err) < 0 ? err_number(err) : 1;
}

/* C-3 */
static int swap_headers(struct http_headers *h, const struct egress_secret *s,
                        const struct secret *value, struct err *err)
{
    int found = 0;
    for (size_t i = 0; s->swap_header && s->placeholder && i < h->count; i++) {
        int r = swap_value(h, i, s, value, err);
        if (r < 0)
            return r;
        found |= r;
    }
    return found;
}

/* ---- putting in ---- */

static int add_header(struct http_request *r, const struct egress_secret *s,
                      const struct secret *value, struct err *err)
{
    struct buf plain cleanup_wiped, text cleanup_wiped;
    buf_init(&plain, HTTP_HEAD_MAX);
    buf_init(&text, HTTP_HEAD_MAX);
    size_t len;
    secret_expose(value, &len);
    if (s->form == INJECT_BASIC) {
        buf_room(&plain, strlen(s->inject_name) + 1 + len);
        buf_str(&plain, s->inject_name);
        buf_chr(&plain, ':');
        swap_add_value(&plain, value, SWAP_RAW);
        basic_encode(buf_text(&plain), plain.len, &text);
    } else {
        swap_text(s->template, strlen(s->template), "{}", value, SWAP_RAW, &text);
    }
    if (plain.failed || text.failed)
        return err_set(err, ERR_REFUSED, "the header with the secret %s would be too long",
                       s->name);
    return http_header_add(&r->headers, header_of(s), buf_text(&text), err);
}

static int set_query(struct http_request *r, const struct egress_secret *s,
                     const struct secret *value, struct err *err)
{
    struct buf text cleanup_wiped;
    buf_init(&text, HTTP_TARGET_MAX);
    if (!r->target || r->target[0] != '/')
        return err_set(err, ERR_REFUSED, "this request has no query to carry the secret %s",
                       s->name);
    query_set(r->target, s->inject_name, value, &text);
    char *copy = text.failed ? NULL : strdup(buf_text(&text));
    if (!copy)
        return err_set(err, ERR_REFUSED, "the target with the secret %s would be too long",
                       s->name);
    secret_wipe(r->target, strlen(r->target));
    free(r->target);
    r->target = copy;
    return 0;
}

static int put_in(struct http_request *r, const struct egress_secret *s, const struct secret *value,
                  struct err *err)
{
    if (s->form == INJECT_NONE)
        return 0;
    int result =
        s->form == INJECT_QUERY ? set_query(r, s, value, err) : add_header(r, s, value, err);
    return result < 0 ? result : 1;
}

/* ---- the three steps ---- */

struct bound {
    size_t count;
    const struct egress_secret *secrets[EGRESS_SECRETS_MAX];
    const struct secret *values[EGRESS_SECRETS_MAX];
    bool left[EGRESS_SECRETS_MAX]; /* to the client */
};

/* C-6 */
static int collect(const struct injector *in, const struct target *t, struct bound *b,
                   struct err *err)
{
    b->count = 0;
    for (size_t i = 0; i < in->egress->secret_count && i < EGRESS_SECRETS_MAX; i++) {
        const struct egress_secret *s = &in->egress->secrets[i];
        const struct secret *value = in->values ? in->values[i] : NULL;
        if (!is_bound(s, t))
            continue;
        if (!value || secret_expired(value))
            return err_set(err, ERR_REFUSED, "the secret %s %s", s->name,
                           value ? "has expired" : "has no value");
        b->secrets[b->count] = s;
        b->values[b->count] = value;
        b->left[b->count++] = false;
    }
    return 0;
}

static int check_places(const struct bound *b, struct err *err)
{
    for (size_t i = 0; i < b->count; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct egress_secret *x = b->secrets[i], *y = b->secrets[k];
            bool query = x->form == INJECT_QUERY && y->form == INJECT_QUERY &&
                         strcasecmp(x->inject_name, y->inject_name) == 0;
            bool header = header_of(x) && header_of(y) && same_header(header_of(x), header_of(y));
            if (query || header) {
                err_set(err, ERR_REFUSED, "the secrets %s and %s both go into %s", y->name, x->name,
                        header ? header_of(x) : x->inject_name);
                return err_hint(err, "give one of them another form, or another path");
            }
        }
    }
    return 0;
}

static int take_out(struct bound *b, struct http_headers *h, struct err *err)
{
    for (size_t i = 0; i < b->count; i++) {
        const char *name = header_of(b->secrets[i]);
        b->left[i] = client_chose(b->secrets[i], h);
        if (name && !b->left[i] && remove_like(h, name, err) < 0)
            return err_number(err);
    }
    return 0;
}

int inject_apply(const struct injector *in, const struct target *t, struct http_request *r,
                 struct err *err)
{
    struct bound b;
    int done = 0;
    if (collect(in, t, &b, err) < 0 || check_places(&b, err) < 0)
        return err_number(err);
    if (b.count == 0)
        return 0;
    if (keep_searchable(&r->headers, err) < 0 || take_out(&b, &r->headers, err) < 0)
        return err_number(err);
    bool used[EGRESS_SECRETS_MAX] = {false};
    for (size_t i = 0; i < b.count; i++) {
        int result = swap_headers(&r->headers, b.secrets[i], b.values[i], err);
        if (result < 0)
            return result;
        used[i] = result > 0;
    }
    for (size_t i = 0; i < b.count; i++) {
        int result = b.left[i] ? 0 : put_in(r, b.secrets[i], b.values[i], err);
        if (result < 0)
            return result;
        done += result > 0 || used[i];
    }
    return done;
}

/* ---- bodies ---- */

bool inject_wants_body(const struct injector *in, const struct target *t)
{
    for (size_t i = 0; i < in->egress->secret_count; i++)
        if (in->egress->secrets[i].swap_body && is_bound(&in->egress->secrets[i], t))
            return true;
    return false;
}

static enum swap_escape escape_for(const char *type)
{
    size_t len = type ? strcspn(type, "; ") : 0;
    if (len == 33 && strncasecmp(type, "application/x-www-form-urlencoded", len) == 0)
        return SWAP_FORM;
    if ((len == 16 && strncasecmp(type, "application/json", len) == 0) ||
        (len > 5 && strncasecmp(type + len - 5, "+json", 5) == 0))
        return SWAP_JSON;
    return SWAP_RAW;
}

int inject_body_as(const struct injector *in, const struct target *t, const char *type,
                   struct buf *body, struct err *err)
{
    struct bound b;
    int done = 0;
    if (collect(in, t, &b, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < b.count; i++) {
        const struct egress_secret *s = b.secrets[i];
        if (!s->swap_body || !swap_found(buf_text(body), body->len, s->placeholder))
            continue;
        struct buf out cleanup_wiped;
        buf_init(&out, body->cap > INJECT_BODY_MAX ? body->cap : INJECT_BODY_MAX);
        swap_text(body->data, body->len, s->placeholder, b.values[i], escape_for(type), &out);
        if (out.failed)
            return err_set(err, ERR_REFUSED, "the body would be too long with the secret %s",
                           s->name);
        struct buf old = *body;
        *body = out;
        out = old;
        done++;
    }
    return done;
}

/* ---- strays ---- */

static bool header_holds(const struct http_header *h, const char *placeholder)
{
    struct buf plain cleanup_wiped;
    buf_init(&plain, HTTP_HEAD_MAX);
    return swap_found(h->value, strlen(h->value), placeholder) ||
           (basic_decode(h->value, &plain) && swap_found(buf_text(&plain), plain.len, placeholder));
}

int inject_stray(const struct egress *e, const struct target *t, const struct http_request *r)
{
    for (size_t i = 0; i < e->secret_count; i++) {
        const struct egress_secret *s = &e->secrets[i];
        if (!s->placeholder)
            continue;
        if (r->target && swap_found(r->target, strlen(r->target), s->placeholder))
            return (int)i;
        bool swapped = s->swap_header && is_bound(s, t);
        for (size_t k = 0; !swapped && k < r->headers.count; k++)
            if (header_holds(&r->headers.items[k], s->placeholder))
                return (int)i;
    }
    return -1;
}
