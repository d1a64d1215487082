/* brig policy choose: three questions, and the level that follows from the answers. */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OPT_JSON = 1, OPT_CODE, OPT_DATA, OPT_TENANTS };

#define ANSWERS "Answers"
#define ORIGINS "none own model user"
#define DATA    "public internal regulated"
#define TENANTS "one many"

static const struct opt choose_items[] = {
    {OPT_CODE, 0, "code", OPT_VALUE, "WHO", ORIGINS, NULL, ANSWERS,
     "who wrote it: none (text tools only), own, model or user"},
    {OPT_DATA, 0, "data", OPT_VALUE, "KIND", DATA, NULL, ANSWERS,
     "what it can see: public, internal or regulated"},
    {OPT_TENANTS, 0, "tenants", OPT_VALUE, "COUNT", TENANTS, NULL, ANSWERS,
     "whose work shares the host: one or many"},
    {.id = OPT_JSON, .name = "json", .group = "Output", .help = "print JSON"},
};
static const struct opt_table choose_table = {
    .items = choose_items, .count = ARRAY_LEN(choose_items), .next = &common_options};

struct answers {
    const char *code, *data, *tenants; /* NULL: not given yet */
    char space[3][16];
    bool json;
};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct answers *a = ctx;
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    if (opt->id == OPT_CODE)
        a->code = value;
    else if (opt->id == OPT_DATA)
        a->data = value;
    else if (opt->id == OPT_TENANTS)
        a->tenants = value;
    else
        a->json = true;
    return 0;
}

static bool is_one_of(const char *words, const char *answer)
{
    size_t len = strlen(answer);
    for (const char *at = words; len && (at = strstr(at, answer)); at += len)
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
            return true;
    return false;
}

/* On the terminal, until the answer is one of the words; negative at its end. */
static int ask(const char *question, const char *words, char space[static 16], const char **ret,
               struct err *err)
{
    if (*ret)
        return 0;
    for (;;) {
        char line[64];
        fprintf(stderr, "%s (%s) ", question, words);
        fflush(stderr);
        if (!fgets(line, sizeof line, stdin))
            return err_set(err, ERR_USAGE, "there was no answer to: %s", question);
        line[strcspn(line, "\n")] = '\0';
        if (!is_one_of(words, line))
            continue;
        snprintf(space, 16, "%s", line);
        *ret = space;
        return 0;
    }
}

static int ask_all(struct answers *a, struct err *err)
{
    if (a->code && a->data && a->tenants)
        return 0;
    if (!isatty(STDIN_FILENO)) {
        err_set(err, ERR_USAGE, "--%s is missing, and there is no terminal to ask on",
                !a->code   ? "code"
                : !a->data ? "data"
                           : "tenants");
        return err_hint(err, "e.g. brig policy choose --code model --data internal --tenants one");
    }
    if (ask("Who wrote the code?", ORIGINS, a->space[0], &a->code, err) < 0 ||
        ask("What data can it see?", DATA, a->space[1], &a->data, err) < 0)
        return err_number(err);
    return ask("How many tenants share the host?", TENANTS, a->space[2], &a->tenants, err);
}

/* The hardest answer decides. */
static enum level choose(const struct answers *a, const char **why)
{
    if (strcmp(a->tenants, "many") == 0) {
        *why = "tenants who do not know each other need a kernel each";
        return LEVEL_CRITICAL;
    }
    if (strcmp(a->data, "regulated") == 0) {
        *why = "what leaks of regulated data cannot be taken back";
        return LEVEL_CRITICAL;
    }
    if (strcmp(a->code, "model") == 0 || strcmp(a->code, "user") == 0) {
        *why = "code of a model or a user is taken to be hostile";
        return LEVEL_HIGH;
    }
    if (strcmp(a->code, "own") == 0 || strcmp(a->data, "internal") == 0) {
        *why = "code of your own may make mistakes, and needs its project";
        return LEVEL_MEDIUM;
    }
    *why = "no code comes from outside, and nothing is to be kept from it";
    return LEVEL_LOW;
}

static void render(const struct answers *a, struct buf *out)
{
    struct host_report host;
    const char *why;
    enum level level = choose(a, &why);
    sandbox_host_report(&host);
    bool here = host.levels[level].available;
    if (!a->json) {
        buf_fmt(out, "level %s: %s\n", level_name(level), why);
        if (here)
            buf_fmt(out, "here: %s tier; brig run --level %s -- COMMAND\n",
                    tier_name(host.levels[level].tier), level_name(level));
        else {
            buf_str(out, "here: not available: ");
            term_clean(out, host.levels[level].why);
            buf_chr(out, '\n');
        }
        return;
    }
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "level", level_name(level));
    jw_kv_string(&w, "why", why);
    jw_kv_bool(&w, "available", here);
    jw_kv_string(&w, "tier", tier_name(host.levels[level].tier));
    jw_kv_string(&w, "why_not", here ? NULL : host.levels[level].why);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

static int choose_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct answers a = {0};
    cleanup_buf struct buf out;
    buf_init(&out, 65536);
    int r = verb_parse_all(verb, argc, argv, take, &a, &err);
    if (r > 0)
        return 0;
    if (r >= 0)
        r = ask_all(&a, &err);
    if (r >= 0) {
        render(&a, &out);
        r = term_print(&out, "the level", &err);
    }
    return r < 0 ? verb_fail(verb, &err, a.json || verb_wants_json(argc, argv)) : 0;
}

const struct verb verb_policy_choose = {
    .name = "policy choose",
    .summary = "say which level fits, from three answers",
    .usage = "policy choose [--code WHO] [--data KIND] [--tenants COUNT] [--json]",
    .about = "Asks on the terminal for what no option answers: who wrote the code, how\n"
             "sensitive the data is that it can see, and whether the work of several tenants\n"
             "shares the host. Says the level, why, and which tier it gets on this host.",
    .examples = "brig policy choose\n"
                "brig policy choose --code model --data internal --tenants one",
    .statuses = "0    printed, whether or not this host has the level\n125  an answer is missing",
    .options = &choose_table,
    .main = choose_main,
};
