/* The tools: every schema is JSON of the form that clients rely on. */
#include "mcp/offer.h"

#include <criterion/criterion.h>
#include <string.h>

static bool is_object(const struct json *j)
{
    return j && json_type(j) == JSON_OBJECT;
}

static void check_schema(const char *tool, const struct json *schema)
{
    const struct json *required, *properties;
    cr_assert(is_object(schema), "%s", tool);
    cr_expect_str_eq(json_text(schema, "type"), "object");
    properties = json_get(schema, "properties");
    cr_assert(is_object(properties), "%s", tool);
    required = json_get(schema, "required");
    for (size_t i = 0; required && i < json_count(required); i++)
        cr_expect_not_null(json_get(properties, json_string(json_at(required, i))), "%s: %s", tool,
                           json_string(json_at(required, i)));
}

Test(offer, schemas)
{
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    struct json *list = NULL;
    struct err err = ERR_INIT;
    buf_init(&out, 1u << 20);
    jw_init(&w, &out, false);
    offer_write(&w);
    cr_assert_eq(json_parse(buf_text(&out), out.len, NULL, &list, &err), 0, "%s", err.message);
    cr_assert_eq(json_count(list), TOOL_COUNT);
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *t = json_at(list, i);
        const char *name = json_text(t, "name");
        cr_expect_eq(offer_find(name), i, "%s", name);
        check_schema(name, json_get(t, "inputSchema"));
        check_schema(name, json_get(t, "outputSchema"));
        cr_expect(!json_bool(json_get(json_get(t, "inputSchema"), "additionalProperties")));
        cr_expect_not_null(json_get(json_get(json_get(t, "outputSchema"), "properties"), "error"));
    }
    cr_expect_eq(offer_find("rm"), TOOL_COUNT);
    cr_expect_eq(offer_find(""), TOOL_COUNT);
    json_free(list);
}
