/* Reads messages of D-Bus; see bus.h. Whatever is not as it must be makes the whole message none.
 */
#include "oci/bus.h"

#include <endian.h>
#include <string.h>

#define HEAD_LEN           16u
#define FIELD_MEMBER       3
#define FIELD_ERROR        4
#define FIELD_REPLY_SERIAL 5
#define FIELD_SIGNATURE    8

struct reader {
    const uint8_t *data;
    size_t len, at;
    bool failed;
};

static uint32_t number_of(const uint8_t *data)
{
    uint32_t n;
    memcpy(&n, data, sizeof n);
    return le32toh(n);
}

static const uint8_t *take(struct reader *r, size_t len, unsigned align)
{
    size_t at = (r->at + align - 1) / align * align;
    if (r->failed || at > r->len || len > r->len - at) {
        r->failed = true;
        return NULL;
    }
    r->at = at + len;
    return r->data + at;
}

static uint32_t take_u32(struct reader *r)
{
    const uint8_t *p = take(r, 4, 4);
    return p ? number_of(p) : 0;
}

/* The bytes of a text and the NUL behind it. */
static const char *take_bytes(struct reader *r, size_t len)
{
    const uint8_t *p = r->failed ? NULL : take(r, len + 1, 1);
    if (p && (p[len] != '\0' || memchr(p, '\0', len))) {
        r->failed = true;
        return NULL;
    }
    return (const char *)p;
}

static const char *take_string(struct reader *r)
{
    uint32_t len = take_u32(r);
    return take_bytes(r, len);
}

static const char *take_signature(struct reader *r)
{
    const uint8_t *p = take(r, 1, 1);
    return p ? take_bytes(r, *p) : NULL;
}

size_t bus_length(const uint8_t head[static HEAD_LEN])
{
    uint32_t body = number_of(head + 4), fields = number_of(head + 12);
    if (head[0] != 'l' || head[3] != 1 || body > BUS_MESSAGE_MAX || fields > BUS_MESSAGE_MAX)
        return 0;
    size_t len = (HEAD_LEN + fields + 7) / 8 * 8 + body;
    return len <= BUS_MESSAGE_MAX ? len : 0;
}

/* Whoever writes a field of another kind than these is not understood: how long it is follows from
 * its kind. */
static void take_field(struct reader *r, struct bus_message *m)
{
    const uint8_t *code = take(r, 1, 8);
    const char *kind = code ? take_signature(r) : NULL, *text = NULL;
    uint32_t number = 0;
    if (!kind)
        return;
    if (strcmp(kind, "s") == 0 || strcmp(kind, "o") == 0)
        text = take_string(r);
    else if (strcmp(kind, "g") == 0)
        text = take_signature(r);
    else if (strcmp(kind, "u") == 0)
        number = take_u32(r);
    else
        r->failed = true;
    if (*code == FIELD_MEMBER)
        m->member = text;
    else if (*code == FIELD_ERROR)
        m->error = text;
    else if (*code == FIELD_SIGNATURE)
        m->signature = text;
    else if (*code == FIELD_REPLY_SERIAL)
        m->reply_serial = number;
}

bool bus_parse(const uint8_t *data, size_t len, struct bus_message *m)
{
    *m = (struct bus_message){.type = 0};
    if (len < HEAD_LEN || bus_length(data) != len)
        return false;
    struct reader r = {.data = data, .len = HEAD_LEN + number_of(data + 12), .at = HEAD_LEN};
    m->type = data[1];
    while (!r.failed && r.at < r.len)
        take_field(&r, m);
    m->body_len = number_of(data + 4);
    m->body = data + len - m->body_len;
    return !r.failed;
}

const char *bus_text_at(const struct bus_message *m, unsigned n)
{
    struct reader r = {.data = m->body, .len = m->body_len};
    const char *kind = m->signature ? m->signature : "", *text = NULL;
    for (unsigned i = 0; i <= n && !r.failed; i++) {
        const char *one = kind[i] == 'v' ? take_signature(&r) : NULL;
        char what = kind[i] != 'v' ? kind[i] : one && one[0] && !one[1] ? one[0] : '\0';
        text = NULL;
        if (what == 's' || what == 'o')
            text = take_string(&r);
        else if (what == 'u')
            take_u32(&r);
        else
            return NULL;
    }
    return r.failed ? NULL : text;
}
