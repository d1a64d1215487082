/* brig oci: brig as a runtime that container engines call. The options that they put before the
 * verb are read here. */
#include "cli/oci/oci.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "base/text.h"
#include "cli/term.h"
#include "oci/log.h"

#include <fcntl.h>
#include <string.h>

static const struct opt global_items[] = {
    {.id = OCI_OPT_ROOT,
     .name = "root",
     .kind = OPT_VALUE,
     .value = "DIR",
     .group = "Engine",
     .help = "where states are kept; default /run/brig-oci, or below $XDG_RUNTIME_DIR"},
    {.id = OCI_OPT_LOG,
     .name = "log",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Engine",
     .help = "failures, denials and receipts are appended there"},
    {.id = OCI_OPT_LOG_FORMAT,
     .name = "log-format",
     .kind = OPT_VALUE,
     .value = "FORMAT",
     .words = "text json",
     .group = "Engine",
     .help = "of the log; default text"},
    {.id = OCI_OPT_DEBUG,
     .name = "debug",
     .group = "Engine",
     .help = "taken, for engines that give it; says nothing more"},
    {.id = OCI_OPT_SYSTEMD,
     .name = "systemd-cgroup",
     .group = "Engine",
     .help = "linux.cgroupsPath is SLICE:PREFIX:NAME, and systemd makes the groups"},
};
const struct opt_table oci_global_table = {
    .items = global_items, .count = ARRAY_LEN(global_items), .next = &common_options};

static int take_global(struct oci_line *l, const struct opt *opt, const char *value)
{
    if (opt->id == OCI_OPT_ROOT)
        l->request.root = value;
    else if (opt->id == OCI_OPT_LOG)
        l->request.log = value;
    else if (opt->id == OCI_OPT_LOG_FORMAT)
        l->request.log_json = strcmp(value, "json") == 0;
    else if (opt->id == OCI_OPT_SYSTEMD)
        l->request.systemd = true;
    return 0;
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct oci_line *l = ctx;
    int r = opt && l->own ? l->own(l->ctx, opt, value, err) : 0;
    if (r)
        return r < 0 ? r : 0;
    if (opt)
        return take_global(l, opt, value);
    if (!l->request.id) {
        l->request.id = value;
        return 0;
    }
    if (l->stops)
        return OPTIONS_STOP;
    if (l->word_count == ARRAY_LEN(l->words))
        return err_set(err, ERR_USAGE, "too many arguments");
    l->words[l->word_count++] = value;
    return 0;
}

static int parse(struct oci_line *l, const struct verb *verb, int argc, char *const argv[],
                 struct err *err)
{
    int rest = argc;
    int r = l->stops ? verb_parse(verb, argc, argv, take, l, &rest, err)
                     : verb_parse_all(verb, argc, argv, take, l, err);
    l->command = argv + rest;
    l->command_count = argc - rest;
    return r;
}

static int check(const struct oci_line *l, struct err *err)
{
    if (l->alone && l->request.id)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", l->request.id);
    if (!l->alone && !l->request.id)
        return err_set(err, ERR_USAGE, "which container?");
    if (l->word_count > l->more)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", l->words[l->more]);
    return 0;
}

int oci_line_keep(const char *value, unsigned *ret, struct err *err)
{
    uint64_t n;
    if (num_parse_uint(value, &n, err) < 0)
        return err_number(err);
    if (n > 64)
        return err_set(err, ERR_USAGE, "--preserve-fds: at most 64");
    for (unsigned i = 0; i < n; i++)
        if (fcntl((int)(3 + i), F_GETFD) < 0)
            return err_set(err, ERR_USAGE, "--preserve-fds: descriptor %u is not open", 3 + i);
    *ret = (unsigned)n;
    return 0;
}

static int reseal(const struct verb *verb, int argc, char *const argv[], struct err *err)
{
    /* As `brig oci VERB …`, under whatever name it was called; the path tells the copy where brig's
     * other programs are. */
    char path[4096];
    oci_own_path(path);
    char **line = calloc((size_t)argc + 4, sizeof *line);
    if (!line)
        return err_memory(err);
    line[0] = path;
    line[1] = (char *)(uintptr_t) "oci";
    line[2] = (char *)(uintptr_t)verb_word(verb);
    memcpy(line + 3, argv, (size_t)argc * sizeof *line);
    int r = oci_reseal(line, err);
    free(line);
    return r;
}

/* ---- the log ---- */

static void log_text(const struct oci_line *l, const struct err *err, struct buf *out)
{
    char when[40];
    struct json_writer w;
    oci_log_time(when);
    cleanup_buf struct buf message;
    buf_init(&message, 2048);
    buf_str(&message, err->message);
    if (err->hint[0])
        buf_fmt(&message, " (%s)", err->hint);
    if (l->request.log_json) {
        jw_init(&w, out, false);
        jw_object_begin(&w);
        jw_kv_string(&w, "level", "error");
        jw_kv_bytes(&w, "msg", message.data, message.len);
        jw_kv_string(&w, "time", when);
        jw_object_end(&w);
    } else {
        buf_fmt(out, "%s error: ", when);
        term_clean(out, buf_text(&message));
    }
    buf_chr(out, '\n');
}

static void write_log(const struct oci_line *l, const struct err *err)
{
    cleanup_buf struct buf out;
    const char *path = l->request.log;
    cleanup_fd int fd = oci_log_file(path);
    buf_init(&out, 8192);
    if (fd < 0) {
        term_say("the log %.200s is not a plain file of yours; nothing was written there", path);
        return;
    }
    log_text(l, err, &out);
    (void)term_write(fd, buf_text(&out), out.len);
}

int oci_line_main(struct oci_line *l, const struct verb *verb, int argc, char *const argv[],
                  int (*work)(void *ctx, struct err *err))
{
    struct err err = ERR_INIT;
    int r = parse(l, verb, argc, argv, &err);
    if (r > 0)
        return 0; /* help was printed */
    if (r == 0)
        r = check(l, &err);
    if (r == 0 && l->sealed)
        r = reseal(verb, argc, argv, &err);
    if (r == 0)
        r = work(l->ctx, &err);
    if (r < 0 && l->request.log)
        write_log(l, &err);
    return r < 0 ? verb_fail(verb, &err, false) : l->status;
}

/* ---- the tree ---- */

static const struct verb *const children[] = {
    &verb_oci_create, &verb_oci_start,    &verb_oci_state,  &verb_oci_kill,
    &verb_oci_delete, &verb_oci_run,      &verb_oci_exec,   &verb_oci_ps,
    &verb_oci_pause,  &verb_oci_resume,   &verb_oci_update, &verb_oci_events,
    &verb_oci_list,   &verb_oci_features, &verb_oci_spec,   NULL,
};

/* How many words the options before the verb take. */
static int leading(int argc, char *const argv[])
{
    int n = 0;
    while (n < argc && argv[n][0] == '-') {
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(global_items) && !known; i++) {
            const struct opt *o = &global_items[i];
            size_t len = strlen(o->name);
            if (!text_begins(argv[n], "--") || strncmp(argv[n] + 2, o->name, len) != 0 ||
                (argv[n][2 + len] != '\0' && argv[n][2 + len] != '='))
                continue;
            known = true;
            n += 1 + (o->kind == OPT_VALUE && argv[n][2 + len] == '\0');
        }
        if (!known)
            return n;
    }
    return n;
}

/* Engines put them before the verb; behind it they mean the same. */
static int oci_verb_main(const struct verb *verb, int argc, char *const argv[])
{
    int n = leading(argc, argv);
    if (n >= argc)
        return verb_dispatch(verb, 0, argv);
    if (argv[n][0] == '-') {
        struct err err = ERR_INIT;
        err_set(&err, ERR_USAGE, "unknown option %.60s", argv[n]);
        return verb_fail(verb, &err, false);
    }
    char **line = calloc((size_t)argc + 1, sizeof *line);
    if (!line)
        return 125;
    line[0] = argv[n];
    memcpy(line + 1, argv, (size_t)n * sizeof *line);
    memcpy(line + 1 + n, argv + n + 1, (size_t)(argc - n - 1) * sizeof *line);
    int status = verb_dispatch(verb, argc, line);
    free(line);
    return status;
}

const struct verb verb_oci = {
    .name = "oci",
    .summary = "a runtime for container engines (podman, containerd, …)",
    .usage = "oci [--root DIR] [--log FILE] [--log-format FORMAT] VERB …",
    .about = "Engines call it as they call runc, also by the name brig-oci. A bundle's\n"
             "config.json becomes a sandbox. brig's walls are the floor: what would open one\n"
             "is refused with the reason, whatever the engine was told.",
    .examples = "# podman\n"
                "podman --runtime /usr/bin/brig-oci run --rm alpine echo hello\n"
                "# a bundle by hand\n"
                "brig oci spec --bundle b && brig oci run --bundle b one",
    .children = children,
    .main = oci_verb_main,
};

int oci_main(int argc, char *const argv[])
{
    static const char version[] = "brig-oci version " BRIG_VERSION "\nspec: " OCI_VERSION "\n";
    if (argc > 0 && (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-v") == 0))
        return term_write(STDOUT_FILENO, version, sizeof version - 1) < 0 ? 125 : 0;
    return verb_dispatch(&verb_oci, argc, argv);
}
