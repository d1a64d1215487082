/* A template's file, as the operator wrote it; and the same bytes as a request's policy. */
#include "warden/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever a request says: refused, or not wider than the template. */
static void tighten(const char *text, size_t size)
{
    static const char policy[] =
        "policy: {lifecycle: {memory: 64M, pids: 32}, network: {allow: [a.org, b.org]}}\n";
    struct templates t = {.count = 0};
    struct err err = ERR_INIT;
    if (templates_add(&t, "own", policy, sizeof policy - 1, &err) < 0)
        abort();
    const struct policy *p = &t.items[0]->policy;
    int r = template_tighten(t.items[0], text, size, &err);
    if ((r < 0) != (err.code != ERR_NONE))
        abort();
    if (r == 0 &&
        (p->memory > 64u << 20 || p->pids > 32 || p->grant_count || p->tier != TIER_CONTAINER ||
         p->level < LEVEL_HIGH || p->egress.secret_count || p->landlock != NEED_REQUIRE))
        abort();
    templates_done(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct templates t = {.count = 0};
    struct err err = ERR_INIT;
    struct buf text;
    struct json_writer w;
    struct json *root = NULL;
    if (size > TEMPLATE_FILE_MAX)
        return 0;
    tighten((const char *)data, size);
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
