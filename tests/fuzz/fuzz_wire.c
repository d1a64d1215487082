/* Messages between the processes of `brig serve`, as bytes from the other side, and the text of a
 * failure. */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_err(const struct wire_msg *msg)
{
    struct err err;
    int r = wire_err_read(msg->text, msg->text_len, &err);
    if (!err_code_known(err.code) || err.boundary < 0 || err.boundary >= BOUNDARY_COUNT ||
        memchr(err.message, '\0', sizeof err.message) == NULL ||
        memchr(err.hint, '\0', sizeof err.hint) == NULL)
        abort();
    if (r < 0)
        return;
    struct buf text;
    struct err again;
    buf_init(&text, WIRE_TEXT_MAX);
    wire_err_write(&err, &text);
    if (text.failed || wire_err_read(text.data, text.len, &again) < 0 || again.code != err.code ||
        again.boundary != err.boundary || again.sys_errno != err.sys_errno)
        abort();
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wire_msg msg;
    msg.type = WIRE_NONE;
    if (wire_parse(data, size, &msg) < 0)
        return 0;
    if (msg.type == WIRE_NONE || msg.type >= WIRE_TYPE_COUNT || msg.fd_count ||
        strlen(msg.text) != msg.text_len || msg.text_len > WIRE_TEXT_MAX ||
        strcmp(wire_type_name(msg.type), "unknown") == 0)
        abort();
    check_err(&msg);
    return 0;
}
