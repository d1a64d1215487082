/* Folders and environment variables that a policy hands in. Private to policy/. */
#pragma once

#include "policy/policy.h"

/* policy_grant and policy_env without the name of the option in front of the message. */
int grant_add(struct policy *p, const char *spec, bool writable, const struct origin *origin,
              struct err *err);
int env_add(struct policy *p, const char *name, const char *value, const struct origin *origin,
            struct err *err);

#define ENV_MAX 1024
/* ERR_LIMIT if so many more variables would be too many. */
int env_check_room(const struct policy *p, size_t more, struct err *err);

const struct grant *grant_find(const struct policy *p, const char *dest);
const struct env_var *env_find(const struct policy *p, const char *name);
/* "filesystem.rw" or "filesystem.ro" */
const char *grant_field(bool writable);
/* "DIR[:DEST]", as policy_grant reads it. */
void grant_text(const struct grant *g, struct buf *out);
