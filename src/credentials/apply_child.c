/* The environment starts empty: only what the plan names is there. */
#include "plan/apply.h"

int apply_env(struct apply_state *st, const struct op *op, struct err *err)
{
    if (!op->a || st->envc + 1 >= PLAN_MAX_OPS)
        return err_set(err, ERR_LIMIT, "too many environment variables");
    st->envp[st->envc++] = (char *)op->a;
    return 0;
}
