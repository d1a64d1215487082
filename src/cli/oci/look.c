/* brig oci state, list, ps, events, features, spec: what there is, and what this build offers. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/oci/oci.h"
#include "cli/term.h"
#include "oci/judge.h"
#include "os/fd.h"
#include "os/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { OPT_FORMAT = 1, OPT_QUIET, OPT_STATS, OPT_INTERVAL, OPT_BUNDLE };

#define OUTPUT_MAX ((size_t)16 << 20)

struct look {
    struct oci_line line;
    bool json, quiet, stats;
    uint64_t interval_ms;
    const char *bundle;
};

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct look *l = ctx;
    switch (opt->id) {
    case OPT_FORMAT:
        l->json = strcmp(value, "json") == 0;
        return 1;
    case OPT_QUIET:
        return l->quiet = 1;
    case OPT_STATS:
        return l->stats = 1;
    case OPT_INTERVAL:
        return num_parse_duration(value, &l->interval_ms, err) < 0 ? err_number(err) : 1;
    case OPT_BUNDLE:
        l->bundle = value;
        return 1;
    default:
        return 0;
    }
}

static int look_main(struct look *l, const struct verb *verb, int argc, char *const argv[],
                     int (*work)(void *ctx, struct err *err))
{
    l->line.own = own;
    l->line.ctx = l;
    return oci_line_main(&l->line, verb, argc, argv, work);
}

/* ---- state ---- */

static struct oci_config *kept_config(const struct oci_state *s)
{
    size_t len;
    struct err err = ERR_INIT;
    cleanup_free char *text = oci_state_config(s, &len, &err);
    struct oci_config *c = calloc(1, sizeof *c);
    if (c && text && oci_config_parse(text, len, c, &err) == 0)
        return c;
    free(c);
    return NULL;
}

static void put_state(const struct oci_state *s, struct json_writer *w)
{
    struct oci_config *c = kept_config(s);
    oci_state_write(s, oci_state_status(s), c ? c->annotations : NULL, w);
    if (c)
        oci_config_done(c);
    free(c);
}

static int print_state(void *ctx, struct err *err)
{
    const struct look *l = ctx;
    struct oci_state s;
    struct json_writer w;
    cleanup_buf struct buf out;
    buf_init(&out, OUTPUT_MAX);
    jw_init(&w, &out, true);
    if (oci_open(&l->line.request, &s, err) < 0)
        return err_number(err);
    put_state(&s, &w);
    oci_close(&s);
    buf_chr(&out, '\n');
    return term_print(&out, "the state", err);
}

static int state_main(const struct verb *verb, int argc, char *const argv[])
{
    struct look l = {.json = false};
    return look_main(&l, verb, argc, argv, print_state);
}

const struct verb verb_oci_state = {
    .name = "oci state",
    .summary = "print a container's state as JSON",
    .usage = "oci state ID",
    .about = "creating, created, running, paused or stopped.",
    .examples = "brig oci state b1",
    .statuses = "0    printed\n125  there is no such container",
    .options = &oci_global_table,
    .main = state_main,
};

/* ---- list ---- */

static const struct opt list_items[] = {
    {.id = OPT_FORMAT,
     .brief = 'f',
     .name = "format",
     .kind = OPT_VALUE,
     .value = "FORMAT",
     .words = "table json",
     .group = "Output",
     .help = "default table"},
    {.id = OPT_QUIET, .brief = 'q', .name = "quiet", .group = "Output", .help = "ids only"},
};
static const struct opt_table list_table = {
    .items = list_items, .count = ARRAY_LEN(list_items), .next = &oci_global_table};

static void list_one(const struct look *l, const struct oci_state *s, struct buf *out,
                     struct json_writer *w)
{
    enum oci_status status = oci_state_status(s);
    if (l->quiet)
        buf_fmt(out, "%s\n", s->id);
    else if (l->json)
        put_state(s, w);
    else
        buf_fmt(out, "%-30s %-10d %-10s %-22s %s\n", s->id, status == OCI_STOPPED ? 0 : s->pid,
                oci_status_name(status), s->created, s->bundle);
}

static void list_all(const struct look *l, int root, struct buf *out, struct json_writer *w)
{
    DIR *dir = root < 0 ? NULL : folder_open(root, ".");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct oci_state s;
        struct err err = ERR_INIT;
        if (e->d_name[0] == '.' || oci_judge_id(e->d_name, &err) < 0)
            continue;
        if (oci_state_open(&s, root, e->d_name, &err) == 0)
            list_one(l, &s, out, w);
        oci_state_done(&s);
    }
    if (dir)
        closedir(dir);
}

static int print_list(void *ctx, struct err *err)
{
    const struct look *l = ctx;
    struct json_writer w;
    cleanup_buf struct buf out;
    buf_init(&out, OUTPUT_MAX);
    cleanup_fd int root = oci_root_open(l->line.request.root, false, err);
    if (root < 0 && err->sys_errno != ENOENT)
        return err_number(err);
    jw_init(&w, &out, false);
    if (l->json && !l->quiet)
        jw_array_begin(&w);
    else if (!l->quiet)
        buf_fmt(&out, "%-30s %-10s %-10s %-22s %s\n", "ID", "PID", "STATUS", "CREATED", "BUNDLE");
    list_all(l, root, &out, &w);
    if (l->json && !l->quiet) {
        jw_array_end(&w);
        buf_chr(&out, '\n');
    }
    return term_print(&out, "the list", err);
}

static int list_main(const struct verb *verb, int argc, char *const argv[])
{
    struct look l = {.line = {.alone = true}};
    return look_main(&l, verb, argc, argv, print_list);
}

const struct verb verb_oci_list = {
    .name = "oci list",
    .summary = "the containers of this state folder",
    .usage = "oci list [--format json] [--quiet]",
    .about = "Those of another --root are not seen.",
    .examples = "brig oci list\nbrig oci list --format json",
    .statuses = "0    printed\n125  the state folder cannot be read",
    .options = &list_table,
    .main = list_main,
};

/* ---- ps ---- */

static const struct opt ps_items[] = {
    {.id = OPT_FORMAT,
     .brief = 'f',
     .name = "format",
     .kind = OPT_VALUE,
     .value = "FORMAT",
     .words = "table json",
     .group = "Output",
     .help = "default table"},
};
static const struct opt_table ps_table = {
    .items = ps_items, .count = ARRAY_LEN(ps_items), .next = &oci_global_table};

static void put_processes(const struct look *l, const pid_t *pids, size_t count, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    if (l->json)
        jw_array_begin(&w);
    else
        buf_fmt(out, "%-10s %-10s %s\n", "PID", "PPID", "NAME");
    for (size_t i = 0; i < count; i++) {
        struct proc_stat st;
        if (l->json) {
            jw_int(&w, pids[i]);
        } else if (procfs_stat(pids[i], &st)) {
            buf_fmt(out, "%-10d %-10d ", pids[i], st.ppid);
            term_clean(out, st.name);
            buf_chr(out, '\n');
        }
    }
    if (l->json) {
        jw_array_end(&w);
        buf_chr(out, '\n');
    }
}

static int print_processes(void *ctx, struct err *err)
{
    const struct look *l = ctx;
    struct oci_state s;
    struct oci_cgroup g;
    pid_t pids[4096];
    size_t count = 0;
    cleanup_buf struct buf out;
    buf_init(&out, OUTPUT_MAX);
    if (oci_open(&l->line.request, &s, err) < 0)
        return err_number(err);
    if (s.grouped && oci_cgroup_find(s.cgroup, &g, err) == 0)
        count = oci_cgroup_pids(&g, pids, ARRAY_LEN(pids));
    else if (oci_state_alive(&s))
        pids[count++] = s.pid;
    oci_close(&s);
    put_processes(l, pids, count, &out);
    return term_print(&out, "the processes", err);
}

static int ps_main(const struct verb *verb, int argc, char *const argv[])
{
    struct look l = {.json = false};
    return look_main(&l, verb, argc, argv, print_processes);
}

const struct verb verb_oci_ps = {
    .name = "oci ps",
    .summary = "the processes of a container, as the host counts them",
    .usage = "oci ps [--format json] ID",
    .about = "From its cgroup; without one, its first process.",
    .examples = "brig oci ps --format json b1",
    .statuses = "0    printed\n125  there is no such container",
    .options = &ps_table,
    .main = ps_main,
};

/* ---- events ---- */

static const struct opt events_items[] = {
    {.id = OPT_STATS, .name = "stats", .group = "Output", .help = "once, not again and again"},
    {.id = OPT_INTERVAL,
     .name = "interval",
     .kind = OPT_VALUE,
     .value = "TIME",
     .group = "Output",
     .help = "between two lines; default 5s"},
};
static const struct opt_table events_table = {
    .items = events_items, .count = ARRAY_LEN(events_items), .next = &oci_global_table};

static void put_number(struct json_writer *w, const char *key, int64_t n)
{
    if (n >= 0)
        jw_kv_uint(w, key, n == INT64_MAX ? UINT64_MAX : (uint64_t)n);
}

static void put_stats(const struct oci_state *s, const struct oci_cgroup *g, struct json_writer *w)
{
    jw_object_begin(w);
    jw_kv_string(w, "type", "stats");
    jw_kv_string(w, "id", s->id);
    jw_kv_object(w, "data");
    jw_kv_object(w, "cpu");
    jw_kv_object(w, "usage");
    put_number(w, "total", oci_cgroup_cpu_ns(g));
    jw_object_end(w);
    jw_object_end(w);
    jw_kv_object(w, "memory");
    jw_kv_object(w, "usage");
    put_number(w, "usage",
               oci_cgroup_number(g, "memory", g->v2 ? "memory.current" : "memory.usage_in_bytes"));
    put_number(w, "limit",
               oci_cgroup_number(g, "memory", g->v2 ? "memory.max" : "memory.limit_in_bytes"));
    jw_object_end(w);
    jw_object_end(w);
    jw_kv_object(w, "pids");
    put_number(w, "current", oci_cgroup_number(g, "pids", "pids.current"));
    put_number(w, "limit", oci_cgroup_number(g, "pids", "pids.max"));
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

/* 1: it still runs. */
static int one_event(const struct look *l, struct err *err)
{
    struct oci_state s;
    struct oci_cgroup g = {0};
    struct json_writer w;
    cleanup_buf struct buf out;
    buf_init(&out, 65536);
    jw_init(&w, &out, false);
    if (oci_open(&l->line.request, &s, err) < 0)
        return err_number(err);
    enum oci_status status = oci_state_status(&s);
    int result = s.grouped
                     ? oci_cgroup_find(s.cgroup, &g, err)
                     : err_set(err, ERR_UNSUPPORTED, "this container has no cgroup that counts");
    if (result == 0 && status == OCI_STOPPED)
        result = err_set(err, ERR_REFUSED, "container not running");
    if (result == 0)
        put_stats(&s, &g, &w);
    oci_close(&s);
    buf_chr(&out, '\n');
    if (result == 0)
        result = term_print(&out, "the events", err);
    return result < 0 ? result : 1;
}

static int watch(void *ctx, struct err *err)
{
    const struct look *l = ctx;
    uint64_t ms = l->interval_ms ? l->interval_ms : 5000;
    int r = one_event(l, err);
    while (r == 1 && !l->stats) {
        struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
        nanosleep(&t, NULL);
        r = one_event(l, err);
        if (r < 0 && (err->code == ERR_REFUSED || err->code == ERR_NOT_FOUND))
            return 0; /* its end is the end */
    }
    return r < 0 ? r : 0;
}

static int events_main(const struct verb *verb, int argc, char *const argv[])
{
    struct look l = {.json = false};
    return look_main(&l, verb, argc, argv, watch);
}

const struct verb verb_oci_events = {
    .name = "oci events",
    .summary = "what a container uses: CPU time, memory, processes",
    .usage = "oci events [--stats] [--interval TIME] ID",
    .about = "One line of JSON at a time, from its cgroup, until it ends.",
    .examples = "brig oci events --stats b1",
    .statuses = "0    printed\n125  there is no such container, it does not run, or nothing counts",
    .options = &events_table,
    .main = events_main,
};

/* ---- features ---- */

static void put_words(struct json_writer *w, const char *key, const char *words)
{
    jw_kv_array(w, key);
    for (const char *at = words + strspn(words, " "); *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        jw_bytes(w, at, len);
        at += len;
    }
    jw_array_end(w);
}

static void put_texts(struct json_writer *w, const char *key, const char *const *texts)
{
    jw_kv_array(w, key);
    for (; *texts; texts++)
        jw_string(w, *texts);
    jw_array_end(w);
}

static void put_features(struct json_writer *w)
{
    static const char *const hooks[] = {"prestart", "createRuntime", "poststart", "poststop", NULL};
    static const char *const spaces[] = {"cgroup", "ipc",  "mount", "network",
                                         "pid",    "user", "uts",   NULL};
    static const char *const actions[] = {
        "SCMP_ACT_ALLOW",       "SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS",
        "SCMP_ACT_KILL_THREAD", "SCMP_ACT_LOG",   "SCMP_ACT_TRAP", NULL};
    static const char *const operators[] = {"SCMP_CMP_EQ", "SCMP_CMP_GE", "SCMP_CMP_GT",
                                            "SCMP_CMP_LE", "SCMP_CMP_LT", "SCMP_CMP_MASKED_EQ",
                                            "SCMP_CMP_NE", NULL};
    jw_object_begin(w);
    jw_kv_string(w, "ociVersionMin", "1.0.0");
    jw_kv_string(w, "ociVersionMax", OCI_VERSION);
    put_texts(w, "hooks", hooks);
    put_words(w, "mountOptions", oci_mount_flags);
    jw_kv_object(w, "linux");
    put_texts(w, "namespaces", spaces);
    jw_kv_array(w, "capabilities");
    for (int cap = 0; cap < 64; cap++)
        if (oci_caps_allowed & 1ull << cap)
            jw_string(w, oci_cap_name(cap));
    jw_array_end(w);
    jw_kv_object(w, "cgroup");
    jw_kv_bool(w, "v1", true);
    jw_kv_bool(w, "v2", true);
    jw_kv_bool(w, "systemd", true);
    jw_kv_bool(w, "systemdUser", true);
    jw_object_end(w);
    jw_kv_object(w, "seccomp");
    jw_kv_bool(w, "enabled", true);
    put_texts(w, "actions", actions);
    put_texts(w, "operators", operators);
    jw_object_end(w);
    jw_kv_object(w, "apparmor");
    jw_kv_bool(w, "enabled", false);
    jw_object_end(w);
    jw_kv_object(w, "selinux");
    jw_kv_bool(w, "enabled", false);
    jw_object_end(w);
    jw_object_end(w);
    jw_kv_object(w, "annotations");
    jw_kv_string(w, "brig.version", BRIG_VERSION);
    jw_object_end(w);
    jw_object_end(w);
}

static int print_features(void *ctx, struct err *err)
{
    struct json_writer w;
    cleanup_buf struct buf out;
    (void)ctx;
    buf_init(&out, 65536);
    jw_init(&w, &out, true);
    put_features(&w);
    buf_chr(&out, '\n');
    return term_print(&out, "the features", err);
}

static int features_main(const struct verb *verb, int argc, char *const argv[])
{
    struct look l = {.line = {.alone = true}};
    return look_main(&l, verb, argc, argv, print_features);
}

const struct verb verb_oci_features = {
    .name = "oci features",
    .summary = "what of the specification is there, as JSON",
    .usage = "oci features",
    .about = "For engines that ask before they write a configuration.",
    .examples = "brig oci features",
    .statuses = "0    printed",
    .options = &oci_global_table,
    .main = features_main,
};

/* ---- spec ---- */

static const struct opt spec_items[] = {
    {.id = OPT_BUNDLE,
     .brief = 'b',
     .name = "bundle",
     .kind = OPT_VALUE,
     .value = "DIR",
     .group = "Container",
     .help = "where config.json is to be made; default: here"},
};
static const struct opt_table spec_table = {
    .items = spec_items, .count = ARRAY_LEN(spec_items), .next = &oci_global_table};

static const char example[] =
    "{\n"
    "  \"ociVersion\": \"1.0.2\",\n"
    "  \"process\": {\n"
    "    \"terminal\": false,\n"
    "    \"user\": {\"uid\": 0, \"gid\": 0},\n"
    "    \"args\": [\"sh\"],\n"
    "    \"env\": [\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"],\n"
    "    \"cwd\": \"/\",\n"
    "    \"capabilities\": {\"bounding\": [], \"effective\": [], \"permitted\": []},\n"
    "    \"noNewPrivileges\": true\n"
    "  },\n"
    "  \"root\": {\"path\": \"rootfs\", \"readonly\": true},\n"
    "  \"hostname\": \"brig\",\n"
    "  \"mounts\": [\n"
    "    {\"destination\": \"/proc\", \"type\": \"proc\", \"source\": \"proc\"},\n"
    "    {\"destination\": \"/dev\", \"type\": \"tmpfs\", \"source\": \"tmpfs\", \"options\": "
    "[\"mode=755\", \"size=64k\"]},\n"
    "    {\"destination\": \"/dev/pts\", \"type\": \"devpts\", \"source\": \"devpts\", "
    "\"options\": [\"newinstance\", "
    "\"ptmxmode=0666\", \"mode=0620\"]},\n"
    "    {\"destination\": \"/dev/shm\", \"type\": \"tmpfs\", \"source\": \"shm\", \"options\": "
    "[\"noexec\", \"mode=1777\", "
    "\"size=64m\"]},\n"
    "    {\"destination\": \"/dev/mqueue\", \"type\": \"mqueue\", \"source\": \"mqueue\"},\n"
    "    {\"destination\": \"/sys\", \"type\": \"sysfs\", \"source\": \"sysfs\", \"options\": "
    "[\"ro\", \"noexec\"]},\n"
    "    {\"destination\": \"/tmp\", \"type\": \"tmpfs\", \"source\": \"tmpfs\", \"options\": "
    "[\"mode=1777\", \"size=64m\"]}\n"
    "  ],\n"
    "  \"linux\": {\n"
    "    \"namespaces\": [{\"type\": \"pid\"}, {\"type\": \"network\"}, {\"type\": \"ipc\"}, "
    "{\"type\": \"uts\"}, "
    "{\"type\": \"mount\"}, {\"type\": \"user\"}, {\"type\": \"cgroup\"}]\n"
    "  }\n"
    "}\n";

static int make_spec(void *ctx, struct err *err)
{
    const struct look *l = ctx;
    cleanup_fd int dir = open(l->bundle ? l->bundle : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd = dir < 0
                            ? -1
                            : openat(dir, "config.json",
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(err, "make config.json");
    return term_write(fd, example, sizeof example - 1) < 0 ? err_sys(err, "write config.json") : 0;
}

static int spec_main(const struct verb *verb, int argc, char *const argv[])
{
    struct look l = {.line = {.alone = true}};
    return look_main(&l, verb, argc, argv, make_spec);
}

const struct verb verb_oci_spec = {
    .name = "oci spec",
    .summary = "an example of a config.json",
    .usage = "oci spec [--bundle DIR]",
    .about = "One that needs nothing beyond the walls: no capability, a read-only root.",
    .examples = "brig oci spec --bundle b",
    .statuses = "0    made\n125  there is one already, or the folder cannot be written",
    .options = &spec_table,
    .main = spec_main,
};
