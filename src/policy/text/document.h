/* A policy as a tree. Private to policy/. */
#pragma once

#include "base/json.h"
#include "policy/policy.h"

/* As policy_show_json() writes it; `cap` bounds its text. NULL: too long, or no memory. */
struct json *policy_tree(const struct policy *p, size_t cap);
