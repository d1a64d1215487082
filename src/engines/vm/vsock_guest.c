/* The vsock device: packets from the guest, and to it. A packet's header is copied, then checked;
 * its lengths and counters are claims. */
#include "engines/vm/vsock.h"

#include <stddef.h>
#include <string.h>

enum { QUEUE_TO_GUEST, QUEUE_FROM_GUEST, QUEUE_EVENTS };
enum {
    OP_REQUEST = 1,
    OP_RESPONSE,
    OP_RESET,
    OP_SHUTDOWN,
    OP_DATA,
    OP_CREDIT,
    OP_CREDIT_ASKED,
};
#define TYPE_STREAM  1u
#define SHUT_RECEIVE 1u /* the sender of the packet will read no more */
#define SHUT_SEND    2u /* will send no more */
#define MONITOR      2u
#define DEVICE_VSOCK 19u

static struct vsock *of_device(struct device *d)
{
    return (struct vsock *)(void *)d; /* its first member */
}

/* False: the guest has no buffer for it now, and rings when it has. */
static bool send_packet(struct vsock *v, struct vsock_packet *p, const uint8_t *data, size_t *len)
{
    struct chain c;
    struct device *d = &v->device;
    if (!device_take(d, QUEUE_TO_GUEST, &c))
        return false;
    if (c.out_len < sizeof *p) {
        device_fail(d);
        return false;
    }
    size_t room = c.out_len - sizeof *p;
    if (*len > room)
        *len = room;
    p->from = MONITOR;
    p->to = VSOCK_GUEST;
    p->type = TYPE_STREAM;
    p->len = (uint32_t)*len;
    chain_write(&c, 0, p, sizeof *p);
    if (*len > 0)
        chain_write(&c, sizeof *p, data, *len);
    queue_give(&d->queues[QUEUE_TO_GUEST], c.head, (uint32_t)(sizeof *p + *len));
    return true;
}

#define PORT_CARRY (VSOCK_FIXED + 1)
#define PORT_JOIN  (VSOCK_FIXED + 2)
#define JOINED_AT  (VSOCK_FIXED + VSOCK_CARRIED)

static uint32_t port_of(unsigned i)
{
    return i < VSOCK_FIXED ? i + 1 : i < JOINED_AT ? PORT_CARRY : PORT_JOIN;
}

/* Those behind a port that has many. */
struct many {
    unsigned first, count;
};

static struct many many_of(const struct vsock *v, uint32_t port)
{
    if (port == PORT_CARRY)
        return (struct many){VSOCK_FIXED, v->carried_max};
    return (struct many){JOINED_AT, port == PORT_JOIN ? v->joined_max : 0};
}

static bool has_many(uint32_t port)
{
    return port == PORT_CARRY || port == PORT_JOIN;
}

static bool send_stream(struct vsock *v, unsigned i, uint16_t op, uint32_t flags, size_t *len)
{
    struct vsock_stream *s = &v->streams[i];
    size_t none = 0;
    struct vsock_packet p = {.from_port = port_of(i),
                             .to_port = s->guest_port,
                             .op = op,
                             .flags = flags,
                             .room = VSOCK_WINDOW,
                             .read = s->read};
    if (!send_packet(v, &p, s->to, len ? len : &none))
        return false;
    s->told = s->read;
    return true;
}

/* How much room the guest says it has; never more than a window is sent at once, whatever it says.
 */
static size_t granted(const struct vsock_stream *s)
{
    uint32_t under_way = s->sent - s->guest_read;
    return under_way < s->guest_room ? s->guest_room - under_way : 0;
}

static bool send_data(struct vsock *v, unsigned i)
{
    struct vsock_stream *s = &v->streams[i];
    size_t len = s->to_len < granted(s) ? s->to_len : granted(s);
    if (len == 0)
        return false;
    if (!send_stream(v, i, OP_DATA, 0, &len) || len == 0)
        return false;
    s->sent += (uint32_t)len;
    s->to_len -= len;
    memmove(s->to, s->to + len, s->to_len);
    v->changed = true;
    return true;
}

static void flush_stream(struct vsock *v, unsigned i)
{
    struct vsock_stream *s = &v->streams[i];
    if (!s->open)
        return;
    if (s->answer && send_stream(v, i, OP_RESPONSE, 0, NULL))
        s->answer = false;
    if (s->answer)
        return;
    while (send_data(v, i))
        ;
    if (s->end && !s->end_told && s->to_len == 0 && send_stream(v, i, OP_SHUTDOWN, SHUT_SEND, NULL))
        s->end_told = true;
    if ((s->credit || s->read - s->told >= VSOCK_WINDOW / 2) &&
        send_stream(v, i, OP_CREDIT, 0, NULL))
        s->credit = false;
    if (s->reset && s->to_len == 0 && send_stream(v, i, OP_RESET, 0, NULL)) {
        s->reset = s->open = false;
        v->changed = true;
    }
}

void vsock_flush(struct vsock *v)
{
    size_t none = 0;
    if (v->silent)
        return;
    while (v->reset_count > 0) {
        struct vsock_packet p = {.from_port = v->resets[v->reset_count - 1].port,
                                 .to_port = v->resets[v->reset_count - 1].guest_port,
                                 .op = OP_RESET};
        if (!send_packet(v, &p, NULL, &none))
            break;
        v->reset_count--;
    }
    v->turn = (v->turn + 1) % VSOCK_STREAMS;
    for (unsigned i = 0; i < VSOCK_STREAMS; i++)
        flush_stream(v, (v->turn + i) % VSOCK_STREAMS);
    device_tell(&v->device, QUEUE_TO_GUEST);
}

/* VM-7 */
static void refuse(struct vsock *v, const struct vsock_packet *p)
{
    if (p->op == OP_RESET || v->reset_count == VSOCK_RESETS)
        return;
    v->resets[v->reset_count].guest_port = p->from_port;
    v->resets[v->reset_count++].port = p->to_port;
}

/* Among the streams behind one port: the one that this port of the guest's is connected to. */
static struct vsock_stream *find_among(struct vsock *v, const struct vsock_packet *p)
{
    struct many m = many_of(v, p->to_port);
    for (unsigned i = m.first; i < m.first + m.count; i++)
        if (v->streams[i].open && v->streams[i].guest_port == p->from_port)
            return &v->streams[i];
    return NULL;
}

/* VM-17 */
static struct vsock_stream *free_among(struct vsock *v, uint32_t port)
{
    struct many m = many_of(v, port);
    for (unsigned i = m.first; i < m.first + m.count; i++)
        if (!v->streams[i].open && !v->streams[i].held) {
            memset(&v->streams[i], 0, offsetof(struct vsock_stream, from));
            v->streams[i].held = true;
            return &v->streams[i];
        }
    return NULL;
}

static struct vsock_stream *find_stream(struct vsock *v, const struct vsock_packet *p)
{
    if (has_many(p->to_port))
        return find_among(v, p);
    return p->to_port >= 1 && p->to_port <= VSOCK_FIXED ? &v->streams[p->to_port - 1] : NULL;
}

/* Whom the guest may dial with this packet: a fixed stream that is new, or one more of many. */
static struct vsock_stream *dialled(struct vsock *v, struct vsock_stream *s,
                                    const struct vsock_packet *p)
{
    if (p->type != TYPE_STREAM || p->op != OP_REQUEST)
        return NULL;
    if (has_many(p->to_port))
        return s ? NULL : free_among(v, p->to_port);
    return s && !s->taken_once ? s : NULL;
}

static void connect_stream(struct vsock *v, struct vsock_stream *s, const struct vsock_packet *p)
{
    s->taken_once = s->open = s->answer = true;
    s->guest_port = p->from_port;
    s->guest_room = p->room;
    s->guest_read = p->read;
    v->changed = true;
}

static void take_data(struct vsock *v, struct vsock_stream *s, const struct chain *c,
                      const struct vsock_packet *p)
{
    /* VM-6: more than was granted, sent after the end, or shorter than its header says. */
    if (p->len > VSOCK_WINDOW - s->from_len || s->guest_ended || p->len > c->in_len - sizeof *p) {
        s->reset = s->guest_ended = true;
        s->from_len = s->to_len = 0;
        return;
    }
    s->from_len += chain_read(c, sizeof *p, s->from + s->from_len, p->len);
    v->changed = true;
}

static void take_shutdown(struct vsock *v, struct vsock_stream *s, const struct vsock_packet *p)
{
    if (p->flags & SHUT_SEND)
        s->guest_ended = true;
    if (p->flags & SHUT_RECEIVE) {
        s->to_len = 0;
        s->end = s->end_told = true;
    }
    if ((p->flags & (SHUT_SEND | SHUT_RECEIVE)) == (SHUT_SEND | SHUT_RECEIVE))
        s->reset = true;
    v->changed = true;
}

static void take_packet(struct vsock *v, const struct chain *c)
{
    struct vsock_packet p;
    if (chain_read(c, 0, &p, sizeof p) < sizeof p)
        return;
    if (p.from != VSOCK_GUEST || p.to != MONITOR)
        return;
    struct vsock_stream *s = find_stream(v, &p), *new = dialled(v, s, &p);
    if (new) {
        connect_stream(v, new, &p);
        return;
    }
    if (!s || !s->open || s->guest_port != p.from_port || p.type != TYPE_STREAM ||
        p.op == OP_REQUEST) {
        refuse(v, &p);
        return;
    }
    /* Every packet carries credit. */
    s->guest_room = p.room;
    s->guest_read = p.read;
    switch (p.op) {
    case OP_DATA:
        take_data(v, s, c, &p);
        break;
    case OP_CREDIT_ASKED:
        s->credit = true;
        break;
    case OP_SHUTDOWN:
        take_shutdown(v, s, &p);
        break;
    case OP_RESET:
        s->open = false;
        s->guest_ended = true;
        s->to_len = 0;
        v->changed = true;
        break;
    }
}

static void notify(struct device *d, unsigned queue)
{
    struct vsock *v = of_device(d);
    struct chain c;
    if (queue == QUEUE_FROM_GUEST) {
        /* VM-4: what the guest offers while this runs is left for the next notification. */
        for (unsigned i = 0; i < QUEUE_SIZE_MAX && device_take(d, queue, &c); i++) {
            take_packet(v, &c);
            queue_give(&d->queues[queue], c.head, 0);
        }
        device_tell(d, queue);
    }
    vsock_flush(v);
}

static void reset(struct device *d)
{
    struct vsock *v = of_device(d);
    for (unsigned i = 0; i < VSOCK_STREAMS; i++) {
        struct vsock_stream *stream = &v->streams[i];
        /* A driver resets the device before it uses it: what waits for the guest to connect stays.
         */
        if (!stream->taken_once)
            continue;
        stream->open = false;
        stream->guest_ended = true;
        stream->to_len = 0;
    }
    v->reset_count = 0;
    v->changed = true;
}

void vsock_init(struct vsock *v, const struct guest_memory *memory)
{
    /* The lengths say how much of the buffers is used: clearing these, too, would only take memory.
     */
    for (unsigned i = 0; i < VSOCK_STREAMS; i++)
        memset(&v->streams[i], 0, offsetof(struct vsock_stream, from));
    memset(&v->device, 0, sizeof v->device);
    v->reset_count = v->carried_max = v->joined_max = v->turn = 0;
    v->changed = v->silent = false;
    v->device.id = DEVICE_VSOCK;
    v->device.queue_count = 3;
    v->device.config[0] = VSOCK_GUEST;
    v->device.notify = notify;
    v->device.reset = reset;
    device_init(&v->device, memory);
}

size_t vsock_room(const struct vsock *v, unsigned stream)
{
    const struct vsock_stream *s = &v->streams[stream];
    return s->end || (s->taken_once && !s->open) ? 0 : VSOCK_WINDOW - s->to_len;
}

void vsock_put(struct vsock *v, unsigned stream, const void *data, size_t len)
{
    struct vsock_stream *s = &v->streams[stream];
    if (len > vsock_room(v, stream))
        len = vsock_room(v, stream);
    memcpy(s->to + s->to_len, data, len);
    s->to_len += len;
}

void vsock_end(struct vsock *v, unsigned stream)
{
    v->streams[stream].end = true;
}

const uint8_t *vsock_data(const struct vsock *v, unsigned stream, size_t *len)
{
    *len = v->streams[stream].from_len;
    return v->streams[stream].from;
}

void vsock_drop(struct vsock *v, unsigned stream, size_t len)
{
    struct vsock_stream *s = &v->streams[stream];
    if (len > s->from_len)
        len = s->from_len;
    s->from_len -= len;
    s->read += (uint32_t)len;
    memmove(s->from, s->from + len, s->from_len);
}

void vsock_reset(struct vsock *v, unsigned stream)
{
    struct vsock_stream *s = &v->streams[stream];
    s->reset = s->guest_ended = s->end = s->end_told = true;
    s->from_len = 0;
}

void vsock_release(struct vsock *v, unsigned stream)
{
    v->streams[stream].held = false;
}

bool vsock_finished(const struct vsock *v, unsigned stream)
{
    const struct vsock_stream *s = &v->streams[stream];
    return s->taken_once && s->guest_ended && s->from_len == 0;
}

/* ---- parked ---- */

#define TAG_VSOCK STATE_TAG('v', 's', 'o', 'c')
#define CONTROL   0 /* stream */

struct vsock_state {
    uint32_t guest_port, guest_room, guest_read;
};

void vsock_silence(struct vsock *v)
{
    v->silent = true;
}

static bool untouched(const struct vsock_stream *s)
{
    return !s->taken_once && !s->open && !s->held;
}

enum vsock_dial vsock_dialled(const struct vsock *v)
{
    const struct vsock_stream *s = &v->streams[CONTROL];
    bool others = v->reset_count > 0;
    for (unsigned i = CONTROL + 1; i < VSOCK_STREAMS; i++)
        others = others || !untouched(&v->streams[i]);
    if (!others && untouched(s))
        return VSOCK_UNDIALLED;
    bool fresh = s->open && s->answer && !s->credit && !s->reset && !s->guest_ended && !s->end &&
                 s->from_len == 0 && s->read == 0 && s->sent == 0;
    return fresh && !others ? VSOCK_WAITS : VSOCK_ASTRAY;
}

void vsock_save(const struct vsock *v, struct state_writer *w)
{
    const struct vsock_stream *s = &v->streams[CONTROL];
    const struct vsock_state state = {s->guest_port, s->guest_room, s->guest_read};
    device_save(&v->device, w);
    state_put(w, TAG_VSOCK, &state, sizeof state);
}

bool vsock_restore(struct vsock *v, struct state_reader *r)
{
    struct vsock_state state;
    if (!device_restore(&v->device, r) || !state_get(r, TAG_VSOCK, &state, sizeof state))
        return false;
    const struct vsock_packet p = {
        .from_port = state.guest_port, .room = state.guest_room, .read = state.guest_read};
    connect_stream(v, &v->streams[CONTROL], &p);
    return true;
}
