/* Work on files of a session: started, fed, heard, given up. The work itself is done inside
 * (files/files.h). */
#include "daemon/mcp/files.h"

#include "base/container.h"
#include "base/utf8.h"
#include "daemon/base/turn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define CHARACTER_MAX 4u /* bytes, in UTF-8 */

/* The answer's pipe first: the end of the input alone would mean a complete file. */
static void file_stop(struct mcp_call *c)
{
    struct mcp_file *f = c->data;
    work_stop(&f->work);
    loop_close(c->activity.loop, &f->in);
    loop_timer_cancel(c->activity.loop, &f->turn);
}

static void file_forget(struct mcp_call *c)
{
    struct mcp_file *f = c->data;
    buf_done(&f->data);
    buf_done(&f->text);
}

struct mcp_file *file_new(struct mcp_call *c, enum files_op op)
{
    struct mcp_file *f = mcp_data_new(c, sizeof(*f));
    if (!f)
        return NULL;
    f->c = c;
    f->op = op;
    f->in.fd = -1;
    activity_buf(&c->activity, &f->data, op == FILES_LIST ? 16u << 20 : MCP_FILE_MAX);
    activity_buf(&c->activity, &f->text, 1u << 20);
    jw_init(&f->w, &f->data, false);
    c->stop = file_stop;
    c->forget = file_forget;
    return f;
}

/* ---- what the worker says ---- */

static void on_head(void *ctx, int error, uint64_t size)
{
    struct mcp_file *f = ctx;
    if (!error)
        f->size = size;
}

/* As far as the characters that have come are whole. */
static void look(struct mcp_file *f)
{
    const char *text = buf_text(&f->data);
    while (f->looked < f->data.len && !f->not_text) {
        uint32_t code = 0;
        size_t left = f->data.len - f->looked, n = utf8_decode(text + f->looked, left, &code);
        if (!n && left < CHARACTER_MAX)
            return;
        f->not_text = !n || !code;
        f->looked += n;
    }
}

bool file_is_text(struct mcp_file *f)
{
    return !f->not_text && f->looked == f->data.len;
}

static void on_data(void *ctx, const void *bytes, size_t len)
{
    struct mcp_file *f = ctx;
    buf_add(&f->data, bytes, len);
    look(f);
}

static void write_entry(struct json_writer *w, const struct files_entry *e)
{
    static const char *const types[] = {[FILES_REGULAR] = "file",
                                        [FILES_DIRECTORY] = "folder",
                                        [FILES_SYMLINK] = "link",
                                        [FILES_OTHER] = "other"};
    char time_text[ENTRY_TIME_SIZE];
    jw_object_begin(w);
    jw_kv_bytes(w, "path", e->path, strlen(e->path));
    jw_kv_string(w, "type", types[e->kind]);
    jw_kv_uint(w, "size", e->size);
    if (entry_time(e, time_text))
        jw_kv_string(w, "modified", time_text);
    if (e->target[0])
        jw_kv_bytes(w, "target", e->target, strlen(e->target));
    jw_object_end(w);
}

static void on_entry(void *ctx, const struct files_entry *e)
{
    struct mcp_file *f = ctx;
    if (f->entries >= MCP_ENTRIES_MAX) {
        f->cut = true;
        return;
    }
    f->entries++;
    if (f->data.len)
        buf_chr(&f->data, ',');
    jw_init(&f->w, &f->data, false);
    write_entry(&f->w, e);
    buf_fmt(&f->text, "%s%s\n", e->path, e->kind == FILES_DIRECTORY ? "/" : "");
}

static void on_end(void *ctx, int error)
{
    struct mcp_file *f = ctx;
    /* More than were asked for: those that came are good. */
    if (error == EFBIG && f->op == FILES_LIST && f->entries) {
        f->cut = true;
        error = 0;
    }
    if (f->data.failed && !error) {
        error = EFBIG;
        hold_refusal(&f->c->activity.hold, &f->why);
    }
    f->error = error;
    file_stop(f->c);
    f->done(f);
}

/* ---- what it is given ---- */

static void on_input(struct loop_io *io, uint32_t events)
{
    struct mcp_file *f = container_of(io, struct mcp_file, in);
    (void)events;
    ssize_t n = turn_write(f->in.fd, f->data.data + f->written, f->data.len - f->written);
    if (n >= 0 && (f->written += (size_t)n) < f->data.len)
        return;
    /* All of it is there, or the worker has given up, and says why. */
    loop_close(f->c->activity.loop, &f->in);
}

static void on_started(void *ctx, int in_fd, const struct err *err)
{
    struct mcp_file *f = ctx;
    struct activity *a = &f->c->activity;
    if (err) {
        f->error = EIO;
        f->why = *err;
        f->done(f);
        return;
    }
    if (in_fd < 0)
        return;
    f->in = (struct loop_io){.fd = in_fd, .fn = on_input, .share = account_share(a->hold.account)};
    if (loop_watch(a->loop, &f->in, EPOLLOUT) < 0)
        on_end(f, errno);
}

void file_begin(struct mcp_file *f, struct box *b, uint32_t depth, uint64_t limit)
{
    const struct files_sink sink = {
        .head = on_head, .entry = on_entry, .data = on_data, .end = on_end, .ctx = f};
    const struct work_request request = {
        .op = f->op, .path = f->path, .depth = depth, .limit = limit, .as_root = f->as_root};
    work_start(&f->work, &f->c->activity, b, &request, &sink, on_started);
}
