/* Base64: what is encoded is decoded, in both alphabets; what is decoded has one spelling but for
 * alphabet and padding. */
#include "base/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round(const uint8_t *data, size_t size)
{
    struct buf text;
    char *url = malloc(BASE64_SIZE(size));
    uint8_t *back = malloc(size + 3);
    buf_init(&text, BASE64_SIZE(size));
    base64_encode(&text, data, size);
    if (!url || !back || text.failed)
        abort();
    base64url_encode(url, data, size);
    if (base64_decode(back, buf_text(&text), text.len) != (ssize_t)size ||
        (size && memcmp(back, data, size) != 0))
        abort();
    if (base64_decode(back, url, strlen(url)) != (ssize_t)size ||
        (size && memcmp(back, data, size) != 0))
        abort();
    buf_done(&text);
    free(url);
    free(back);
}

static void check_text(const char *text, size_t size)
{
    uint8_t *out = malloc(size / 4 * 3 + 2 + 1);
    char *again = malloc(BASE64_SIZE(size));
    if (!out || !again)
        abort();
    ssize_t n = base64_decode(out, text, size);
    if (n >= 0) {
        base64url_encode(again, out, (size_t)n);
        size_t digits = size;
        while (digits && text[digits - 1] == '=')
            digits--;
        if (strlen(again) != digits)
            abort();
    }
    free(out);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_round(data, size);
    check_text((const char *)data, size);
    return 0;
}
