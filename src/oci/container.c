/* create, start, kill, delete and the other verbs on one container.
 *
 * The first process of a container is born by create, builds its view, puts the walls around itself
 * and waits at a socket in its state folder. It is the container's PID 1, and its exit status is
 * the container's: an engine that is the nearest subreaper inherits it as its child. */
#include "oci/container.h"

#include "base/cleanup.h"
#include "kernel/tier.h"
#include "oci/hooks.h"
#include "oci/join.h"
#include "oci/manager.h"
#include "oci/porter.h"
#include "oci/receipt.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define START_SECONDS 60
#define KILL_SECONDS  30

/* Everything that create holds; released in one place. */
struct making {
    const struct oci_request *request;
    struct oci_operator operator;
    struct oci_config config;
    struct oci_walls walls;
    struct oci_engine engine;
    bool sign; /* the receipt */
    struct oci_build build;
    struct oci_cgroup groups;
    struct oci_scope scope; /* where the service manager makes them */
    bool in_scope;          /* it was made */
    struct oci_joins joins;
    struct oci_porter porter;
    struct oci_log log;
    struct oci_state state;
    char *text;
    size_t text_len;
    int root_fd, bundle_fd;
    int sync[2];
    pid_t pid;
};

/* ---- opening ---- */

int oci_open(const struct oci_request *r, struct oci_state *s, struct err *err)
{
    *s = (struct oci_state){.root_fd = -1, .dir_fd = -1};
    if (oci_judge_id(r->id, err) < 0)
        return err_number(err);
    int root = oci_root_open(r->root, false, err);
    if (root < 0 && err->sys_errno != ENOENT)
        return err_number(err);
    int result = oci_state_open(s, root, r->id, err);
    if (result < 0) {
        oci_state_done(s);
        if (root >= 0)
            close(root);
        s->root_fd = -1;
    }
    return result;
}

void oci_close(struct oci_state *s)
{
    oci_state_done(s);
    if (s->root_fd >= 0)
        close(s->root_fd);
    s->root_fd = -1;
}

static int kept_config(const struct oci_state *s, struct oci_config *c, struct err *err)
{
    size_t len;
    cleanup_free char *text = oci_state_config(s, &len, err);
    return text ? oci_config_parse(text, len, c, err) : err_number(err);
}

static void config_free(struct oci_config *c)
{
    if (c)
        oci_config_done(c);
    free(c);
}

/* NULL: it has none, or none that can be read. */
static struct oci_config *kept_hooks(const struct oci_state *s)
{
    struct oci_config *c = calloc(1, sizeof *c);
    struct err err = ERR_INIT;
    if (c && kept_config(s, c, &err) == 0 && json_count(c->hooks))
        return c;
    config_free(c);
    return NULL;
}

/* The container is left to other callers first: neither its end nor its state waits for a hook, and
 * a hook may ask for its state. */
static void late_hooks(const struct oci_config *c, const char *stage, struct oci_state *s,
                       enum oci_status status, const struct oci_request *r)
{
    oci_state_done(s);
    if (c && json_count(json_get(c->hooks, stage)))
        oci_hooks_run_late(c, stage, s, status, r->log, r->log_json);
}

static int groups_of(const struct oci_state *s, struct oci_cgroup *g, struct err *err)
{
    *g = (struct oci_cgroup){.count = 0};
    int r = s->grouped ? oci_cgroup_find(s->cgroup, g, err) : 0;
    g->scoped = s->scope[0] != '\0';
    return r;
}

/* `led`: a first process of ours was in the scope; else one of that name is somebody else's. */
static void remove_groups(const struct oci_state *s, struct oci_cgroup *g, bool led)
{
    if (s->scope[0] && led)
        oci_manager_stop(s->scope);
    oci_cgroup_remove(g);
}

/* ---- create: before ---- */

static int read_bundle(struct making *m, struct err *err)
{
    const char *bundle = m->request->bundle ? m->request->bundle : ".";
    char link[64];
    m->bundle_fd = open(bundle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m->bundle_fd < 0)
        return err_sys(err, "open the bundle %.200s", bundle);
    snprintf(link, sizeof link, "/proc/self/fd/%d", m->bundle_fd);
    ssize_t n = readlink(link, m->state.bundle, sizeof m->state.bundle - 1);
    if (n <= 0)
        return err_sys(err, "find the bundle");
    m->state.bundle[n] = '\0';
    m->text = oci_file_read(m->bundle_fd, "config.json", OCI_CONFIG_MAX, &m->text_len, err);
    if (!m->text)
        return err_number(err);
    if (oci_config_parse(m->text, m->text_len, &m->config, err) < 0)
        return err_number(err);
    m->config.scoped = m->request->systemd;
    const struct oci_operator *o = &m->operator;
    if (oci_operator_load(&m->operator, err) < 0 || oci_judge(&m->config, o, err) < 0 ||
        oci_walls_decide(m->config.annotations, o, &m->walls, err) < 0 ||
        oci_receipt_decide(m->config.annotations, o, &m->sign, err) < 0 ||
        oci_porter_plan(&m->porter, &m->config, o, err) < 0)
        return err_number(err);
    if (o->runsc && setenv(GVISOR_VARIABLE, o->runsc, 1) < 0)
        return err_memory(err);
    if (oci_network_own(&m->config))
        m->config.ns[OCI_NS_NETWORK].path = NULL;
    if (oci_level_judge(&m->walls, &m->config, m->porter.asked, err) < 0 ||
        oci_engine_judge(m->walls.tier, &m->config.process, m->request->keep, err) < 0 ||
        oci_engine_judge_config(m->walls.tier, &m->config, err) < 0 ||
        oci_engine_open(&m->engine, m->walls.tier, m->porter.asked, err) < 0 ||
        (m->sign && oci_receipt_try(err) < 0))
        return err_number(err);
    m->build.config = &m->config;
    m->build.network = m->porter.asked ? &m->porter.plan : NULL;
    return 0;
}

static int check_terminal(const struct making *m, struct err *err)
{
    bool terminal = m->config.process.terminal, socket = m->request->console_socket != NULL;
    if (terminal == socket)
        return 0;
    if (terminal) {
        err_set(err, ERR_USAGE,
                "process.terminal is set, and there is nobody to take the terminal");
        return err_hint(err, "give --console-socket, or set terminal to false");
    }
    return err_set(err, ERR_USAGE, "--console-socket without process.terminal");
}

/* Ordinary users can do without groups where no limit is asked for. */
static bool without_groups(struct making *m, struct err *err)
{
    if (err->code != ERR_SYSTEM || !oci_is_users() || oci_asks_limits(&m->config.resources))
        return false;
    *err = (struct err)ERR_INIT;
    m->groups = (struct oci_cgroup){.count = 0};
    m->state.grouped = false;
    return true;
}

/* Where they lie; nothing is made. */
static int name_groups(struct making *m, struct err *err)
{
    const char *path = m->config.cgroups_path;
    char text[512];
    if (!m->request->systemd) {
        snprintf(text, sizeof text, OCI_CGROUP_PARENT "/%s", m->request->id);
        return oci_cgroup_absolute(path && *path ? path : text, m->state.cgroup, err);
    }
    if (oci_scope_parse(path, m->request->id, oci_is_users(), &m->scope, err) < 0 ||
        oci_manager_group(text, err) < 0 ||
        oci_scope_path(&m->scope, text, m->state.cgroup, err) < 0)
        return err_number(err);
    memcpy(m->state.scope, m->scope.unit, sizeof m->state.scope);
    return 0;
}

static int make_groups(struct making *m, struct err *err)
{
    m->build.groups = &m->groups;
    if (name_groups(m, err) < 0)
        return m->request->systemd && without_groups(m, err) ? 0 : err_number(err);
    if (oci_cgroup_find(m->state.cgroup, &m->groups, err) < 0)
        return err_number(err);
    m->groups.scoped = m->request->systemd;
    /* Said before it is done: delete finds the groups, whenever this one is killed. */
    if (oci_cgroup_is_free(&m->groups, err) < 0)
        return err_number(err);
    m->state.grouped = m->groups.count > 0;
    if (oci_state_save(&m->state, err) < 0)
        return err_number(err);
    if (m->groups.scoped)
        return 0; /* a scope has somebody in it from the beginning (enter_scope) */
    if (oci_cgroup_make(&m->groups, err) < 0)
        return without_groups(m, err) ? 0 : err_number(err);
    return oci_cgroup_limit(&m->groups, &m->config.resources, m->operator.memory, err);
}

/* The scope is made with the first process in it, which goes on into the group inside: only where
 * nobody is in the scope itself can the groups below it have limits (v2). */
static int enter_scope(struct making *m, struct err *err)
{
    if (oci_manager_start(&m->scope, m->pid, err) < 0)
        return err_number(err);
    m->in_scope = true;
    if (oci_cgroup_make(&m->groups, err) < 0)
        return without_groups(m, err) ? 0 : err_number(err);
    if (oci_cgroup_enter(&m->groups, m->pid, err) < 0)
        return err_number(err);
    oci_cgroup_settle(&m->groups);
    return oci_cgroup_limit(&m->groups, &m->config.resources, m->operator.memory, err);
}

static int enter_groups(struct making *m, struct err *err)
{
    return m->groups.scoped ? enter_scope(m, err) : oci_cgroup_enter(&m->groups, m->pid, err);
}

static int listen_for_start(struct making *m, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/" OCI_START_SOCKET,
             m->state.dir_fd);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    m->build.become.start_fd = fd;
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4) < 0)
        return err_sys(err, "make the socket for start");
    return 0;
}

/* Before a group is made for nothing. */
static int judge_folders(const struct making *m, struct err *err)
{
    for (size_t i = 0; i < m->config.mount_count; i++) {
        const struct oci_mount *mount = &m->config.mounts[i];
        const struct oci_source *s = &m->build.sources[i];
        if (mount->type != OCI_MOUNT_BIND || s->device)
            continue;
        if ((s->folder ? oci_level_judge_folder(&m->walls, mount, err)
                       : oci_level_judge_file(&m->walls, mount, err)) < 0)
            return err_number(err);
    }
    return 0;
}

static bool maps_host_root(const struct oci_config *c)
{
    bool found = c->uid_map_count == 0; /* the caller's numbers */
    for (size_t i = 0; i < c->uid_map_count; i++)
        found |= c->uid_maps[i].outside == 0;
    return found && !oci_is_users();
}

/* What was asked for and is not given (choose_caps). */
static uint64_t withheld(const struct making *m)
{
    uint64_t asked = 0, given = 0;
    for (size_t i = 0; i < OCI_CAPS_COUNT; i++) {
        asked |= m->config.process.caps[i];
        given |= m->build.become.caps[i];
    }
    return asked & ~given;
}

/* The specification wants a warning. The engine's alone: it is the same for every container of that
 * kind. */
static void warn_of_withheld(const struct oci_log *log, int cap)
{
    struct oci_log engines = *log;
    cleanup_buf struct buf detail;
    struct json_writer w;
    engines.operators = -1;
    jw_begin(&w, &detail, 256);
    jw_kv_string(&w, "name", oci_cap_name(cap));
    jw_object_end(&w);
    oci_log_tell(&engines, "warning",
                 "a capability that would reach files of the host was withheld", "capability",
                 &detail);
}

static int prepare(struct making *m, struct err *err)
{
    const struct oci_request *r = m->request;
    m->root_fd = oci_root_open(r->root, true, err);
    if (m->root_fd < 0)
        return err_number(err);
    char bundle[sizeof m->state.bundle];
    memcpy(bundle, m->state.bundle, sizeof bundle);
    if (oci_state_make(&m->state, m->root_fd, r->id, err) < 0)
        return err_number(err);
    memcpy(m->state.bundle, bundle, sizeof bundle);
    snprintf(m->state.version, sizeof m->state.version, "%s", m->config.version);
    m->state.proxy_port = m->porter.asked ? m->porter.network.proxy_port : 0;
    m->state.sealed_network = m->porter.asked || m->walls.leveled;
    m->state.tier = m->walls.tier;
    m->state.sign = m->sign;
    if (oci_log_open(&m->log, r->log, r->log_json, &m->operator, err) < 0 ||
        oci_state_keep_config(&m->state, m->text, m->text_len, err) < 0 ||
        oci_joins_open(&m->joins, &m->config, err) < 0 ||
        oci_sources_open(&m->build, m->bundle_fd, &m->operator, err) < 0 ||
        judge_folders(m, err) < 0 || make_groups(m, err) < 0)
        return err_number(err);
    m->state.host_writable = m->build.host_writable || oci_brings_files(r->keep);
    m->state.maps_host_root = maps_host_root(&m->config);
    if (oci_state_save(&m->state, err) < 0)
        return err_number(err);
    m->build.joined_uts = m->config.ns[OCI_NS_UTS].path != NULL;
    if (oci_become_init(&m->build.become, &m->config.process, &m->engine, m->config.seccomp,
                        &m->state, err) < 0 ||
        listen_for_start(m, err) < 0 ||
        (m->engine.user_kernel &&
         oci_sentry_open(&m->engine.sentry, m->engine.program, &m->state, err) < 0))
        return err_number(err);
    if (withheld(m))
        warn_of_withheld(&m->log, __builtin_ctzll(withheld(m)));
    m->build.become.keep = r->keep;
    if (r->console_socket &&
        (m->build.become.console_fd = oci_console_connect(r->console_socket, err)) < 0)
        return err_number(err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, m->sync) < 0)
        return err_sys(err, "socket pair");
    m->build.become.sync_fd = m->sync[1];
    return 0;
}

/* ---- create: the process ---- */

static _Noreturn void first_process(const struct oci_build *b)
{
    struct err err = ERR_INIT;
    /* A caller that died shows as the end. */
    if (!oci_heard(b->become.sync_fd))
        _exit(125);
    if (oci_build_view(b, &err) < 0)
        oci_give_up(b->become.sync_fd, &err);
    oci_become(&b->become);
}

static int give_birth(struct making *m, struct err *err)
{
    struct sys_clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .exit_signal = SIGCHLD};
    static const enum oci_ns each[] = {OCI_NS_PID, OCI_NS_NETWORK, OCI_NS_IPC, OCI_NS_UTS};
    for (size_t i = 0; i < ARRAY_LEN(each); i++)
        if (m->joins.fd[each[i]] < 0)
            args.flags |= (uint64_t)oci_ns_flag(each[i]);
    /* Nothing inside, not even in a pod's shared pid namespace, may look into it before its program
     * runs. */
    if (m->joins.fd[OCI_NS_PID] >= 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (oci_joins_enter(&m->joins, &m->build, err) < 0 ||
        oci_engine_describe(&m->engine, &m->config, &m->build.become, err) < 0)
        return err_number(err);
    long child = sys_clone3(&args);
    if (child == 0) {
        /* It lives on, and must hold neither the lock nor the state. */
        close(m->sync[0]);
        close(m->state.dir_fd);
        close(m->root_fd);
        first_process(&m->build);
    }
    int code = errno;
    if (child > 0)
        m->pid = (pid_t)child;
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (oci_joins_leave(&m->joins, err) < 0)
        return err_number(err);
    close(m->sync[1]);
    m->sync[1] = -1;
    errno = code;
    if (child < 0) {
        err_sys(err, "make the container's namespaces");
        return err_hint(err, "user namespaces must be allowed: sysctl user.max_user_namespaces, "
                             "kernel.unprivileged_userns_clone");
    }
    return 0;
}

/* The ids that this process itself has, under the same numbers. */
static int same_ids(const char *which, struct buf *out, struct err *err)
{
    char text[4096], path[64];
    snprintf(path, sizeof path, "/proc/self/%s", which);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return err_sys(err, "read %s", path);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        unsigned inside, outside, count;
        if (sscanf(line, "%u %u %u", &inside, &outside, &count) == 3)
            buf_fmt(out, "%u %u %u\n", inside, inside, count);
    }
    return 0;
}

static int write_map(const struct making *m, const char *which, const struct oci_map *maps,
                     size_t count, uint32_t inside, uint32_t own, struct err *err)
{
    char path[64];
    cleanup_buf struct buf text;
    buf_init(&text, 4000);
    if (count == 0 && geteuid() == 0 && same_ids(which, &text, err) < 0)
        return err_number(err);
    if (count == 0 && geteuid() != 0)
        buf_fmt(&text, "%u %u 1\n", inside, own);
    for (size_t i = 0; i < count; i++)
        buf_fmt(&text, "%u %u %u\n", maps[i].inside, maps[i].outside, maps[i].count);
    snprintf(path, sizeof path, "/proc/%d/%s", m->pid, which);
    int r = text.failed ? -E2BIG : file_write(AT_FDCWD, path, buf_text(&text));
    if (r == 0)
        return 0;
    errno = -r;
    err_sys(err, "write the %s of the container", which);
    return err_hint(err, "linux.uidMappings and gidMappings may only name ids that the caller has");
}

static int map_ids(const struct making *m, struct err *err)
{
    const struct oci_config *c = &m->config;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/setgroups", m->pid);
    if (geteuid() != 0 && file_write(AT_FDCWD, path, "deny") < 0)
        return err_sys(err, "forbid setgroups in the container");
    if (write_map(m, "uid_map", c->uid_maps, c->uid_map_count, c->process.uid, geteuid(), err) < 0)
        return err_number(err);
    return write_map(m, "gid_map", c->gid_maps, c->gid_map_count, c->process.gid, getegid(), err);
}

/* Before the first of them is run: whoever is killed from then on leaves what they made outside,
 * and delete is to undo it. */
static int note_hooks(struct making *m, struct err *err)
{
    m->state.hooked = json_count(m->config.hooks) > 0;
    return m->state.hooked ? oci_state_save(&m->state, err) : 0;
}

static int lead_inside(struct making *m, struct err *err)
{
    const struct oci_facts facts = {&m->walls, &m->engine, &m->groups, &m->porter, m->pid};
    const struct oci_process *p = &m->config.process;
    struct proc_stat st;
    if (enter_groups(m, err) < 0 || map_ids(m, err) < 0 || oci_oom_score(m->pid, p, err) < 0 ||
        oci_tell_go(m->sync[0], err) < 0 || oci_porter_take(&m->porter, m->sync[0], err) < 0 ||
        oci_expect(m->sync[0], OCI_WORD_BUILT, err) < 0 ||
        oci_porter_start(&m->porter, m->pid, &m->state, &m->log, err) < 0)
        return err_number(err);
    if (note_hooks(m, err) < 0)
        return err_number(err);
    m->state.pid = m->pid;
    if (!procfs_stat(m->pid, &st))
        return err_set(err, ERR_SYSTEM, "the container's first process is gone");
    m->state.start = st.start;
    const char *docker = m->operator.docker;
    if (oci_hooks_run(&m->config, "prestart", &m->state, OCI_CREATING, docker, err) < 0 ||
        oci_hooks_run(&m->config, "createRuntime", &m->state, OCI_CREATING, docker, err) < 0)
        return err_number(err);
    if (oci_tell_go(m->sync[0], err) < 0 || oci_expect(m->sync[0], OCI_WORD_READY, err) < 0 ||
        oci_limits_apply(m->pid, &m->build.become, err) < 0 ||
        oci_attest(m->pid, &m->build.become, err) < 0 || oci_attest_namespaces(m->pid, err) < 0 ||
        oci_receipt_begin(&m->state, &m->config, &facts, err) < 0)
        return err_number(err);
    return oci_state_save(&m->state, err) < 0 ? err_number(err) : oci_tell_go(m->sync[0], err);
}

static void undo(struct making *m)
{
    if (m->pid > 0) {
        kill(m->pid, SIGKILL);
        while (waitpid(m->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (m->porter.pid > 0) {
        oci_porter_await(&m->state); /* it ends with the process above */
        while (waitpid(m->porter.pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (m->groups.made || m->in_scope)
        remove_groups(&m->state, &m->groups, m->in_scope);
    oci_state_remove(&m->state);
    /* What the others made outside is theirs to undo. */
    if (m->state.hooked)
        late_hooks(&m->config, "poststop", &m->state, OCI_STOPPED, m->request);
}

static void release(struct making *m)
{
    oci_sources_close(&m->build);
    oci_joins_close(&m->joins);
    oci_become_done(&m->build.become);
    oci_engine_close(&m->engine);
    oci_porter_done(&m->porter);
    oci_log_close(&m->log);
    const int fds[] = {m->sync[0],
                       m->sync[1],
                       m->build.become.start_fd,
                       m->build.become.console_fd,
                       m->build.sysfs_fd,
                       m->build.mqueue_fd,
                       m->bundle_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    oci_state_done(&m->state);
    if (m->root_fd >= 0)
        close(m->root_fd);
    free(m->text);
    oci_config_done(&m->config);
    oci_operator_done(&m->operator);
    free(m);
}

static struct making *making_new(const struct oci_request *r)
{
    struct making *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->request = r;
    m->root_fd = m->bundle_fd = m->sync[0] = m->sync[1] = -1;
    m->state.root_fd = m->state.dir_fd = -1;
    m->build.sysfs_fd = m->build.mqueue_fd = m->build.become.start_fd = m->build.become.console_fd =
        -1;
    m->build.root.tree = -1;
    for (size_t i = 0; i < OCI_MOUNTS_MAX; i++)
        m->build.sources[i].tree = -1;
    oci_joins_init(&m->joins);
    oci_engine_init(&m->engine);
    oci_log_init(&m->log);
    return m;
}

int oci_create(const struct oci_request *r, pid_t *ret_pid, struct err *err)
{
    if (oci_judge_id(r->id, err) < 0)
        return err_number(err);
    struct making *m = making_new(r);
    if (!m)
        return err_memory(err);
    int result = read_bundle(m, err);
    if (result == 0)
        result = check_terminal(m, err);
    if (result == 0)
        result = prepare(m, err);
    if (result == 0 && (give_birth(m, err) < 0 || lead_inside(m, err) < 0 ||
                        (r->pid_file && oci_pid_file(r->pid_file, m->pid, err) < 0)))
        result = err_number(err);
    if (result < 0)
        undo(m);
    else
        *ret_pid = m->pid;
    release(m);
    return result;
}

/* ---- start ---- */

static int knock(const struct oci_state *s, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/" OCI_START_SOCKET, s->dir_fd);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        send(fd, "g", 1, MSG_NOSIGNAL) != 1)
        return err_sys(err, "reach the container's first process");
    return fd_steal(&fd);
}

/* The end of the stream means that the program was executed; else the reason comes. */
static int await_exec(int fd, struct err *err)
{
    struct oci_step step;
    size_t have = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int r = poll(&p, 1, START_SECONDS * 1000);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return err_set(err, ERR_SYSTEM, "the container did not start within %d seconds",
                           START_SECONDS);
        ssize_t n = recv(fd, (char *)&step + have, sizeof step - have, 0);
        if (n <= 0)
            return 0;
        have += (size_t)n;
        if (have < sizeof step)
            continue;
        if (step.word != OCI_WORD_FAIL || !err_code_known(step.err.code))
            return err_set(err, ERR_PROTOCOL, "the container's first process said something else");
        *err = step.err;
        err->message[sizeof err->message - 1] = err->hint[sizeof err->hint - 1] = '\0';
        return err_number(err);
    }
}

/* Engines add networks to what was created; one with rules, or of a level, has no other way out
 * (OC-11). */
static int check_network(const struct oci_state *s, struct err *err)
{
    cleanup_buf struct buf unused;
    struct json_writer w;
    struct network n = {.namespaced = true};
    struct evidence out = {.w = &w};
    jw_begin(&w, &unused, 4096);
    return s->sealed_network ? network_attest(&n, s->pid, &out, err) : 0;
}

static int start_created(struct oci_state *s, struct err *err)
{
    if (check_network(s, err) < 0)
        return err_number(err);
    s->started = true;
    if (oci_state_save(s, err) < 0)
        return err_number(err);
    cleanup_fd int fd = knock(s, err);
    if (fd < 0) {
        struct err second = ERR_INIT;
        s->started = false;
        oci_state_save(s, &second);
        return err_number(err);
    }
    if (await_exec(fd, err) < 0)
        return err_number(err);
    unlinkat(s->dir_fd, OCI_START_SOCKET, 0);
    return 0;
}

int oci_start(const struct oci_request *r, struct err *err)
{
    struct oci_state s;
    if (oci_open(r, &s, err) < 0)
        return err_number(err);
    enum oci_status status = oci_state_status(&s);
    int result = status == OCI_CREATED
                     ? start_created(&s, err)
                     : err_set(err, ERR_REFUSED, "cannot start a container that is %s",
                               oci_status_name(status));
    struct oci_config *kept = result == 0 ? kept_hooks(&s) : NULL;
    late_hooks(kept, "poststart", &s, OCI_RUNNING, r);
    config_free(kept);
    oci_close(&s);
    return result;
}

/* ---- kill, pause, update ---- */

int oci_kill(const struct oci_request *r, int sig, bool all, struct err *err)
{
    struct oci_state s;
    struct oci_cgroup g;
    if (oci_open(r, &s, err) < 0)
        return err_number(err);
    int result = 0;
    cleanup_fd int fd = oci_state_pidfd(&s);
    /* The Sentry and its parts end by what is for the code; that only its first process gets. */
    all &= sig == SIGKILL || !tier_row(s.tier)->user_kernel;
    if (all && groups_of(&s, &g, err) == 0 && g.count) {
        oci_cgroup_kill(&g, sig);
    } else if (fd < 0) {
        result = err_set(err, ERR_REFUSED, "container not running");
    } else if (sys_pidfd_send_signal(fd, sig) < 0) {
        result = errno == ESRCH ? err_set(err, ERR_REFUSED, "container not running")
                                : err_sys(err, "send signal %d", sig);
    }
    oci_close(&s);
    return result;
}

int oci_pause(const struct oci_request *r, bool on, struct err *err)
{
    struct oci_state s;
    struct oci_cgroup g;
    if (oci_open(r, &s, err) < 0)
        return err_number(err);
    enum oci_status status = oci_state_status(&s);
    int result;
    if (status != (on ? OCI_RUNNING : OCI_PAUSED))
        result = err_set(err, ERR_REFUSED, "cannot %s a container that is %s",
                         on ? "pause" : "resume", oci_status_name(status));
    else if ((result = groups_of(&s, &g, err)) == 0)
        result = oci_cgroup_freeze(&g, on, err);
    oci_close(&s);
    return result;
}

int oci_update(const struct oci_request *r, const struct oci_resources *res, struct err *err)
{
    struct oci_state s;
    struct oci_cgroup g;
    struct oci_operator o;
    if (oci_open(r, &s, err) < 0)
        return err_number(err);
    int result = -1;
    if (oci_state_status(&s) == OCI_STOPPED)
        result = err_set(err, ERR_REFUSED, "container not running");
    else if (oci_operator_load(&o, err) == 0) {
        result = oci_judge_resources(res, true, &o, err);
        if (result == 0)
            result = groups_of(&s, &g, err);
        if (result == 0)
            result = oci_cgroup_limit(&g, res, o.memory, err);
        oci_operator_done(&o);
    } else {
        result = err_number(err);
    }
    oci_close(&s);
    return result;
}

/* ---- delete ---- */

/* What is killed ends, also if it is paused; its parent may take its time to look. */
static int end_it(const struct oci_state *s, const struct oci_cgroup *g, struct err *err)
{
    struct err ignored = ERR_INIT;
    cleanup_fd int fd = oci_state_pidfd(s);
    if (fd >= 0)
        sys_pidfd_send_signal(fd, SIGKILL);
    if (g->count) {
        oci_cgroup_kill(g, SIGKILL);
        if (oci_cgroup_frozen(g))
            oci_cgroup_freeze(g, false, &ignored);
        oci_cgroup_kill(g, SIGKILL);
    }
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (fd >= 0 && poll(&p, 1, KILL_SECONDS * 1000) <= 0)
        return err_set(err, ERR_SYSTEM, "container %s does not end", s->id);
    return 0;
}

static int delete_open(struct oci_state *s, bool force, const struct oci_request *r,
                       struct err *err)
{
    struct oci_cgroup g;
    struct oci_usage usage;
    enum oci_status status = oci_state_status(s);
    if (groups_of(s, &g, err) < 0)
        return err_number(err);
    if (status != OCI_STOPPED && status != OCI_CREATING && !force) {
        err_set(err, ERR_REFUSED, "cannot delete container %s that is not stopped: %s", s->id,
                oci_status_name(status));
        return err_hint(err, "kill it first, or use --force");
    }
    if (end_it(s, &g, err) < 0)
        return err_number(err);
    oci_porter_await(s);
    oci_receipt_count(&g, &usage);
    if (s->grouped || s->scope[0])
        remove_groups(s, &g, s->pid > 0);
    oci_receipt_end(s, &usage, r->log, r->log_json);
    struct oci_config *kept = s->hooked || s->pid ? kept_hooks(s) : NULL;
    oci_state_remove(s);
    late_hooks(kept, "poststop", s, OCI_STOPPED, r);
    config_free(kept);
    return 0;
}

int oci_delete(const struct oci_request *r, bool force, struct err *err)
{
    struct oci_state s;
    if (oci_open(r, &s, err) < 0) {
        if (force && err->code == ERR_NOT_FOUND) {
            *err = (struct err)ERR_INIT;
            return 0;
        }
        return err_number(err);
    }
    int result = delete_open(&s, force, r, err);
    oci_close(&s);
    return result;
}
