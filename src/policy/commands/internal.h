/* What the files about commands share. Private to policy/. */
#pragma once

#include "policy/commands/commands.h"
#include "policy/commands/shell_parse.h"
#include "policy/egress/internal.h"

#include <string.h>

/* CMD-4: what is left of the work on one command line, in nanoseconds or so. */
struct command_work {
    size_t left;
    bool spent;
};
#define COMMAND_WORK_MAX 20000000u
/* What things take on a slow machine. */
#define WORK_COMPARE 4u    /* a character with one of a pattern */
#define WORK_PARSE   32u   /* a character of a script */
#define WORK_WORD    1000u /* a word, with all names of programs and places */
#define WORK_LOOK    8u    /* a character of one */

static inline bool work_take(struct command_work *w, size_t n)
{
    w->spent |= n > w->left;
    w->left -= n < w->left ? n : w->left;
    return !w->spent;
}

/* False also where the work did not suffice to tell. */
bool command_pattern_work(const struct command_pattern *p, const char *const *argv, size_t argc,
                          struct command_work *work);

/* One command as it would be started: its words, and what is known of them. */
struct command_line {
    const char *const *argv;
    const bool *dynamic; /* per word; NULL: all are what they say */
    const bool *glob;
    size_t argc;
    const struct command_place *at;
    bool open_ended;                   /* more words will come that are not known (xargs) */
    bool moved;                        /* an earlier cd went somewhere that may lie outside */
    bool deeper;                       /* an earlier cd went into a folder */
    const struct shell_script *script; /* NULL: it does not stand in one */
    uint32_t index;                    /* there */
};

/* The name of the program without its folder. */
const char *command_program(const char *word);
bool command_is_shell(const char *program);
/* The shape of one command by itself. */
enum command_shape command_shape_of(const struct command_line *l);
/* Of what only shows in the script: pipes, functions, redirections. */
enum command_shape script_shape_of(const struct command_line *l);
/* Before the two above are asked about its commands: what a single look at all of them tells. */
void script_look_through(struct shell_script *s);
/* The substitutions of a word fetch something from elsewhere. */
bool word_downloads(const struct shell_script *s, const struct shell_word *w);
/* A shell or another interpreter that was given nothing to run, and so reads it. */
bool line_reads_program(const struct command_line *l);
enum command_shape redirect_shape_of(const struct shell_script *s, const struct shell_redirect *r,
                                     const struct command_line *l);
/* A path that lies in none of the roots, is one of them, or cannot be known. */
bool path_is_outside(const struct command_line *l, size_t word);
bool path_is_credential(const char *path);
bool path_is_disk(const char *path);
bool path_is_startup(const char *path);

/* Programs that only start others: where the other one begins, 0 where it is none of these or the
 * rest cannot be read. */
size_t command_wrapped(const struct command_line *l);
/* `sh -c TEXT`: the number of the word that is a script, 0 where there is none. */
size_t command_script_word(const struct command_line *l);

static inline bool word_is(const char *word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, list[i]) == 0)
            return true;
    return false;
}
#define WORD_IS(word, ...)                                                                         \
    word_is(word, (const char *const[]){__VA_ARGS__},                                              \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* The section of a policy document; r->at is where the mistake is. */
int policy_read_commands(struct policy *p, struct item_reader *r, const struct json *section);
/* Is the request's part at least as strict? Then commands_take lays it over. */
int commands_tighten(const struct commands *have, const struct commands *want, struct err *err);
int commands_take(struct commands *have, const struct commands *want, struct err *err);
