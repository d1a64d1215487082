/* What every test of policy/ needs. */
#pragma once

#include "policy/policy.h"

#include <criterion/criterion.h>
#include <string.h>

#define cleanup_policy __attribute__((cleanup(policy_done)))

static inline struct origin option(const char *name)
{
    struct origin o = {.kind = ORIGIN_OPTION};
    strncpy(o.name, name, sizeof o.name - 1);
    return o;
}

static inline int set(struct policy *p, enum policy_field field, const char *text, struct err *err)
{
    struct origin o = option("--option");
    return policy_set(p, field, text, &o, err);
}

static inline void must_set(struct policy *p, enum policy_field field, const char *text)
{
    struct err err = ERR_INIT;
    cr_assert_eq(set(p, field, text, &err), 0, "%s", err.message);
}

static inline int grant(struct policy *p, const char *spec, bool writable, struct err *err)
{
    struct origin o = option(writable ? "--rw" : "--ro");
    return policy_grant(p, spec, writable, &o, err);
}

static inline void must_grant(struct policy *p, const char *spec, bool writable)
{
    struct err err = ERR_INIT;
    cr_assert_eq(grant(p, spec, writable, &err), 0, "%s", err.message);
}

static inline int env(struct policy *p, const char *spec, struct err *err)
{
    struct origin o = option("-e");
    return policy_env(p, spec, &o, err);
}

static inline int load(struct policy *p, const char *text, struct err *err)
{
    return policy_load(p, "dir/p.yaml", text, strlen(text), err);
}

static inline void must_load(struct policy *p, const char *text)
{
    struct err err = ERR_INIT;
    cr_assert_eq(load(p, text, &err), 0, "%s\n%s", text, err.message);
}

static inline bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}
