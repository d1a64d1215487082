/* brig oci create, start, kill, delete, run: the life of a container. */
#include "base/cleanup.h"
#include "cli/oci/oci.h"

#include <string.h>
#include <sys/wait.h>

enum {
    OPT_BUNDLE = 1,
    OPT_CONSOLE,
    OPT_PID_FILE,
    OPT_KEEP_FDS,
    OPT_DETACH,
    OPT_KEEP,
    OPT_ALL,
    OPT_FORCE
};

#define BUNDLE_OPTIONS                                                                             \
    {.id = OPT_BUNDLE,                                                                             \
     .brief = 'b',                                                                                 \
     .name = "bundle",                                                                             \
     .kind = OPT_VALUE,                                                                            \
     .value = "DIR",                                                                               \
     .group = "Container",                                                                         \
     .help = "the folder with config.json; default: the current one"},                             \
        {.id = OPT_CONSOLE,                                                                        \
         .name = "console-socket",                                                                 \
         .kind = OPT_VALUE,                                                                        \
         .value = "FILE",                                                                          \
         .group = "Container",                                                                     \
         .help = "a UNIX socket that gets the terminal's outer side"},                             \
        {.id = OPT_PID_FILE,                                                                       \
         .name = "pid-file",                                                                       \
         .kind = OPT_VALUE,                                                                        \
         .value = "FILE",                                                                          \
         .group = "Container",                                                                     \
         .help = "gets the process id, as the host counts"},                                       \
    {                                                                                              \
        .id = OPT_KEEP_FDS, .name = "preserve-fds", .kind = OPT_VALUE, .value = "N",               \
        .group = "Container", .help = "so many descriptors after stderr stay open inside"          \
    }

struct life {
    struct oci_line line;
    bool detach, keep, all, force;
};

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct life *l = ctx;
    struct oci_request *r = &l->line.request;
    switch (opt->id) {
    case OPT_BUNDLE:
        r->bundle = value;
        return 1;
    case OPT_CONSOLE:
        r->console_socket = value;
        return 1;
    case OPT_PID_FILE:
        r->pid_file = value;
        return 1;
    case OPT_KEEP_FDS:
        return oci_line_keep(value, &r->keep, err) < 0 ? err_number(err) : 1;
    case OPT_DETACH:
        return l->detach = 1;
    case OPT_KEEP:
        return l->keep = 1;
    case OPT_ALL:
        return l->all = 1;
    case OPT_FORCE:
        return l->force = 1;
    default:
        return 0;
    }
}

static int life_main(struct life *l, const struct verb *verb, int argc, char *const argv[],
                     int (*work)(void *ctx, struct err *err))
{
    l->line.own = own;
    l->line.ctx = l;
    return oci_line_main(&l->line, verb, argc, argv, work);
}

/* ---- create ---- */

static const struct opt create_items[] = {BUNDLE_OPTIONS};
static const struct opt_table create_table = {
    .items = create_items, .count = ARRAY_LEN(create_items), .next = &oci_global_table};

static int create(void *ctx, struct err *err)
{
    struct life *l = ctx;
    pid_t pid;
    return oci_create(&l->line.request, &pid, err);
}

static int create_main(const struct verb *verb, int argc, char *const argv[])
{
    struct life l = {.line = {.sealed = true}};
    return life_main(&l, verb, argc, argv, create);
}

const struct verb verb_oci_create = {
    .name = "oci create",
    .summary = "build a container up to the point where it waits for start",
    .usage = "oci create [--bundle DIR] [--pid-file FILE] [--console-socket FILE] ID",
    .about = "Reads config.json, judges it, builds the sandbox and leaves its first process\n"
             "waiting. What changes in the bundle afterwards does not count.",
    .examples = "brig oci create --bundle /srv/b --pid-file /run/b.pid b1",
    .statuses = "0    created\n125  refused or failed; nothing is left\n126  the program cannot be "
                "executed\n127  it is not there",
    .options = &create_table,
    .main = create_main,
};

/* ---- start ---- */

static int start(void *ctx, struct err *err)
{
    struct life *l = ctx;
    return oci_start(&l->line.request, err);
}

static int start_main(const struct verb *verb, int argc, char *const argv[])
{
    struct life l = {.detach = false};
    return life_main(&l, verb, argc, argv, start);
}

const struct verb verb_oci_start = {
    .name = "oci start",
    .summary = "let a created container run its program",
    .usage = "oci start ID",
    .about = "Only a container that waits can be started, and only once.",
    .examples = "brig oci start b1",
    .statuses = "0    started\n125  there is none that waits\n126  the program cannot be executed",
    .options = &oci_global_table,
    .main = start_main,
};

/* ---- kill ---- */

static const struct opt kill_items[] = {
    {.id = OPT_ALL,
     .brief = 'a',
     .name = "all",
     .group = "What",
     .help = "every process of the container"},
};
static const struct opt_table kill_table = {
    .items = kill_items, .count = ARRAY_LEN(kill_items), .next = &oci_global_table};

static int send_signal(void *ctx, struct err *err)
{
    struct life *l = ctx;
    const char *name = l->line.word_count ? l->line.words[0] : "TERM";
    int sig = oci_signal_number(name);
    if (sig < 0)
        return err_set(err, ERR_USAGE, "no such signal: %.40s", name);
    return oci_kill(&l->line.request, sig, l->all, err);
}

static int kill_main(const struct verb *verb, int argc, char *const argv[])
{
    struct life l = {.line = {.more = 1}};
    return life_main(&l, verb, argc, argv, send_signal);
}

const struct verb verb_oci_kill = {
    .name = "oci kill",
    .summary = "send a signal to a container's first process",
    .usage = "oci kill [--all] ID [SIGNAL]",
    .about = "SIGNAL is a name or a number; default TERM.",
    .examples = "brig oci kill b1 KILL\nbrig oci kill --all b1 9",
    .statuses = "0    sent\n125  there is no such container, or it does not run",
    .options = &kill_table,
    .main = kill_main,
};

/* ---- delete ---- */

static const struct opt delete_items[] = {
    {.id = OPT_FORCE,
     .brief = 'f',
     .name = "force",
     .group = "What",
     .help = "kill it first; one that is not there is fine"},
};
static const struct opt_table delete_table = {
    .items = delete_items, .count = ARRAY_LEN(delete_items), .next = &oci_global_table};

static int remove_container(void *ctx, struct err *err)
{
    struct life *l = ctx;
    return oci_delete(&l->line.request, l->force, err);
}

static int delete_main(const struct verb *verb, int argc, char *const argv[])
{
    struct life l = {.detach = false};
    return life_main(&l, verb, argc, argv, remove_container);
}

const struct verb verb_oci_delete = {
    .name = "oci delete",
    .summary = "remove a stopped container: its groups and its state",
    .usage = "oci delete [--force] ID",
    .about = "Whatever create left behind when it was killed is removed as well.",
    .examples = "brig oci delete b1\nbrig oci delete --force b1",
    .statuses = "0    removed\n125  it still runs, or there is none",
    .options = &delete_table,
    .main = delete_main,
};

/* ---- run ---- */

static const struct opt run_items[] = {
    BUNDLE_OPTIONS,
    {.id = OPT_DETACH,
     .brief = 'd',
     .name = "detach",
     .group = "Container",
     .help = "do not wait for its end"},
    {.id = OPT_KEEP, .name = "keep", .group = "Container", .help = "do not delete it at its end"},
};
static const struct opt_table run_table = {
    .items = run_items, .count = ARRAY_LEN(run_items), .next = &oci_global_table};

static int run(void *ctx, struct err *err)
{
    struct life *l = ctx;
    pid_t pid = 0;
    struct oci_request *r = &l->line.request;
    if (oci_create(r, &pid, err) < 0)
        return err_number(err);
    int result = oci_start(r, err);
    if (result < 0) {
        struct err second = ERR_INIT;
        oci_delete(r, true, &second);
        waitpid(pid, NULL, 0);
        return result;
    }
    if (l->detach)
        return 0;
    l->line.status = oci_wait(pid);
    return l->keep ? 0 : oci_delete(r, true, err);
}

static int run_main(const struct verb *verb, int argc, char *const argv[])
{
    struct life l = {.line = {.sealed = true}};
    return life_main(&l, verb, argc, argv, run);
}

const struct verb verb_oci_run = {
    .name = "oci run",
    .summary = "create, start, wait for the end and delete",
    .usage = "oci run [--bundle DIR] [--detach] [--keep] ID",
    .about = "Its exit status is the program's. Signals are handed on.",
    .examples = "brig oci run --bundle /srv/b b1",
    .statuses = "the program's, or 128 and the signal that ended it\n125  refused or failed",
    .options = &run_table,
    .main = run_main,
};
