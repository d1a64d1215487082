/* Java's own format of keystores, as far as certificates go:
 *   u4 magic, u4 version, u4 count; count times: u4 kind, text alias, u8 time, text type, u4 length
 * and the certificate; 20 bytes of SHA-1. A text is u2 length and its bytes. */
#include "trust/stores.h"

#include "trust/sha1.h"

#include <stdbool.h>
#include <string.h>

struct reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

static const uint8_t *take(struct reader *r, size_t len)
{
    if (r->failed || len > r->left) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += len;
    r->left -= len;
    return at;
}

static uint32_t take_number(struct reader *r, size_t bytes)
{
    const uint8_t *p = take(r, bytes);
    uint32_t n = 0;
    for (size_t i = 0; p && i < bytes; i++)
        n = n << 8 | p[i];
    return n;
}

static bool take_certificate(struct reader *r)
{
    if (take_number(r, 4) != JKS_CERTIFICATE)
        return false;
    take(r, take_number(r, 2)); /* alias */
    take(r, 8);                 /* time */
    const uint8_t *type = take_number(r, 2) == 5 ? take(r, 5) : NULL;
    if (!type || memcmp(type, "X.509", 5) != 0)
        return false;
    take(r, take_number(r, 4));
    return !r->failed;
}

int jks_check(const void *data, size_t len, uint32_t *ret_count, size_t *ret_end, struct err *err)
{
    struct reader r = {.at = data, .left = len};
    uint32_t magic = take_number(&r, 4), version = take_number(&r, 4);
    if (magic != JKS_MAGIC || version != JKS_VERSION)
        return err_set(err, ERR_PROTOCOL, "not a keystore of Java's own format");
    uint32_t count = take_number(&r, 4);
    for (uint32_t i = 0; i < count; i++)
        if (!take_certificate(&r))
            return err_set(err, ERR_PROTOCOL, "a keystore with something else than certificates");
    if (r.failed || r.left != SHA1_SIZE || count == UINT32_MAX)
        return err_set(err, ERR_PROTOCOL, "a keystore without its digest");
    *ret_count = count;
    *ret_end = len - SHA1_SIZE;
    return 0;
}
