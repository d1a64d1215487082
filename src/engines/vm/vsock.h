/* The vsock device: a few streams between init in the guest and the monitor, and nothing else.
 *
 * The guest dials; the monitor has one stream for each port from 1 on, and takes one connection to
 * each in the life of the machine.
 *
 * VM-6  What a stream holds is bounded by the monitor's own numbers, never by the guest's: one that
 * sends more than was granted is reset, one that grants more than there is gains nothing.
 * VM-7  A port is connected to once: whoever comes after init is refused. */
#pragma once

#include "engines/vm/device.h"

#define VSOCK_STREAMS 4
#define VSOCK_WINDOW  65536u
#define VSOCK_RESETS  16u
#define VSOCK_GUEST   3u /* the guest's address; the monitor's is 2 */

struct vsock_stream {
    bool taken_once, open;
    uint32_t guest_port;
    /* Towards the guest: what it can hold, what it has read, what was sent. */
    uint32_t guest_room, guest_read, sent;
    /* From the guest: what was read of it here, and what it knows of that. */
    uint32_t read, told;
    bool answer, credit, reset; /* a packet of this kind is due */
    bool guest_ended;           /* nothing more comes from there */
    bool end, end_told;         /* nothing more goes there */
    size_t from_len, to_len;
    uint8_t from[VSOCK_WINDOW]; /* the guest's, not yet read */
    uint8_t to[VSOCK_WINDOW];   /* for the guest, not yet sent */
};

struct vsock {
    struct device device;
    struct vsock_stream streams[VSOCK_STREAMS];
    struct {
        uint32_t guest_port, port;
    } resets[VSOCK_RESETS];
    unsigned reset_count;
    /* Something came, or there is room again. */
    bool changed;
};

void vsock_init(struct vsock *v, const struct guest_memory *memory);
/* Stream 0 is port 1. Room for more bytes to the guest, and putting some there. */
size_t vsock_room(const struct vsock *v, unsigned stream);
void vsock_put(struct vsock *v, unsigned stream, const void *data, size_t len);
/* Nothing more comes after what was put. */
void vsock_end(struct vsock *v, unsigned stream);
/* What came and is not read yet; dropping what was read. */
const uint8_t *vsock_data(const struct vsock *v, unsigned stream, size_t *len);
void vsock_drop(struct vsock *v, unsigned stream, size_t len);
/* The guest connected, has ended its side, and all of it was read. */
bool vsock_finished(const struct vsock *v, unsigned stream);
/* Sends what can be sent. */
void vsock_flush(struct vsock *v);
