/* A template's file, as the operator wrote it. */
#include "warden/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct templates t = {.count = 0};
    struct err err = ERR_INIT;
    struct buf text;
    struct json_writer w;
    struct json *root = NULL;
    if (size > TEMPLATE_FILE_MAX)
        return 0;
    int r = templates_add(&t, "fuzzed", (const char *)data, size, &err);
    if ((r < 0) != (err.code != ERR_NONE) || (r < 0) != (t.count == 0))
        abort();
    if (r == 0) {
        /* What was taken can be told to the front. */
        buf_init(&text, 1u << 20);
        jw_init(&w, &text, false);
        jw_object_begin(&w);
        templates_write_json(&t, &w);
        jw_object_end(&w);
        if (text.failed || json_parse(text.data, text.len, &json_default_limits, &root, NULL) < 0 ||
            t.items[0]->pool_min > t.items[0]->pool_max)
            abort();
        json_free(root);
        buf_done(&text);
    }
    templates_done(&t);
    return 0;
}
