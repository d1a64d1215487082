/* Stems that are template processes: what is shown in their sandbox, and the interpreter that is
 * started there. */
#include "warden/stem_kinds.h"

#include "base/cleanup.h"
#include "os/beside.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY     "brig-template.so"
#define LIBRARY_MAX (2u << 20)
#define CONFIG_MAX  (256u << 10)
#define MEMORY                                                                                     \
    (4ull << 30) /* Python's modules are large; what a clone changes counts as the clone's */
#define PIDS 64

const char *stem_process_unfit(const struct template *t, struct err *err)
{
    char path[4200];
    const struct policy *p = &t->policy;
    if (strcmp(t->interpreter, "python") != 0)
        return "only Python is cloned";
    if (!tier_cloned(p) || tier_machine(p))
        return "its tier has a kernel of its own, which cannot be cloned";
    if (strcmp(p->root, "host") != 0)
        return "its root is not the host's: the interpreter there may be another one";
    if (p->writable_root)
        return "its root is writable, and each sandbox needs layers of its own";
    if (p->root_beside)
        return "its sandboxes have two users, and what is cloned has one";
    if (p->grant_count > 0)
        return "it has folders of the host";
    return program_beside(LIBRARY, path, sizeof path, err) < 0 ? err->message : NULL;
}

/* ---- what it is made of ---- */

static int read_library(struct buf *out, struct err *err)
{
    char path[4200], chunk[16384];
    ssize_t n;
    if (program_beside(LIBRARY, path, sizeof path, err) < 0)
        return err_number(err);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "open %s", path);
    while ((n = read(fd, chunk, sizeof chunk)) > 0)
        buf_add(out, chunk, (size_t)n);
    if (n < 0)
        return err_sys(err, "read %s", path);
    return out->failed ? err_set(err, ERR_LIMIT, "%s is too long", path) : 0;
}

static void set_variable(void *ctx, const char *name, const char *value)
{
    credentials_set(ctx, name, value);
}

/* The variables that a sandbox of this template starts with; where a clone's are the same, they
 * need not be set again. */
static int write_environ(const struct template *t, struct json_writer *w, struct err *err)
{
    struct credentials c = {.policy = &t->policy,
                            .home = HOME_DIR,
                            .tools = TOOLS_DIR,
                            .first_tools = FIRST_TOOLS_DIR,
                            .root_inside = t->policy.uid == 0};
    struct plan plan;
    struct plan_reader r;
    struct op op;
    plan_init(&plan);
    if (t->policy.network_mode != NETWORK_ALLOWLIST)
        sandbox_retry_variables(true, set_variable, &c);
    int got = credentials_plan(&c, STAGE_CODE, &plan, err);
    if (got >= 0 && (got = plan_finish(&plan, err)) >= 0)
        got = plan_read_begin(&r, plan.bytes.data, plan.bytes.len, err);
    jw_key(w, "environ");
    jw_object_begin(w);
    while (got >= 0 && (got = plan_read_next(&r, &op, err)) > 0) {
        char name[256];
        size_t len = op.a ? strcspn(op.a, "=") : sizeof name;
        if (op.kind != OP_ENV || len >= sizeof name || !op.a[len])
            continue;
        memcpy(name, op.a, len);
        name[len] = '\0';
        jw_kv_string(w, name, op.a + len + 1);
    }
    jw_object_end(w);
    plan_done(&plan);
    return got < 0 ? got : 0;
}

static int write_config(const struct template *t, struct buf *out, struct err *err)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_key(&w, "modules");
    jw_array_begin(&w);
    for (unsigned i = 0; i < t->module_count; i++)
        jw_string(&w, t->modules[i]);
    jw_array_end(&w);
    if (write_environ(t, &w, err) < 0)
        return err_number(err);
    jw_object_end(&w);
    return out->failed ? err_set(err, ERR_LIMIT, "too many modules or variables") : 0;
}

static struct policy own_policy(const struct template *t)
{
    struct policy p = stem_policy(t);
    /* Without limits that the clones would inherit. */
    p.workspace = false;
    p.landlock = NEED_OFF;
    p.proc = PROC_PID;
    p.memory = p.memory > MEMORY ? p.memory : MEMORY;
    p.pids = PIDS;
    p.cpus_milli = POLICY_UNLIMITED;
    return p;
}

static int prepare(struct stem_warden *w, struct err *err)
{
    buf_init(&w->files.library, LIBRARY_MAX);
    buf_init(&w->files.config, CONFIG_MAX);
    w->s->stem = &w->files;
    return read_library(&w->files.library, err) < 0
               ? err_number(err)
               : write_config(w->template, &w->files.config, err);
}

/* By its path: without a PATH in its environment an interpreter does not know where it lies. The
 * view is the host's, of which this is a part. */
static const char *find_python(void)
{
    static const char *const places[] = {"/usr/local/bin/python3", "/usr/bin/python3",
                                         "/bin/python3"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return "python3";
}

static void write_block(struct plan *block)
{
    /* As its driver alone would be started, but for the UTF-8 mode, which an empty environment
     * would switch on. */
    const char *const argv[] = {find_python(), "-X", "utf8=0", SHOWN_DIR "/template.py"};
    for (size_t i = 0; i < ARRAY_LEN(argv); i++)
        plan_arg(block, argv[i]);
}

/* C-1: with an empty environment, which its clones will show as their own. */
static int start(struct stem_warden *w, struct err *err)
{
    struct plan block;
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return err_sys(err, "open /dev/null");
    /* Requests come by a socket, which carries descriptors; nobody's code runs in this process yet.
     */
    int fds[SPAWN_FDS] = {[SPAWN_STDIN] = null,
                          [SPAWN_STDOUT] = null,
                          [SPAWN_STDERR] = null,
                          [SPAWN_REQUESTS] = w->door};
    plan_init(&block);
    write_block(&block);
    int result = stem_spawn(w, &block, fds, SPAWN_ANSWERS, err);
    plan_done(&block);
    close(fd_steal(&w->door));
    return result;
}

/* Answers and ends of processes need no reaction here. */
static int hear(struct stem_warden *w, const struct ctl_msg *msg, struct err *err)
{
    (void)w;
    (void)msg;
    (void)err;
    return 0;
}

const struct stem_kind stem_process = {
    .name = "template process",
    .policy = own_policy,
    .prepare = prepare,
    .start = start,
    .hear = hear,
};
