/* Rules on command lines: which may be started, which a person is asked about first, which are not
 * started. A guide for people on top of the walls, and no wall: a program that was started does
 * within the five boundaries whatever it wants, and starts others without asking. Pure.
 *
 *   CMD-1 deny stands above ask, ask above allow, in whatever order they are written
 *   CMD-2 the shape of a dangerous command counts also where a rule with a star allows it; a rule
 *        without one, that is, that very command, stands above it
 *   CMD-3 what is not understood is never taken for allowed by a list, and counts as dangerous
 *   CMD-4 a verdict takes a bounded time, whatever the command is and whatever the patterns are:
 *         who judges may serve others meanwhile. What would take longer is not understood */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "policy/egress/egress.h"
#include "policy/origin.h"

#include <stdbool.h>
#include <stddef.h>

enum command_rule {
    COMMAND_ALLOW,
    COMMAND_ASK,
    COMMAND_DENY,
    COMMAND_RULE_COUNT,
};
const char *command_rule_name(enum command_rule rule); /* "allow", … */
int command_rule_parse(const char *text, enum command_rule *ret);

/* Words, each with * for any characters and ? for one. The first is the program: without a slash
 * its folder does not count. ** stands for any number of words, and so does * as the last one. */
struct command_pattern {
    enum command_rule rule;
    struct text_list words;
    bool exact; /* no star anywhere */
    char *text; /* as it was written; unique among those of the same rule */
    struct origin origin;
};

struct commands {
    bool given; /* false: every command is allowed, unseen */
    enum command_rule by_default;
    enum command_rule dangerous;
    struct origin default_from, dangerous_from;
    struct command_pattern *patterns; /* sorted by rule and text */
    size_t count;
};
#define COMMANDS_PATTERNS_MAX 256
#define COMMANDS_TEXT_MAX     1024
#define COMMANDS_WORDS_MAX    64

void commands_done(struct commands *c);
int commands_add(struct commands *c, enum command_rule rule, const char *text,
                 const struct origin *origin, struct err *err);
/* As a policy document has the section. */
void commands_write(const struct commands *c, struct json_writer *w);
int commands_read(struct commands *c, const struct json *section, struct err *err);
bool command_pattern_match(const struct command_pattern *p, const char *const *argv, size_t argc);

/* The shapes of dangerous commands. */
enum command_shape {
    SHAPE_NONE,
    SHAPE_UNKNOWN, /* it cannot be told what would be started */
    SHAPE_DELETE,
    SHAPE_HISTORY,
    SHAPE_PIPE_TO_SHELL,
    SHAPE_CREDENTIALS,
    SHAPE_PUBLISH,
    SHAPE_DISK,
    SHAPE_FORK_BOMB,
    SHAPE_PERMISSIONS,
    SHAPE_PERSISTENCE,
    SHAPE_POWER,
    SHAPE_COUNT,
};
const char *command_shape_name(enum command_shape shape); /* "recursive-delete", … */
const char *command_shape_text(enum command_shape shape); /* a short sentence */

/* What the judge knows of where the command will run. */
struct command_place {
    const char *const *roots; /* folders in which it may do as it likes; absolute, no . or .. */
    size_t root_count;
    const char *cwd; /* absolute; NULL: one of the roots */
};

struct command_verdict {
    enum command_rule rule;
    enum command_shape shape; /* SHAPE_NONE unless that decided */
    char rule_text[96];       /* "commands.deny: git push **", "" where no list decided */
    char what[160];           /* the command inside that decided, for people; not yet escaped */
};
/* `c` is that of a policy; one that is not given allows everything. */
void commands_judge(const struct commands *c, char *const argv[], const struct command_place *at,
                    struct command_verdict *ret);
/* "recursive-delete: deletes a folder …", "commands.deny: …": why, for a message. */
void command_verdict_reason(const struct command_verdict *v, struct buf *out);
