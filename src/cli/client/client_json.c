/* Whole answers, and what the verbs want to know of them. */
#include "base/cleanup.h"
#include "cli/client/client.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MAX ((size_t)64 << 20)

int64_t member_int(const struct json *j, const char *name, int64_t missing)
{
    const struct json *m = j && json_type(j) == JSON_OBJECT ? json_get(j, name) : NULL;
    return m && json_type(m) == JSON_INT    ? json_int(m)
           : m && json_type(m) == JSON_REAL ? (int64_t)json_real(m)
                                            : missing;
}

int client_text(const struct client *c, const struct ask *ask, struct buf *ret, struct err *err)
{
    struct call call;
    const char *piece;
    ssize_t n = 0;
    call_init(&call);
    buf_init(ret, ANSWER_MAX);
    int r = call_start(&call, c, ask, err);
    while (r >= 0 && (n = call_read(&call, &piece, err)) > 0)
        buf_add(ret, piece, (size_t)n);
    call_done(&call);
    if (r >= 0 && ret->failed)
        return err_set(err, ERR_LIMIT, "the daemon's answer is too long");
    return r < 0 ? r : n < 0 ? (int)n : 0;
}

int client_json(const struct client *c, const struct ask *ask, struct json **ret, struct err *err)
{
    static const struct json_limits limits = {ANSWER_MAX, 64, 4u << 20};
    cleanup_buf struct buf text = {0};
    *ret = NULL;
    if (client_text(c, ask, &text, err) < 0)
        return err_number(err);
    if (text.len == 0)
        return 0;
    if (json_parse(buf_text(&text), text.len, &limits, ret, err) < 0)
        return err_wrap(err, "the daemon's answer");
    return 0;
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

int client_find(const struct client *c, const char *text, char ret[static 64], struct err *err)
{
    cleanup_json struct json *list = NULL;
    const char *found = NULL;
    size_t count = 0;
    if (!client_id_good(text)) {
        err_set(err, ERR_USAGE, "'%.60s' is no sandbox id", text);
        return err_hint(err, "`brig ps` lists them");
    }
    struct ask ask = {.method = "GET", .path = "/v2/sandboxes?limit=1000&state=running,paused"};
    if (client_json(c, &ask, &list, err) < 0)
        return err_number(err);
    for (size_t i = 0; list && i < json_count(list); i++) {
        const char *id = json_text(json_at(list, i), "sandboxID");
        if (!id || strncmp(id, text, strlen(text)) != 0)
            continue;
        found = id;
        count++;
        if (strcmp(id, text) == 0) {
            count = 1;
            break;
        }
    }
    if (count == 1) {
        snprintf(ret, 64, "%s", found);
        return 0;
    }
    if (count > 1)
        return err_set(err, ERR_USAGE, "%zu sandboxes begin with '%s'", count, text);
    err_set(err, ERR_NOT_FOUND, "there is no sandbox %s", text);
    return err_hint(err, "it has ended, or belongs to another key; `brig ps` lists what is there");
}
