/* Certificates as text: finding them in a bundle, and their bytes. Strict, so that what one reader
 * of a trust store takes for a certificate no other reads differently. Pure. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define PEM_CERTIFICATE_MAX (64u * 1024) /* bytes of one certificate */

struct pem_block {
    const char *text; /* from the first dash of BEGIN to the line feed after END */
    size_t len;
    const char *body; /* the lines between them */
    size_t body_len;
};

/* The next certificate at or after *at, which moves behind it. Text between blocks, and blocks of
 * other kinds, are stepped over. 1; 0: no more; negative: a block without its end (then *at is
 * behind its first line, so that a forgiving reader can go on). */
int pem_next(const char *text, size_t len, size_t *at, struct pem_block *ret, struct err *err);
/* Appends the bytes that the block stands for: one DER sequence, whole, and nothing after it. On
 * failure `out` is as it was. */
int pem_decode(const struct pem_block *block, struct buf *out, struct err *err);
/* Where in a certificate its subject stands, header included. */
int der_subject(const uint8_t *der, size_t len, const uint8_t **ret, size_t *ret_len,
                struct err *err);
