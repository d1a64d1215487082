/* What the files about tools share. Private to policy/. */
#pragma once

#include "policy/egress/internal.h"
#include "policy/tools/tools.h"

int tool_pattern_check(const char *pattern, struct err *err);
/* Everything that `want` matches, `have` matches too. May say no where it does not know. */
bool tool_name_covers(const char *have, const char *want);
bool tool_value_covers(const char *have, const char *want);

void tool_rule_done(struct tool_rule *r);
int tool_rule_copy(struct tool_rule *to, const struct tool_rule *from, struct err *err);
/* Takes what is in r, also on failure. */
int tools_insert(struct tools *t, struct tool_rule *r, struct err *err);
int tool_rule_parse(struct tool_rule *r, const char *spec, struct err *err);
/* Takes `name`'s place among the rule's arguments and gives it back to be filled. */
int tool_rule_argument(struct tool_rule *r, const char *name, struct tool_argument **ret,
                       struct err *err);
int tool_argument_value(struct tool_argument *a, const char *pattern, struct err *err);

/* The section of a policy document; r->at is where the mistake is. */
int policy_read_tools(struct policy *p, struct item_reader *r, const struct json *section);
/* For people: a short text where that says everything, else the mapping. */
void tool_rule_show(const struct tool_rule *rule, struct json_writer *w);
/* The members allow, ask, callbacks and deny, rules in one form. */
void tools_write(const struct tools *t, struct json_writer *w, bool canonical);

/* Is the request's part at least as strict? Then tools_take() lays it over p. */
int tools_tighten(const struct tools *have, const struct tools *want, struct err *err);
int tools_take(struct tools *have, const struct tools *want, struct err *err);
