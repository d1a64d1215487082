/* The verdict on one command line: the strictest of all that it would start, as far as that can be
 * read. */
#include "base/cleanup.h"
#include "policy/commands/internal.h"

#include <stdio.h>
#include <string.h>

#define JUDGE_DEPTH_MAX 12

struct judge {
    const struct commands *c;
    struct command_verdict *v;
    unsigned depth;
    uint32_t budget; /* commands that are looked at in all, whatever is nested in what */
    struct command_work work;
};

static void quote_line(const struct command_line *l, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < l->argc && used + 1 < size; i++) {
        /* No more of it is looked at than there is room for. */
        int n = snprintf(out + used, size - used, "%s%.*s", i ? " " : "", (int)size, l->argv[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

static void raise_to(struct judge *j, enum command_rule rule, enum command_shape shape,
                     const char *text, const struct command_line *l)
{
    if (rule <= j->v->rule)
        return;
    j->v->rule = rule;
    j->v->shape = shape;
    snprintf(j->v->rule_text, sizeof j->v->rule_text, "%s", text);
    quote_line(l, j->v->what, sizeof j->v->what);
}

static void raise_shape(struct judge *j, enum command_shape shape, const struct command_line *l)
{
    if (shape != SHAPE_NONE)
        raise_to(j, j->c->dangerous, shape, "", l);
}

static void raise_default(struct judge *j, const struct command_line *l)
{
    char text[64];
    snprintf(text, sizeof text, "commands.default: %s", command_rule_name(j->c->by_default));
    raise_to(j, j->c->by_default, SHAPE_NONE, text, l);
}

struct listed {
    bool allowed, exact;
};

/* CMD-4: nobody knows whether it is what a rule is about. Then it is, unless the rule allows. */
static bool is_listed(struct judge *j, const struct command_pattern *p,
                      const struct command_line *l)
{
    return command_pattern_work(p, l->argv, l->argc, &j->work) ||
           (j->work.spent && p->rule != COMMAND_ALLOW);
}

static struct listed look_up(struct judge *j, const struct command_line *l)
{
    struct listed found = {0};
    for (size_t i = 0; i < j->c->count; i++) {
        const struct command_pattern *p = &j->c->patterns[i];
        char text[96];
        if (!is_listed(j, p, l))
            continue;
        snprintf(text, sizeof text, "commands.%s%s: %s", command_rule_name(p->rule),
                 j->work.spent ? " (too long to tell)" : "", p->text);
        raise_to(j, p->rule, SHAPE_NONE, text, l);
        found.allowed |= p->rule == COMMAND_ALLOW;
        found.exact |= p->rule == COMMAND_ALLOW && p->exact;
    }
    return found;
}

static void judge_line(struct judge *j, const struct command_line *l, struct listed above);

/* ---- scripts ---- */

struct place_in_script {
    bool moved, deeper;
};

static void follow_cd(const struct command_line *l, struct place_in_script *at)
{
    if (l->argc == 0 || !WORD_IS(l->argv[0], "cd", "pushd"))
        return;
    bool plain = l->argc == 2 && strcmp(l->argv[1], "-") != 0;
    if (!plain || (path_is_outside(l, 1) && !WORD_IS(l->argv[1], ".", "./")))
        at->moved = true;
    else
        at->deeper = true;
}

static void judge_command(struct judge *j, const struct shell_script *s, uint32_t index,
                          const struct command_place *place, struct place_in_script *at,
                          struct listed above)
{
    const struct shell_command *c = &s->commands[index];
    cleanup_free const char **argv = calloc(c->count + 1, sizeof *argv);
    cleanup_free bool *flags = calloc(2 * c->count + 1, sizeof *flags);
    struct command_line l = {.argv = argv,
                             .dynamic = flags,
                             .glob = flags ? flags + c->count : NULL,
                             .argc = argv && flags ? c->count : 0,
                             .at = place,
                             .moved = at->moved,
                             .deeper = at->deeper,
                             .script = s,
                             .index = index};
    if (l.argc == 0) {
        raise_shape(j, SHAPE_UNKNOWN, &l);
        return;
    }
    for (uint32_t i = 0; i < c->count; i++) {
        argv[i] = shell_text(s, c->first + i);
        flags[i] = s->words[c->first + i].dynamic;
        flags[c->count + i] = s->words[c->first + i].glob;
    }
    judge_line(j, &l, above);
    follow_cd(&l, at);
}

static void judge_redirects(struct judge *j, const struct shell_script *s,
                            const struct command_line *outer)
{
    for (uint32_t i = 0; i < s->redirect_count; i++) {
        const char *path = shell_text(s, s->redirects[i].word);
        const char *words[] = {s->redirects[i].writes ? ">" : "<", path};
        struct command_line l = {.argv = words, .argc = 2, .at = outer->at};
        raise_shape(j, redirect_shape_of(s, &s->redirects[i], &l), &l);
    }
}

static void judge_script(struct judge *j, const char *text, const struct command_line *outer,
                         struct listed above)
{
    __attribute__((cleanup(shell_done))) struct shell_script s;
    struct place_in_script at = {outer->moved, outer->deeper};
    size_t len = strlen(text);
    bool over = j->depth >= JUDGE_DEPTH_MAX || !work_take(&j->work, len * WORK_PARSE);
    shell_parse(text, over ? 0 : len, &s);
    over =
        over || s.command_count > j->budget || !work_take(&j->work, s.redirect_count * WORK_WORD);
    if (over || s.unknown) {
        if (!above.exact)
            raise_shape(j, SHAPE_UNKNOWN, outer);
        raise_default(j, outer);
    }
    if (over)
        return;
    j->budget -= s.command_count;
    script_look_through(&s);
    j->depth++;
    if (!above.exact)
        judge_redirects(j, &s, outer);
    for (uint32_t i = 0; i < s.command_count; i++)
        judge_command(j, &s, i, outer->at, &at, above);
    j->depth--;
}

/* ---- one command ---- */

/* The value of such a word is known only when it runs, but the text may show where it comes
 * from. */
static void judge_dynamic(struct judge *j, const struct command_line *l, size_t word,
                          struct listed above)
{
    bool fetched = false;
    if (l->script) {
        const struct shell_command *c = &l->script->commands[l->index];
        /* A wrapper in front was taken off: count from the end. */
        uint32_t at = c->first + c->count - (uint32_t)(l->argc - word);
        fetched = word_downloads(l->script, &l->script->words[at]);
    }
    if (!above.exact)
        raise_shape(j, fetched ? SHAPE_PIPE_TO_SHELL : SHAPE_UNKNOWN, l);
    raise_default(j, l);
}

static bool is_dynamic(const struct command_line *l, size_t word)
{
    return l->dynamic && l->dynamic[word];
}

static void judge_eval(struct judge *j, const struct command_line *l, struct listed above)
{
    cleanup_buf struct buf text;
    buf_init(&text, SHELL_TEXT_MAX);
    for (size_t i = 1; i < l->argc; i++) {
        if (is_dynamic(l, i)) {
            judge_dynamic(j, l, i, above);
            return;
        }
        buf_fmt(&text, "%s%s", i > 1 ? " " : "", l->argv[i]);
    }
    judge_script(j, buf_text(&text), l, above);
}

/* bash <<EOF: the text is a script. */
static void judge_here(struct judge *j, const struct command_line *l, struct listed above)
{
    if (!l->script || !command_is_shell(command_program(l->argv[0])) || !line_reads_program(l))
        return;
    uint32_t here = l->script->commands[l->index].here;
    if (here < l->script->word_count)
        judge_script(j, shell_text(l->script, here), l, above);
}

static void judge_wrapped(struct judge *j, const struct command_line *l, size_t from,
                          struct listed above)
{
    struct command_line inner = *l;
    inner.argv += from;
    inner.dynamic = l->dynamic ? l->dynamic + from : NULL;
    inner.glob = l->glob ? l->glob + from : NULL;
    inner.argc -= from;
    inner.open_ended |= WORD_IS(command_program(l->argv[0]), "xargs", "parallel");
    judge_line(j, &inner, above);
}

static void judge_inner(struct judge *j, const struct command_line *l, struct listed above)
{
    size_t wrapped = command_wrapped(l), script = command_script_word(l);
    if (wrapped)
        judge_wrapped(j, l, wrapped, above);
    else if (script && is_dynamic(l, script))
        judge_dynamic(j, l, script, above);
    else if (script)
        judge_script(j, l->argv[script], l, above);
    else if (strcmp(l->argv[0], "eval") == 0)
        judge_eval(j, l, above);
    else if (!above.allowed)
        raise_default(j, l);
    judge_here(j, l, above);
}

static bool may_look(struct judge *j, const struct command_line *l)
{
    size_t len = 0;
    for (size_t i = 0; i < l->argc; i++)
        len += strlen(l->argv[i]);
    return work_take(&j->work, l->argc * WORK_WORD + len * WORK_LOOK);
}

static void judge_line(struct judge *j, const struct command_line *l, struct listed above)
{
    struct listed found = {0};
    if (l->argc == 0)
        return;
    if (j->depth >= JUDGE_DEPTH_MAX || !may_look(j, l)) {
        look_up(j, l);
        raise_shape(j, SHAPE_UNKNOWN, l);
        raise_default(j, l);
        return;
    }
    bool unknown = is_dynamic(l, 0) || (l->glob && l->glob[0]);
    if (!unknown)
        found = look_up(j, l);
    found.allowed |= above.allowed;
    found.exact |= above.exact;
    if (!found.exact) {
        raise_shape(j, script_shape_of(l), l);
        raise_shape(j, command_shape_of(l), l);
    }
    if (unknown) {
        raise_default(j, l);
        return;
    }
    j->depth++;
    judge_inner(j, l, found);
    j->depth--;
}

void commands_judge(const struct commands *c, char *const argv[], const struct command_place *at,
                    struct command_verdict *ret)
{
    *ret = (struct command_verdict){.rule = COMMAND_ALLOW};
    struct command_line l = {.argv = (const char *const *)argv, .at = at};
    struct judge j = {
        .c = c, .v = ret, .budget = 4 * SHELL_COMMANDS_MAX, .work = {.left = COMMAND_WORK_MAX}};
    if (!c->given)
        return;
    while (argv[l.argc])
        l.argc++;
    judge_line(&j, &l, (struct listed){0});
}

void command_verdict_reason(const struct command_verdict *v, struct buf *out)
{
    if (v->shape != SHAPE_NONE)
        buf_fmt(out, "%s: %s", command_shape_name(v->shape), command_shape_text(v->shape));
    else
        buf_str(out, v->rule_text);
}
