/* Messages of D-Bus, as far as a call to a service manager and its answer need them. Little-endian,
 * no descriptors. What is written is counted from the beginning of the buffer, so that a body is
 * made in a buffer of its own. Pure. */
#pragma once

#include "base/buf.h"

#include <stdint.h>

#define BUS_MESSAGE_MAX (1u << 20)

enum bus_type { BUS_CALL = 1, BUS_RETURN = 2, BUS_ERROR = 3, BUS_SIGNAL = 4 };

/* ---- writing ---- */

struct bus_array {
    size_t length, start; /* where its length stands, and its first element */
};

void bus_u32(struct buf *b, uint32_t value);
void bus_bool(struct buf *b, bool value);
void bus_string(struct buf *b, const char *text);
void bus_signature(struct buf *b, const char *text);
/* A structure begins: of a(sv), for example. */
void bus_struct(struct buf *b);
struct bus_array bus_array_begin(struct buf *b, unsigned align);
void bus_array_end(struct buf *b, struct bus_array a);
/* The call itself; `signature` and `body` NULL: without arguments. */
void bus_call(struct buf *out, uint32_t serial, const char *const to[static 3],
              const char *signature, const struct buf *body);

/* ---- reading ---- */

/* Texts lie in the bytes that were parsed; NULL: it has none. */
struct bus_message {
    uint8_t type;
    uint32_t reply_serial;
    const char *member, *error, *signature;
    const uint8_t *body;
    size_t body_len;
};

/* How long the message is whose first 16 bytes these are; 0: it is none that is understood. */
size_t bus_length(const uint8_t head[static 16]);
/* `len` is what bus_length said. */
bool bus_parse(const uint8_t *data, size_t len, struct bus_message *ret);
/* The n-th argument, which is a text as all before it are numbers or texts; a variant counts as
 * what it has. NULL: it is not. */
const char *bus_text_at(const struct bus_message *m, unsigned n);
