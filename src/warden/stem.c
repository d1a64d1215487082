/* The warden of a template process: provisions its sandbox, starts the interpreter in it and
 * watches both. */
#include "warden/stem.h"

#include "base/cleanup.h"
#include "os/beside.h"
#include "os/fd.h"
#include "os/sys.h"
#include "sandbox/clone.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define LIBRARY     "brig-template.so"
#define LIBRARY_MAX (2u << 20)
#define CONFIG_MAX  (256u << 10)
#define MEMORY      (4ull << 30) /* modules are large; what a clone changes counts as its own */
#define PIDS        64

bool stem_possible(const struct template *t, char why[static STEM_WHY_SIZE])
{
    char path[4200];
    struct err err = ERR_INIT;
    const struct policy *p = &t->policy;
    const char *reason = NULL;
    if (strcmp(t->interpreter, "python") != 0)
        reason = "only Python is cloned";
    else if (!tier_cloned(p))
        reason = "its tier has a kernel of its own, which cannot be cloned";
    else if (strcmp(p->root, "host") != 0)
        reason = "its root is not the host's: the interpreter there may be another one";
    else if (p->writable_root)
        reason = "its root is writable, and each sandbox needs layers of its own";
    else if (p->root_beside)
        reason = "its sandboxes have two users, and what is cloned has one";
    else if (p->grant_count > 0)
        reason = "it has folders of the host";
    else if (program_beside(LIBRARY, path, sizeof path, &err) < 0)
        reason = err.message;
    snprintf(why, STEM_WHY_SIZE, "%.190s", reason ? reason : "");
    return !reason;
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

/* The template's policy, without what only a user's code needs and without limits that the clones
 * would inherit. */
static struct policy own_policy(const struct template *t)
{
    struct policy p = t->policy;
    p.workspace = p.project = p.report = false;
    p.grant_count = p.env_count = 0;
    p.landlock = NEED_OFF;
    p.proc = PROC_PID;
    p.network_mode = NETWORK_OFF;
    p.egress.rule_count = p.egress.blocked_count = p.egress.secret_count = 0;
    p.memory = p.memory > MEMORY ? p.memory : MEMORY;
    p.pids = PIDS;
    p.cpus_milli = p.timeout_ms = p.cpu_time_ms = POLICY_UNLIMITED;
    p.sampling = SAMPLING_ACCEPT; /* no code of a user's runs in it */
    return p;
}

/* A user namespace keeps the limits of who made it as the most that all inside, and all below, can
 * have together. Each clone has its own besides. */
static void lift_limits(void)
{
    static const int shared[] = {RLIMIT_NPROC, RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_MEMLOCK};
    struct rlimit limit;
    for (size_t i = 0; i < ARRAY_LEN(shared); i++)
        if (getrlimit(shared[i], &limit) == 0) {
            limit.rlim_cur = limit.rlim_max = geteuid() == 0 ? RLIM_INFINITY : limit.rlim_max;
            setrlimit(shared[i], &limit);
        }
}

/* Not by process ids alone: a group that a launcher of the same ids left when all of it was killed
 * at once would be in the way. */
static int name_sandbox(struct sandbox *s, struct err *err)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_sys(err, "random id");
    snprintf(s->id, sizeof s->id, "brig-stem-%d-%08x", (int)getppid(), random);
    return 0;
}

/* ---- its life ---- */

struct stem_warden {
    struct sandbox *s;
    int sock, door;
    int status; /* our end of the pipe that tells whether the interpreter could be executed */
};

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

static int make_block(struct err *err)
{
    /* As its driver alone would be started, but for the UTF-8 mode, which an empty environment
     * would switch on. */
    const char *const argv[] = {find_python(), "-X", "utf8=0", SHOWN_DIR "/template.py"};
    struct plan plan;
    plan_init(&plan);
    for (size_t i = 0; i < ARRAY_LEN(argv); i++)
        plan_str(&plan, OP_ARG, argv[i], NULL, 0);
    plan_str(&plan, OP_CWD, "/", NULL, 0);
    int fd = plan_finish(&plan, err);
    if (fd >= 0)
        fd = memfd_sealed("brig-spawn", plan.bytes.data, plan.bytes.len, false, err);
    plan_done(&plan);
    return fd;
}

/* C-1: with an empty environment, which its clones will show as their own. */
static int spawn(struct stem_warden *w, struct err *err)
{
    int pipe[2];
    struct ctl_msg msg = {.type = CTL_SPAWN, .request = 1};
    cleanup_fd int block = make_block(err);
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (block < 0)
        return err_number(err);
    if (null < 0 || pipe2(pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, "pipe");
    cleanup_fd int theirs = pipe[1];
    w->status = pipe[0];
    /* Its door is a socket, which carries descriptors: nobody's code is in there. */
    const int fds[SPAWN_ANSWERS] = {
        [SPAWN_BLOCK] = block, [SPAWN_STATUS] = theirs, [SPAWN_STDIN] = null,
        [SPAWN_STDOUT] = null, [SPAWN_STDERR] = null,   [SPAWN_REQUESTS] = w->door};
    int r = message_ask(w->s->ctl_fd, &msg, fds, SPAWN_ANSWERS);
    close(w->door);
    w->door = -1;
    errno = -r;
    return r < 0 ? err_sys(err, "start the template process") : 0;
}

static int begin(struct stem_warden *w, struct err *err)
{
    struct sandbox *s = w->s;
    if (sandbox_open(s, err) < 0 || state_enter(&s->state, STATE_PROVISIONING, err) < 0 ||
        sandbox_provision(s, err) < 0 || state_enter(&s->state, STATE_RUNNING, err) < 0)
        return err_number(err);
    if (message_send(s->ctl_fd, CTL_GO, 0) < 0)
        return err_set(err, ERR_SYSTEM, "the template's sandbox died before it was of use");
    return spawn(w, err);
}

static void complain(const struct stem_warden *w, const struct err *err)
{
    send(w->sock, err->message, strlen(err->message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The pipe closes when the program is executed. */
static void hear_status(struct stem_warden *w)
{
    struct err err;
    if (read(w->status, &err, sizeof err) == (ssize_t)sizeof err) {
        err.message[sizeof err.message - 1] = '\0';
        complain(w, &err);
    }
    close(w->status);
    w->status = -1;
}

/* Ends when the launcher lets go, or the sandbox is no more. */
static void watch(struct stem_warden *w)
{
    struct sandbox *s = w->s;
    for (;;) {
        struct pollfd fds[] = {{.fd = w->sock, .events = POLLIN},
                               {.fd = s->init_pidfd, .events = POLLIN},
                               {.fd = s->lifecycle.guardian.pidfd, .events = POLLIN},
                               {.fd = s->ctl_fd, .events = POLLIN},
                               {.fd = w->status, .events = POLLIN}};
        struct ctl_msg msg;
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno == EINTR)
            continue;
        if (fds[0].revents || fds[1].revents || fds[2].revents)
            return;
        /* Answers and ends of processes need no reaction here. */
        if (fds[3].revents && recv(s->ctl_fd, &msg, sizeof msg, MSG_DONTWAIT) == 0)
            return;
        if (fds[4].revents)
            hear_status(w);
    }
}

static int run(struct stem_warden *w, const struct template *t, struct stem_files *f,
               struct err *err)
{
    if (name_sandbox(w->s, err) < 0 || read_library(&f->library, err) < 0 ||
        write_config(t, &f->config, err) < 0)
        return err_number(err);
    lift_limits();
    return begin(w, err);
}

int stem_main(int sock, int door, const struct template *t, uid_t lease)
{
    struct err err = ERR_INIT;
    struct run_result result;
    struct policy policy = own_policy(t);
    struct run_request request = {
        .policy = &policy, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
    struct stem_files files = {.lease = lease};
    struct stem_warden w = {.sock = sock, .door = door, .status = -1};
    prctl(PR_SET_NAME, "brig-stem");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    buf_init(&files.library, LIBRARY_MAX);
    buf_init(&files.config, CONFIG_MAX);
    run_result_init(&result);
    if (!(w.s = sandbox_new(&request, &result)))
        return 125;
    w.s->session = true;
    w.s->stem = &files;
    int outcome = run(&w, t, &files, &err);
    if (outcome < 0)
        complain(&w, &err);
    else
        watch(&w);
    sandbox_finish(w.s, outcome, &err);
    if (result.left.code)
        complain(&w, &result.left);
    sandbox_free(w.s);
    return outcome < 0 ? 1 : 0;
}
