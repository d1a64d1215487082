/* The plan of the Landlock layer: the same choice of places as the view, said a second time in
 * another mechanism. */
#include "os/landlock.h"
#include "base/text.h"
#include "filesystem/filesystem.h"
#include "os/weaken.h"

#include <string.h>

#define READ_EXEC (LL_EXECUTE | LL_READ_FILE | LL_READ_DIR)
#define READ_ONLY (LL_READ_FILE | LL_READ_DIR)
#define MAKE                                                                                       \
    (LL_REMOVE_DIR | LL_REMOVE_FILE | LL_MAKE_DIR | LL_MAKE_REG | LL_MAKE_SOCK | LL_MAKE_FIFO |    \
     LL_MAKE_SYM | LL_REFER)
#define DEVICE (LL_READ_FILE | LL_WRITE_FILE | LL_IOCTL_DEV | LL_TRUNCATE)

static uint64_t known_fs(int abi)
{
    static const uint64_t by_abi[] = {0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1,
                                      (1 << 15) - 1};
    return abi < 5 ? by_abi[abi] : (1 << 16) - 1;
}

static void allow(struct filesystem *fs, struct plan *plan, const char *path, uint64_t access,
                  bool optional)
{
    plan_add(plan, &(struct op){.kind = OP_LANDLOCK_ALLOW,
                                .a = path,
                                .num = {access & fs->landlock_fs, optional}});
}

static uint64_t writable_rights(const struct filesystem *fs)
{
    uint64_t rights = READ_ONLY | LL_WRITE_FILE | LL_TRUNCATE | MAKE;
    return fs->policy->exec ? rights | LL_EXECUTE : rights;
}

static void allow_view(struct filesystem *fs, struct plan *plan)
{
    /* Listing is allowed everywhere in a private root, so that `ls /` works; reading is not. In a
     * writable one there may be new folders anywhere, and rules only ever add up on the way down:
     * what is read-only in it is so by its mount alone. */
    if (fs->namespaced) {
        allow(fs, plan, "/", fs->policy->writable_root ? writable_rights(fs) : LL_READ_DIR, false);
        allow(fs, plan, "/etc", READ_EXEC, true);
        if (filesystem_has_own(fs))
            allow(fs, plan, "/sys", READ_ONLY, false);
        allow(fs, plan, TOOLS_DIR, READ_EXEC, false);
        allow(fs, plan, FIRST_TOOLS_DIR, READ_EXEC, false);
    }
    for (unsigned i = 0; fs->namespaced && i < fs->shown_count; i++)
        allow(fs, plan, fs->shown[i].path, LL_READ_FILE, false);
    for (unsigned i = 0; i < fs->host.view_count; i++) {
        const struct view_entry *e = &fs->host.view[i];
        if (fs->namespaced && text_begins(e->path, "/etc/"))
            continue;
        /* A link's target is covered by the rule for where it leads. */
        if (!e->target[0])
            allow(fs, plan, e->path, READ_EXEC, true);
    }
}

static void allow_devices(struct filesystem *fs, struct plan *plan)
{
    /* The code leads a session of its own: /dev/tty is its private terminal, or nothing. */
    static const char *const nodes[] = {"/dev/null", "/dev/full", "/dev/random", "/dev/urandom",
                                        "/dev/tty"};
    /* Opened for writing it gives shared memory without a file, which only a cgroup counts. */
    uint64_t zero = fs->strict_memory ? DEVICE & ~(uint64_t)LL_WRITE_FILE : DEVICE;
    if (fs->namespaced) {
        allow(fs, plan, "/dev", (zero & DEVICE) | LL_READ_DIR, false);
        allow(fs, plan, "/proc", READ_ONLY | LL_WRITE_FILE, false);
        if (!fs->strict_memory)
            return;
        allow(fs, plan, "/dev/pts", DEVICE, false);
    } else {
        allow(fs, plan, "/dev/zero", zero, false);
    }
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        allow(fs, plan, nodes[i], DEVICE, false);
}

static void allow_writable(struct filesystem *fs, struct plan *plan)
{
    static const char *const places[] = {"/tmp", HOME_DIR, "/run", "/dev/shm"};
    if (!fs->namespaced) {
        if (fs->private_dir[0])
            allow(fs, plan, fs->private_dir, writable_rights(fs), false);
        return;
    }
    for (size_t i = 0; fs->policy->workspace && i < sizeof places / sizeof places[0]; i++)
        allow(fs, plan, places[i], writable_rights(fs), false);
    if (!fs->policy->workspace)
        return;
    if (fs->root_beside)
        allow(fs, plan, ROOT_HOME_DIR, writable_rights(fs), true);
    if (!workspace_is_granted(fs))
        allow(fs, plan, WORKSPACE, writable_rights(fs), false);
    allow(fs, plan, "/var/tmp", writable_rights(fs), true);
}

/* FS-6: the rule is for the object that was checked, whatever bears its name by now. What is shown
 * through a layer has an identity of its own. */
static void allow_grants(struct filesystem *fs, struct plan *plan)
{
    for (unsigned i = 0; i < fs->grant_count; i++) {
        const struct pinned_grant *g = &fs->grants[i];
        uint64_t rights = g->writable ? writable_rights(fs) : READ_EXEC;
        if (g->review)
            allow(fs, plan, grant_place(fs, g), rights, false);
        else
            plan_add(plan, &(struct op){.kind = OP_LANDLOCK_GRANT,
                                        .a = grant_place(fs, g),
                                        .num = {rights & fs->landlock_fs, 0, g->dev, g->ino}});
    }
}

/* The rights of ABI 2, which every kernel of a guest has: behind it there is the monitor's own
 * view. What the monitor serves has numbers of its own there, so that grants go by name. */
void filesystem_plan_guest(const struct filesystem *fs, struct plan *plan)
{
    struct filesystem guest = *fs;
    guest.landlock_fs = known_fs(2);
    /* The monitor has a domain of its own: what it cannot open either would be no probe. */
    plan_add(plan, &(struct op){.kind = OP_LANDLOCK_BEGIN,
                                .a = "probe",
                                .b = "nowhere",
                                .num = {guest.landlock_fs, 0, 0, 2}});
    allow_view(&guest, plan);
    allow_devices(&guest, plan);
    allow_writable(&guest, plan);
    for (unsigned i = 0; i < fs->grant_count; i++)
        allow(&guest, plan, grant_place(fs, &fs->grants[i]),
              fs->grants[i].writable ? writable_rights(fs) : READ_EXEC, false);
    plan_op(plan, OP_LANDLOCK_ENFORCE);
    plan_str(plan, OP_CWD, fs->cwd, NULL, 0);
}

int landlock_plan(struct filesystem *fs, struct plan *plan, struct err *err)
{
    int abi = fs->host.landlock_abi;
    if (abi == 0 && (fs->policy->landlock == NEED_REQUIRE || !fs->namespaced)) {
        err_set(err, ERR_UNSUPPORTED,
                "this kernel has no Landlock, the second layer of the filesystem boundary");
        err_at(err, BOUNDARY_FILESYSTEM);
        return err_hint(err, "boot with lsm=landlock,… (kernel 5.13 or newer)%s",
                        fs->namespaced ? ", or accept mounts alone with filesystem.landlock: auto"
                                       : "");
    }
    if (abi == 0 || (fs->policy->landlock == NEED_OFF && fs->namespaced))
        return 0;
    fs->landlock_fs = known_fs(abi);
    fs->landlock_net =
        abi >= 4 && !fs->namespaced && !fs->private_root ? LL_NET_BIND_TCP | LL_NET_CONNECT_TCP : 0;
    fs->landlock_scope = abi >= 6 ? LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL : 0;
    if (guard_left_out(GUARD_LANDLOCK))
        return 0;
    bool aside = fs->namespaced && fs->policy->writable_root;
    plan_add(plan, &(struct op){.kind = OP_LANDLOCK_BEGIN,
                                .a = aside            ? "probe"
                                     : fs->namespaced ? "/.landlock"
                                                      : "/",
                                .b = aside ? "nowhere" : NULL,
                                .num = {fs->landlock_fs, fs->landlock_net, fs->landlock_scope,
                                        (uint64_t)abi}});
    allow_view(fs, plan);
    allow_devices(fs, plan);
    allow_writable(fs, plan);
    allow_grants(fs, plan);
    plan_op(plan, OP_LANDLOCK_ENFORCE);
    return 0;
}
