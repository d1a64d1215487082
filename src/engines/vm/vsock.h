/* The vsock device: streams between init in the guest and the monitor, and nothing else.
 *
 * The guest dials. The monitor has a few fixed streams, one for each port from 1 on, and takes one
 * connection to each in the life of the machine. Behind two more ports there are many, in turn and
 * so many at a time: those that carry the code's connections, and, in a sandbox that lives on,
 * those by which programs are started (joins.h).
 *
 * VM-6  What a stream holds is bounded by the monitor's own numbers, never by the guest's: one that
 * sends more than was granted is reset, one that grants more than there is gains nothing.
 * VM-7  A fixed port is connected to once: whoever comes after init is refused.
 * VM-17 How many streams carry connections is the monitor's choice, none in a run without network
 * rules; so is how many there are for programs, none in a run. Who dials beyond it is refused, and
 * nothing is kept of it. */
#pragma once

#include "engines/vm/device.h"

#define VSOCK_FIXED   5u
#define VSOCK_CARRIED 128u
#define VSOCK_JOINED  200u
#define VSOCK_STREAMS (VSOCK_FIXED + VSOCK_CARRIED + VSOCK_JOINED) /* in this order */
#define VSOCK_WINDOW  32768u
#define VSOCK_RESETS  16u
#define VSOCK_GUEST   3u /* the guest's address; the monitor's is 2 */

/* What stands before the bytes of each packet, in either direction. */
struct vsock_packet {
    uint64_t from, to;
    uint32_t from_port, to_port, len;
    uint16_t type, op;
    uint32_t flags, room, read;
} __attribute__((packed));
_Static_assert(sizeof(struct vsock_packet) == 44, "as the specification has it");

struct vsock_stream {
    bool taken_once, open;
    bool held; /* of those behind a port of many: somebody here still works with it */
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
    unsigned carried_max, joined_max; /* VM-17 */
    unsigned turn; /* which stream is served first: the guest's buffers may not do for all */
    bool silent;   /* nothing is sent: the machine is to be parked */
    /* Something came, or there is room again. */
    bool changed;
};

/* What a guest that is to be parked has done. */
enum vsock_dial {
    VSOCK_UNDIALLED,
    VSOCK_WAITS, /* init dialled its own stream, and nothing else was ever begun */
    VSOCK_ASTRAY,
};

void vsock_init(struct vsock *v, const struct guest_memory *memory);
/* Stream 0 is port 1, and so on; all that carry are port VSOCK_FIXED + 1, all that join the next.
 * Room for more bytes to the guest, and putting some there. */
size_t vsock_room(const struct vsock *v, unsigned stream);
void vsock_put(struct vsock *v, unsigned stream, const void *data, size_t len);
/* Nothing more comes after what was put. */
void vsock_end(struct vsock *v, unsigned stream);
/* What came and is not read yet; dropping what was read. */
const uint8_t *vsock_data(const struct vsock *v, unsigned stream, size_t *len);
void vsock_drop(struct vsock *v, unsigned stream, size_t len);
/* The guest connected, has ended its side, and all of it was read. */
bool vsock_finished(const struct vsock *v, unsigned stream);
/* Ends it both ways: what was put still goes, nothing more is read. */
void vsock_reset(struct vsock *v, unsigned stream);
/* Nobody here works with it any more: it may be another's. */
void vsock_release(struct vsock *v, unsigned stream);
/* From the start on: who dials is not answered. What was dialled, once nothing more comes. */
void vsock_silence(struct vsock *v);
enum vsock_dial vsock_dialled(const struct vsock *v);
/* Of one that VSOCK_WAITS. Restored, it is answered as any other. */
void vsock_save(const struct vsock *v, struct state_writer *w);
bool vsock_restore(struct vsock *v, struct state_reader *r);
/* Sends what can be sent. */
void vsock_flush(struct vsock *v);
