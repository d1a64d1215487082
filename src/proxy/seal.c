/* The proxy gives away what it no longer needs, in this order, each step explained where it is
 * made. A step that fails stops the start. */
#include "os/seal.h"
#include "proxy/proxy.h"

#include <signal.h>
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

int proxy_seal(const struct seal *who, struct json_writer *facts, struct err *err)
{
    const char *locked = lock_memory();
    /* Root only: nothing that comes later needs to be root. The keeper, which may have to read the
     * caller's files, was forked before. */
    if (seal_identity(who->uid, who->gid, "the proxy", err) < 0)
        return err_number(err);
    /* Also set anew by it: who started us takes us along. The end of the control socket ends us,
     * but not while we are stopped. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return err_sys(err, "tie the proxy to its supervisor");
    /* No path at all; where this layer is missing the filter has no open either. Connections are
     * not restricted by port: rules can change while we run. */
    int paths = seal_paths(-1, 0, "the proxy", err);
    uid_t uid = geteuid(); /* cannot be asked for afterwards */
    if (paths < 0 || seal_filter_load(err) < 0)
        return err_number(err);
    jw_kv_string(facts, "seccomp", "default-deny");
    jw_kv_string(facts, "landlock", paths ? "no path" : NULL);
    jw_kv_bool(facts, "dumpable", false);
    jw_kv_bool(facts, "no_new_privs", true);
    jw_kv_bool(facts, "capabilities", false);
    jw_kv_string(facts, "memory_locked", locked);
    jw_kv_uint(facts, "uid", uid);
    return 0;
}
