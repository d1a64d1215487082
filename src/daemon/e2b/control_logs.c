/* GET /sandboxes/{id}/logs and its second version: what became of the processes of a sandbox, as
 * E2B's clients read it. As there, a log tells that a program was started and how it ended, never
 * what it said; that is `brig logs`, the same path with "pid" or "format=text".
 *
 * It is made from what is known of processes when somebody asks: of those that have ended the last
 * few. The record (docs/audit.md) has all of them. */
#include "daemon/e2b/control.h"

#include "base/num.h"
#include "base/text.h"
#include "os/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define LIMIT_MAX     1000
#define COMMAND_MAX   512
#define MESSAGE_MAX   768
#define SEARCH_MAX    256
#define ENTRIES_GUESS 64

enum level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR };
static const char *const level_names[] = {"debug", "info", "warn", "error"};

struct entry {
    int64_t time_ms, pid;
    enum level level;
    const char *event;
    char command[COMMAND_MAX], message[MESSAGE_MAX], result[64];
};

struct entries {
    struct entry *items;
    size_t count, room;
    bool failed;
};

struct filter {
    int64_t from_ms; /* v1: not before; v2: the cursor */
    uint64_t limit;
    bool second, backward;
    enum level level;
    char search[SEARCH_MAX + 1];
};

/* ---- what is known ---- */

static struct entry *entry_add(struct entries *e)
{
    if (e->count == e->room) {
        size_t room = e->room ? e->room * 2 : ENTRIES_GUESS;
        struct entry *items = reallocarray(e->items, room, sizeof *items);
        if (!items) {
            e->failed = true;
            return NULL;
        }
        e->items = items;
        e->room = room;
    }
    struct entry *added = &e->items[e->count++];
    *added = (struct entry){.level = LEVEL_INFO};
    return added;
}

/* No more of it than could be shown: a command may have thousands of words, and a sandbox hundreds
 * of them. */
static void add_word(struct buf *text, const char *word)
{
    buf_add(text, word, strnlen(word, COMMAND_MAX));
}

/* Cut where it is too long, at the end of a character: it is shown, not run. */
static void write_command(const struct json *config, char out[static COMMAND_MAX])
{
    struct buf text cleanup_buf = {0};
    const struct json *args = config ? json_get(config, "args") : NULL;
    const char *cmd = config ? json_text(config, "cmd") : NULL;
    buf_init(&text, 4 * COMMAND_MAX);
    if (cmd) {
        add_word(&text, cmd);
    }
    for (size_t i = 0; args && i < json_count(args) && text.len < COMMAND_MAX; i++) {
        buf_chr(&text, ' ');
        add_word(&text, json_string(json_at(args, i)));
    }
    size_t len = text.len < COMMAND_MAX ? text.len : COMMAND_MAX - 1;
    while (len && len < text.len && (text.data[len] & 0xc0) == 0x80)
        len--;
    snprintf(out, COMMAND_MAX, "%.*s", (int)len, buf_text(&text));
}

static void write_result(const struct process_log *log, char out[static 64])
{
    int s = log->wait_status;
    char words[SIGNAL_WORDS_SIZE];
    const char *oom = log->oom_killed ? ", oom_killed" : "";
    if (WIFEXITED(s))
        snprintf(out, 64, "exit status %d%s", WEXITSTATUS(s), oom);
    else
        snprintf(out, 64, "signal: %s%s", signal_words(WTERMSIG(s), words), oom);
}

static void add_process(void *ctx, const struct process_log *log)
{
    struct entries *e = ctx;
    struct entry *start = entry_add(e);
    if (!start)
        return;
    start->time_ms = log->started_ms;
    start->pid = log->pid;
    start->event = "process_start";
    write_command(log->config, start->command);
    snprintf(start->message, sizeof start->message, "process %lld started: %s", (long long)log->pid,
             start->command);
    struct entry *end = log->ended ? entry_add(e) : NULL;
    if (!end)
        return;
    end->time_ms = log->ended_ms;
    end->pid = log->pid;
    end->event = "process_end";
    end->level = log->oom_killed ? LEVEL_ERROR : log->wait_status ? LEVEL_WARN : LEVEL_INFO;
    write_result(log, end->result);
    snprintf(end->message, sizeof end->message, "process %lld ended: %s", (long long)log->pid,
             end->result);
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->time_ms != y->time_ms)
        return x->time_ms < y->time_ms ? -1 : 1;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return strcmp(y->event, x->event); /* its start before its end */
}

/* ---- the question ---- */

static bool read_number(struct call *call, const char *name, uint64_t max, uint64_t *ret)
{
    char text[32];
    int r = call_query(call, name, text, sizeof(text));
    if (r <= 0)
        return r == 0;
    if (num_parse_uint(text, ret, NULL) == 0 && *ret <= max)
        return true;
    call_fail(call, 400, "%s: expected a number up to %llu", name, (unsigned long long)max);
    return false;
}

static bool read_words(struct call *call, struct filter *f)
{
    char text[SEARCH_MAX + 1];
    int r = call_query(call, "direction", text, sizeof(text));
    if (r < 0)
        return false;
    if (r > 0 && strcmp(text, "forward") != 0 && strcmp(text, "backward") != 0) {
        call_fail(call, 400, "direction: expected forward or backward");
        return false;
    }
    f->backward = r == 0 || !strcmp(text, "backward");
    r = call_query(call, "level", text, sizeof(text));
    if (r < 0)
        return false;
    for (unsigned i = 0; r > 0 && i < ARRAY_LEN(level_names); i++) {
        if (!strcmp(text, level_names[i])) {
            f->level = (enum level)i;
            r = 0;
        }
    }
    if (r > 0) {
        call_fail(call, 400, "level: expected debug, info, warn or error");
        return false;
    }
    return call_query(call, "search", f->search, sizeof(f->search)) >= 0;
}

static bool read_filter(struct call *call, struct filter *f)
{
    uint64_t from = UINT64_MAX;
    *f = (struct filter){.limit = LIMIT_MAX, .second = text_begins(call->route->path, "/v2/")};
    if (!read_number(call, "limit", LIMIT_MAX, &f->limit) ||
        !read_number(call, f->second ? "cursor" : "start", INT64_MAX, &from) ||
        (f->second && !read_words(call, f)))
        return false;
    if (from == UINT64_MAX)
        from = f->backward ? INT64_MAX : 0;
    f->from_ms = (int64_t)from;
    return true;
}

static bool is_wanted(const struct filter *f, const struct entry *e)
{
    if (f->backward ? e->time_ms > f->from_ms : e->time_ms < f->from_ms)
        return false;
    return e->level >= f->level && (!f->search[0] || strstr(e->message, f->search));
}

/* ---- the answer ---- */

static void write_fields(struct json_writer *w, const struct entry *e)
{
    char pid[24];
    snprintf(pid, sizeof pid, "%lld", (long long)e->pid);
    jw_kv_string(w, "event_type", e->event);
    jw_kv_string(w, "pid", pid);
    if (e->command[0])
        jw_kv_string(w, "command", e->command);
    if (e->result[0])
        jw_kv_string(w, "result", e->result);
}

static void write_entry(struct json_writer *w, const struct entry *e)
{
    char time_text[TIME_TEXT_SIZE];
    control_time(e->time_ms, time_text);
    jw_object_begin(w);
    jw_kv_string(w, "timestamp", time_text);
    jw_kv_string(w, "level", level_names[e->level]);
    jw_kv_string(w, "message", e->message);
    jw_kv_object(w, "fields");
    write_fields(w, e);
    jw_object_end(w);
    jw_object_end(w);
}

/* The first version's lines are JSON once more, which its client parses one by one. */
static void write_line(struct json_writer *w, const struct entry *e)
{
    struct buf text cleanup_buf = {0};
    struct json_writer inner;
    char time_text[TIME_TEXT_SIZE];
    control_time(e->time_ms, time_text);
    jw_begin(&inner, &text, 16u * 1024);
    jw_kv_string(&inner, "level", level_names[e->level]);
    jw_kv_string(&inner, "logger", "process");
    jw_kv_string(&inner, "message", e->message);
    write_fields(&inner, e);
    jw_object_end(&inner);
    jw_object_begin(w);
    jw_kv_string(w, "timestamp", time_text);
    jw_kv_string(w, "line", text.failed ? "{\"level\":\"info\"}" : buf_text(&text));
    jw_object_end(w);
}

static void write_list(struct json_writer *w, const char *key, const struct entries *e,
                       const struct filter *f,
                       void (*write)(struct json_writer *w, const struct entry *e))
{
    uint64_t left = f->limit;
    jw_kv_array(w, key);
    for (size_t i = 0; i < e->count && left; i++) {
        const struct entry *at = &e->items[f->backward ? e->count - 1 - i : i];
        if (!is_wanted(f, at))
            continue;
        write(w, at);
        left--;
    }
    jw_array_end(w);
}

static void reply(struct call *call, const struct entries *e, const struct filter *f)
{
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    call_buf(call, &out, 4u << 20);
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    write_list(&w, "logs", e, f, f->second ? write_entry : write_line);
    if (!f->second)
        write_list(&w, "logEntries", e, f, write_entry);
    jw_object_end(&w);
    call_reply(call, 200, &out);
}

static bool is_text_wanted(struct call *call, bool *ret)
{
    char text[32];
    int format = call_query(call, "format", text, sizeof(text));
    if (format > 0 && strcmp(text, "text") != 0 && strcmp(text, "json") != 0) {
        call_fail(call, 400, "format: expected json or text");
        return false;
    }
    bool is_text = format > 0 && !strcmp(text, "text");
    int pid = format < 0 ? -1 : call_query(call, "pid", text, sizeof(text));
    *ret = is_text || pid > 0;
    return format >= 0 && pid >= 0;
}

void control_logs(struct call *call)
{
    struct entries e = {0};
    struct filter f;
    struct box *b;
    bool is_text;
    if (!is_text_wanted(call, &is_text))
        return;
    if (is_text) {
        logs_get_text(call);
        return;
    }
    if (!read_filter(call, &f) || !(b = call_box(call)))
        return;
    process_logs(b, add_process, &e);
    if (e.count)
        qsort(e.items, e.count, sizeof *e.items, compare);
    if (e.failed)
        call_fail_memory(call);
    else
        reply(call, &e, &f);
    free(e.items);
}
