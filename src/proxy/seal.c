/* The proxy gives away what it no longer needs, in this order, each step explained where it is
 * made. A step that fails stops the start. */
#include "base/cleanup.h"
#include "os/landlock.h"
#include "proxy/proxy.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Swapped-out secrets would outlive us. Locking everything needs a limit that does not count, or
 * else every later allocation could fail; where there is a limit, secret.c locks what matters. */
static const char *lock_memory(void)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}, now;
    if (setrlimit(RLIMIT_MEMLOCK, &all) < 0 &&
        (getrlimit(RLIMIT_MEMLOCK, &now) < 0 || now.rlim_cur != RLIM_INFINITY))
        return "secrets";
    return mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0 ? "all" : "secrets";
}

/* Root only: nothing that comes later needs to be root. The keeper, which may have to read the
 * caller's files, was forked before. */
static int change_user(const struct seal *who, struct err *err)
{
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(who->gid, who->gid, who->gid) < 0 ||
        setresuid(who->uid, who->uid, who->uid) < 0)
        return err_sys(err, "become uid %u, gid %u", who->uid, who->gid);
    if (who->uid != 0 && setuid(0) == 0)
        return err_set(err, ERR_ATTEST, "root came back");
    return 0;
}

static void drop_bounding_set(void)
{
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno == EINVAL)
            return;
}

static int drop_capabilities(struct err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &head, none) < 0)
        return err_sys(err, "drop the proxy's capabilities");
    return 0;
}

/* No path at all. Connections are not restricted by port: rules can change while we run. */
static int deny_paths(const char **ret, struct err *err)
{
    int abi = landlock_abi();
    *ret = NULL;
    if (abi == 0)
        return 0; /* the filter has no open either; the facts say that this layer is missing */
    struct landlock_ruleset r = {.handled_access_fs = (LL_MAKE_SYM << 1) - 1};
    if (abi >= 2)
        r.handled_access_fs |= LL_REFER;
    if (abi >= 3)
        r.handled_access_fs |= LL_TRUNCATE;
    if (abi >= 5)
        r.handled_access_fs |= LL_IOCTL_DEV;
    if (abi >= 6)
        r.scoped = LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL;
    size_t size = abi >= 6   ? sizeof r
                  : abi >= 4 ? offsetof(struct landlock_ruleset, scoped)
                             : offsetof(struct landlock_ruleset, handled_access_net);
    cleanup_fd int fd = landlock_create(&r, size);
    if (fd < 0 || landlock_restrict(fd) < 0)
        return err_sys(err, "landlock for the proxy");
    *ret = "no path";
    return 0;
}

int proxy_seal(const struct seal *who, struct json_writer *facts, struct err *err)
{
    struct rlimit none = {0, 0};
    const char *paths;
    const char *locked = lock_memory();
    uid_t uid;
    /* A crash writes nothing down. */
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(err, "forbid core files");
    drop_bounding_set();
    if (change_user(who, err) < 0 || drop_capabilities(err) < 0)
        return -err->code;
    uid = geteuid();
    /* Also set anew by it: who started us takes us along. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return err_sys(err, "die with the supervisor");
    /* After the change of identity, which sets this anew. Nobody but root attaches to us or reads
     * our memory. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
        return err_sys(err, "make the proxy undumpable");
    /* Also after it. The end of the control socket ends us, but not while we are stopped. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return err_sys(err, "tie the proxy to its supervisor");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, "no_new_privs");
    if (deny_paths(&paths, err) < 0 || seal_filter_load(err) < 0)
        return -err->code;
    jw_kv_string(facts, "seccomp", "default-deny");
    jw_kv_string(facts, "landlock", paths);
    jw_kv_bool(facts, "dumpable", false);
    jw_kv_bool(facts, "no_new_privs", true);
    jw_kv_bool(facts, "capabilities", false);
    jw_kv_string(facts, "memory_locked", locked);
    jw_kv_uint(facts, "uid", uid);
    return 0;
}
