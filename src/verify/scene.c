/* One sandbox of `brig verify`: its policy, its supervisor, what its attacks report, and what is
 * left after its end. */
#include "verify/scene.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/weaken.h"
#include "sandbox/sandbox.h"
#include "verify/inside.h"
#include "verify/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB        (UINT64_C(1) << 20)
#define SCENE_MS   120000
#define OUTPUT_MAX 65536
/* How long a limit that is only sampled may take to be noticed. */
#define PATIENCE_MS 30000
#define ENGINE_PIDS 2048

/* Small enough to be tried on anybody's machine. An engine takes something for itself before the
 * attack has begun, of memory, tasks and time. */
int scene_limit(enum scene_id id, bool sentry, bool guest)
{
    static const int more[SCENE_COUNT] = {
        [SCENE_PIDS] = 128, [SCENE_MEMORY] = 160, [SCENE_DEADLINE] = 3000, [SCENE_CPU] = 1500};
    /* The least that there are guests with. */
    static const int guests[SCENE_COUNT] = {
        [SCENE_MEMORY] = 160, [SCENE_DEADLINE] = 3000, [SCENE_CPU] = 1500};
    static const int limits[SCENE_COUNT] = {
        [SCENE_PIDS] = 64,
        [SCENE_FILES] = 64,
        [SCENE_MEMORY] = 64,
        [SCENE_DISK] = 4,
        [SCENE_INODES] = 200,
        [SCENE_OUTPUT] = OUTPUT_MAX,
        [SCENE_DEADLINE] = 100,
        [SCENE_CPU] = 100,
        /* The engine of a module takes its share before the module begins. */
        [SCENE_MODULE_MEMORY] = 128,
        [SCENE_MODULE_CPU] = 1000,
        [SCENE_MODULE_DEADLINE] = 3000,
    };
    return sentry && more[id] ? more[id] : guest && guests[id] ? guests[id] : limits[id];
}

/* What was killed takes a moment to be gone, on a busy machine a long one. */
static uint64_t gone_us(void)
{
    bool left = guard_left_out(GUARD_TEARDOWN) || guard_left_out(GUARD_SUPERVISOR);
    return left ? 3000000u : 30000000u;
}

static void at_most(uint64_t *value, uint64_t most)
{
    if (*value > most)
        *value = most;
}

static int shape_grants(struct policy *p, const struct place *place, struct err *err)
{
    struct origin origin = {.kind = ORIGIN_OPTION, .name = "brig verify"};
    if (policy_grant(p, place->ro, false, &origin, err) < 0)
        return err_number(err);
    return policy_grant(p, place->rw, true, &origin, err);
}

/* What else the policy grants would come before them among a module's descriptors. */
static int shape_module(struct policy *p, const struct place *place, struct err *err)
{
    p->grant_count = 0;
    free(p->cwd);
    p->cwd = NULL;
    return shape_grants(p, place, err);
}

/* Programs of the tests (os/weaken.h) tell the runner beside them which guard to leave out. */
static int pass_switch(struct policy *p, struct err *err)
{
    struct origin origin = {.kind = ORIGIN_OPTION, .name = "brig verify"};
    const char *left = weaken_setting("BRIG_WEAKEN");
    char text[160];
    if (!left)
        return 0;
    snprintf(text, sizeof text, "BRIG_WEAKEN=%s", left);
    return policy_env(p, text, &origin, err);
}

static int shape_network(struct policy *p, const struct place *place, struct err *err)
{
    struct origin origin = {.kind = ORIGIN_OPTION, .name = "brig verify"};
    char text[160];
    free(p->resolver);
    p->resolver = NULL;
    p->origin[FIELD_RESOLVER] = p->origin[FIELD_NETWORK_MODE] = (struct origin){0};
    p->network_mode = NETWORK_OFF;
    snprintf(text, sizeof text, "127.0.0.1:%u", place->names);
    if (policy_set(p, FIELD_RESOLVER, text, &origin, err) < 0)
        return err_number(err);
    snprintf(text, sizeof text, "http://%s:%u=127.0.0.1", HOST_BOUND, place->bound);
    if (policy_allow(p, text, &origin, err) < 0)
        return err_number(err);
    snprintf(text, sizeof text, "http://%s:%u=127.0.0.1", HOST_PLAIN, place->plain);
    if (policy_allow(p, text, &origin, err) < 0)
        return err_number(err);
    snprintf(text, sizeof text, "http://%s:%u", HOST_INNER, place->plain);
    if (policy_allow(p, text, &origin, err) < 0)
        return err_number(err);
    snprintf(text, sizeof text, "%s=env:%s@http://%s:%u", SECRET_NAME, SECRET_NAME, HOST_BOUND,
             place->bound);
    return policy_secret(p, text, &origin, err);
}

static void shape_limits(struct policy *p)
{
    at_most(&p->pids, (uint64_t)scene_limit(SCENE_PIDS, false, true));
    at_most(&p->open_files, (uint64_t)scene_limit(SCENE_FILES, false, true));
    at_most(&p->memory, (uint64_t)scene_limit(SCENE_MEMORY, false, true) * MIB);
    at_most(&p->disk, (uint64_t)scene_limit(SCENE_DISK, false, true) * MIB);
    at_most(&p->inodes, (uint64_t)scene_limit(SCENE_INODES, false, true));
    at_most(&p->output, (uint64_t)scene_limit(SCENE_OUTPUT, false, true));
}

/* The policy, with one thing changed. The secrets of a policy stay where they are: no attack may
 * have anybody's. */
static int shape(struct policy *p, enum scene_id id, const struct place *place,
                 const struct cell_work *work, struct err *err)
{
    uint64_t limit = (uint64_t)place->limit;
    p->egress.secret_count = 0;
    /* Nobody is asked, and rules about commands are no wall: what is attacked are the walls. */
    p->egress.asks = false;
    p->commands.given = false;
    p->timeout_ms = SCENE_MS + work->boot_ms;
    /* An engine's own tasks count, and it lets those of ended code go when it gets to it: attacks
     * one after the other are not to be ended by that. */
    if (work->sentry && p->pids < ENGINE_PIDS)
        p->pids = ENGINE_PIDS;
    /* A limit that is only watched here is attacked as such. */
    p->sampling = SAMPLING_ACCEPT;
    switch (id) {
    case SCENE_GRANTS:
        return shape_grants(p, place, err);
    case SCENE_NETWORK:
        return shape_network(p, place, err);
    case SCENE_MODULE:
        return shape_module(p, place, err);
    case SCENE_LIMITS:
        shape_limits(p);
        break;
    case SCENE_PIDS:
        at_most(&p->pids, limit);
        break;
    case SCENE_FILES:
        at_most(&p->open_files, limit);
        break;
    case SCENE_MEMORY:
    case SCENE_MODULE_MEMORY:
        at_most(&p->memory, limit * MIB);
        break;
    case SCENE_DISK:
        at_most(&p->disk, limit * MIB);
        break;
    case SCENE_INODES:
        at_most(&p->inodes, limit);
        break;
    case SCENE_OUTPUT:
        at_most(&p->output, limit);
        break;
    case SCENE_DEADLINE:
    case SCENE_MODULE_DEADLINE:
        p->timeout_ms = limit;
        break;
    case SCENE_CPU:
    case SCENE_MODULE_CPU:
        p->cpu_time_ms = limit;
        break;
    default:
        break;
    }
    return 0;
}

static int run_sandbox(const struct scene *s, const struct cell_work *work, int in, int out,
                       struct scene_end *told, struct err *err)
{
    struct policy policy;
    char where[512], number[12], module[PLACE_PATH];
    bool runs_module = scene_has_module(s->id);
    snprintf(number, sizeof number, "%d", s->id);
    place_write(&s->place, where, sizeof where);
    int r = work->build(work->ctx, work->level, work->tier_asked, &policy, err);
    if (r < 0 || (r = shape(&policy, s->id, &s->place, work, err)) < 0)
        return r;
    if (runs_module && (modules_place(s->id, &s->place, module, sizeof module, err) < 0 ||
                        pass_switch(&policy, err) < 0))
        return err_number(err);
    /* Where modules run, everything else is what somebody tries who broke their runner. */
    bool engine = s->id == SCENE_ENGINE || (!runs_module && tier_runs_modules(work->tier));
    char *argv[] = {(char *)run_tool_path(work->tier, s->place.tool), VERIFY_INSIDE, number, where,
                    NULL};
    char *module_argv[] = {module, NULL};
    struct run_request request = {.policy = &policy,
                                  .argv = runs_module ? module_argv
                                          : engine    ? argv + 1
                                                      : argv,
                                  .tool = runs_module || engine ? NULL : s->place.tool,
                                  .engine = engine ? s->place.tool : NULL,
                                  .stdin_fd = in,
                                  .stdout_fd = out,
                                  .stderr_fd = -1};
    struct run_result result;
    run_result_init(&result);
    r = sandbox_run(&request, &result, err);
    told->by_pids = result.limit_hit && strcmp(result.limit_hit, "pids") == 0;
    told->by_other = result.limit_hit && !told->by_pids;
    told->status = result.exit_status;
    return r;
}

static void supervise(const struct scene *s, const struct cell_work *work, int in, int out, int end)
{
    struct scene_end told = {0};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    told.result = run_sandbox(s, work, in, out, &told, &told.err);
    ssize_t n = write(end, &told, sizeof told);
    _exit(n == (ssize_t)sizeof told ? 0 : 1);
}

static void name_tasks(struct scene *s)
{
    const char *unique = strrchr(s->place.folder, '-');
    snprintf(s->place.mark, sizeof s->place.mark, "vfy%c%.8s", 'a' + (int)s->id,
             unique ? unique + 1 : "");
}

/* The test build left the limit out: nothing would end the sandbox, so do not wait for it. */
static bool limit_left_out(enum scene_id id)
{
    switch (id) {
    case SCENE_PIDS:
        return guard_left_out(GUARD_PIDS);
    case SCENE_MEMORY:
    case SCENE_MODULE_MEMORY:
        return guard_left_out(GUARD_MEMORY);
    case SCENE_DISK:
        return guard_left_out(GUARD_DISK);
    case SCENE_INODES:
        return guard_left_out(GUARD_INODES);
    case SCENE_DEADLINE:
    case SCENE_MODULE_DEADLINE:
        return guard_left_out(GUARD_TIMEOUT);
    case SCENE_CPU:
    case SCENE_MODULE_CPU:
        return guard_left_out(GUARD_CPU_TIME);
    default:
        return false;
    }
}

static int patience(enum scene_id id, bool sentry)
{
    if (!limit_left_out(id))
        return PATIENCE_MS;
    return sentry ? 3000 : 300;
}

int scene_start(struct scene *s, enum scene_id id, const struct cell_work *work, struct err *err)
{
    int in[2], out[2], end[2];
    memset(s, 0, sizeof *s);
    *s = (struct scene){.id = id, .place = work->canaries->place, .in_fd = -1, .out_fd = -1};
    s->end_fd = -1;
    s->begun_us = clock_us();
    s->place.guest = work->guest;
    s->place.limit = scene_limit(id == SCENE_LIMITS ? SCENE_OUTPUT : id, work->sentry, work->guest);
    if (id == SCENE_DEADLINE || id == SCENE_CPU)
        s->place.limit += 2 * (int)work->up_ms;
    s->place.patience = patience(id, work->sentry);
    s->place.namespaced = tier_namespaced(work->tier) && !guard_left_out(GUARD_ROOT) &&
                          !guard_left_out(GUARD_NS_MOUNT);
    name_tasks(s);
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(end, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    s->supervisor = fork();
    if (s->supervisor < 0)
        return err_sys(err, "start a supervisor");
    if (s->supervisor == 0) {
        close(in[1]);
        close(out[0]);
        close(end[0]);
        supervise(s, work, in[0], out[1], end[1]);
    }
    close(in[0]);
    close(out[1]);
    close(end[1]);
    s->in_fd = in[1];
    s->out_fd = out[0];
    s->end_fd = end[0];
    fcntl(s->out_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

static void look_at_task(struct scene *s, const struct cell_work *work, pid_t pid)
{
    struct sight sight = {.pid = pid,
                          .engine = s->tasks.count ? s->tasks.list[0].pid : 0,
                          .canaries = work->canaries,
                          .tier = work->tier,
                          .writable_root = work->writable_root};
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].scene == s->id && rows[i].look && !s->seen[i] &&
            row_on_tier(&rows[i], work->tier))
            s->seen[i] = rows[i].look(&sight, s->what[i], sizeof s->what[i]);
}

/* Behind an engine each of its tasks has to have the guard. Some come and go with the code's: what
 * could not be read of one that is gone says nothing. */
static void look_at_tasks(struct scene *s, const struct cell_work *work)
{
    for (unsigned n = 0; n < s->tasks.count; n++) {
        bool before[ROWS_MAX];
        memcpy(before, s->seen, sizeof before);
        look_at_task(s, work, s->tasks.list[n].pid);
        if (n && !task_lives(&s->tasks.list[n]))
            memcpy(s->seen, before, sizeof before);
    }
}

/* Whether a line of a /proc/PID/cgroup is a group of brig's that the supervisor is not in itself:
 * it may have been started in a group of such a name, which stays. */
static bool is_of_the_sandbox(const char *line, const char *supervisors)
{
    const char *name = strrchr(line, '/');
    if (!name || !text_begins(name, "/brig-"))
        return false;
    size_t len = strlen(line);
    for (const char *at = supervisors; (at = strstr(at, line)); at += len)
        if ((at == supervisors || at[-1] == '\n') && (at[len] == '\n' || at[len] == '\0'))
            return false;
    return true;
}

/* "5:memory:/a/brig-…" or "0::/a/brig-…", as the host names it. */
static void find_group(struct scene *s, pid_t pid)
{
    char path[64], text[4096], supervisors[4096];
    snprintf(path, sizeof path, "/proc/%d/cgroup", s->supervisor);
    if (file_read(AT_FDCWD, path, supervisors, sizeof supervisors) <= 0)
        return;
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *kind = strchr(line, ':'), *where = kind ? strchr(kind + 1, ':') : NULL;
        if (!where || !is_of_the_sandbox(line, supervisors))
            continue;
        *where = '\0';
        snprintf(s->group, sizeof s->group, "/sys/fs/cgroup%s%.60s%.400s", kind[1] ? "/" : "",
                 kind + 1, where + 1);
    }
}

static bool exists(const char *path)
{
    struct stat sb;
    return path[0] && lstat(path, &sb) == 0;
}

static bool is_private_home(const struct scene *s)
{
    return text_begins(s->home, "/tmp/brig-") && !strstr(s->home, "..");
}

/* A module cannot give its runner a name: it is called as the file that was started. */
static const char *name_of_tasks(const struct scene *s, const struct cell_work *work)
{
    if (!scene_has_module(s->id))
        return s->place.mark;
    const char *path = run_tool_path(work->tier, "/brig-wasm");
    return strrchr(path, '/') + 1;
}

/* What was there when the attacks began, and what is there now: some may have gone by the end. */
static pid_t find_tasks(struct scene *s, const struct cell_work *work)
{
    if (!work->sentry && !work->guest)
        return marked_below(name_of_tasks(s, work), s->supervisor);
    tasks_find(&s->tasks, s->supervisor);
    return s->tasks.count ? s->tasks.list[0].pid : 0;
}

static void look(struct scene *s, const struct cell_work *work)
{
    if (s->looked)
        return;
    pid_t pid = find_tasks(s, work);
    s->looked = pid > 0;
    if (s->id == SCENE_KILLED) {
        find_group(s, pid);
        s->had_files = exists(s->group) || (is_private_home(s) && exists(s->home));
        s->killed = true;
        kill(s->supervisor, SIGKILL);
    } else if (s->id == SCENE_SENTRY) {
        s->killed = tasks_end_sentry(&s->tasks);
    } else if (work->sentry || work->guest) {
        look_at_tasks(s, work);
    } else if (pid > 0) {
        look_at_task(s, work, pid);
    }
    if (s->in_fd >= 0)
        close(s->in_fd);
    s->in_fd = -1;
}

/* The first that is said: the sandbox stands, and nothing was tried yet. */
static void take_home(struct scene *s, const struct cell_work *work, const struct report *r)
{
    memcpy(s->home, r->home, sizeof s->home);
    s->up_us = clock_us();
    if ((work->sentry || work->guest) && !s->tasks.count)
        tasks_find(&s->tasks, s->supervisor);
}

static void take_line(struct scene *s, const struct cell_work *work)
{
    struct report r;
    report_parse(s->line, s->line_len, &r);
    if (r.kind == REPORT_LOOK)
        look(s, work);
    else if (r.kind == REPORT_HOME)
        take_home(s, work, &r);
    else if (r.kind == REPORT_OUTCOME && strcmp(r.id, "allowed") == 0)
        s->allowed = r.outcome;
    for (size_t i = 0; r.kind == REPORT_OUTCOME && i < row_count; i++) {
        if (row_scene(&rows[i], work->guest) == s->id && strcmp(rows[i].id, r.id) == 0)
            s->outcomes[i] = r.outcome;
        if (r.id[0] == '=' && strcmp(rows[i].id, r.id + 1) == 0)
            s->controls[i] = r.outcome;
    }
}

static void take_bytes(struct scene *s, const char *bytes, size_t len, const struct cell_work *work)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\n' && s->line_len < sizeof s->line)
            s->line[s->line_len++] = bytes[i];
        else if (bytes[i] != '\n')
            s->line_long = true;
        if (bytes[i] != '\n')
            continue;
        if (!s->line_long)
            take_line(s, work);
        s->line_len = 0;
        s->line_long = false;
    }
}

void scene_read(struct scene *s, const struct cell_work *work)
{
    char bytes[4096];
    ssize_t n = read(s->out_fd, bytes, sizeof bytes);
    if (n > 0) {
        s->bytes += (uint64_t)n;
        take_bytes(s, bytes, (size_t)n, work);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(s->out_fd);
        s->out_fd = -1;
    }
}

void scene_take_end(struct scene *s)
{
    s->ended = read(s->end_fd, &s->end, sizeof s->end) == (ssize_t)sizeof s->end;
    s->end.err.message[sizeof s->end.err.message - 1] = '\0';
    close(s->end_fd);
    s->end_fd = -1;
    while (waitpid(s->supervisor, NULL, 0) < 0 && errno == EINTR)
        ;
    s->over = true;
}

bool scene_tasks_left(const struct scene *s)
{
    uint64_t deadline = clock_us() + gone_us();
    while (marked_tasks(s->place.mark, false) + tasks_alive(&s->tasks, false) > 0) {
        if (clock_us() > deadline)
            return true;
        usleep(5000);
    }
    return false;
}

bool scene_files_left(const struct scene *s)
{
    uint64_t deadline = clock_us() + gone_us();
    while (exists(s->group) || (is_private_home(s) && exists(s->home))) {
        if (clock_us() > deadline)
            return true;
        usleep(5000);
    }
    return false;
}

void scene_close(struct scene *s)
{
    if (s->supervisor > 0 && !s->over) {
        kill(s->supervisor, SIGKILL);
        while (waitpid(s->supervisor, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    int *fds[] = {&s->in_fd, &s->out_fd, &s->end_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    /* Kill tasks that outlived the sandbox; there are some only if an attack got through. Tasks
     * that end by themselves need not be waited for. */
    if (s->place.mark[0])
        marked_tasks(s->place.mark, true);
    tasks_alive(&s->tasks, true);
    tasks_done(&s->tasks);
}
