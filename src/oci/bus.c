/* Writes calls of D-Bus; see bus.h. */
#include "oci/bus.h"

#include <endian.h>
#include <string.h>

#define FIELD_PATH        1
#define FIELD_INTERFACE   2
#define FIELD_MEMBER      3
#define FIELD_DESTINATION 6
#define FIELD_SIGNATURE   8
#define VERSION           1
#define STRUCT_ALIGN      8

static void align(struct buf *b, unsigned to)
{
    while (b->len % to && !b->failed)
        buf_chr(b, '\0');
}

void bus_u32(struct buf *b, uint32_t value)
{
    value = htole32(value);
    align(b, sizeof value);
    buf_add(b, &value, sizeof value);
}

void bus_bool(struct buf *b, bool value)
{
    bus_u32(b, value);
}

void bus_string(struct buf *b, const char *text)
{
    size_t len = strlen(text);
    bus_u32(b, (uint32_t)len);
    buf_add(b, text, len + 1);
}

void bus_signature(struct buf *b, const char *text)
{
    buf_chr(b, (char)strlen(text));
    buf_add(b, text, strlen(text) + 1);
}

void bus_struct(struct buf *b)
{
    align(b, STRUCT_ALIGN);
}

struct bus_array bus_array_begin(struct buf *b, unsigned to)
{
    struct bus_array a;
    bus_u32(b, 0);
    a.length = b->len - sizeof(uint32_t);
    align(b, to);
    a.start = b->len;
    return a;
}

void bus_array_end(struct buf *b, struct bus_array a)
{
    uint32_t len = htole32((uint32_t)(b->len - a.start));
    if (!b->failed)
        memcpy(b->data + a.length, &len, sizeof len);
}

static void field(struct buf *b, char code, const char *signature, const char *text)
{
    bus_struct(b);
    buf_chr(b, code);
    bus_signature(b, signature);
    if (*signature == 'g')
        bus_signature(b, text);
    else
        bus_string(b, text);
}

void bus_call(struct buf *out, uint32_t serial, const char *const to[static 3],
              const char *signature, const struct buf *body)
{
    const char head[] = {'l', BUS_CALL, 0, VERSION};
    buf_add(out, head, sizeof head);
    bus_u32(out, body ? (uint32_t)body->len : 0);
    bus_u32(out, serial);
    struct bus_array fields = bus_array_begin(out, STRUCT_ALIGN);
    field(out, FIELD_PATH, "o", to[0]);
    field(out, FIELD_INTERFACE, "s", to[1]);
    field(out, FIELD_MEMBER, "s", to[2]);
    field(out, FIELD_DESTINATION, "s", "org.freedesktop.systemd1");
    if (signature)
        field(out, FIELD_SIGNATURE, "g", signature);
    bus_array_end(out, fields);
    bus_struct(out);
    if (body)
        buf_add(out, body->data, body->len);
}
