/* Any bytes as events of the proxy, one per line: what is written of them is JSON that is bounded
 * and has no control characters, and its counts add up. */
#include "audit/netlog.h"
#include "base/quote.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static int64_t number(const struct json *tree, const char *key)
{
    const struct json *j = json_get(tree, key);
    require(j && json_type(j) == JSON_INT);
    return json_int(j);
}

static void no_controls(const struct json *j)
{
    require(json_type(j) != JSON_STRING || !text_has_control(json_string(j)));
    for (size_t i = 0; i < json_count(j); i++)
        no_controls(json_type(j) == JSON_ARRAY ? json_at(j, i) : json_value_at(j, i));
    for (size_t i = 0; json_type(j) == JSON_OBJECT && i < json_count(j); i++)
        require(!text_has_control(json_key_at(j, i)));
}

static void check(const struct netlog *n, size_t lines)
{
    struct buf text;
    struct json_writer w;
    struct json *tree = NULL;
    buf_init(&text, 1 << 20);
    jw_init(&w, &text, false);
    netlog_write_json(n, &w, true);
    require(!text.failed && json_parse(text.data, text.len, NULL, &tree, NULL) == 0);
    no_controls(tree);
    require((size_t)(number(tree, "total") + number(tree, "lost")) == lines);
    require(number(tree, "total") ==
            number(tree, "allowed") + number(tree, "denied") + number(tree, "errors"));
    json_free(tree);
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct denial_list denials = {0};
    struct netlog *n = NULL;
    size_t lines = 0;
    require(netlog_new(&n, NULL) == 0);
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t len = end ? (size_t)(end - data) : size;
        netlog_add(n, (const char *)data, len, &denials);
        lines++;
        data += len + (end ? 1 : 0);
        size -= len + (end ? 1 : 0);
    }
    check(n, lines);
    netlog_free(n);
    return 0;
}
