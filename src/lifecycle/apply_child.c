/* What init applies of the lifecycle boundary: rlimits, collecting orphans, dying with the
 * supervisor. */
#include "plan/apply.h"

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

/* LC-1  The kernel kills init, and with it the pid namespace, when the supervisor dies. */
int apply_die_with_parent(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)op;
    st->kill_all = true;
    return tie_to_supervisor(err);
}
