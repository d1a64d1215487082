/* Blocks of a parked machine's state: written, and read as input that may be anything. */
#include "engines/vm/state.h"

#include <string.h>

struct head {
    uint32_t tag, len;
};

void state_put(struct state_writer *w, uint32_t tag, const void *data, size_t len)
{
    struct head head = {.tag = tag, .len = (uint32_t)len};
    size_t room = w->room - w->len;
    if (w->failed || room < sizeof head || len > room - sizeof head || len > STATE_MAX) {
        w->failed = true;
        return;
    }
    memcpy(w->data + w->len, &head, sizeof head);
    if (len > 0)
        memcpy(w->data + w->len + sizeof head, data, len);
    w->len += sizeof head + len;
}

/* The next block, if it is this one; NULL: the reader has failed. */
static const uint8_t *take(struct state_reader *r, uint32_t tag, size_t *len)
{
    struct head head;
    size_t left = r->len - r->at;
    if (r->failed || left < sizeof head) {
        r->failed = true;
        return NULL;
    }
    memcpy(&head, r->data + r->at, sizeof head);
    if (head.tag != tag || head.len > left - sizeof head) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *block = r->data + r->at + sizeof head;
    r->at += sizeof head + head.len;
    *len = head.len;
    return block;
}

bool state_get(struct state_reader *r, uint32_t tag, void *data, size_t len)
{
    size_t has = 0;
    const uint8_t *block = take(r, tag, &has);
    if (!block || has != len) {
        r->failed = true;
        return false;
    }
    if (len > 0)
        memcpy(data, block, len);
    return true;
}

bool state_get_counted(struct state_reader *r, uint32_t tag, void *data, size_t item_size,
                       size_t max, size_t *count)
{
    size_t has = 0;
    const uint8_t *block = take(r, tag, &has);
    *count = 0;
    if (!block || has % item_size != 0 || has / item_size > max) {
        r->failed = true;
        return false;
    }
    if (has > 0)
        memcpy(data, block, has);
    *count = has / item_size;
    return true;
}

bool state_get_text(struct state_reader *r, uint32_t tag, char *text, size_t room)
{
    size_t len = 0;
    if (!state_get_counted(r, tag, text, 1, room - 1, &len))
        return false;
    text[len] = '\0';
    if (strlen(text) != len)
        r->failed = true;
    return !r->failed;
}

bool state_ended(const struct state_reader *r)
{
    return !r->failed && r->at == r->len;
}
