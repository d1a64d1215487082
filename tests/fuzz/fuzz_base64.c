/* Base64: what is encoded is decoded, and what is decoded has one spelling, but for
 * alphabet and padding. */
#include "base/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool decodes_to(const char *text, size_t len, const uint8_t *data, size_t size)
{
    struct buf back;
    buf_init(&back, size + 3);
    bool good = base64_decode(text, len, &back, NULL) == 0 && back.len == size &&
                (!size || memcmp(back.data, data, size) == 0);
    buf_done(&back);
    return good;
}

static void check_round(const uint8_t *data, size_t size)
{
    struct buf text;
    buf_init(&text, BASE64_SIZE(size));
    base64_encode(data, size, &text);
    if (text.failed || !decodes_to(buf_text(&text), text.len, data, size))
        abort();
    buf_done(&text);
}

/* The same digits, but for the alphabet and the padding. */
static bool is_spelling(const char *text, size_t size, const char *plain)
{
    size_t i = 0;
    for (; i < size && text[i] != '='; i++) {
        char c = (char)(text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i]);
        if (plain[i] != c)
            return false;
    }
    return plain[i] == '=' || plain[i] == '\0';
}

static void check_text(const char *text, size_t size)
{
    struct buf out, again;
    struct err err = ERR_INIT;
    buf_init(&out, size + 3);
    buf_init(&again, BASE64_SIZE(size + 3));
    if (base64_decode(text, size, &out, &err) == 0) {
        base64_encode(out.data, out.len, &again);
        if (!is_spelling(text, size, buf_text(&again)))
            abort();
    } else if (!err.message[0]) {
        abort();
    }
    buf_done(&out);
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_round(data, size);
    check_text((const char *)data, size);
    return 0;
}
