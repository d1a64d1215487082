/* The evidence of one boundary: facts that the supervisor checked from outside, written into the
 * receipt. */
#pragma once

#include "base/json.h"
#include "plan/control.h"

struct evidence {
    struct json_writer *w; /* inside an open object */
};

static inline void evidence_string(struct evidence *e, const char *key, const char *value)
{
    jw_kv_string(e->w, key, value);
}

static inline void evidence_uint(struct evidence *e, const char *key, uint64_t value)
{
    jw_kv_uint(e->w, key, value);
}

static inline void evidence_bool(struct evidence *e, const char *key, bool value)
{
    jw_kv_bool(e->w, key, value);
}
