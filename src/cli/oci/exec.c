/* brig oci exec: one more process in a container. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/oci/oci.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum {
    OPT_PROCESS = 1,
    OPT_DETACH,
    OPT_PID_FILE,
    OPT_TTY,
    OPT_CONSOLE,
    OPT_KEEP_FDS,
    OPT_CWD,
    OPT_ENV,
    OPT_USER,
    OPT_CAP
};

static const struct opt exec_items[] = {
    {.id = OPT_PROCESS,
     .brief = 'p',
     .name = "process",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Process",
     .help = "all of it as JSON, in the place of the following"},
    {.id = OPT_CWD,
     .name = "cwd",
     .kind = OPT_VALUE,
     .value = "PATH",
     .group = "Process",
     .help = "working folder inside"},
    {.id = OPT_ENV,
     .brief = 'e',
     .name = "env",
     .kind = OPT_LIST,
     .value = "NAME=VALUE",
     .group = "Process",
     .help = "in addition to the container's; can be repeated"},
    {.id = OPT_USER,
     .brief = 'u',
     .name = "user",
     .kind = OPT_VALUE,
     .value = "UID[:GID]",
     .group = "Process",
     .help = "numbers; default: the container's"},
    {.id = OPT_CAP,
     .brief = 'c',
     .name = "cap",
     .kind = OPT_LIST,
     .value = "NAME",
     .group = "Process",
     .help = "a capability in addition, of the list; can be repeated"},
    {.id = OPT_TTY, .brief = 't', .name = "tty", .group = "Process", .help = "with a terminal"},
    {.id = OPT_CONSOLE,
     .name = "console-socket",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Container",
     .help = "a UNIX socket that gets the terminal's outer side"},
    {.id = OPT_PID_FILE,
     .name = "pid-file",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Container",
     .help = "gets the process id, as the host counts"},
    {.id = OPT_KEEP_FDS,
     .name = "preserve-fds",
     .kind = OPT_VALUE,
     .value = "N",
     .group = "Container",
     .help = "so many descriptors after stderr stay open inside"},
    {.id = OPT_DETACH,
     .brief = 'd',
     .name = "detach",
     .group = "Container",
     .help = "do not wait for its end"},
};
static const struct opt_table exec_table = {
    .items = exec_items, .count = ARRAY_LEN(exec_items), .next = &oci_global_table};

#define LIST_MAX 256

struct exec_verb {
    struct oci_line line;
    const char *file, *cwd, *user;
    const char *env[LIST_MAX], *caps[LIST_MAX];
    unsigned env_count, cap_count;
    bool tty;
};

static int add(const char **list, unsigned *count, const char *value, struct err *err)
{
    if (*count == LIST_MAX)
        return err_set(err, ERR_USAGE, "too many options of one kind");
    list[(*count)++] = value;
    return 1;
}

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct exec_verb *e = ctx;
    struct oci_request *r = &e->line.request;
    const char **texts[] = {[OPT_PROCESS] = &e->file,
                            [OPT_CWD] = &e->cwd,
                            [OPT_USER] = &e->user,
                            [OPT_CONSOLE] = &r->console_socket,
                            [OPT_PID_FILE] = &r->pid_file};
    switch (opt->id) {
    case OPT_ENV:
        return add(e->env, &e->env_count, value, err);
    case OPT_CAP:
        return add(e->caps, &e->cap_count, value, err);
    case OPT_TTY:
        return e->tty = 1;
    case OPT_DETACH:
        return r->detach = 1;
    case OPT_KEEP_FDS:
        return oci_line_keep(value, &r->keep, err) < 0 ? err_number(err) : 1;
    default:
        if ((size_t)opt->id >= ARRAY_LEN(texts) || !texts[opt->id])
            return 0;
        *texts[opt->id] = value;
        return 1;
    }
}

/* The container's own process with another command: written down as JSON, so that there is one way
 * to read it. */
static int write_process(const struct exec_verb *e, const struct oci_config *c, int argc,
                         char *const argv[], struct buf *out, struct err *err)
{
    static const char *const sets[] = {"bounding", "effective", "permitted", "inheritable",
                                       "ambient"};
    static const enum oci_caps which[] = {OCI_CAPS_BOUNDING, OCI_CAPS_EFFECTIVE, OCI_CAPS_PERMITTED,
                                          OCI_CAPS_INHERITABLE, OCI_CAPS_AMBIENT};
    struct json_writer w;
    unsigned uid = c->process.uid, gid = c->process.gid;
    char end;
    if (e->user && sscanf(e->user, "%u:%u%c", &uid, &gid, &end) != 2 &&
        sscanf(e->user, "%u%c", &uid, &end) != 1)
        return err_set(err, ERR_USAGE, "--user: expected UID or UID:GID, as numbers");
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_bool(&w, "terminal", e->tty);
    jw_kv_object(&w, "user");
    jw_kv_uint(&w, "uid", uid);
    jw_kv_uint(&w, "gid", gid);
    jw_kv_array(&w, "additionalGids");
    for (size_t i = 0; !e->user && i < c->process.group_count; i++)
        jw_uint(&w, c->process.groups[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_kv_array(&w, "args");
    for (int i = 0; i < argc; i++)
        jw_bytes(&w, argv[i], strlen(argv[i]));
    jw_array_end(&w);
    jw_kv_array(&w, "env");
    for (size_t i = 0; i < json_count(c->process.env); i++)
        jw_string(&w, json_string(json_at(c->process.env, i)));
    for (unsigned i = 0; i < e->env_count; i++)
        jw_bytes(&w, e->env[i], strlen(e->env[i]));
    jw_array_end(&w);
    jw_kv_string(&w, "cwd", e->cwd ? e->cwd : c->process.cwd);
    jw_kv_object(&w, "capabilities");
    for (size_t s = 0; s < ARRAY_LEN(sets); s++) {
        jw_kv_array(&w, sets[s]);
        for (int cap = 0; cap <= 40; cap++)
            if (c->process.caps[which[s]] & 1ull << cap)
                jw_string(&w, oci_cap_name(cap));
        for (unsigned i = 0; s < 3 && i < e->cap_count; i++)
            jw_bytes(&w, e->caps[i], strlen(e->caps[i]));
        jw_array_end(&w);
    }
    jw_object_end(&w);
    jw_object_end(&w);
    return out->failed ? err_set(err, ERR_LIMIT, "the command is too long") : 0;
}

static int own_process(const struct exec_verb *e, int argc, char *const argv[], struct buf *out,
                       struct err *err)
{
    size_t len;
    struct oci_state s;
    if (oci_open(&e->line.request, &s, err) < 0)
        return err_number(err);
    cleanup_free char *text = oci_state_config(&s, &len, err);
    oci_close(&s);
    struct oci_config *c = calloc(1, sizeof *c);
    int r = text && c ? oci_config_parse(text, len, c, err) : err_number(err);
    if (r == 0) {
        r = write_process(e, c, argc, argv, out, err);
        oci_config_done(c);
    }
    free(c);
    return r;
}

static int read_process(const struct exec_verb *e, int argc, char *const argv[], struct json **tree,
                        struct oci_process *p, struct err *err)
{
    size_t len;
    cleanup_buf struct buf out;
    buf_init(&out, OCI_CONFIG_MAX);
    if (e->file && argc)
        return err_set(err, ERR_USAGE, "a command, and --process that has one");
    if (!e->file && !argc)
        return err_set(err, ERR_USAGE, "which command?");
    if (e->file) {
        cleanup_free char *text = oci_file_read(AT_FDCWD, e->file, OCI_CONFIG_MAX, &len, err);
        if (!text || oci_process_parse(text, len, tree, p, err) < 0)
            return err_number(err);
        p->terminal |= e->tty;
        return 0;
    }
    if (own_process(e, argc, argv, &out, err) < 0)
        return err_number(err);
    return oci_process_parse(buf_text(&out), out.len, tree, p, err);
}

static int run(void *ctx, struct err *err)
{
    struct exec_verb *e = ctx;
    struct json *tree = NULL;
    struct oci_process p;
    pid_t pid = 0;
    if (read_process(e, e->line.command_count, e->line.command, &tree, &p, err) < 0)
        return err_number(err);
    e->line.request.process = &p;
    int r = oci_exec(&e->line.request, &pid, err);
    if (r == 0 && !e->line.request.detach)
        e->line.status = oci_wait(pid);
    json_free(tree);
    return r;
}

static int exec_main(const struct verb *verb, int argc, char *const argv[])
{
    struct exec_verb e = {.line = {.stops = true, .sealed = true, .own = own, .ctx = &e}};
    return oci_line_main(&e.line, verb, argc, argv, run);
}

const struct verb verb_oci_exec = {
    .name = "oci exec",
    .summary = "one more process in a running container",
    .usage = "oci exec [OPTIONS] ID COMMAND [ARGS…]\noci exec --process FILE [OPTIONS] ID",
    .about = "It gets the same walls as the container's first process. Without --process it is\n"
             "like that one but for what the options say.",
    .examples =
        "brig oci exec b1 ls -l /\nbrig oci exec --process p.json --detach --pid-file p.pid b1",
    .statuses = "the program's, or 128 and the signal that ended it\n125  refused, or the "
                "container does not run",
    .options = &exec_table,
    .main = exec_main,
};
