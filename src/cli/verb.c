/* What every verb does: leads to the verb below it that was meant, parses its options, answers
 * --help, and prints its failure, as text or as JSON. */
#include "cli/verb.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/suggest.h"
#include "cli/term.h"

#include <string.h>
#include <unistd.h>

static const struct opt common[] = {
    {.id = OPT_HELP, .brief = 'h', .name = "help", .group = "Other", .help = "show this help"},
};
const struct opt_table common_options = {.items = common, .count = ARRAY_LEN(common)};

const struct verb *verb_child(const struct verb *verb, const char *word)
{
    for (size_t i = 0; verb->children && verb->children[i]; i++) {
        if (strcmp(verb_word(verb->children[i]), word) == 0)
            return verb->children[i];
    }
    return NULL;
}

static int unknown_child(const struct verb *verb, const char *word)
{
    struct err err = ERR_INIT;
    struct suggest s;
    const char *space = verb->name[0] ? " " : "";
    suggest_init(&s, word);
    for (size_t i = 0; verb->children[i]; i++)
        suggest_offer(&s, verb_word(verb->children[i]));
    err_set(&err, ERR_USAGE, "unknown command '%s%s%.60s'", verb->name, space, word);
    if (s.best)
        err_hint(&err, "did you mean `brig %s%s%s`?", verb->name, space, s.best);
    else if (!verb->name[0])
        err_hint(&err,
                 "to run a program: brig run -- %.60s; all commands: brig --help; to look "
                 "for one: brig help %.60s",
                 word, word);
    return verb_fail(verb, &err, false);
}

static int dispatch_option(const struct verb *verb, const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help_print(verb, STDOUT_FILENO);
        return 0;
    }
    struct err err = ERR_INIT;
    err_set(&err, ERR_USAGE, "unknown option %.60s", word);
    err_hint(&err, "options come after the command: brig %s%sCOMMAND %.60s", verb->name,
             verb->name[0] ? " " : "", word);
    return verb_fail(verb, &err, false);
}

int verb_dispatch(const struct verb *verb, int argc, char *const argv[])
{
    if (!verb->children)
        return verb->main(verb, argc, argv);
    if (argc == 0) {
        help_print(verb, STDERR_FILENO);
        return 125;
    }
    /* Options before the verb below it, which some verbs take. */
    if (argv[0][0] == '-' && verb->main && strcmp(argv[0], "--help") != 0 &&
        strcmp(argv[0], "-h") != 0)
        return verb->main(verb, argc, argv);
    if (argv[0][0] == '-')
        return dispatch_option(verb, argv[0]);
    const struct verb *child = verb_child(verb, argv[0]);
    if (!child)
        return unknown_child(verb, argv[0]);
    return verb_dispatch(child, argc - 1, argv + 1);
}

struct help_catcher {
    opt_fn fn;
    void *ctx;
    bool asked;
};

static int catch_help(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct help_catcher *c = ctx;
    if (opt && opt->id == OPT_HELP) {
        c->asked = true;
        return OPTIONS_STOP;
    }
    return c->fn(c->ctx, opt, value, err);
}

int verb_parse(const struct verb *verb, int argc, char *const argv[], opt_fn fn, void *ctx,
               int *ret_rest, struct err *err)
{
    struct help_catcher c = {.fn = fn, .ctx = ctx};
    int r = options_parse(verb->options, argc, argv, catch_help, &c, ret_rest, err);
    if (r < 0)
        return r;
    if (c.asked)
        help_print(verb, STDOUT_FILENO);
    return c.asked;
}

int verb_parse_all(const struct verb *verb, int argc, char *const argv[], opt_fn fn, void *ctx,
                   struct err *err)
{
    int rest = 0;
    int r = verb_parse(verb, argc, argv, fn, ctx, &rest, err);
    for (int took; r == 0 && rest < argc; rest++)
        r = (took = fn(ctx, NULL, argv[rest], err)) < 0 ? took : 0;
    return r;
}

bool verb_wants_json(int argc, char *const argv[])
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--pretty") == 0)
            return true;
    }
    return false;
}

static void fail_json(const struct err *err, verb_more *more, void *ctx)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, more ? (size_t)8 * 1024 * 1024 : 16384);
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    jw_key(&w, "error");
    jw_object_begin(&w);
    jw_kv_string(&w, "code", err_code_name(err->code));
    jw_kv_string(&w, "boundary", err->boundary ? boundary_name(err->boundary) : NULL);
    jw_key(&w, "message");
    jw_bytes(&w, err->message, strlen(err->message));
    jw_key(&w, "hint");
    if (err->hint[0])
        jw_bytes(&w, err->hint, strlen(err->hint));
    else
        jw_null(&w);
    jw_object_end(&w);
    if (more)
        more(ctx, &w);
    jw_object_end(&w);
    buf_chr(&out, '\n');
    (void)term_write(STDOUT_FILENO, buf_text(&out), out.len);
}

int verb_fail(const struct verb *verb, const struct err *err, bool json)
{
    return verb_fail_with(verb, err, json, NULL, NULL);
}

int verb_fail_with(const struct verb *verb, const struct err *err, bool json, verb_more *more,
                   void *ctx)
{
    struct err told = *err;
    if (told.code == ERR_USAGE && !told.hint[0])
        err_hint(&told, "try: brig %s%s--help", verb->name, verb->name[0] ? " " : "");
    if (json)
        fail_json(&told, more, ctx);
    term_say("%s", told.message);
    if (told.hint[0]) {
        cleanup_buf struct buf line;
        buf_init(&line, 2048);
        buf_str(&line, "  hint: ");
        term_clean(&line, told.hint);
        buf_chr(&line, '\n');
        (void)term_write(STDERR_FILENO, buf_text(&line), line.len);
    }
    return err_exit_status(&told);
}
