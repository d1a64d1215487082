#include "plan/apply.h"

#include <string.h>
#include <unistd.h>

int apply_hostname(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st;
    return sethostname(op->a, strlen(op->a)) < 0 ? err_sys(err, "set the host name") : 0;
}
