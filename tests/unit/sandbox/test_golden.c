/* Policy and facts of a host in, operations out. The plans in golden/ are rewritten when
 * BRIG_GOLDEN_UPDATE is set; look at the difference before you commit it: each line is something
 * that init does before hostile code runs. */
#include "base/cleanup.h"
#include "sandbox/internal.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct scene {
    const char *name;
    const char *policy; /* YAML */
    bool root;          /* who supervises */
    bool cgroup;
    bool tty;
    int landlock_abi;
    const char *project;
};

/* clang-format off */
static const struct scene scenes[] = {
    {"high-root",          "level: high\n",                                           true,  true,  false, 7, NULL},
    {"high-user",          "level: high\n",                                           false, false, false, 7, NULL},
    {"high-landlock-2",    "level: high\n",                                           true,  true,  false, 2, NULL},
    {"high-no-landlock",   "level: high\nfilesystem: {landlock: auto}\n",             true,  true,  false, 0, NULL},
    {"high-terminal",      "level: high\n",                                           true,  true,  true,  7, NULL},
    {"high-grants-root",   "filesystem: {ro: [/opt/tools, \"/srv/m:/models\"], rw: [/data]}\n", true, true, false, 7, NULL},
    {"high-grants-user",   "filesystem: {ro: [/opt/tools, \"/srv/m:/models\"], rw: [/data]}\n", false, false, false, 7, NULL},
    {"high-bare",          "kernel: {uid: 0}\nfilesystem: {workspace: false, exec: false}\n", true, true, false, 7, NULL},
    {"high-limits",        "lifecycle: {memory: 64M, pids: 9, cpu_time: 1500ms, disk: 1M, inodes: 99, open_files: 33}\n",
                                                                                      false, false, false, 7, NULL},
    {"medium-project",     "level: medium\n",                                         true,  true,  false, 7, "/work/project"},
    {"low-root",           "level: low\n",                                            true,  true,  false, 7, NULL},
    {"process-sampled",    "kernel: {tier: process}\nlifecycle: {pids: 50}\ncredentials: {env: {A: b}}\n",
                                                                                      true,  false, false, 4, NULL},
    {"process-terminal",   "kernel: {tier: process}\nfilesystem: {ro: [/opt/tools]}\n", true, true, true,  7, NULL},
    {"high-egress",        "network: {allow: [api.example.org, \"db.example.org:5432\"]}\n", false, false, false, 7, NULL},
    {"process-egress",     "kernel: {tier: process}\nnetwork: {allow: [api.example.org]}\n", true, true, false,  7, NULL},
    {"image",              "filesystem: {root: /no/such/image}\n",                    true,  true,  false, 7, NULL},
    {"wasm",               "kernel: {tier: wasm}\nfilesystem: {exec: false, ro: [\"/srv/m:/models\"], rw: [/data]}\ncredentials: {env: {KEY: value}}\n", true, true, false, 7, NULL},
    {"writable-root",      "filesystem: {writable_root: true}\n",                     true,  true,  false, 7, NULL},
    {"writable-user",      "kernel: {uid: 0}\nfilesystem: {writable_root: true, proc: own}\n", false, false, false, 7, NULL},
    {"writable-image",     "filesystem: {root: /no/such/image, writable_root: true}\n", true, true,  false, 7, NULL},
    {"two-users",          "kernel: {root: true}\nlifecycle: {pids: 50}\n",           true,  false, false, 7, NULL},
    {"two-users-user",     "kernel: {root: true}\nfilesystem: {writable_root: true}\n", false, true, false, 7, NULL},
};
/* clang-format on */

static bool foreign; /* what is added next is not the sandbox's own */

static void add_entry(struct filesystem_host *host, const char *path, const char *target,
                      bool is_dir)
{
    struct view_entry *e = &host->view[host->view_count++];
    *e = (struct view_entry){.is_dir = is_dir, .foreign = foreign};
    snprintf(e->path, sizeof e->path, "%s", path);
    snprintf(e->target, sizeof e->target, "%s", target);
}

/* A small Debian. */
static void fixed_host(struct filesystem_host *host, int abi)
{
    host->view_count = 0;
    host->landlock_abi = abi;
    add_entry(host, "/usr", "", true);
    add_entry(host, "/bin", "usr/bin", false);
    add_entry(host, "/lib64", "usr/lib64", false);
    add_entry(host, "/etc/ld.so.cache", "", false);
    add_entry(host, "/etc/alternatives", "", true);
}

static void fixed_grants(struct filesystem *fs, const struct policy *p, const char *project)
{
    if (project)
        fs->grants[fs->grant_count++] = (struct pinned_grant){.source = project,
                                                              .dest = project,
                                                              .writable = true,
                                                              .is_dir = true,
                                                              .dev = 42,
                                                              .ino = 1};
    for (size_t i = 0; i < p->grant_count; i++)
        fs->grants[fs->grant_count++] = (struct pinned_grant){
            .source = p->grants[i].source,
            .dest = p->grants[i].dest,
            .writable = p->grants[i].writable,
            .is_dir = true,
            .dev = 42,
            .ino = 100 + i,
        };
}

/* "Never more than the caller has": then everybody who runs this test must have the same. */
static void fixed_rlimits(void)
{
    static const struct {
        int resource;
        rlim_t value;
    } low[] = {{RLIMIT_MEMLOCK, 65536}, {RLIMIT_SIGPENDING, 1000}, {RLIMIT_MSGQUEUE, 50000},
               {RLIMIT_STACK, 8 << 20}, {RLIMIT_NICE, 0},          {RLIMIT_RTPRIO, 0}};
    for (size_t i = 0; i < ARRAY_LEN(low); i++) {
        struct rlimit limit = {low[i].value, low[i].value};
        cr_assert_eq(setrlimit(low[i].resource, &limit), 0);
    }
}

static void fixed_kernel(struct sandbox *s, const struct scene *scene)
{
    struct err err = ERR_INIT;
    cr_assert_eq(tier_decide(s->request->policy, &s->kernel.tier, &err), 0, "%s", err.message);
    bool container = tier_namespaced(s->kernel.tier);
    s->kernel.privileged = scene->root;
    s->kernel.tty = scene->tty;
    s->kernel.inside_uid = container ? (uid_t)s->request->policy->uid : 4000;
    s->kernel.beside = s->request->policy->root_beside;
    s->kernel.own_clock = s->request->policy->proc == PROC_OWN;
    s->kernel.options = (struct filter_options){.isolated_pids = container,
                                                .isolated_ipc = container,
                                                .unix_sockets = s->kernel.beside,
                                                .notify = true};
    cr_assert_eq(filter_build(&s->kernel.options, &s->kernel.filter, &err), 0, "%s", err.message);
}

static void fixed_boundaries(struct sandbox *s, const struct scene *scene)
{
    const struct policy *p = s->request->policy;
    fixed_kernel(s, scene);
    bool container = tier_namespaced(s->kernel.tier);
    const char *private_dir = !container && p->workspace ? "/tmp/brig-0123" : "";
    struct filesystem *fs = &s->filesystem;
    filesystem_init(fs);
    fs->policy = p;
    fs->proc = p->proc;
    fs->namespaced = container;
    fs->privileged = scene->root;
    fs->root_path = p->root;
    fs->root = strcmp(p->root, "host") != 0 ? p->root : NULL;
    fs->inside_uid = s->kernel.inside_uid;
    fs->root_beside = s->kernel.beside;
    fs->as_root = fs->root_beside ? "program" : NULL;
    fs->as_root_len = fs->root_beside ? 7 : 0;
    fs->strict_memory = !scene->cgroup;
    fs->cwd = scene->project              ? scene->project
              : container && p->workspace ? WORKSPACE
              : *private_dir              ? private_dir
                                          : "/";
    snprintf(fs->private_dir, sizeof fs->private_dir, "%s", private_dir);
    fs->own.clock = s->kernel.own_clock;
    fs->own.cpus = 2;
    foreign = strcmp(p->root, "host") == 0;
    fixed_host(&fs->host, scene->landlock_abi);
    if (p->writable_root && foreign && fs->inside_uid == 0) {
        add_entry(&fs->host, "/var/lib/dpkg", "", true);
        snprintf(fs->host.archive, sizeof fs->host.archive, "deb http://deb.example.org x main\n");
    }
    fixed_grants(fs, p, scene->project);
    if (tier_row(s->kernel.tier)->engine) {
        snprintf(s->engine.program, sizeof s->engine.program, "/usr/libexec/brig/engine");
        snprintf(s->engine.module, sizeof s->engine.module, "/srv/code");
    }

    lifecycle_init(&s->lifecycle);
    s->lifecycle.policy = p;
    s->lifecycle.open_files = p->open_files;
    s->lifecycle.core_files = 1;
    s->lifecycle.namespaced = container;
    s->lifecycle.private_uid = scene->root;
    s->lifecycle.cgroup = scene->cgroup;
    s->lifecycle.group.controllers = scene->cgroup ? CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU : 0;
    s->credentials = (struct credentials){.policy = p,
                                          .engine = s->engine.program[0] != '\0',
                                          .home = container      ? HOME_DIR
                                                  : *private_dir ? private_dir
                                                                 : "/",
                                          .tmpdir = *private_dir ? private_dir : NULL,
                                          .term = scene->tty ? "xterm" : NULL,
                                          .tools = container ? TOOLS_DIR : NULL,
                                          .first_tools = container ? FIRST_TOOLS_DIR : NULL,
                                          .root_inside = container && p->uid == 0};
    struct err err = ERR_INIT;
    egress_init(&s->egress);
    cr_assert_eq(sandbox_egress_open(s, &err), 0, "%s", err.message);
}

/* The size of the filter says nothing about the plan. */
static void mask_filter(struct buf *text)
{
    char *at = strstr(text->data, "seccomp notify=");
    char *from = at ? strchr(at, '(') : NULL;
    cr_assert(from, "a plan without a filter");
    char *to = strchr(from, ')');
    memmove(from + 1, to, strlen(to) + 1);
    text->len = strlen(text->data);
}

static void write_plan(const struct scene *scene, struct buf *out)
{
    static struct sandbox s;
    static char *const argv[] = {"python3", "-c", "print(6*7)\n", NULL};
    struct policy policy;
    struct err err = ERR_INIT;
    policy_init(&policy, LEVEL_HIGH);
    cr_assert_eq(policy_load(&policy, scene->name, scene->policy, strlen(scene->policy), &err), 0,
                 "%s", err.message);
    cr_assert_eq(policy_validate(&policy, &err), 0, "%s", err.message);
    struct run_request request = {
        .policy = &policy, .argv = argv, .project = scene->project, .tty = scene->tty};
    memset(&s, 0, sizeof s);
    s.request = &request;
    kernel_init(&s.kernel);
    fixed_boundaries(&s, scene);
    cr_assert_eq(sandbox_make_plan(&s, &err), 0, "%s: %s", scene->name, err.message);
    cr_assert_eq(plan_text(s.plan.bytes.data, s.plan.bytes.len, out, &err), 0, "%s", err.message);
    plan_done(&s.plan);
    credentials_teardown(&s.credentials);
    egress_done(&s.egress);
    policy_done(&policy);
    mask_filter(out);
}

static void read_file(const char *path, struct buf *out)
{
    char chunk[4096];
    size_t n;
    FILE *f = fopen(path, "r");
    cr_assert(f, "cannot open %s; BRIG_GOLDEN_UPDATE=1 writes it", path);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_add(out, chunk, n);
    fclose(f);
}

static void check(const struct scene *scene)
{
    cleanup_buf struct buf text, golden;
    char path[512];
    buf_init(&text, 1 << 20);
    buf_init(&golden, 1 << 20);
    snprintf(path, sizeof path, GOLDEN_DIR "/%s.plan", scene->name);
    write_plan(scene, &text);
    if (getenv("BRIG_GOLDEN_UPDATE")) {
        FILE *f = fopen(path, "w");
        cr_assert(f && fwrite(buf_text(&text), 1, text.len, f) == text.len && fclose(f) == 0);
    }
    read_file(path, &golden);
    cr_assert_str_eq(buf_text(&text), buf_text(&golden), "%s differs", path);
}

Test(golden, plans)
{
    fixed_rlimits();
    for (size_t i = 0; i < ARRAY_LEN(scenes); i++)
        check(&scenes[i]);
}

/* What must stand in every plan, whatever else is in it. */
Test(golden, every_plan_ends_sealed)
{
    fixed_rlimits();
    for (size_t i = 0; i < ARRAY_LEN(scenes); i++) {
        cleanup_buf struct buf text;
        buf_init(&text, 1 << 20);
        write_plan(&scenes[i], &text);
        const char *privs = strstr(buf_text(&text), "no-new-privs");
        const char *landlock = strstr(buf_text(&text), "landlock-enforce");
        const char *caps = strstr(buf_text(&text), "drop-caps");
        const char *filter = strstr(buf_text(&text), "seccomp notify=1");
        const char *argument = strstr(buf_text(&text), " arg ");
        cr_assert(privs && caps && filter && argument, "%s", scenes[i].name);
        cr_assert(privs < caps && caps < filter && filter < argument, "%s", scenes[i].name);
        cr_assert(scenes[i].landlock_abi == 0 || (landlock && landlock < filter), "%s",
                  scenes[i].name);
        /* Where there are two users the last of init's capabilities go with the second one. */
        const char *after = strstr(filter + 1, "\nkernel");
        bool two = strstr(buf_text(&text), "drop-caps keep=192 for-now=1");
        cr_assert_eq(two, after != NULL, "%s: nothing else after the filter", scenes[i].name);
        cr_assert(!after || (strncmp(after, "\nkernel      beside uid=1000\n", 29) == 0 &&
                             after < argument && !strstr(after + 1, "\nkernel")),
                  "%s", scenes[i].name);
    }
}

/* Before Linux 6.3 a process that waits to enter a time namespace can start none that shares its
 * memory, and the file that sets the clock is the host's: between the two is the only place. */
Test(golden, a_clock_of_its_own_comes_after_the_network_and_before_the_root)
{
    static const struct scene scene = {.name = "own",
                                       .policy = "filesystem: {proc: own}\n",
                                       .root = true,
                                       .cgroup = true,
                                       .landlock_abi = 7};
    cleanup_buf struct buf text;
    buf_init(&text, 1 << 20);
    write_plan(&scene, &text);
    const char *network = strstr(text.data, "network-start"),
               *clock = strstr(text.data, "own-clock");
    const char *root = strstr(text.data, "filesystem ");
    cr_assert(network && clock && root, "%s", text.data);
    cr_assert(network < clock && clock < root, "%s", text.data);
}

Test(golden, without_landlock_the_process_tier_is_refused)
{
    static struct sandbox s;
    static char *const argv[] = {"true", NULL};
    static const struct scene scene = {.root = true, .cgroup = true};
    struct policy policy;
    struct err err = ERR_INIT;
    policy_init(&policy, LEVEL_LOW);
    struct run_request request = {.policy = &policy, .argv = argv};
    s.request = &request;
    kernel_init(&s.kernel);
    fixed_boundaries(&s, &scene);
    cr_assert_lt(sandbox_make_plan(&s, &err), 0);
    cr_assert(err.code == ERR_UNSUPPORTED && err.boundary == BOUNDARY_FILESYSTEM && err.hint[0]);
    plan_done(&s.plan);
    policy_done(&policy);
}
