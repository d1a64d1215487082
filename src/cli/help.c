/* brig help: the help of a verb, or what all of them say about a word. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/term.h"
#include "cli/verb.h"

#include <stdio.h>
#include <string.h>

struct search {
    char *const *words;
    int count;
    struct buf out;
    const struct opt *seen[256]; /* verbs share options: each is shown once, where it comes first */
    size_t seen_count;
    unsigned hits;
};

static bool is_in(const char *const *texts, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (texts[i] && strcasestr(texts[i], word))
            return true;
    return false;
}

/* What people look for that is called something else here. */
static const struct {
    const char *asked, *said;
} others[] = {
    {"internet", "Network boundary"},
    {"proxy", "Network boundary"},
    {"firewall", "Network boundary"},
    {"dns", "resolver"},
    {"egress", "Network boundary"},
    {"apt", "writable-root"},
    {"apt-get", "writable-root"},
    {"sudo", "writable-root"},
    {"ubuntu", "image"},
    {"debian", "image"},
    {"alpine", "image"},
    {"podman", "image"},
    {"volume", "writable"},
    {"mount", "read-only"},
    {"bind", "read-only"},
    {"websocket", "that agents use"},
    {"rest", "that agents use"},
    {"sdk", "that agents use"},
    {"gvisor", "tier"},
    {"firecracker", "tier"},
    {"microvm", "tier"},
    {"runc", "brig oci"},
    {"containerd", "brig oci"},
    {"kubernetes", "brig oci"},
    {"password", "secret"},
    {"token", "secret"},
    {"ssh", "brig exec"},
};

static bool is_meant(const char *const *texts, size_t count, const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (!strcasecmp(others[i].asked, word) && is_in(texts, count, others[i].said))
            return true;
    return false;
}

static bool has_all(const struct search *s, const char *const *texts, size_t count)
{
    for (int i = 0; i < s->count; i++)
        if (!is_in(texts, count, s->words[i]) && !is_meant(texts, count, s->words[i]))
            return false;
    return true;
}

static bool is_seen(struct search *s, const struct opt *o)
{
    for (size_t i = 0; i < s->seen_count; i++) {
        if (s->seen[i] == o)
            return true;
    }
    if (s->seen_count < ARRAY_LEN(s->seen))
        s->seen[s->seen_count++] = o;
    return false;
}

static void search_options(struct search *s, const struct verb *verb)
{
    const struct opt *o;
    for (size_t i = 0; (o = options_at(verb->options, i)); i++) {
        if (o->id == OPT_HELP || is_seen(s, o) ||
            !has_all(s, (const char *[]){o->name, o->value, o->help, o->group}, 4))
            continue;
        char left[128];
        snprintf(left, sizeof left, "  brig %s --%s", verb->name, o->name);
        help_entry(&s->out, left, o->help);
        s->hits++;
    }
}

static void search_verb(struct search *s, const struct verb *verb)
{
    const char *const texts[] = {verb->name, verb->summary, verb->about, verb->examples};
    if (verb->name[0] && has_all(s, texts, ARRAY_LEN(texts))) {
        char left[128];
        snprintf(left, sizeof left, "  brig %s", verb->name);
        help_entry(&s->out, left, verb->summary);
        s->hits++;
    }
    if (verb->options)
        search_options(s, verb);
    for (size_t i = 0; verb->children && verb->children[i]; i++)
        search_verb(s, verb->children[i]);
}

/* How many commands and options have all these words in what is said about them. */
static unsigned help_search(int count, char *const words[])
{
    struct search s = {.words = words, .count = count};
    buf_init(&s.out, HELP_MAX);
    search_verb(&s, &verb_root);
    if (s.hits)
        (void)term_write(STDOUT_FILENO, buf_text(&s.out), s.out.len);
    buf_done(&s.out);
    return s.hits;
}

static int help_operand(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    return opt ? err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name) : OPTIONS_STOP;
}

static int help_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    int rest = 0;
    int r = verb_parse(verb, argc, argv, help_operand, NULL, &rest, &err);
    if (r < 0)
        return verb_fail(verb, &err, false);
    if (r > 0)
        return 0;
    const struct verb *about = &verb_root;
    for (int i = rest; i < argc; i++) {
        const struct verb *child = verb_child(about, argv[i]);
        if (!child && help_search(argc - rest, argv + rest))
            return 0;
        if (!child) {
            err_set(&err, ERR_USAGE, "no command or option has '%.60s' in its description",
                    argv[i]);
            err_hint(&err, "brig --help lists the commands; brig help run its options");
            return verb_fail(verb, &err, false);
        }
        about = child;
    }
    help_print(about, STDOUT_FILENO);
    return 0;
}

const struct verb verb_help = {
    .name = "help",
    .summary = "explain a command, or find one by a word",
    .usage = "help [COMMAND]\nhelp WORD…",
    .about = "What is no command is looked for in what is said about all commands and options.",
    .examples = "brig help run\n"
                "brig help memory\n"
                "brig help read folder",
    .options = &common_options,
    .main = help_main,
};
