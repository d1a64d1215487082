/* The messages between the supervisor and brig-proxy: one SEQPACKET pair that brig-proxy inherits
 * as descriptor 3. The end of it is the end of the proxy.
 *
 * The supervisor treats everything the proxy says as hostile input: the proxy talks to the outside.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROXY_FD_CONTROL 3
#define CHANNEL_TEXT_MAX (32u * 1024)

enum channel_type {
    CH_NONE,
    /* supervisor → proxy */
    /* With a sealed memfd, JSON: {"egress": as egress_write_json says, and, all optional,
     * "auth": password of clients, "resolver": "ADDRESS:PORT", "roots": PEM file of further
     * authorities, "uid", "gid": who to become as root}. Sent again later: only "egress" counts,
     * the rules are replaced, the secrets stay. */
    CH_CONFIG,
    CH_LISTENER,   /* with a socket: value = enum channel_listener, port */
    CH_CONNECTION, /* with a connected socket: text = "ADDRESS PORT" that the code asked for, value
                      = enum channel_listener: what kind of listener it would have met */
    CH_CHECK, /* in place of the first CH_CONFIG, with the same memfd: resolve every source, answer
                 CH_CHECKED per secret whether it is available or not, then wait for the end */
    CH_END,   /* no more work: send what is left, revoke, answer CH_BYE and exit */
    /* proxy → supervisor */
    CH_READY, /* text = JSON {"ca": PEM or null, "facts": {…}}; before any listener is served */
    CH_FAIL,  /* err */
    CH_REPLACED, /* new rules are in force; value = connections that they ended */
    CH_EVENT,    /* text = JSON of one event */
    CH_CHECKED,  /* text = JSON {"name", "source", "ok", "error"} */
    CH_BYE,      /* text = JSON of totals {"lost_events": n, …} */
    /* supervisor → proxy; text = "ADDRESS PORT" that the code asked for, where nobody listens
       inside */
    CH_REFUSED,
    /* proxy → supervisor: a host outside of the rules, about which the policy asks a person; value
       = the question's number, port, text = the host */
    CH_ASK,
    /* supervisor → proxy: value = the question's number, port = 1: allowed, by rules that were sent
       before; 0: denied */
    CH_ANSWER,
    /* supervisor → proxy: say CH_SYNCED with this value when every event of before is sent */
    CH_SYNC,
    CH_SYNCED,
    CH_TYPE_COUNT,
};

enum channel_listener {
    LISTENER_PROXY,       /* HTTP proxy, CONNECT, the gateway */
    LISTENER_TRANSPARENT, /* the local address of each connection is what the code dialled */
    LISTENER_DNS_UDP,
    LISTENER_DNS_TCP,
    LISTENER_KIND_COUNT,
};

struct channel_msg {
    uint32_t type;
    uint32_t value;
    uint32_t port;
    uint32_t text_len;
    struct err err;
    char text[CHANNEL_TEXT_MAX + 1];
};

/* On the wire: everything before `text`, then text_len bytes of it. */
#define CHANNEL_HEAD (4 * sizeof(uint32_t) + sizeof(struct err))
/* Is what was received into msg (`len` bytes) a message? Terminates its texts. */
int channel_check(struct channel_msg *msg, size_t len, struct err *err);

/* 0 or negative; -EAGAIN where the other side does not read (non-blocking sockets). */
int channel_send(int fd, uint32_t type, uint32_t value, uint32_t port, const char *text,
                 int pass_fd, const struct err *why);
/* 1 with a message, 0 at the end, negative on nonsense or -EAGAIN. *ret_fd gets a passed descriptor
 * or -1; a message of a type that needs one and has none, or of another type and has one, is
 * nonsense. */
int channel_receive(int fd, struct channel_msg *msg, int *ret_fd, struct err *err);
