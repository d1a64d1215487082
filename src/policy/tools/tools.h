/* The tools of an MCP server: which of them may be called, with which arguments, and which a person
 * is asked about first. A guide on top of the walls: what a tool does when it is called is decided
 * by the five boundaries. Pure.
 *
 *   TR-1  deny stands above ask, ask above allow, in whatever order they are written
 *   TR-2  once there is a `tools` section, what no rule grants is denied
 *   TR-3  to grant, every part of an argument must match; to deny or ask, one part is enough */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "policy/egress/egress.h"
#include "policy/origin.h"

#include <stdbool.h>
#include <stddef.h>

enum tool_verdict {
    TOOL_ALLOW,
    TOOL_ASK,
    TOOL_DENY,
    TOOL_VERDICT_COUNT,
};
const char *tool_verdict_name(enum tool_verdict verdict); /* "allow", … */

struct tool_argument {
    char *name; /* a pattern */
    struct text_list values;
};

struct tool_rule {
    enum tool_verdict verdict;
    char *name; /* a pattern */
    struct tool_argument *arguments;
    size_t argument_count;
    char *text; /* as a person would write it; unique among those of the same verdict */
    struct origin origin;
};

/* What a server may ask of its client. */
enum tool_callback {
    CALLBACK_ROOTS = 1,
    CALLBACK_SAMPLING = 2,
    CALLBACK_ELICITATION = 4,
};
#define CALLBACK_COUNT 3
const char *tool_callback_name(unsigned i); /* of the i-th bit */

struct tools {
    bool given;              /* false: every tool is allowed */
    struct tool_rule *rules; /* sorted by verdict and text */
    size_t count;
    unsigned callbacks; /* enum tool_callback */
    struct origin callbacks_from;
};
#define TOOLS_RULES_MAX     512
#define TOOLS_ARGUMENTS_MAX 32 /* of one rule */
#define TOOLS_VALUES_MAX    64 /* of one argument */
#define TOOLS_PATTERN_MAX   1024

void tools_done(struct tools *t);

struct tool_decision {
    enum tool_verdict verdict;
    const struct tool_rule *rule; /* that decided; NULL: none did */
    const struct tool_rule *near; /* would grant the tool with other arguments; NULL: none */
};
/* `arguments` is an object, or NULL where the call has none. */
struct tool_decision tools_decide(const struct tools *t, const char *name,
                                  const struct json *arguments);
/* Is there any call of this tool that is not denied? */
bool tools_shows(const struct tools *t, const char *name);

/* In patterns of names `*` stands for anything. In patterns of values `*` stops at a slash and `**`
 * does not. `\*` and `\\` stand for themselves. */
bool tool_name_match(const char *pattern, const char *name);
/* To grant: a star matches no value with a ".." segment, except for `**` alone. */
bool tool_value_grants(const char *pattern, const char *value);
/* To deny or ask: as it is written, or after "//", "." and ".." are taken out of a path. */
bool tool_value_touches(const char *pattern, const char *value);
