/* Any bytes as a receipt. What is accepted has one canonical body, which reads back as itself and
 * has the same digest; without a signature that the key made nothing is good; and with a verifier
 * that takes every signature a receipt is good only if its record and its place belong to its body.
 */
#include "audit/receipt.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static bool never(void *ctx, const char *line, size_t len, const uint8_t signature[CHAIN_SIGNATURE])
{
    return false;
}

static bool always(void *ctx, const char *line, size_t len,
                   const uint8_t signature[CHAIN_SIGNATURE])
{
    struct checkpoint c;
    require(checkpoint_parse(line, len, &c, NULL) == 0);
    return true;
}

/* The body stands for itself. */
static void check_body(const struct receipt *r)
{
    struct receipt again;
    receipt_init(&again);
    require(r->body.len > 2 && r->body.len <= RECEIPT_MAX);
    require(receipt_body_read(r->body.data, r->body.len, &again, NULL) == 0);
    require(again.body.len == r->body.len &&
            memcmp(again.body.data, r->body.data, r->body.len) == 0);
    require(memcmp(again.digest, r->digest, 32) == 0);
    receipt_done(&again);
}

/* What was good is not with another body. */
static void check_other_body(const struct receipt *r)
{
    struct receipt other = *r;
    other.digest[0] ^= 1;
    require(receipt_check(&other, r->key, always, NULL, NULL) < 0);
    other = *r;
    other.previous[31] ^= 1;
    require(receipt_check(&other, r->key, always, NULL, NULL) < 0);
    uint8_t key[32];
    memcpy(key, r->key, 32);
    key[7] ^= 0x80;
    require(receipt_check(r, key, always, NULL, NULL) < 0);
}

/* Written and read again it says the same. */
static void check_written(const struct receipt *r)
{
    struct receipt again;
    struct buf text;
    buf_init(&text, 2 * RECEIPT_MAX);
    receipt_init(&again);
    receipt_write_signed(&text, r->body.data, r->body.len, NULL, r->why_not);
    if (!text.failed && text.len <= RECEIPT_MAX) {
        require(receipt_parse(text.data, text.len, &again, NULL) == 0);
        require(!again.is_signed && memcmp(again.digest, r->digest, 32) == 0);
    }
    receipt_done(&again);
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct receipt r;
    receipt_init(&r);
    if (receipt_parse((const char *)data, size, &r, NULL) == 0) {
        check_body(&r);
        check_written(&r);
        require(receipt_check(&r, r.key, never, NULL, NULL) < 0);
        if (receipt_check(&r, r.key, always, NULL, NULL) == 0) {
            require(r.is_signed);
            check_other_body(&r);
        }
    }
    receipt_done(&r);
    return 0;
}
