/* A policy as YAML, whole or with parts left out. Private to policy/. */
#pragma once

#include "base/json.h"
#include "policy/policy.h"

/* What stands in the text, and what is said about it. A section is "" at the top. */
struct yaml_notes {
    bool (*keep)(void *ctx, const char *section, const char *key, const struct json *value);
    /* Lines before the member, or (`item`) before one item of its list. */
    void (*comment)(void *ctx, const char *section, const char *key, const struct json *item,
                    const char *indent, struct buf *out);
    void *ctx;
};
/* NULL: all of it, without a comment. */
void show_yaml(const struct policy *p, const struct yaml_notes *n, struct buf *out);
