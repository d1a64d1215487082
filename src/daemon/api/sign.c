/* Signatures and derived tokens: see sign.h.
 *
 * DM-6  A signed link is good for exactly the path, direction, user and time that were signed. */
#include "daemon/api/sign.h"

#include "base/base64.h"
#include "base/num.h"
#include "base/sha256.h"
#include "base/text.h"

#include <string.h>

#define SIGNATURE_PREFIX "v1_"

static bool bytes_equal(const void *a, const void *b, size_t len)
{
    const volatile uint8_t *x = a;
    const volatile uint8_t *y = b;
    uint8_t differs = 0;
    for (size_t i = 0; i < len; i++)
        differs |= x[i] ^ y[i];
    return !differs;
}

bool token_equal(const char *a, const char *b)
{
    size_t len = strlen(a);
    return len && len == strlen(b) && bytes_equal(a, b, len);
}

void traffic_token(const char *token, char out[static TRAFFIC_TOKEN_LEN + 1])
{
    static const char label[] = "brig traffic token v1\n";
    uint8_t hash[SHA256_SIZE];
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, label, sizeof(label) - 1);
    sha256_add(&h, token, strlen(token));
    sha256_finish(&h, hash);
    base64url_encode(hash, sizeof(hash), out);
}

bool signature_current(const struct signature *s, int64_t now_s)
{
    uint64_t end;
    if (!text_begins(s->text, SIGNATURE_PREFIX))
        return false;
    if (!s->expiration)
        return true;
    return num_parse_uint(s->expiration, &end, NULL) == 0 && now_s >= 0 && end > (uint64_t)now_s;
}

static void add_text(struct sha256 *h, const char *before, const char *text)
{
    sha256_add(h, before, strlen(before));
    sha256_add(h, text, strlen(text));
}

/* The clients' form joins its fields with colons and says no lengths. Read from its end it still
 * has one meaning, as long as only the path holds a colon: the expiry is a number, the token and
 * the user have none, and what is before the direction is the path. */
static bool is_framed(const struct signature *s, const char *token)
{
    const char *end = s->expiration;
    return *token && !strchr(token, ':') && !strchr(s->user, ':') &&
           (!end || (*end && strspn(end, "0123456789") == strlen(end)));
}

void signature_begin(const struct signature *s, struct signature_start *ret)
{
    sha256_init(&ret->hash);
    add_text(&ret->hash, "", s->path);
    add_text(&ret->hash, s->write ? ":write:" : ":read:", s->user);
}

/* Compared as text: there is one way to write 32 bytes, and what a client sent is not decoded. */
bool signature_matches(const struct signature *s, const struct signature_start *start,
                       const char *token)
{
    uint8_t hash[SHA256_SIZE];
    struct buf want cleanup_buf = {0};
    struct sha256 h = start->hash;
    if (!is_framed(s, token) || !text_begins(s->text, SIGNATURE_PREFIX))
        return false;
    add_text(&h, ":", token);
    if (s->expiration)
        add_text(&h, ":", s->expiration);
    sha256_finish(&h, hash);
    buf_init(&want, 64);
    base64_encode(hash, sizeof(hash), &want);
    if (want.failed)
        return false;
    want.data[--want.len] = '\0'; /* its one "=" */
    return token_equal(s->text + strlen(SIGNATURE_PREFIX), want.data);
}
