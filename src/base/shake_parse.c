/* Finds TLS records and handshake messages in a client's bytes by their headers; nothing else of
 * TLS is understood here. A message may be spread over records, and a record may hold several. */
#include "base/shake_parse.h"

#include <string.h>

enum {
    CHANGE_CIPHER_SPEC = 20,
    HANDSHAKE = 22,
    ENCRYPTED = 23,
};

/* What is missing of a head of `size` bytes, as far as it has come. True: it is whole. */
static bool fill(uint8_t *head, uint8_t *have, size_t size, const uint8_t **data, size_t *len)
{
    size_t n = size - *have < *len ? size - *have : *len;
    memcpy(head + *have, *data, n);
    *have = (uint8_t)(*have + n);
    *data += n;
    *len -= n;
    return *have == size;
}

static bool take_messages(struct shake *s, const uint8_t *data, size_t len, size_t max)
{
    while (len > 0) {
        size_t n = s->message_left < len ? s->message_left : len;
        data += n;
        len -= n;
        s->message_left -= (uint32_t)n;
        if (len == 0 || !fill(s->message, &s->message_len, sizeof s->message, &data, &len))
            break;
        s->message_left =
            (uint32_t)s->message[1] << 16 | (uint32_t)s->message[2] << 8 | s->message[3];
        s->message_len = 0;
        if (s->message_left > max)
            return false;
    }
    return true;
}

static void begin_record(struct shake *s, bool changes_cipher)
{
    s->record_len = 0;
    s->record_left = (uint32_t)s->record[3] << 8 | s->record[4];
    s->over = s->record[0] == ENCRYPTED || (s->record[0] == CHANGE_CIPHER_SPEC && changes_cipher);
}

bool shake_take(struct shake *s, const void *data, size_t len, size_t max, bool changes_cipher)
{
    const uint8_t *at = data;
    if (s->message_left > max)
        return false;
    while (len > 0 && !s->over) {
        if (s->record_left == 0) {
            if (fill(s->record, &s->record_len, sizeof s->record, &at, &len))
                begin_record(s, changes_cipher);
            continue;
        }
        size_t n = s->record_left < len ? s->record_left : len;
        if (s->record[0] == HANDSHAKE && !take_messages(s, at, n, max))
            return false;
        at += n;
        len -= n;
        s->record_left -= (uint32_t)n;
    }
    return true;
}
