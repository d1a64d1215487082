/* How long the messages of a TLS handshake say that they are, seen in the bytes before a TLS
 * library has them.
 *
 * OpenSSL makes room for all of a client's hello, up to 128 KiB, as soon as it has read the length
 * that the hello says of itself: strangers who send ten bytes and wait would hold that much each.
 * Whoever reads for OpenSSL shows the bytes here first, and gives the connection up where a message
 * claims more than he would take anyway. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shake {
    uint8_t record[5], message[4]; /* heads: kind, version, length; kind, length */
    uint8_t record_len, message_len;
    uint32_t record_left, message_left;
    bool over; /* what follows is encrypted */
};

/* The next bytes of a client, cut anywhere. `changes_cipher`: after a change_cipher_spec nothing is
 * in the clear any more, which TLS 1.3 does not mean by it. False: a message claims more than `max`
 * bytes, and will for ever. */
bool shake_take(struct shake *s, const void *data, size_t len, size_t max, bool changes_cipher);
