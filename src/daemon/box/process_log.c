/* The last output of a process, for `brig logs`: a ring that grows to 64 KiB; all of them together
 * stay below LOG_TOTAL, and a key's take no room that its requests need. */
#include "daemon/box/process_internal.h"

#include <stdlib.h>
#include <string.h>

/* The oldest byte comes first. */
static void straighten(const struct process *p, char *to)
{
    size_t first = p->log_size - p->log_at;
    if (first > p->log_len)
        first = p->log_len;
    if (p->log) {
        memcpy(to, p->log + p->log_at, first);
        memcpy(to + first, p->log, p->log_len - first);
    }
}

static void grow(struct process *p, size_t wanted)
{
    struct core *c = p->box->core;
    size_t size = p->log_size ? p->log_size : 1024;
    while (size < wanted && size < LOG_MAX)
        size *= 2;
    size_t more = size - p->log_size;
    if (!more || c->log_bytes + more > LOG_TOTAL || !hold_add_spare(&p->hold, more))
        return;
    char *log = malloc(size);
    if (!log) {
        hold_sub(&p->hold, more);
        return;
    }
    straighten(p, log);
    c->log_bytes += more;
    free(p->log);
    p->log = log;
    p->log_size = size;
    p->log_at = 0;
}

void process_log_add(struct process *p, const char *data, size_t len)
{
    if (p->log_len + len > p->log_size)
        grow(p, p->log_len + len);
    if (len > p->log_size) {
        p->log_lost += len - p->log_size;
        data += len - p->log_size;
        len = p->log_size;
    }
    if (!len)
        return;
    size_t over = p->log_len + len > p->log_size ? p->log_len + len - p->log_size : 0;
    p->log_at = (p->log_at + over) % p->log_size;
    p->log_len -= over;
    p->log_lost += over;
    size_t at = (p->log_at + p->log_len) % p->log_size;
    size_t first = p->log_size - at < len ? p->log_size - at : len;
    memcpy(p->log + at, data, first);
    memcpy(p->log, data + first, len - first);
    p->log_len += len;
}

void process_log_free(struct process *p)
{
    p->box->core->log_bytes -= p->log_size;
    hold_sub(&p->hold, p->log_size);
    free(p->log);
    p->log = NULL;
    p->log_size = p->log_len = 0;
}

void process_logs(struct box *b, void (*fn)(void *ctx, const struct process_log *log), void *ctx)
{
    struct core *c = b->core;
    for (struct process *p = b->processes; p; p = p->next) {
        if (!p->started)
            continue;
        straighten(p, c->io_room);
        struct process_log log = {.pid = p->pid,
                                  .tag = p->tag,
                                  .config = p->config,
                                  .started_ms = p->started_ms,
                                  .ended_ms = p->ended_ms,
                                  .ended = p->ended,
                                  .oom_killed = p->oom_killed,
                                  .wait_status = p->status,
                                  .data = c->io_room,
                                  .len = p->log_len,
                                  .lost = p->log_lost};
        fn(ctx, &log);
    }
}
