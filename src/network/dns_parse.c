/* Reads DNS questions from inside, and writes their answers. */
#include "network/dns_parse.h"

#include <errno.h>
#include <string.h>

#define HEADER_LEN   12
#define NAME_MAX_LEN 255
#define TTL_SECONDS  60u

enum {
    TYPE_A = 1,
    TYPE_OPT = 41,
    TYPE_AAAA = 28,
    CLASS_IN = 1,
};

enum {
    FLAG_QR = 0x8000,
    FLAG_OPCODE = 0x7800,
    FLAG_TC = 0x0200,
    FLAG_RD = 0x0100,
    FLAG_RA = 0x0080,
};

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static int bad(const char *why, struct err *err)
{
    err_set(err, ERR_PROTOCOL, "DNS question: %s", why);
    return -EBADMSG;
}

/* The labels from `at`, as text with dots. Returns the bytes that they take, with the final zero; 0
 * if they are malformed. A pointer (compression) is: nothing comes before a question that it could
 * point to. A dot within a label would become a border in the text. */
static size_t read_name(const uint8_t *at, size_t len, char text[static NAME_MAX_LEN + 1],
                        size_t *ret_text_len)
{
    size_t used = 0, out = 0;
    for (;;) {
        if (used >= len)
            return 0;
        size_t label = at[used];
        if (label == 0)
            break;
        if (label > 63 || used + 1 + label >= len || used + 1 + label >= NAME_MAX_LEN)
            return 0;
        if (memchr(at + used + 1, '.', label))
            return 0;
        if (out)
            text[out++] = '.';
        memcpy(text + out, at + used + 1, label);
        out += label;
        used += 1 + label;
    }
    *ret_text_len = out;
    return used + 1;
}

/* What may follow the question: nothing, or one OPT record that ends the message. */
static bool is_tail_good(const uint8_t *at, size_t len, unsigned additional)
{
    if (additional == 0)
        return len == 0;
    return additional == 1 && len >= 11 && at[0] == 0 && get16(at + 1) == TYPE_OPT &&
           (size_t)get16(at + 9) == len - 11;
}

static int read_question(const uint8_t *msg, size_t len, struct dns_question *ret, struct err *err)
{
    char text[NAME_MAX_LEN + 1];
    size_t text_len;
    const uint8_t *at = msg + HEADER_LEN;
    len -= HEADER_LEN;
    size_t name_len = read_name(at, len, text, &text_len);
    if (name_len == 0 || len - name_len < 4)
        return bad("malformed name", err);
    if (get16(at + name_len + 2) != CLASS_IN)
        return bad("another class than IN", err);
    size_t raw_len = name_len + 4;
    if (!is_tail_good(at + raw_len, len - raw_len, get16(msg + 10)))
        return bad("something else behind it", err);
    if (host_parse(text, text_len, false, &ret->name, err) < 0)
        return -EBADMSG;
    ret->type = get16(at + name_len);
    memcpy(ret->raw, at, raw_len);
    ret->raw_len = raw_len;
    return 0;
}

int dns_question_parse(const uint8_t *msg, size_t len, struct dns_question *ret, struct err *err)
{
    memset(ret, 0, sizeof *ret);
    if (len < HEADER_LEN || get16(msg + 2) & FLAG_QR) {
        err_set(err, ERR_PROTOCOL, "not a DNS question");
        return -EINVAL;
    }
    uint16_t flags = get16(msg + 2);
    ret->id = get16(msg);
    ret->recursion_desired = flags & FLAG_RD;
    if (flags & (FLAG_OPCODE | FLAG_TC))
        return bad("another operation than a query, or cut off", err);
    if (get16(msg + 4) != 1 || get16(msg + 6) != 0 || get16(msg + 8) != 0)
        return bad("other than one question", err);
    return read_question(msg, len, ret, err);
}

static size_t put16(uint8_t *out, size_t at, unsigned value)
{
    out[at] = (uint8_t)(value >> 8);
    out[at + 1] = (uint8_t)value;
    return at + 2;
}

static unsigned rcode_of(enum dns_answer answer)
{
    switch (answer) {
    case DNS_ADDRESS:
    case DNS_NO_DATA:
        return 0;
    case DNS_FORMERR:
        return 1;
    case DNS_NXDOMAIN:
        return 3;
    case DNS_REFUSED:
        break;
    }
    return 5;
}

size_t dns_answer_write(const struct dns_question *q, enum dns_answer answer, const uint8_t *addr,
                        uint8_t out[static DNS_MESSAGE_MAX])
{
    size_t addr_len = q->type == TYPE_A ? 4 : q->type == TYPE_AAAA ? 16 : 0;
    bool has_answer = answer == DNS_ADDRESS && addr && addr_len && q->raw_len;
    unsigned rd = q->recursion_desired ? FLAG_RD : 0;
    size_t at = put16(out, 0, q->id);
    at = put16(out, at, FLAG_QR | rd | FLAG_RA | rcode_of(answer));
    at = put16(out, at, q->raw_len ? 1 : 0);
    at = put16(out, at, has_answer ? 1 : 0);
    at = put16(out, at, 0);
    at = put16(out, at, 0);
    memcpy(out + at, q->raw, q->raw_len);
    at += q->raw_len;
    if (!has_answer)
        return at;
    at = put16(out, at, 0xc000 | HEADER_LEN); /* the name of the question */
    at = put16(out, at, q->type);
    at = put16(out, at, CLASS_IN);
    at = put16(out, at, 0);
    at = put16(out, at, TTL_SECONDS);
    at = put16(out, at, (unsigned)addr_len);
    memcpy(out + at, addr, addr_len);
    return at + addr_len;
}
