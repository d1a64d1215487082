/* Whole answers, and what the verbs want to know of them. */
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/client/client.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MAX ((size_t)64 << 20)
#define TOKEN_SIZE 128
#define PAGES_MAX  4096u

int64_t member_int(const struct json *j, const char *name, int64_t missing)
{
    const struct json *m = j && json_type(j) == JSON_OBJECT ? json_get(j, name) : NULL;
    return m && json_type(m) == JSON_INT    ? json_int(m)
           : m && json_type(m) == JSON_REAL ? (int64_t)json_real(m)
                                            : missing;
}

void process_begin(struct json_writer *w, struct buf *out, int64_t pid)
{
    jw_init(w, out, false);
    jw_object_begin(w);
    jw_kv_object(w, "process");
    jw_kv_int(w, "pid", pid);
    jw_object_end(w);
}

/* `token`: of the next page, or empty. */
static int whole_answer(const struct client *c, const struct ask *ask, struct buf *ret,
                        char token[static TOKEN_SIZE], struct err *err)
{
    struct call call;
    const char *piece;
    ssize_t n = 0;
    call_init(&call);
    buf_init(ret, ANSWER_MAX);
    int r = call_start(&call, c, ask, err);
    const char *next = r >= 0 ? http_header_get(&call.response.headers, "X-Next-Token") : NULL;
    snprintf(token, TOKEN_SIZE, "%s", next ? next : "");
    while (r >= 0 && (n = call_read(&call, &piece, err)) > 0)
        buf_add(ret, piece, (size_t)n);
    call_done(&call);
    if (r >= 0 && ret->failed)
        return err_set(err, ERR_LIMIT, "the daemon's answer is too long");
    return r < 0 ? r : n < 0 ? (int)n : 0;
}

int client_text(const struct client *c, const struct ask *ask, struct buf *ret, struct err *err)
{
    char token[TOKEN_SIZE];
    return whole_answer(c, ask, ret, token, err);
}

static int page(const struct client *c, const struct ask *ask, struct json **ret,
                char token[static TOKEN_SIZE], struct err *err)
{
    static const struct json_limits limits = {ANSWER_MAX, 64, 4u << 20};
    cleanup_buf struct buf text = {0};
    *ret = NULL;
    if (whole_answer(c, ask, &text, token, err) < 0)
        return err_number(err);
    if (text.len == 0)
        return 0;
    if (json_parse(buf_text(&text), text.len, &limits, ret, err) < 0)
        return err_wrap(err, "the daemon's answer");
    return 0;
}

int client_json(const struct client *c, const struct ask *ask, struct json **ret, struct err *err)
{
    char token[TOKEN_SIZE];
    return page(c, ask, ret, token, err);
}

int client_boxes(const struct client *c,
                 int (*fn)(void *ctx, const struct json *box, struct err *err), void *ctx,
                 struct err *err)
{
    char token[TOKEN_SIZE] = "";
    for (unsigned pages = 0; pages < PAGES_MAX; pages++) {
        cleanup_json struct json *list = NULL;
        cleanup_buf struct buf path = {0};
        buf_init(&path, 1024);
        buf_str(&path, "/v2/sandboxes?limit=1000&state=running,paused");
        if (*token) {
            buf_str(&path, "&nextToken=");
            client_encode(&path, token);
        }
        struct ask ask = {.method = "GET", .path = buf_text(&path)};
        int r = page(c, &ask, &list, token, err);
        for (size_t i = 0; r >= 0 && list && i < json_count(list); i++)
            r = fn(ctx, json_at(list, i), err);
        if (r < 0 || !*token)
            return r < 0 ? r : 0;
    }
    return err_set(err, ERR_PROTOCOL, "the daemon's list of sandboxes has no end");
}

void client_encode(struct buf *out, const char *text)
{
    for (; *text; text++) {
        unsigned char ch = (unsigned char)*text;
        if (isalnum(ch) || strchr("-._~/", ch))
            buf_chr(out, (char)ch);
        else
            buf_fmt(out, "%%%02X", ch);
    }
}

bool client_id_good(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
    return len > 0 && len < 64 && text[len] == '\0';
}

struct search {
    const char *text;
    char found[64];
    size_t count; /* that begin so */
    bool exact;
};

static int compare_id(void *ctx, const struct json *box, struct err *err)
{
    struct search *s = ctx;
    const char *id = json_text(box, "sandboxID");
    (void)err;
    if (!id || s->exact || !text_begins(id, s->text))
        return 0;
    snprintf(s->found, sizeof s->found, "%s", id);
    s->exact = strcmp(id, s->text) == 0;
    s->count = s->exact ? 1 : s->count + 1;
    return 0;
}

int client_find(const struct client *c, const char *text, char ret[static 64], struct err *err)
{
    struct search s = {.text = text};
    if (!client_id_good(text)) {
        err_set(err, ERR_USAGE, "'%.60s' is no sandbox id", text);
        return err_hint(err, "`brig ps` lists them");
    }
    if (client_boxes(c, compare_id, &s, err) < 0)
        return err_number(err);
    if (s.count == 1) {
        snprintf(ret, 64, "%s", s.found);
        return 0;
    }
    if (s.count > 1)
        return err_set(err, ERR_USAGE, "%zu sandboxes begin with '%s'", s.count, text);
    err_set(err, ERR_NOT_FOUND, "there is no sandbox %s", text);
    return err_hint(err, "it has ended, or belongs to another key; `brig ps` lists what is there");
}
