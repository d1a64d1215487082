/* Rules and secrets as JSON, in the form that read.c reads. */
#include "base/cleanup.h"
#include "base/num.h"
#include "policy/egress/internal.h"

#include <stdlib.h>
#include <string.h>

static void write_list(struct json_writer *w, const char *key, const struct text_list *list)
{
    if (list->count == 0)
        return;
    jw_key(w, key);
    jw_array_begin(w);
    for (size_t i = 0; i < list->count; i++)
        jw_string(w, list->items[i]);
    jw_array_end(w);
}

typedef void format_fn(uint64_t value, char out[static NUM_TEXT_SIZE]);

/* `format` NULL: a plain number. */
static void write_limit(struct json_writer *w, const char *key, uint64_t value, format_fn *format)
{
    char text[NUM_TEXT_SIZE];
    if (value == POLICY_UNLIMITED) {
        jw_kv_string(w, key, "unlimited");
    } else if (format) {
        format(value, text);
        jw_kv_string(w, key, text);
    } else {
        jw_kv_uint(w, key, value);
    }
}

static void write_narrowing(struct json_writer *w, const char *key, uint64_t value,
                            format_fn *format)
{
    if (value != POLICY_UNLIMITED)
        write_limit(w, key, value, format);
}

static void rule_write(const struct egress_rule *r, struct json_writer *w, bool wire)
{
    cleanup_buf struct buf host;
    buf_init(&host, 512);
    pattern_text(&r->host, &host);
    jw_object_begin(w);
    jw_kv_string(w, "host", buf_text(&host));
    jw_kv_string(w, "scheme", scheme_name(r->scheme));
    jw_kv_uint(w, "port", r->port);
    if (r->pinned)
        jw_kv_string(w, "address", r->address.text);
    write_list(w, "methods", &r->methods);
    write_list(w, "paths", &r->paths);
    write_list(w, "pass", &r->pass);
    write_narrowing(w, "upload", r->upload, num_format_size);
    write_narrowing(w, "max_connections", r->max_connections, NULL);
    write_narrowing(w, "requests", r->requests, NULL);
    if (wire && r->budget)
        jw_kv_string(w, "budget", r->budget);
    if (wire && r->implied)
        jw_kv_bool(w, "implied", true);
    jw_object_end(w);
}

static void write_form(struct json_writer *w, const struct egress_secret *s)
{
    cleanup_buf struct buf header;
    buf_init(&header, 1024);
    switch (s->form) {
    case INJECT_HEADER:
        buf_fmt(&header, "%s: %s", s->inject_name, s->template);
        jw_kv_string(w, "header", buf_text(&header));
        break;
    case INJECT_QUERY:
        jw_kv_string(w, "query", s->inject_name);
        break;
    case INJECT_BASIC:
        jw_kv_string(w, "basic", s->inject_name);
        break;
    case INJECT_NONE:
        jw_kv_string(w, "header", "none");
        break;
    }
}

static void write_swap(struct json_writer *w, const struct egress_secret *s)
{
    if (!s->swap_header && !s->swap_body) {
        jw_kv_string(w, "swap", "none");
        return;
    }
    jw_key(w, "swap");
    jw_array_begin(w);
    if (s->swap_header)
        jw_string(w, "header");
    if (s->swap_body)
        jw_string(w, "body");
    jw_array_end(w);
}

static void secret_write(const struct egress_secret *s, struct json_writer *w, bool wire)
{
    cleanup_buf struct buf origin;
    buf_init(&origin, 512);
    origin_text(s->scheme, &s->host, s->port, &origin);
    jw_object_begin(w);
    jw_kv_string(w, "name", s->name);
    jw_kv_string(w, "source", s->source);
    jw_kv_string(w, "origin", buf_text(&origin));
    write_list(w, "methods", &s->methods);
    write_list(w, "paths", &s->paths);
    write_form(w, s);
    write_swap(w, s);
    write_narrowing(w, "ttl", s->ttl_ms, num_format_duration);
    if (wire && s->placeholder)
        jw_kv_string(w, "placeholder", s->placeholder);
    if (wire && s->hidden)
        jw_kv_bool(w, "hidden", true);
    jw_object_end(w);
}

/* What people wrote, where that says everything. */
static bool rule_is_short(const struct egress_rule *r)
{
    return !rule_is_counted(r) && !r->pass.count && !r->methods.count && r->paths.count <= 1;
}

/* What a secret implies is enforced, but comes back with the secret: people are not shown it. */
void egress_write_rules(const struct egress *e, struct json_writer *w, enum egress_form form)
{
    jw_array_begin(w);
    for (size_t i = 0; i < e->rule_count; i++) {
        const struct egress_rule *r = &e->rules[i];
        if (form == EGRESS_SHOWN && r->implied)
            continue;
        if (form == EGRESS_SHOWN && rule_is_short(r))
            jw_string(w, r->text);
        else
            rule_write(r, w, form == EGRESS_WIRE);
    }
    jw_array_end(w);
}

void egress_write_blocked(const struct egress *e, struct json_writer *w)
{
    jw_array_begin(w);
    for (size_t i = 0; i < e->blocked_count; i++) {
        cleanup_buf struct buf host;
        buf_init(&host, 512);
        pattern_text(&e->blocked[i], &host);
        jw_string(w, buf_text(&host));
    }
    jw_array_end(w);
}

static int compare_secrets(const void *a, const void *b)
{
    const struct egress_secret *const *x = a;
    const struct egress_secret *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

void egress_write_secrets(const struct egress *e, struct json_writer *w, enum egress_form form)
{
    cleanup_free const struct egress_secret **secrets =
        calloc(e->secret_count + 1, sizeof *secrets);
    if (!secrets)
        w->out->failed = true;
    for (size_t i = 0; secrets && i < e->secret_count; i++)
        secrets[i] = &e->secrets[i];
    if (secrets && form == EGRESS_CANONICAL)
        qsort(secrets, e->secret_count, sizeof *secrets, compare_secrets);
    jw_array_begin(w);
    for (size_t i = 0; secrets && i < e->secret_count; i++)
        secret_write(secrets[i], w, form == EGRESS_WIRE);
    jw_array_end(w);
}

void egress_write_json(const struct egress *e, struct json_writer *w)
{
    jw_object_begin(w);
    jw_key(w, "rules");
    egress_write_rules(e, w, EGRESS_WIRE);
    jw_key(w, "blocked");
    egress_write_blocked(e, w);
    jw_key(w, "secrets");
    egress_write_secrets(e, w, EGRESS_WIRE);
    if (e->asks) {
        jw_key(w, "ask");
        egress_ask_write(e, w);
    }
    if (e->live)
        jw_kv_bool(w, "live", true);
    write_limit(w, "upload", e->upload, num_format_size);
    write_limit(w, "max_connections", e->max_connections, NULL);
    write_limit(w, "requests", e->requests, NULL);
    jw_object_end(w);
}
