/* Containers behind gVisor's Sentry; see sentry.h.
 *
 * OC-20  Nobody but who may open the container's state speaks with its Sentry: the control socket
 * has a name there, and none in a network that others share. OC-21  What runs as the engine is no
 * file of the host that somebody inside could change: a sealed copy, or a mount that is read-only.
 */
#include "oci/sentry.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "kernel/tier.h"
#include "oci/engine.h"
#include "os/fd.h"
#include "os/sys.h"
#include "sandbox/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/utsname.h>

#define SENTRY_NAME  "brig" /* as engines/gvisor has it */
#define MEMORY_LEAST (96ll << 20)
#define MEMORY_MOST  (1ll << 40)
#define PIDS_LEAST   64
#define CPUS_MOST    64
#define SPEC_MAX     ((size_t)8 << 20)
#define CONNECTIONS  64 /* that wait for the Sentry to take them */
#define USUAL_UMASK  022u

void oci_sentry_init(struct oci_sentry *s)
{
    for (int i = 0; i < OCI_SENTRY_FDS; i++)
        s->fd[i] = -1;
}

void oci_sentry_close(struct oci_sentry *s)
{
    for (int i = 0; i < OCI_SENTRY_FDS; i++)
        if (s->fd[i] >= 0)
            close(s->fd[i]);
    oci_sentry_init(s);
}

/* ---- what cannot be ---- */

static int refuse(struct err *err, const char *what, const char *hint)
{
    err_set(err, ERR_UNSUPPORTED, "config: " OCI_KEY_TIER ": the tier gvisor has no %s", what);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "%s", hint);
}

static bool has_proc(const struct oci_config *c)
{
    for (size_t i = 0; i < c->mount_count; i++)
        if (c->mounts[i].type == OCI_MOUNT_PROC)
            return true;
    return false;
}

int oci_sentry_judge(const struct oci_config *c, struct err *err)
{
    const struct oci_resources *r = &c->resources;
    if (c->ns[OCI_NS_PID].path)
        return refuse(err, "pid namespace that others share",
                      "leave the pid namespace of others out (shareProcessNamespace, --pid)");
    if (!has_proc(c))
        return refuse(err, "start without a mount of proc, which the Sentry reads",
                      "mount proc on /proc, as engines do; the code sees the Sentry's own");
    for (size_t i = 0; i < json_count(c->sysctl); i++)
        if (!text_begins(json_key_at(c->sysctl, i), "net."))
            return refuse(err, "settings of the kernel but those of the network (linux.sysctl)",
                          "leave it out; the code's kernel is the Sentry");
    if (r->memory > 0 && r->memory < MEMORY_LEAST)
        return refuse(err, "less memory than 96 MiB, since its kernel needs some",
                      "raise linux.resources.memory.limit (--memory 128m)");
    if (r->pids > 0 && r->pids < PIDS_LEAST)
        return refuse(err, "fewer than 64 processes, since its kernel has some 20 threads",
                      "raise linux.resources.pids.limit (--pids-limit 128)");
    if (c->process.has_umask && c->process.umask != USUAL_UMASK)
        return refuse(err, "process.user.umask but 022", "leave it out");
    return 0;
}

/* ---- its programs ---- */

/* Of who has rights over this mount namespace: the file itself, on a mount of its own. 0: he has
 * none. */
static int shut_copy(int file, struct err *err)
{
    struct sys_mount_attr set = {.attr_set = SYS_MOUNT_ATTR_RDONLY | SYS_MOUNT_ATTR_NOSUID |
                                             SYS_MOUNT_ATTR_NODEV,
                                 .propagation = MS_PRIVATE};
    cleanup_fd int tree =
        sys_open_tree(file, "", SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH);
    if (tree < 0 && errno == EPERM)
        return 0;
    if (tree < 0 || sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH, &set) < 0)
        return err_sys(err, "take a program of the tier gvisor");
    return fd_steal(&tree);
}

static int open_program(const char *path, struct err *err)
{
    cleanup_fd int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return err_sys(err, "open %.200s", path);
    int shut = shut_copy(file, err);
    if (shut != 0)
        return shut;
    return oci_sealed_copy(file, err);
}

/* ---- its socket ---- */

static void name_socket(const struct oci_state *state, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/" OCI_SENTRY_SOCKET,
             state->dir_fd);
}

static int connect_both(struct oci_sentry *s, const struct sockaddr_un *name, struct err *err)
{
    for (int i = OCI_SENTRY_WAIT; i <= OCI_SENTRY_SIGNALS; i++) {
        s->fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (s->fd[i] < 0 || connect(s->fd[i], (const struct sockaddr *)name, sizeof *name) < 0)
            return err_sys(err, "reach the container's Sentry");
    }
    return 0;
}

static int make_socket(struct oci_sentry *s, const struct oci_state *state, struct err *err)
{
    struct sockaddr_un name;
    name_socket(state, &name);
    int fd = s->fd[OCI_SENTRY_LISTENER] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) < 0 ||
        listen(fd, CONNECTIONS) < 0)
        return err_sys(err, "make the socket of the Sentry");
    return connect_both(s, &name, err);
}

int oci_sentry_open(struct oci_sentry *s, const char *engine, const struct oci_state *state,
                    struct err *err)
{
    if (gvisor_find(&s->build, true, err) < 0 || platform_choose(&s->build, err) < 0)
        return err_number(err);
    s->fd[OCI_SENTRY_ENGINE] = open_program(engine, err);
    s->fd[OCI_SENTRY_RUNSC] = err->code == ERR_NONE ? open_program(s->build.path, err) : -1;
    if (s->fd[OCI_SENTRY_ENGINE] < 0 || s->fd[OCI_SENTRY_RUNSC] < 0)
        return err_number(err);
    return make_socket(s, state, err);
}

int oci_sentry_join(struct oci_sentry *s, const char *engine, const struct oci_state *state,
                    struct err *err)
{
    struct sockaddr_un name;
    name_socket(state, &name);
    s->fd[OCI_SENTRY_ENGINE] = open_program(engine, err);
    return s->fd[OCI_SENTRY_ENGINE] < 0 ? err_number(err) : connect_both(s, &name, err);
}

/* ---- what it is told ---- */

static int keep_spec(struct oci_sentry *s, const struct buf *text, struct err *err)
{
    if (text->failed)
        return err_set(err, ERR_LIMIT, "the description of the code is too long");
    s->fd[OCI_SENTRY_SPEC] = memfd_sealed("brig-spec", text->data, text->len, false, err);
    return s->fd[OCI_SENTRY_SPEC] < 0 ? err_number(err) : 0;
}

/* Without a PATH the Sentry would find no program; on the host it is looked for in these. */
static void write_variables(struct json_writer *w, const char *key, char *const *list)
{
    bool found = false;
    jw_kv_array(w, key);
    for (; *list; list++) {
        found |= text_begins(*list, "PATH=");
        jw_string(w, *list);
    }
    if (!found)
        jw_string(w, OCI_HOOK_PATH);
    jw_array_end(w);
}

static void write_user(const struct oci_process *p, struct json_writer *w)
{
    jw_kv_object(w, "user");
    jw_kv_uint(w, "uid", p->uid);
    jw_kv_uint(w, "gid", p->gid);
    jw_kv_array(w, "additionalGids");
    for (size_t i = 0; i < p->group_count; i++)
        jw_uint(w, p->groups[i]);
    jw_array_end(w);
    jw_object_end(w);
}

/* What execve makes of them on the host, with no_new_privs: the Sentry gives its first program, and
 * those of exec, what it is told, as if none had been executed. */
static void caps_of_program(uint32_t uid, const uint64_t caps[OCI_CAPS_COUNT],
                            uint64_t ret[OCI_CAPS_COUNT])
{
    uint64_t permitted = caps[OCI_CAPS_PERMITTED] & caps[OCI_CAPS_BOUNDING];
    uint64_t inheritable = caps[OCI_CAPS_INHERITABLE] & permitted;
    uint64_t ambient = uid == 0 ? 0 : caps[OCI_CAPS_AMBIENT] & inheritable;
    ret[OCI_CAPS_BOUNDING] = caps[OCI_CAPS_BOUNDING];
    ret[OCI_CAPS_INHERITABLE] = inheritable;
    ret[OCI_CAPS_AMBIENT] = ambient;
    ret[OCI_CAPS_PERMITTED] = ret[OCI_CAPS_EFFECTIVE] = uid == 0 ? permitted : ambient;
}

static void write_caps(const uint64_t caps[OCI_CAPS_COUNT], struct json_writer *w)
{
    static const char *const sets[OCI_CAPS_COUNT] = {
        [OCI_CAPS_BOUNDING] = "bounding",       [OCI_CAPS_EFFECTIVE] = "effective",
        [OCI_CAPS_INHERITABLE] = "inheritable", [OCI_CAPS_PERMITTED] = "permitted",
        [OCI_CAPS_AMBIENT] = "ambient",
    };
    jw_kv_object(w, "capabilities");
    for (size_t i = 0; i < OCI_CAPS_COUNT; i++) {
        jw_kv_array(w, sets[i]);
        for (int cap = 0; cap <= 40; cap++)
            if (caps[i] & 1ull << cap)
                jw_string(w, oci_cap_name(cap));
        jw_array_end(w);
    }
    jw_object_end(w);
}

static void write_limits(const struct oci_process *p, struct json_writer *w)
{
    jw_kv_array(w, "rlimits");
    for (size_t i = 0; i < p->rlimit_count; i++) {
        jw_object_begin(w);
        jw_kv_string(w, "type", oci_rlimit_name(p->rlimits[i].resource));
        jw_kv_uint(w, "soft", p->rlimits[i].soft);
        jw_kv_uint(w, "hard", p->rlimits[i].hard);
        jw_object_end(w);
    }
    jw_array_end(w);
}

/* That of a namespace that was joined, where this process stands in it now. */
static void write_names(const struct oci_config *c, struct json_writer *w)
{
    struct utsname here = {.nodename = ""};
    bool own = c->hostname && *c->hostname && !c->ns[OCI_NS_UTS].path;
    uname(&here);
    jw_kv_string(w, "hostname", own ? c->hostname : here.nodename);
}

int oci_sentry_describe(struct oci_sentry *s, const struct oci_config *c, char *const *env,
                        const uint64_t caps[OCI_CAPS_COUNT], struct err *err)
{
    const struct oci_process *p = &c->process;
    uint64_t its[OCI_CAPS_COUNT];
    cleanup_buf struct buf out;
    struct json_writer w;
    caps_of_program(p->uid, caps, its);
    jw_begin(&w, &out, SPEC_MAX);
    jw_kv_string(&w, "ociVersion", "1.0.2");
    jw_kv_object(&w, "process");
    jw_kv_bool(&w, "terminal", p->terminal);
    write_user(p, &w);
    jw_kv_json(&w, "args", p->args);
    write_variables(&w, "env", env);
    jw_kv_string(&w, "cwd", p->cwd);
    write_caps(its, &w);
    write_limits(p, &w);
    jw_kv_bool(&w, "noNewPrivileges", true);
    jw_object_end(&w);
    write_names(c, &w);
    jw_kv_object(&w, "linux");
    if (c->seccomp)
        jw_kv_json(&w, "seccomp", c->seccomp);
    jw_object_end(&w);
    jw_object_end(&w);
    return keep_spec(s, &out, err);
}

/* As the Sentry's call has them. */
static void write_exec_caps(const uint64_t caps[OCI_CAPS_COUNT], struct json_writer *w)
{
    static const char *const sets[OCI_CAPS_COUNT] = {
        [OCI_CAPS_BOUNDING] = "BoundingCaps",       [OCI_CAPS_EFFECTIVE] = "EffectiveCaps",
        [OCI_CAPS_INHERITABLE] = "InheritableCaps", [OCI_CAPS_PERMITTED] = "PermittedCaps",
        [OCI_CAPS_AMBIENT] = "AmbientCaps",
    };
    jw_kv_object(w, "Capabilities");
    for (size_t i = 0; i < OCI_CAPS_COUNT; i++)
        jw_kv_uint(w, sets[i], caps[i]);
    jw_object_end(w);
}

int oci_sentry_describe_exec(struct oci_sentry *s, const struct oci_process *p, char *const *env,
                             const uint64_t caps[OCI_CAPS_COUNT], struct err *err)
{
    uint64_t its[OCI_CAPS_COUNT];
    cleanup_buf struct buf out;
    struct json_writer w;
    caps_of_program(p->uid, caps, its);
    jw_begin(&w, &out, SPEC_MAX);
    jw_kv_string(&w, "ContainerID", SENTRY_NAME);
    jw_kv_json(&w, "argv", p->args);
    write_variables(&w, "envv", env);
    jw_kv_string(&w, "wd", p->cwd);
    jw_kv_uint(&w, "KUID", p->uid);
    jw_kv_uint(&w, "KGID", p->gid);
    jw_kv_array(&w, "ExtraKGIDs");
    for (size_t i = 0; i < p->group_count; i++)
        jw_uint(&w, p->groups[i]);
    jw_array_end(&w);
    write_exec_caps(its, &w);
    jw_kv_array(&w, "GuestFDs");
    for (uint64_t i = 0; i < 3; i++)
        jw_uint(&w, i);
    jw_array_end(&w);
    jw_object_end(&w);
    return keep_spec(s, &out, err);
}

/* ---- its arguments: as engines/gvisor/contain.c reads them ---- */

static uint64_t cpus_of(const struct oci_resources *r)
{
    uint64_t cpus = (uint64_t)get_nprocs();
    if (r->cpu_quota > 0 && r->cpu_period > 0) {
        uint64_t quota = ((uint64_t)r->cpu_quota + r->cpu_period - 1) / r->cpu_period;
        cpus = quota < cpus ? quota : cpus;
    }
    return cpus < CPUS_MOST ? cpus : CPUS_MOST;
}

static uint64_t memory_of(const struct oci_resources *r)
{
    return (uint64_t)(r->memory > 0 && r->memory < MEMORY_MOST ? r->memory : MEMORY_MOST);
}

static bool add(char **list, const char *text)
{
    while (*list)
        list++;
    return (*list = strdup(text)) != NULL;
}

static bool add_number(char **list, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return add(list, text);
}

static char **finish(char **list, bool good)
{
    if (!good)
        oci_engine_free(list);
    return good ? list : NULL;
}

char **oci_sentry_arguments(const struct oci_sentry *s, const struct oci_config *c,
                            char **ret_number)
{
    static const enum oci_sentry_fd given[] = {OCI_SENTRY_RUNSC, OCI_SENTRY_SPEC,
                                               OCI_SENTRY_LISTENER, OCI_SENTRY_WAIT,
                                               OCI_SENTRY_SIGNALS};
    char **list = calloc(OCI_SENTRY_ARGS + 1, sizeof *list);
    bool good = list && add(list, GVISOR_ENGINE) && add(list, "contain") &&
                add(list, s->build.platform) && add(list, s->build.confs ? "confs" : "plain") &&
                add(list, c->process.terminal ? "terminal" : "pipes") &&
                add_number(list, memory_of(&c->resources)) &&
                add_number(list, cpus_of(&c->resources));
    for (size_t i = 0; good && i < ARRAY_LEN(given); i++)
        good = add_number(list, (uint64_t)s->fd[given[i]]);
    if (good && (good = (*ret_number = calloc(1, OCI_NUMBER_SIZE)) != NULL))
        list[OCI_SENTRY_ARGS - 1] = *ret_number;
    return finish(list, good);
}

char **oci_sentry_exec_arguments(const struct oci_sentry *s)
{
    static const enum oci_sentry_fd given[] = {OCI_SENTRY_SPEC, OCI_SENTRY_WAIT,
                                               OCI_SENTRY_SIGNALS};
    char **list = calloc(OCI_SENTRY_ARGS + 1, sizeof *list);
    bool good = list && add(list, GVISOR_ENGINE) && add(list, "exec");
    for (size_t i = 0; good && i < ARRAY_LEN(given); i++)
        good = add_number(list, (uint64_t)s->fd[given[i]]);
    return finish(list, good);
}
