/* brig oci pause, resume, update: a container that runs. */
#include "base/cleanup.h"
#include "cli/oci/oci.h"

#include <fcntl.h>
#include <string.h>

enum { OPT_RESOURCES = 1 };

/* ---- pause, resume ---- */

static int stop(void *ctx, struct err *err)
{
    return oci_pause(&((struct oci_line *)ctx)->request, true, err);
}

static int go_on(void *ctx, struct err *err)
{
    return oci_pause(&((struct oci_line *)ctx)->request, false, err);
}

static int pause_main(const struct verb *verb, int argc, char *const argv[])
{
    struct oci_line l = {.ctx = &l};
    return oci_line_main(&l, verb, argc, argv, stop);
}

static int resume_main(const struct verb *verb, int argc, char *const argv[])
{
    struct oci_line l = {.ctx = &l};
    return oci_line_main(&l, verb, argc, argv, go_on);
}

const struct verb verb_oci_pause = {
    .name = "oci pause",
    .summary = "stop every process of a container for a while",
    .usage = "oci pause ID",
    .about = "By the freezer of its cgroup.",
    .examples = "brig oci pause b1",
    .statuses = "0    paused\n125  it does not run, or it has no cgroup that can be frozen",
    .options = &oci_global_table,
    .main = pause_main,
};

const struct verb verb_oci_resume = {
    .name = "oci resume",
    .summary = "let a paused container go on",
    .usage = "oci resume ID",
    .about = "The end of a pause.",
    .examples = "brig oci resume b1",
    .statuses = "0    it runs\n125  it is not paused",
    .options = &oci_global_table,
    .main = resume_main,
};

/* ---- update ---- */

static const struct opt update_items[] = {
    {.id = OPT_RESOURCES,
     .brief = 'r',
     .name = "resources",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Limits",
     .help = "linux.resources as JSON; - is stdin"},
};
static const struct opt_table update_table = {
    .items = update_items, .count = ARRAY_LEN(update_items), .next = &oci_global_table};

struct update {
    struct oci_line line;
    const char *file;
};

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct update *u = ctx;
    (void)err;
    if (opt->id != OPT_RESOURCES)
        return 0;
    u->file = value;
    return 1;
}

/* The next bytes of stdin, up to its end. */
static char *read_stdin(size_t *len, struct err *err)
{
    cleanup_free char *text = malloc(OCI_CONFIG_MAX);
    ssize_t n = 1;
    *len = 0;
    while (text && n > 0 && *len < OCI_CONFIG_MAX) {
        n = read(STDIN_FILENO, text + *len, OCI_CONFIG_MAX - *len);
        *len += n > 0 ? (size_t)n : 0;
    }
    if (!text || n != 0) {
        err_set(err, ERR_USAGE, "cannot read the resources from stdin");
        return NULL;
    }
    char *taken = text;
    text = NULL;
    return taken;
}

static int change(void *ctx, struct err *err)
{
    struct update *u = ctx;
    struct json *tree = NULL;
    struct oci_resources r = {.memory = 0};
    size_t len;
    if (!u->file)
        return err_set(err, ERR_USAGE, "which limits?");
    cleanup_free char *text = strcmp(u->file, "-") == 0
                                  ? read_stdin(&len, err)
                                  : oci_file_read(AT_FDCWD, u->file, OCI_CONFIG_MAX, &len, err);
    if (!text || oci_resources_parse(text, len, &tree, &r, err) < 0)
        return err_number(err);
    int result = oci_update(&u->line.request, &r, err);
    json_free(tree);
    return result;
}

static int update_main(const struct verb *verb, int argc, char *const argv[])
{
    struct update u = {.line = {.own = own, .ctx = &u}};
    return oci_line_main(&u.line, verb, argc, argv, change);
}

const struct verb verb_oci_update = {
    .name = "oci update",
    .summary = "other limits for a running container",
    .usage = "oci update --resources FILE ID",
    .about = "What is not said stays. The operator's limits hold here too.",
    .examples = "echo '{\"pids\": {\"limit\": 64}}' | brig oci update --resources - b1",
    .statuses = "0    changed\n125  refused, or there is no such container",
    .options = &update_table,
    .main = update_main,
};
