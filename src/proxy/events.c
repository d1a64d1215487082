/* What was decided and what came of it, as one JSON object for the supervisor. It has no room for a
 * query, a header or a body. */
#include "proxy/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

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

/* ---- on their way ---- */

/* A supervisor that does not read for a moment misses nothing; one that does not read at all never
 * stops the network of the run, and is told how much it missed. */
#define QUEUE_BYTES (512u * 1024)

struct queued {
    struct queued *next;
    size_t size;
    char text[];
};

static int send_text(struct proxy *px, const char *text)
{
    return channel_send(px->control_fd, CH_EVENT, 0, 0, text, -1, NULL);
}

static void queue_text(struct proxy *px, const struct buf *text)
{
    size_t size = sizeof(struct queued) + text->len + 1;
    struct queued *q = px->event_bytes + size <= QUEUE_BYTES ? malloc(size) : NULL;
    if (!q) {
        px->lost_events++;
        return;
    }
    q->next = NULL;
    q->size = size;
    memcpy(q->text, text->data, text->len + 1);
    if (px->events)
        px->last_event->next = q;
    else
        px->events = q;
    px->last_event = q;
    px->event_bytes += size;
    loop_watch(px->loop, &px->control, EPOLLIN | EPOLLOUT);
}

bool events_flush(struct proxy *px)
{
    while (px->events) {
        int r = send_text(px, px->events->text);
        if (r == -EAGAIN)
            return false;
        px->lost_events += r < 0;
        struct queued *sent = px->events;
        px->events = sent->next;
        px->event_bytes -= sent->size;
        free(sent);
    }
    loop_watch(px->loop, &px->control, EPOLLIN);
    return true;
}

static void write_event(struct proxy *px, const struct event *ev, struct buf *text)
{
    struct json_writer w;
    jw_init(&w, text, false);
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
}

void event_send(struct proxy *px, const struct event *ev)
{
    struct buf text cleanup_buf;
    buf_init(&text, CHANNEL_TEXT_MAX);
    write_event(px, ev, &text);
    int r = text.failed ? -ENOMEM : px->events ? -EAGAIN : send_text(px, text.data);
    if (r == -EAGAIN)
        queue_text(px, &text);
    else if (r < 0)
        px->lost_events++;
}
