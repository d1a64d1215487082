/* GET /sandboxes/{id}/review, POST …/apply (the operator's alone) and …/discard. */
#include "daemon/box/review.h"
#include "daemon/e2b/control.h"

#include <string.h>

static void answer_text(void *ctx, const char *text, size_t len, const struct err *err)
{
    struct call *call = ctx;
    if (call_came(call, err))
        call_text(call, 200, "text/x-diff; charset=utf-8", text, len);
}

void control_review(struct call *call)
{
    char format[16] = "json";
    int r = call_query(call, "format", format, sizeof format);
    if (r < 0)
        return;
    bool text = strcmp(format, "text") == 0, stat = strcmp(format, "stat") == 0;
    if (!text && !stat && strcmp(format, "json") != 0) {
        call_fail(call, 400, "\"format\" is json, stat or text");
        return;
    }
    struct box *b = call_box(call);
    if (!b)
        return;
    call_wait(call);
    review_diff(b,
                text   ? REVIEW_TEXT
                : stat ? REVIEW_STAT
                       : REVIEW_JSON,
                text ? answer_text : call_answered, call);
}

void control_review_apply(struct call *call, const struct json *body)
{
    const struct json *files = NULL, *trust = NULL;
    const char *digest = NULL;
    bool dry_run = false;
    const struct field fields[] = {
        {"files", FIELD_STRINGS, &files},
        {"trust", FIELD_STRINGS, &trust},
        {"digest", FIELD_STRING, &digest},
        {"dry_run", FIELD_BOOL, &dry_run},
    };
    if (!CALL_FIELDS(call, body, FIELDS_STRICT, fields))
        return;
    struct box *b = call_box(call);
    if (!b)
        return;
    call_wait(call);
    review_take(b, call->key, body, call_answered, call);
}

void control_review_discard(struct call *call)
{
    struct box *b = call_box(call);
    if (!b)
        return;
    call_wait(call);
    review_drop(b, call->key, call_answered, call);
}
