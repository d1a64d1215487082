/* Looking at records: the last ones, one, numbers about all. */
#include "audit/ask.h"
#include "audit/export.h"

#include "base/cleanup.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define FLUSH_AT (64u * 1024)

struct tail {
    struct ask *ask;
    uint64_t last, count;
};

/* {"hash":…,"record":{…}} */
static int print_record(void *ctx, uint64_t seq, const char *line, size_t len,
                        const uint8_t hash[32], struct err *err)
{
    struct tail *t = ctx;
    struct buf *out = &t->ask->out;
    export_write_record(out, line, len, hash);
    t->last = seq;
    t->count++;
    return out->len > FLUSH_AT ? ask_flush(t->ask, err) : 0;
}

static int print_end(struct tail *t, struct err *err)
{
    return ask_end(t->ask, JSON_SMALL(JSON_NUMBER("records", t->count)), err);
}

/* The recorder's commits touch the folder's files; nothing is asked while nothing happens. Ends
 * when nobody reads us any more. */
static int wait_for_change(int watch, struct err *err)
{
    char events[4096];
    struct pollfd fds[] = {{.fd = watch, .events = POLLIN}, {.fd = STDOUT_FILENO}};
    if (poll(fds, 2, -1) < 0)
        return errno == EINTR ? 1 : err_sys(err, "poll");
    if (fds[1].revents & (POLLERR | POLLHUP))
        return 0;
    while (read(watch, events, sizeof events) > 0)
        ;
    return 1;
}

static int follow(struct tail *t, struct store_filter *f, int watch, struct err *err)
{
    f->last = false;
    f->limit = 0;
    for (;;) {
        int r = wait_for_change(watch, err);
        if (r <= 0)
            return r;
        f->after = t->last;
        if (store_find(t->ask->store, f, print_record, t, err) < 0 || ask_flush(t->ask, err) < 0)
            return err_number(err);
    }
}

int ask_tail(struct ask *a, struct err *err)
{
    char since[RECORD_TIME_SIZE];
    struct tail t = {.ask = a};
    struct store_filter f = {.box = ask_text(a, "box"),
                             .kind = ask_text(a, "kind"),
                             .key = ask_text(a, "key"),
                             .boundary = ask_text(a, "boundary"),
                             .since = ask_since(a, since),
                             .limit = ask_number(a, "lines", 20),
                             .last = true};
    cleanup_fd int watch = -1;
    if (ask_flag(a, "follow")) {
        watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        /* Before the first look, so that nothing comes between. */
        if (watch < 0 || inotify_add_watch(watch, ".", IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
            return err_sys(err, "watch the audit folder");
    }
    if (store_find(a->store, &f, print_record, &t, err) < 0 || ask_flush(a, err) < 0)
        return err_number(err);
    if (watch >= 0)
        return follow(&t, &f, watch, err);
    return print_end(&t, err);
}

int ask_show(struct ask *a, struct err *err)
{
    uint64_t seq = ask_number(a, "seq", 0);
    struct tail t = {.ask = a};
    struct store_filter f = {.after = seq - 1, .limit = 1};
    if (!seq || store_find(a->store, &f, print_record, &t, err) < 0)
        return seq ? err_number(err) : err_set(err, ERR_USAGE, "records are counted from 1");
    if (t.last != seq) {
        buf_reset(&a->out);
        return err_set(err, ERR_NOT_FOUND, "there is no record %llu", (unsigned long long)seq);
    }
    return print_end(&t, err);
}

int ask_summary(struct ask *a, struct err *err)
{
    char since[RECORD_TIME_SIZE];
    struct json_writer w;
    jw_init(&w, &a->out, false);
    jw_object_begin(&w);
    if (store_summary(a->store, ask_since(a, since), &w, err) < 0)
        return err_number(err);
    jw_object_end(&w);
    buf_str(&a->out, "\n{\"end\":{}}\n");
    return ask_flush(a, err);
}
