/* What only shows in a script: pipes into interpreters, functions that call themselves,
 * redirections. */
#include "base/cleanup.h"
#include "base/text.h"
#include "policy/commands/internal.h"

#include <string.h>

static bool line_is_download(const struct command_line *l)
{
    const char *program = l->argc ? command_program(l->argv[0]) : "";
    return WORD_IS(program, "curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "nc",
                   "ncat", "ftp", "scp", "ssh");
}

static const char *program_of(const struct shell_script *s, uint32_t command)
{
    return command_program(shell_text(s, s->commands[command].first));
}

static bool command_downloads(const struct shell_script *s, uint32_t command)
{
    const char *word = shell_text(s, s->commands[command].first);
    return line_is_download(&(struct command_line){.argv = &word, .argc = 1});
}

bool word_downloads(const struct shell_script *s, const struct shell_word *w)
{
    for (uint32_t i = w->subs_from; i < w->subs_to && i < s->command_count; i++)
        if (command_downloads(s, i))
            return true;
    return false;
}

static bool is_interpreter(const char *program)
{
    return text_begins(program, "python") ||
           WORD_IS(program, "perl", "ruby", "node", "php", "lua", "deno", "bun");
}

/* Options alone, or the word that means stdin. */
bool line_reads_program(const struct command_line *l)
{
    for (size_t i = 1; i < l->argc; i++) {
        const char *w = l->argv[i];
        if (WORD_IS(w, "-", "/dev/stdin", "-s", "--") || strcmp(w, "/proc/self/fd/0") == 0)
            return true;
        if (w[0] != '-')
            return false;
    }
    return true;
}

/* A command stands behind the one whose output it reads, so that each is looked at once. */
void script_look_through(struct shell_script *s)
{
    for (uint32_t i = 0; i < s->command_count; i++) {
        struct shell_command *c = &s->commands[i];
        if (c->piped_from < i)
            c->fetched = s->commands[c->piped_from].fetched || command_downloads(s, c->piped_from);
        if (c->function < s->word_count &&
            strcmp(program_of(s, i), shell_text(s, c->function)) == 0)
            s->words[c->function].calls += 1 + (c->background || c->piped_from != SHELL_NONE);
    }
}

static enum command_shape pipe_shape(const struct command_line *l, const char *program)
{
    bool shell = command_is_shell(program);
    const struct shell_command *c = &l->script->commands[l->index];
    if ((!shell && !is_interpreter(program)) || c->piped_from == SHELL_NONE ||
        !line_reads_program(l))
        return SHAPE_NONE;
    return shell || c->fetched ? SHAPE_PIPE_TO_SHELL : SHAPE_NONE;
}

/* bash <(curl …), . <(…) */
static enum command_shape file_shape(const struct command_line *l, const char *program)
{
    const struct shell_command *c = &l->script->commands[l->index];
    bool shell = command_is_shell(program) || WORD_IS(program, "source", ".");
    if (!shell && !is_interpreter(program))
        return SHAPE_NONE;
    for (uint32_t i = 1; i < c->count; i++) {
        const struct shell_word *w = &l->script->words[c->first + i];
        if (w->subs_from < w->subs_to && word_downloads(l->script, w))
            return SHAPE_PIPE_TO_SHELL;
    }
    return SHAPE_NONE;
}

static enum command_shape bomb_shape(const struct command_line *l, const char *program)
{
    const struct shell_command *c = &l->script->commands[l->index];
    if (c->function < l->script->word_count && l->script->words[c->function].calls >= 2 &&
        strcmp(program, shell_text(l->script, c->function)) == 0)
        return SHAPE_FORK_BOMB;
    return c->background && WORD_IS(l->argv[0], "$0", "${0}") ? SHAPE_FORK_BOMB : SHAPE_NONE;
}

enum command_shape script_shape_of(const struct command_line *l)
{
    if (!l->script || l->argc == 0)
        return SHAPE_NONE;
    const char *program = command_program(l->argv[0]);
    enum command_shape shape = bomb_shape(l, program);
    if (shape == SHAPE_NONE)
        shape = pipe_shape(l, program);
    return shape == SHAPE_NONE ? file_shape(l, program) : shape;
}

enum command_shape redirect_shape_of(const struct shell_script *s, const struct shell_redirect *r,
                                     const struct command_line *l)
{
    (void)l;
    const char *path = shell_text(s, r->word);
    if (r->writes && path_is_disk(path))
        return SHAPE_DISK;
    if (r->writes)
        return path_is_startup(path) ? SHAPE_PERSISTENCE : SHAPE_NONE;
    return path_is_credential(path) ? SHAPE_CREDENTIALS : SHAPE_NONE;
}
