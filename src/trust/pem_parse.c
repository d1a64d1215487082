/* Strict readers of PEM blocks, of base64 in them, and of as much DER as is needed to find a
 * certificate's subject. */
#include "trust/pem.h"

#include <stdbool.h>
#include <string.h>

#define BEGIN_MARK   "-----BEGIN CERTIFICATE-----"
#define END_MARK     "-----END CERTIFICATE-----"
#define B64_LINE_MAX 76 /* of base64; RFC 7468 writes 64 */

/* ---- blocks ---- */

/* Does a line that begins here consist of the mark and nothing else? Returns the length of the line
 * with its end, or 0. The last line of a text may lack its line feed. */
static size_t mark_line(const char *text, size_t len, const char *mark)
{
    size_t n = strlen(mark);
    if (len < n || memcmp(text, mark, n) != 0)
        return 0;
    if (n < len && text[n] == '\r')
        n++;
    if (n == len)
        return n;
    return text[n] == '\n' ? n + 1 : 0;
}

static const char *next_line(const char *from, const char *end)
{
    const char *feed = memchr(from, '\n', (size_t)(end - from));
    return feed ? feed + 1 : end;
}

static int find_end(const char *body, const char *end, struct pem_block *ret, struct err *err)
{
    for (const char *line = body; line < end; line = next_line(line, end)) {
        size_t mark = mark_line(line, (size_t)(end - line), END_MARK);
        if (mark) {
            ret->body = body;
            ret->body_len = (size_t)(line - body);
            ret->len = (size_t)(line + mark - ret->text);
            return 1;
        }
        if (*line == '-')
            break;
    }
    return err_set(err, ERR_PROTOCOL, "a certificate without its END line");
}

int pem_next(const char *text, size_t len, size_t *at, struct pem_block *ret, struct err *err)
{
    const char *end = text + len;
    for (const char *line = text + *at; line < end; line = next_line(line, end)) {
        size_t mark = *line == '-' ? mark_line(line, (size_t)(end - line), BEGIN_MARK) : 0;
        if (!mark)
            continue;
        *at = (size_t)(line + mark - text);
        ret->text = line;
        int found = find_end(line + mark, end, ret, err);
        if (found > 0)
            *at = (size_t)(line + ret->len - text);
        return found;
    }
    *at = len;
    return 0;
}

/* ---- base64 ---- */

/* One more than what a character stands for; 0: no character of base64. */
/* clang-format off */
static const uint8_t sextets[256] = {
    ['A'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    ['a'] = 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52,
    ['0'] = 53, 54, 55, 56, 57, 58, 59, 60, 61, 62,
    ['+'] = 63, ['/'] = 64,
};
/* clang-format on */

static inline uint8_t sextet(uint8_t c)
{
    return (uint8_t)(sextets[c] - 1);
}

/* Four characters to at most three bytes: how many, or negative. */
static int decode_group(const uint8_t *in, uint8_t *out)
{
    uint8_t a = sextet(in[0]), b = sextet(in[1]), c = sextet(in[2]), d = sextet(in[3]);
    if ((a | b | c | d) < 64) {
        uint32_t v = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6 | d;
        out[0] = (uint8_t)(v >> 16);
        out[1] = (uint8_t)(v >> 8);
        out[2] = (uint8_t)v;
        return 3;
    }
    if ((a | b) >= 64 || in[3] != '=')
        return -1;
    out[0] = (uint8_t)(a << 2 | b >> 4);
    if (in[2] == '=')
        return b & 0x0f ? -1 : 1; /* the unused bits must be zero */
    if (c >= 64 || (c & 0x03))
        return -1;
    out[1] = (uint8_t)(b << 4 | c >> 2);
    return 2;
}

struct decoder {
    uint8_t *out;
    size_t len;
    bool ended; /* padding was seen */
};

static int decode_line(struct decoder *d, const char *line, size_t len)
{
    if (len == 0 || len > B64_LINE_MAX || len % 4 != 0 || d->ended)
        return -1;
    for (size_t i = 0; i < len; i += 4) {
        int n = d->ended ? -1 : decode_group((const uint8_t *)line + i, d->out + d->len);
        if (n < 0)
            return -1;
        d->len += (size_t)n;
        d->ended = n < 3;
    }
    return 0;
}

static int decode_body(struct decoder *d, const char *body, size_t body_len)
{
    const char *end = body + body_len;
    for (const char *line = body; line < end;) {
        const char *next = next_line(line, end);
        size_t len = (size_t)(next - line) - (next[-1] == '\n');
        if (len > 0 && line[len - 1] == '\r')
            len--;
        if (decode_line(d, line, len) < 0)
            return -1;
        line = next;
    }
    return 0;
}

/* ---- DER, as much as is needed ---- */

struct der {
    const uint8_t *at;
    const uint8_t *end;
};

/* Steps over one element: its tag, its content, and where the whole of it began. Lengths are
 * definite and minimal, as DER has them. */
static int der_take(struct der *d, uint8_t tag, struct der *ret_content)
{
    size_t left = (size_t)(d->end - d->at);
    if (left < 2 || d->at[0] != tag)
        return -1;
    size_t len = d->at[1], head = 2;
    if (len >= 0x80) {
        size_t count = len & 0x7f;
        if (count < 1 || count > 3 || left < 2 + count)
            return -1;
        len = 0;
        for (size_t i = 0; i < count; i++)
            len = len << 8 | d->at[2 + i];
        if (len < 0x80 || (count > 1 && len >> (8 * (count - 1)) == 0))
            return -1;
        head += count;
    }
    if (len > left - head)
        return -1;
    *ret_content = (struct der){d->at + head, d->at + head + len};
    d->at += head + len;
    return 0;
}

#define TAG_INTEGER  0x02
#define TAG_SEQUENCE 0x30
#define TAG_VERSION  0xa0

/* Certificate ::= { { [0] version, serial, algorithm, issuer, validity, subject, … }, … } */
int der_subject(const uint8_t *der, size_t len, const uint8_t **ret, size_t *ret_len,
                struct err *err)
{
    struct der all = {der, der + len}, outer, d, skipped;
    if (der_take(&all, TAG_SEQUENCE, &outer) < 0 || all.at != all.end ||
        der_take(&outer, TAG_SEQUENCE, &d) < 0)
        goto bad;
    if (d.at < d.end && *d.at == TAG_VERSION && der_take(&d, TAG_VERSION, &skipped) < 0)
        goto bad;
    if (der_take(&d, TAG_INTEGER, &skipped) < 0)
        goto bad;
    for (int i = 0; i < 3; i++)
        if (der_take(&d, TAG_SEQUENCE, &skipped) < 0)
            goto bad;
    const uint8_t *subject = d.at;
    if (der_take(&d, TAG_SEQUENCE, &skipped) < 0)
        goto bad;
    *ret = subject;
    *ret_len = (size_t)(d.at - subject);
    return 0;
bad:
    return err_set(err, ERR_PROTOCOL, "not a certificate");
}

int pem_decode(const struct pem_block *block, struct buf *out, struct err *err)
{
    size_t most = block->body_len / 4 * 3 + 3;
    if (block->body_len > PEM_CERTIFICATE_MAX * 4 / 3 + PEM_CERTIFICATE_MAX / 16)
        return err_set(err, ERR_LIMIT, "a certificate of more than %u bytes", PEM_CERTIFICATE_MAX);
    buf_room(out, most);
    if (out->failed)
        return err_set(err, ERR_LIMIT, "no room for a certificate");
    struct decoder d = {.out = (uint8_t *)out->data + out->len};
    if (decode_body(&d, block->body, block->body_len) < 0) {
        out->data[out->len] = '\0';
        return err_set(err, ERR_PROTOCOL, "a certificate that is not base64");
    }
    struct der all = {d.out, d.out + d.len}, content;
    if (der_take(&all, TAG_SEQUENCE, &content) < 0 || all.at != all.end) {
        out->data[out->len] = '\0';
        return err_set(err, ERR_PROTOCOL, "a certificate that is not one DER sequence");
    }
    out->len += d.len;
    out->data[out->len] = '\0';
    return 0;
}
