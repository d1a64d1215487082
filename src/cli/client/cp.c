/* brig cp: files into a sandbox and out of it. */
#include "cli/client/cp.h"

#include "base/cleanup.h"
#include "cli/client/boxes.h"
#include "cli/term.h"

#include <stdio.h>
#include <string.h>

enum { OPT_RECURSIVE = 1, OPT_QUIET };

static const struct opt cp_items[] = {
    {.id = OPT_RECURSIVE,
     .brief = 'r',
     .name = "recursive",
     .group = "What",
     .help = "folders with everything in them"},
    {.id = OPT_QUIET,
     .brief = 'q',
     .name = "quiet",
     .group = "Output",
     .help = "do not say what was copied"},
};
static const struct opt_table cp_table = {
    .items = cp_items, .count = ARRAY_LEN(cp_items), .next = &client_option_table};

struct cp_verb {
    struct boxes boxes;
    bool recursive, quiet;
};

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct cp_verb *v = ctx;
    if (!opt || (opt->id != OPT_RECURSIVE && opt->id != OPT_QUIET))
        return 0;
    *(opt->id == OPT_RECURSIVE ? &v->recursive : &v->quiet) = true;
    return 1;
}

/* "ID:PATH": what stands before the first colon looks like an id and has no slash. */
static bool split(const char *word, char id[static 64], const char **path)
{
    const char *colon = strchr(word, ':');
    size_t len = colon ? (size_t)(colon - word) : 0;
    if (!colon || len == 0 || len >= 64)
        return false;
    memcpy(id, word, len);
    id[len] = '\0';
    *path = colon + 1;
    return client_id_good(id);
}

static int which_way(struct boxes *b, char id[static 64], struct copy *c, bool *in, struct err *err)
{
    char other[64];
    const char *path;
    bool from = split(b->words[0], id, &c->inside);
    bool to = split(b->words[1], from ? other : id, from ? &path : &c->inside);
    if (from == to) {
        err_set(err, ERR_USAGE,
                from ? "both are in a sandbox"
                     : "neither is in a sandbox: a path inside is written ID:PATH");
        return err_hint(err, "brig cp FILE ID:PATH, or brig cp ID:PATH FILE");
    }
    *in = to;
    c->here = b->words[from ? 1 : 0];
    if (!c->here[0] || (from && !c->inside[0]))
        return err_set(err, ERR_USAGE, "an empty path");
    return 0;
}

static int run(struct boxes *b, struct err *err)
{
    struct cp_verb *v = b->ctx;
    struct copy c = {.client = &b->client, .recursive = v->recursive};
    cleanup_buf struct buf inside = {0};
    char word[64], id[64];
    bool in = false;
    if (b->count != 2)
        return err_set(err, ERR_USAGE, "two names are needed: what to copy, and where to");
    if (which_way(b, word, &c, &in, err) < 0 || client_find(&b->client, word, id, err) < 0)
        return err_number(err);
    c.id = id;
    copy_mend(&inside, c.inside);
    c.inside = buf_text(&inside);
    int r = in ? copy_in(&c, err) : copy_out(&c, err);
    if (r >= 0 && !v->quiet)
        term_say("%llu file%s, %llu bytes", (unsigned long long)c.files, c.files == 1 ? "" : "s",
                 (unsigned long long)c.bytes);
    return r;
}

static int cp_main(const struct verb *verb, int argc, char *const argv[])
{
    struct cp_verb v = {.boxes = {.own = own}};
    v.boxes.ctx = &v;
    return boxes_main(&v.boxes, verb, argc, argv, run);
}

const struct verb verb_cp = {
    .name = "cp",
    .summary = "copy files into a sandbox and out of it",
    .usage = "cp [-r] FILE ID:PATH\ncp [-r] ID:PATH FILE",
    .about = "A relative path inside is seen from the home folder. A target that is a folder\n"
             "takes the file under its own name. Links are not copied. What comes out is\n"
             "written below the target only, owned by you, without set-id bits, whatever the\n"
             "sandbox calls its files.",
    .examples = "brig cp data.csv 4k2m:/workspace/\n"
                "brig cp 4k2m:/workspace/plot.png .\n"
                "brig cp -r src 4k2m:src",
    .statuses = "0    copied\n125  something could not be copied, or there is no daemon",
    .options = &cp_table,
    .main = cp_main,
};
