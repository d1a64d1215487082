/* From a request to a plan: each boundary looks at what it needs of the host, and says what init is
 * to do for it. Nothing is started yet. */
#include "base/cleanup.h"
#include "base/text.h"
#include "images/store.h"
#include "os/runstate.h"
#include "os/weaken.h"
#include "policy/reference.h"
#include "review/prepare.h"
#include "sandbox/clone.h"
#include "sandbox/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static int make_id(struct sandbox *s, struct err *err)
{
    uint64_t random;
    if (s->id[0])
        return 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_sys(err, "random id");
    snprintf(s->id, sizeof s->id, "brig-%012" PRIx64, (uint64_t)(random & 0xffffffffffffull));
    return 0;
}

/* Parts of the container tier that a test build leaves out. */
static bool host_view(void)
{
    return guard_left_out(GUARD_ROOT) || guard_left_out(GUARD_NS_MOUNT);
}

/* Before it is made: nothing may be left in a project that is refused. */
static int open_reviews(struct sandbox *s, struct err *err)
{
    cleanup_buf struct buf path;
    const char *project = s->request->review;
    buf_init(&path, PATH_MAX);
    if (runstate_path("reviews", &path) && path_below(buf_text(&path), project)) {
        err_set(err, ERR_REFUSED, "the state folder %.300s lies in the project itself",
                buf_text(&path));
        err_at(err, BOUNDARY_FILESYSTEM);
        return err_hint(err, "set XDG_STATE_HOME to a folder outside of it");
    }
    s->reviews_fd = runstate_open("reviews", true);
    if (s->reviews_fd >= 0)
        return 0;
    err_sys(err, "open the state folder for the review");
    return err_hint(err, "set HOME or XDG_STATE_HOME to a folder of your own");
}

static int open_filesystem(struct sandbox *s, struct err *err)
{
    const struct run_request *request = s->request;
    if (reference_of_root(request->policy->root) && !request->image && !request->root)
        return err_set(err, ERR_UNSUPPORTED, "what is started here cannot have an image as root");
    /* Elsewhere another kernel has what was written, or some of it. */
    if (request->keep_changes && s->kernel.tier != TIER_CONTAINER) {
        err_set(err, ERR_UNSUPPORTED, "what is changed cannot be kept on the %s tier",
                tier_name(s->kernel.tier));
        return err_hint(err, "--commit needs --tier container");
    }
    if (request->review && s->reviews_fd < 0 && open_reviews(s, err) < 0)
        return err_number(err);
    struct filesystem_request r = {.policy = s->request->policy,
                                   .project = request->review ? NULL : request->project,
                                   .review = request->review,
                                   .review_dest = request->review_dest,
                                   .reviews_fd = s->reviews_fd,
                                   .id = s->id,
                                   .command = request->argv,
                                   .tool = s->machine.on ? s->machine.program : engine_program(s),
                                   .module = s->engine.module[0] ? s->engine.module : NULL,
                                   .program = engine_runs(s),
                                   .root = request->image ? request->image->root : request->root,
                                   .output = request->output,
                                   .namespaced = tier_namespaced(s->kernel.tier) && !host_view(),
                                   .private_root = tier_namespaced(s->kernel.tier),
                                   .privileged = s->kernel.privileged,
                                   .inside_uid = s->kernel.inside_uid,
                                   .root_beside = s->kernel.beside,
                                   .whole_proc = s->stem != NULL,
                                   .keeps_changes = request->keep_changes,
                                   .user_kernel = tier_row(s->kernel.tier)->user_kernel};
    if (s->kernel.beside && s->kernel.options.unix_sockets)
        r.as_root = kernel_init_program(&r.as_root_len);
    return filesystem_open(&s->filesystem, &r, err);
}

static int open_lifecycle(struct sandbox *s, struct err *err)
{
    struct lifecycle_request r = {
        .policy = s->request->policy,
        .namespaced =
            tier_namespaced(s->kernel.tier) && !host_view() && !guard_left_out(GUARD_NS_PID),
        .private_uid = s->kernel.privileged,
        .host_uid = s->kernel.host_uid,
        .sandbox_id = s->id + 5, /* the cgroup module says brig- itself */
        .private_dir = s->filesystem.private_dir[0] ? s->filesystem.private_dir : NULL,
        .stem = s->stem != NULL,
        .engine_files = s->machine.on || tier_row(s->kernel.tier)->user_kernel ? MACHINE_FILES : 0,
        .cloned = s->source != NULL,
        .scoped_signals = s->kernel.options.scoped_signals,
        .watched = s->session,
        .reserves = s->engine.program[0] != '\0',
        .memory_files = tier_row(s->kernel.tier)->user_kernel,
        .sizes_inside = tier_row(s->kernel.tier)->user_kernel,
        .review = s->request->review != NULL,
        .user_ns = &s->kernel.users_fd};
    return lifecycle_open(&s->lifecycle, &r, err);
}

static void open_credentials(struct sandbox *s)
{
    bool container = tier_namespaced(s->kernel.tier);
    const char *private_dir = s->filesystem.private_dir[0] ? s->filesystem.private_dir : NULL;
    s->credentials = (struct credentials){.policy = s->request->policy,
                                          .home = container     ? HOME_DIR
                                                  : private_dir ? private_dir
                                                                : "/",
                                          .tmpdir = container ? NULL : private_dir,
                                          .term = s->request->tty ? s->request->term : NULL,
                                          .tools = s->filesystem.namespaced ? TOOLS_DIR : NULL,
                                          .engine = s->engine.program[0] && !s->session,
                                          .host_etc = !container,
                                          .root_inside = container && s->kernel.inside_uid == 0,
                                          .user_ns = &s->kernel.users_fd};
    if (s->filesystem.namespaced)
        s->credentials.first_tools = FIRST_TOOLS_DIR;
}

static void share_place(struct kernel *k, const char *path, bool writable)
{
    if (k->place_count < KERNEL_PLACES_MAX)
        k->places[k->place_count++] = (struct kernel_place){path, writable, false};
}

/* What the code sees, for the kernel boundary's brokers and reports. */
static void share_places(struct sandbox *s)
{
    struct kernel *k = &s->kernel;
    struct filesystem *fs = &s->filesystem;
    static const char *const work[] = {"/tmp", "/var/tmp", HOME_DIR, "/run", "/dev"};
    static const char *const synthesised[] = {"/etc/passwd",        "/etc/group",
                                              "/etc/hosts",         "/etc/hostname",
                                              "/etc/nsswitch.conf", "/etc/resolv.conf"};
    if (fs->private_dir[0]) {
        share_place(k, fs->private_dir, true);
        k->places[0].own = true;
    }
    if (fs->namespaced && !workspace_is_granted(fs))
        share_place(k, WORKSPACE, fs->policy->workspace);
    for (size_t i = 0; fs->namespaced && i < ARRAY_LEN(work); i++)
        share_place(k, work[i], fs->policy->workspace);
    if (fs->namespaced && fs->policy->writable_root)
        share_place(k, "", true);
    for (size_t i = 0; fs->namespaced && i < ARRAY_LEN(synthesised); i++)
        share_place(k, synthesised[i], fs->policy->writable_root);
    if (fs->namespaced)
        share_place(k, SHOWN_DIR, false);
    share_place(k, "/proc", fs->namespaced);
    share_place(k, "/dev/null", true);
    for (unsigned i = 0; i < fs->host.view_count; i++)
        share_place(k, fs->host.view[i].path, fs->namespaced && fs->policy->writable_root);
    for (unsigned i = 0; i < fs->grant_count; i++)
        share_place(k, grant_place(fs, &fs->grants[i]), fs->grants[i].writable);
}

static bool any_writable_grant(const struct policy *p)
{
    for (size_t i = 0; i < p->grant_count; i++)
        if (p->grants[i].writable)
            return true;
    return false;
}

/* A folder of the host's in the place of its system folders. An image has no sockets in it. */
static bool other_root(const struct policy *p)
{
    return p->root && strcmp(p->root, "host") != 0 && !reference_of_root(p->root);
}

/* What is changed in a project becomes its owner's: one id of the sandbox's stands for that one. In
 * a folder of an ordinary user's that the code may write to, root inside could leave what that user
 * can neither read nor remove; as root brig shows it so that nobody but its owner can make anything
 * there. */
static int check_beside(const struct sandbox *s, struct err *err)
{
    const struct run_request *r = s->request;
    bool written = (r->policy->project && r->project) || any_writable_grant(r->policy);
    if (!s->kernel.beside || (!r->review && (s->kernel.privileged || !written)))
        return 0;
    if (r->review) {
        err_set(err, ERR_UNSUPPORTED,
                "kernel.root: a project cannot be shown in a sandbox with two users");
        err_hint(err, "take a template without kernel.root");
    } else {
        err_set(err, ERR_UNSUPPORTED,
                "kernel.root: a folder cannot be granted for writing (rw) in a sandbox with two "
                "users of an ordinary user: what root made in it you could not remove");
        err_hint(err, "grant it for reading (ro), leave kernel.root out, or start brig serve as "
                      "root");
    }
    return err_at(err, BOUNDARY_FILESYSTEM);
}

int sandbox_open(struct sandbox *s, struct err *err)
{
    const struct policy *p = s->request->policy;
    bool review = s->request->review != NULL;
    bool project = !review && p->project && s->request->project;
    struct kernel_request kr = {
        .policy = p,
        .host_folders = p->grant_count > 0 || project || review || other_root(p),
        .host_writable = project || review || s->request->output || any_writable_grant(p),
        .overlay = review || p->writable_root,
        .network = p->network_mode == NETWORK_ALLOWLIST,
        .watched = !s->stem,
        .stem = s->stem != NULL,
        .session = s->session,
        .learn = s->learner ? &s->learner->asked : NULL,
        .lease = s->source ? s->source->lease
                 : s->stem ? s->stem->lease
                           : 0,
        .tty = s->request->tty};
    if (make_id(s, err) < 0 || kernel_open(&s->kernel, &kr, err) < 0 || check_beside(s, err) < 0 ||
        engine_open(s, err) < 0 || sandbox_machine_open(s, err) < 0 || open_filesystem(s, err) < 0)
        return err_number(err);
    share_places(s);
    s->kernel.options.private_shm = !s->filesystem.namespaced && s->filesystem.private_dir[0];
    open_credentials(s);
    if (sandbox_egress_open(s, err) < 0)
        return err_number(err);
    if (open_lifecycle(s, err) < 0)
        return err_number(err);
    s->kernel.options.counted_memory = lifecycle_counts_memory(&s->lifecycle);
    s->kernel.options.looked_at = lifecycle_looks(&s->lifecycle);
    s->filesystem.watched_proc = lifecycle_wants_proc(&s->lifecycle);
    s->kernel.options.strict_memory = s->filesystem.strict_memory =
        lifecycle_strict_memory(&s->lifecycle);
    s->kernel.options.shared_max = LIFECYCLE_SHARED_MAX;
    s->pumped = !guard_left_out(GUARD_ERRANDS) && !filesystem_answers(&s->filesystem); /* PU-1 */
    s->network.socket_buffer = s->kernel.socket_buffer = lifecycle_socket_buffer(&s->lifecycle);
    if (s->machine.on && !s->network.socket_buffer)
        s->network.socket_buffer = MACHINE_SOCKET;
    return 0;
}

/* The five boundaries, in the order in which they add to a stage. */
typedef int plan_verb(struct sandbox *s, enum plan_stage stage, struct err *err);

static int plan_kernel(struct sandbox *s, enum plan_stage stage, struct err *err)
{
    return kernel_plan(&s->kernel, stage, &s->plan, err);
}
static int plan_filesystem(struct sandbox *s, enum plan_stage stage, struct err *err)
{
    return filesystem_plan(&s->filesystem, stage, &s->plan, err);
}
static int plan_network(struct sandbox *s, enum plan_stage stage, struct err *err)
{
    return network_plan(&s->network, stage, &s->plan, err);
}
static int plan_credentials(struct sandbox *s, enum plan_stage stage, struct err *err)
{
    return credentials_plan(&s->credentials, stage, &s->plan, err);
}
static int plan_lifecycle(struct sandbox *s, enum plan_stage stage, struct err *err)
{
    return lifecycle_plan(&s->lifecycle, stage, &s->plan, err);
}

int sandbox_make_plan(struct sandbox *s, struct err *err)
{
    static plan_verb *const verbs[] = {plan_lifecycle, plan_kernel, plan_filesystem, plan_network,
                                       plan_credentials};
    plan_init(&s->plan);
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
            if (verbs[i](s, (enum plan_stage)stage, err) < 0)
                return err_number(err);
    if (s->session)
        plan_op(&s->plan, OP_SESSION);
    if (s->source)
        clone_plan(s);
    engine_plan(s);
    if (s->machine.on && s->session) /* the warden has it started */
        return plan_finish(&s->plan, err);
    bool monitor = s->machine.on && !s->request->engine;
    char *const *argv = monitor ? s->machine.argv : s->request->argv;
    if (s->machine.on && !monitor)
        plan_arg(&s->plan, TOOL_PATH);
    for (char *const *arg = argv; arg && *arg; arg++)
        plan_arg(&s->plan, *arg);
    return plan_finish(&s->plan, err);
}

int sandbox_plan_text(const struct run_request *request, struct buf *out, struct err *err)
{
    struct sandbox s = {.request = request, .reviews_fd = -1};
    kernel_init(&s.kernel);
    filesystem_init(&s.filesystem);
    lifecycle_init(&s.lifecycle);
    egress_init(&s.egress);
    int result = sandbox_open(&s, err);
    if (result >= 0)
        result = sandbox_own_begin(&s, err);
    if (result >= 0 && (result = sandbox_make_plan(&s, err)) >= 0)
        result = plan_text(s.plan.bytes.data, s.plan.bytes.len, out, err);
    plan_done(&s.plan);
    filesystem_teardown(&s.filesystem, NULL);
    if (s.reviews_fd >= 0)
        close(s.reviews_fd);
    credentials_teardown(&s.credentials);
    sandbox_machine_done(&s);
    egress_done(&s.egress);
    return result;
}
