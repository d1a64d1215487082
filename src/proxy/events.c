/* What was decided and what came of it, as one JSON object for the supervisor. It has no room for a
 * query, a header or a body. */
#include "proxy/proxy.h"

#include <string.h>

#define PATH_SHOWN 1024

const char *entry_name(enum entry entry)
{
    static const char *const names[] = {
        [ENTRY_PROXY] = "proxy",
        [ENTRY_CONNECT] = "connect",
        [ENTRY_TRANSPARENT] = "transparent",
        [ENTRY_GATEWAY] = "gateway",
        [ENTRY_DNS] = "dns",
    };
    return names[entry];
}

static const char *verdict_name(const struct event *ev)
{
    if (ev->reason != DENY_NONE)
        return "denied";
    return ev->allowed && !ev->note ? "allowed" : "error";
}

static void write_target(struct json_writer *w, const struct target *t)
{
    jw_kv_string(w, "scheme", t->scheme == SCHEME_ANY ? NULL : scheme_name(t->scheme));
    jw_kv_string(w, "method", t->method[0] ? t->method : NULL);
    jw_kv_string(w, "host", t->host.text);
    jw_kv_uint(w, "port", t->port);
    jw_key(w, "path");
    if (t->path)
        jw_bytes(w, t->path, strnlen(t->path, PATH_SHOWN));
    else
        jw_null(w);
}

static void write_verdict(struct json_writer *w, const struct egress *e, const struct event *ev)
{
    bool denied = ev->reason != DENY_NONE;
    jw_kv_string(w, "rule", ev->rule < e->rule_count ? e->rules[ev->rule].text : NULL);
    jw_kv_string(w, "reason", denied ? deny_name(ev->reason) : NULL);
    jw_kv_string(w, "text", denied ? deny_text(ev->reason) : NULL);
    jw_kv_string(w, "hint", ev->hint && ev->hint[0] ? ev->hint : NULL);
    jw_key(w, "note");
    if (ev->note)
        jw_bytes(w, ev->note, strlen(ev->note));
    else
        jw_null(w);
}

void event_send(struct proxy *px, const struct event *ev)
{
    struct buf text cleanup_buf;
    buf_init(&text, CHANNEL_TEXT_MAX);
    struct json_writer w;
    jw_init(&w, &text, false);
    jw_object_begin(&w);
    jw_kv_uint(&w, "time_ms", loop_now_ms(px->loop) - px->start_ms);
    jw_kv_string(&w, "entry", entry_name(ev->entry));
    jw_kv_string(&w, "verdict", verdict_name(ev));
    write_target(&w, ev->target);
    jw_key(&w, "status");
    if (ev->status)
        jw_int(&w, ev->status);
    else
        jw_null(&w);
    write_verdict(&w, &px->rules->egress, ev);
    jw_kv_uint(&w, "up", ev->up);
    jw_kv_uint(&w, "down", ev->down);
    jw_kv_uint(&w, "ms", ev->ms);
    if (px->lost_events)
        jw_kv_uint(&w, "lost", px->lost_events);
    jw_object_end(&w);
    /* Never waits: a supervisor that does not read must not stop the network of the run. */
    if (text.failed || channel_send(px->control_fd, CH_EVENT, 0, 0, text.data, -1, NULL) < 0)
        px->lost_events++;
}
