/* Any bytes as a ClientHello. Refused stays refused with more bytes, "more" is said for every
 * shorter beginning of what is complete, and the same message in records of one byte says the same.
 */
#include "network/hello_parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static int parse(const uint8_t *data, size_t size, struct hello *ret)
{
    struct err err = ERR_INIT;
    int r = hello_parse(data, size, ret, &err);
    require(r == 0 || r == 1 || (r < 0 && err.code));
    require(!ret->has_sni || r != 1 || ret->sni.kind == HOST_NAME);
    return r;
}

static void check_prefixes(const uint8_t *data, size_t size, int whole)
{
    struct hello h;
    int last = 0;
    size_t step = size / 64 + 1;
    for (size_t len = 0; len < size; len += step) {
        int r = parse(data, len, &h);
        require(last == 0 || r == last);
        last = r;
    }
    require(last == 0 || whole == last || (last < 0 && whole < 0));
}

static void check_split(const uint8_t *data, size_t size, const struct hello *expected)
{
    struct hello h;
    size_t record = (size_t)(data[3] << 8 | data[4]);
    if (record + 5 > size || record * 6 > HELLO_MAX)
        return;
    uint8_t *split = malloc(record * 6);
    for (size_t i = 0; i < record; i++) {
        memcpy(split + i * 6, "\x16\x03\x01\x00\x01", 5);
        split[i * 6 + 5] = data[5 + i];
    }
    if (parse(split, record * 6, &h) == 1) {
        require(h.has_sni == expected->has_sni && h.has_ech == expected->has_ech);
        require(!h.has_sni || host_equal(&h.sni, &expected->sni));
    } else {
        /* The message had more records behind the first. */
        require(size > record + 5);
    }
    free(split);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hello h;
    int r = parse(data, size, &h);
    check_prefixes(data, size, r);
    if (r == 1)
        check_split(data, size, &h);
    return 0;
}
