/* One frame of a stream that carries several. What it says is checked against its type alone:
 * whether it may be said now is lines.c's business. */
#include "plan/lines.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

/* How long what follows the head is: between these. */
static const struct {
    uint16_t least, most;
    bool channel; /* about one of them */
} shapes[LINES_TYPE_COUNT] = {
    [LINES_DATA] = {1, LINES_PIECE, true},
    [LINES_END] = {0, 0, true},
    [LINES_GONE] = {0, 0, true},
    [LINES_CREDIT] = {4, 4, true},
    [LINES_SIGNAL] = {1, 1, false},
    [LINES_SIZE] = {4, 4, false},
    [LINES_STARTED] = {0, 0, false},
    [LINES_FAILED] = {sizeof(struct err), sizeof(struct err), false},
    [LINES_EXIT] = {sizeof(struct lines_exit), sizeof(struct lines_exit), false},
};

/* VM-25 */
int lines_parse(const uint8_t *data, size_t len, struct lines_frame *ret)
{
    if (len < LINES_HEAD)
        return 0;
    unsigned type = data[0], channel = data[1];
    size_t size = (size_t)data[2] << 8 | data[3];
    if (type == LINES_NONE || type >= LINES_TYPE_COUNT || size < shapes[type].least ||
        size > shapes[type].most || channel >= (shapes[type].channel ? LINES_CHANNELS : 1))
        return -EPROTO;
    if (len < LINES_HEAD + size)
        return 0;
    *ret = (struct lines_frame){
        .type = (enum lines_type)type, .channel = channel, .data = data + LINES_HEAD, .len = size};
    return (int)(LINES_HEAD + size);
}

size_t lines_write(uint8_t *to, enum lines_type type, unsigned channel, const void *data,
                   size_t len)
{
    to[0] = (uint8_t)type;
    to[1] = (uint8_t)channel;
    to[2] = (uint8_t)(len >> 8);
    to[3] = (uint8_t)len;
    if (len > 0)
        memcpy(to + LINES_HEAD, data, len);
    return LINES_HEAD + len;
}
