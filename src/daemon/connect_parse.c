/* The envelope of a stream's request: see connect.h. */
#include "daemon/connect.h"

int connect_unwrap(const char *data, size_t len, const char **ret, size_t *ret_len, struct err *err)
{
    const unsigned char *head = (const unsigned char *)data;
    uint32_t size;
    if (len < 5)
        return err_set(err, ERR_USAGE, "the message is cut off");
    if (head[0] & 1)
        return err_set(err, ERR_USAGE, "a compressed message was not offered");
    if (head[0])
        return err_set(err, ERR_USAGE, "the first frame must be a message");
    size = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
    if (size > len - 5)
        return err_set(err, ERR_USAGE, "the message is cut off");
    if (size < len - 5)
        return err_set(err, ERR_USAGE, "one message was expected");
    *ret = data + 5;
    *ret_len = size;
    return 0;
}
