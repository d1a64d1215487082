/* init: the first process inside. It gets the plan as sealed bytes and applies it step by step to
 * itself. Then it starts one child that waits for the supervisor's word and becomes the code, or,
 * in a session, starts processes as the supervisor asks for them. From then on init only reaps,
 * forwards signals and reports the end. It holds nothing that the code does not have, and its death
 * is the end of the sandbox. */
#include "init/exec_child.h"
#include "init/perform_child.h"
#include "init/reap.h"
#include "init/session_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static int fail(const struct err *err)
{
    struct ctl_msg msg = {.type = CTL_FAIL, .err = *err};
    ctl_send(&msg, -1);
    return 125;
}

int main(void)
{
    struct err err = ERR_INIT;
    struct apply_state st;
    struct started code;
    perform_init(&st);
    if (fcntl(INIT_FD_CTL, F_SETFD, FD_CLOEXEC) < 0)
        return 125;
    prctl(PR_SET_NAME, INIT_NAME);
    umask(022);
    if (!perform_ready())
        return 125;
    size_t len = 0;
    const void *plan = perform_map(INIT_FD_PLAN, &len, &err);
    if (!plan || perform_plan(&st, plan, len, NULL, &err) < 0)
        return fail(&err);
    if (st.session)
        return session_serve(&st);
    if (exec_start(&st, &code, &err) < 0)
        return fail(&err);
    return reap_until_end(&st, &code);
}
