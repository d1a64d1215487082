/* The first record of a TLS connection, read to learn its server name before anything is decided.
 * Strict: a ClientHello spread over records or over reads is put together, anything else is
 * refused. */
#pragma once

#include "http/host.h"

#include <sys/types.h>

#define HELLO_MAX (16u * 1024 + 5)

struct hello {
    bool has_sni;
    struct host sni;
    bool has_ech; /* encrypted_client_hello of any kind but GREASE cannot be told apart: any */
    bool offers_http11; /* ALPN absent, or lists http/1.1 */
    bool offers_h2;
};
/* 1: complete; 0: more bytes are needed; negative: not a ClientHello, or malformed (two SNI
 * extensions, an SNI that host_parse refuses or that is an address, a length that does not fit, …).
 */
int hello_parse(const uint8_t *data, size_t len, struct hello *ret, struct err *err);
