/* A call as a person is shown it who is to decide about it. */
#include "approvals/approval.h"
#include "mcp/wrap_internal.h"

#include <string.h>

/* A long text must not push what comes behind it out of sight. */
#define TEXT_SHOWN 240

static void show_text(struct json_writer *w, const char *text)
{
    cleanup_buf struct buf cut;
    size_t len = strlen(text);
    buf_init(&cut, TEXT_SHOWN + 100);
    if (len <= TEXT_SHOWN + 40) {
        jw_string(w, text);
        return;
    }
    size_t keep = TEXT_SHOWN;
    while (keep > 0 && ((unsigned char)text[keep] & 0xC0) == 0x80)
        keep--;
    buf_add(&cut, text, keep);
    buf_fmt(&cut, "… [%zu bytes in all]", len);
    jw_string(w, buf_text(&cut));
}

/* Recursion is bounded by the depth that rpc_parse takes. */
static void show_value(struct json_writer *w, const struct json *j)
{
    bool object = json_type(j) == JSON_OBJECT;
    if (json_type(j) == JSON_STRING) {
        show_text(w, json_string(j));
    } else if (object || json_type(j) == JSON_ARRAY) {
        (object ? jw_object_begin : jw_array_begin)(w);
        for (size_t i = 0; i < json_count(j); i++) {
            if (object)
                jw_key(w, json_key_at(j, i));
            show_value(w, object ? json_value_at(j, i) : json_at(j, i));
        }
        (object ? jw_object_end : jw_array_end)(w);
    } else {
        jw_json(w, j);
    }
}

int wrap_show_call(const char *name, const struct json *arguments, struct buf *out, struct err *err)
{
    cleanup_buf struct buf shown;
    struct json_writer w;
    buf_init(&shown, (size_t)16 * APPROVAL_TEXT_MAX);
    buf_fmt(out, "%s ", name);
    jw_init(&w, out, false);
    if (arguments)
        show_value(&w, arguments);
    else
        buf_str(out, "{}");
    /* Escapes count: nothing of it may be left out when it is shown. */
    approval_show_text(&shown, buf_text(out), out->len, shown.cap);
    if (out->failed || shown.failed || shown.len >= APPROVAL_TEXT_MAX)
        return err_set(err, ERR_LIMIT, "the call is too long to be shown to a person");
    return 0;
}
