/* What init applies of the lifecycle boundary: rlimits, collecting orphans, dying with the
 * supervisor. */
#include "plan/apply.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int apply_rlimit(struct apply_state *st, const struct op *op, struct err *err)
{
    struct rlimit limit = {.rlim_cur = op->num[1], .rlim_max = op->num[2]};
    if (op->num[3] && op->num[0] == RLIMIT_NOFILE) {
        st->code_files = op->num[2];
        return 0;
    }
    return setrlimit((int)op->num[0], &limit) < 0 ? err_sys(err, "set limit %s", op->a) : 0;
}

int apply_subreaper(struct apply_state *st, const struct op *op, struct err *err)
{
    st->kill_all = op->num[0] != 0;
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? err_sys(err, "become the reaper") : 0;
}

int apply_die_with_parent(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)op;
    st->kill_all = true;
    return tie_to_supervisor(err);
}

/* LC-1  The kernel kills init, and with it the pid namespace, when the supervisor dies. A
 * supervisor that died before this line is seen by the closed control socket. */
int tie_to_supervisor(struct err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return err_sys(err, "tie the sandbox to its supervisor");
    struct pollfd p = {.fd = INIT_FD_CTL, .events = POLLIN};
    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
        return err_set(err, ERR_INTERRUPTED, "the supervisor is gone");
    return 0;
}
