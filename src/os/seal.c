/* The steps by which a process of brig gives up its identity, its capabilities and its access to
 * paths and ports. */
#include "os/seal.h"

#include "base/cleanup.h"
#include "os/sys.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static int change_user(uid_t uid, gid_t gid, struct err *err)
{
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return err_sys(err, "become uid %u, gid %u", uid, gid);
    if (uid != 0 && setuid(0) == 0)
        return err_set(err, ERR_ATTEST, "root came back");
    return 0;
}

static void drop_bounding_set(void)
{
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno == EINVAL)
            return;
}

static int drop_capabilities(const char *who, struct err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &head, none) < 0)
        return err_sys(err, "drop the capabilities of %s", who);
    return 0;
}

int seal_identity(uid_t uid, gid_t gid, const char *who, struct err *err)
{
    struct rlimit none = {0, 0};
    /* A crash must not write memory to disk. */
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(err, "forbid core files");
    drop_bounding_set();
    if (change_user(uid, gid, err) < 0 || drop_capabilities(who, err) < 0)
        return err_number(err);
    /* After the change of identity, which sets this anew. Nobody but root attaches to us or reads
     * our memory. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
        return err_sys(err, "make %s undumpable", who);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, "no_new_privs");
    return 0;
}

/* Anew after the change of identity. The end of the launcher's socket says it too, but not to a
 * process that somebody has stopped. */
int seal_tie(const char *who, struct err *err)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0
               ? err_sys(err, "tie %s to its launcher", who)
               : 0;
}

static size_t ruleset_for(int abi, struct landlock_ruleset *r)
{
    *r = (struct landlock_ruleset){.handled_access_fs = (LL_MAKE_SYM << 1) - 1};
    if (abi >= 2)
        r->handled_access_fs |= LL_REFER;
    if (abi >= 3)
        r->handled_access_fs |= LL_TRUNCATE;
    if (abi >= 5)
        r->handled_access_fs |= LL_IOCTL_DEV;
    if (abi >= 6)
        r->scoped = LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL;
    return abi >= 6   ? sizeof *r
           : abi >= 4 ? offsetof(struct landlock_ruleset, scoped)
                      : offsetof(struct landlock_ruleset, handled_access_net);
}

int seal_paths(int folder, uint64_t rights, const char *who, struct err *err)
{
    struct landlock_ruleset r;
    int abi = landlock_abi();
    if (abi == 0)
        return 0;
    size_t size = ruleset_for(abi, &r);
    struct landlock_beneath beneath = {.allowed_access = rights & r.handled_access_fs,
                                       .parent_fd = folder};
    cleanup_fd int fd = landlock_create(&r, size);
    if (fd < 0 || (folder >= 0 && landlock_allow(fd, &beneath) < 0) || landlock_restrict(fd) < 0)
        return err_sys(err, "landlock for %s", who);
    return 1;
}

int seal_ports(const char *who, struct err *err)
{
    struct landlock_ruleset r = {.handled_access_net = LL_NET_BIND_TCP | LL_NET_CONNECT_TCP};
    if (landlock_abi() < 4)
        return 0;
    cleanup_fd int fd = landlock_create(&r, offsetof(struct landlock_ruleset, scoped));
    if (fd < 0 || landlock_restrict(fd) < 0)
        return err_sys(err, "landlock for the ports of %s", who);
    return 1;
}
