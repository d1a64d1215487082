/* One message as it came from the other side: whole, of a known type, without surprises in its
 * text. No I/O; its fuzzer is tests/fuzz/fuzz_wire.c. */
#include "wire/wire.h"

#include "base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char *const names[WIRE_TYPE_COUNT] = {[WIRE_NONE] = "none",
#define X(id, name) [WIRE_##id] = (name),
                                                   WIRE_TYPES(X)
#undef X
};

const char *wire_type_name(enum wire_type type)
{
    return (unsigned)type < WIRE_TYPE_COUNT ? names[type] : "unknown";
}

int wire_check(const struct wire_packet *head, size_t text_len, struct wire_msg *msg)
{
    if (head->type == WIRE_NONE || head->type >= WIRE_TYPE_COUNT || head->zero != 0)
        return -EPROTO;
    if (head->text_len != text_len || text_len > WIRE_TEXT_MAX)
        return -EPROTO;
    if (memchr(msg->text, '\0', text_len))
        return -EPROTO;
    msg->type = (enum wire_type)head->type;
    msg->request = head->request;
    msg->value = head->value;
    msg->text_len = text_len;
    msg->text[text_len] = '\0';
    return 0;
}

int wire_parse(const void *packet, size_t len, struct wire_msg *msg)
{
    struct wire_packet head;
    msg->fd_count = 0;
    for (unsigned i = 0; i < WIRE_FDS_MAX; i++)
        msg->fds[i] = -1;
    if (len < sizeof head || len - sizeof head > WIRE_TEXT_MAX)
        return -EPROTO;
    memcpy(&head, packet, sizeof head);
    memcpy(msg->text, (const char *)packet + sizeof head, len - sizeof head);
    return wire_check(&head, len - sizeof head, msg);
}

void wire_err_write(const struct err *err, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "code", err_code_name((enum err_code)err->code));
    jw_kv_int(&w, "errno", err->sys_errno);
    jw_kv_string(&w, "boundary", boundary_name((enum boundary_id)err->boundary));
    jw_key(&w, "message");
    jw_bytes(&w, err->message, strnlen(err->message, sizeof err->message));
    jw_key(&w, "hint");
    jw_bytes(&w, err->hint, strnlen(err->hint, sizeof err->hint));
    jw_object_end(&w);
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t len = strnlen(from, size - 1);
    memcpy(to, from, len);
    to[len] = '\0';
}

/* An error whose code is not known is still an error. */
static enum err_code code_of(const char *name)
{
    for (int code = ERR_USAGE; code < ERR_CODE_END; code++)
        if (strcmp(err_code_name((enum err_code)code), name) == 0)
            return (enum err_code)code;
    return ERR_PROTOCOL;
}

static enum boundary_id boundary_of(const char *name)
{
    for (int b = BOUNDARY_NONE; b < BOUNDARY_COUNT; b++)
        if (strcmp(boundary_name((enum boundary_id)b), name) == 0)
            return (enum boundary_id)b;
    return BOUNDARY_NONE;
}

int wire_err_read(const char *text, size_t len, struct err *ret)
{
    struct json *root = NULL;
    memset(ret, 0, sizeof *ret);
    if (json_parse(text, len, &json_default_limits, &root, NULL) < 0 ||
        json_type(root) != JSON_OBJECT) {
        json_free(root);
        err_set(ret, ERR_PROTOCOL, "a failure without a reason");
        return -EPROTO;
    }
    const struct json *number = json_get(root, "errno");
    bool known =
        number && json_type(number) == JSON_INT && json_int(number) > 0 && json_int(number) < 4096;
    ret->code = code_of(json_shown(root, "code"));
    ret->boundary = boundary_of(json_shown(root, "boundary"));
    ret->sys_errno = known ? (int32_t)json_int(number) : 0;
    copy_text(ret->message, sizeof ret->message, json_shown(root, "message"));
    copy_text(ret->hint, sizeof ret->hint, json_shown(root, "hint"));
    json_free(root);
    return 0;
}
