/* One message as it came from the other side: whole, of a known type, and with texts that end. */
#include "network/channel.h"

#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(struct channel_msg, text) == CHANNEL_HEAD, "no padding on the wire");

static void clean_err(struct err *e)
{
    e->message[sizeof e->message - 1] = '\0';
    e->hint[sizeof e->hint - 1] = '\0';
    if (e->code != ERR_NONE && !err_code_known(e->code))
        e->code = ERR_PROTOCOL;
    if (e->boundary < 0 || e->boundary >= BOUNDARY_COUNT)
        e->boundary = BOUNDARY_NONE;
}

int channel_check(struct channel_msg *msg, size_t len, struct err *err)
{
    if (len < CHANNEL_HEAD)
        return err_set(err, ERR_PROTOCOL, "channel: a message of %zu bytes", len);
    if (msg->type == CH_NONE || msg->type >= CH_TYPE_COUNT)
        return err_set(err, ERR_PROTOCOL, "channel: message of unknown type %u", msg->type);
    if (msg->text_len > CHANNEL_TEXT_MAX || len - CHANNEL_HEAD != msg->text_len)
        return err_set(err, ERR_PROTOCOL, "channel: a text of %u bytes in a message of %zu",
                       msg->text_len, len);
    if (memchr(msg->text, '\0', msg->text_len))
        return err_set(err, ERR_PROTOCOL, "channel: a NUL in the text");
    msg->text[msg->text_len] = '\0';
    clean_err(&msg->err);
    return 0;
}
