/* init: the first process inside. It gets the plan as sealed bytes and applies it step by step to
 * itself. Then it starts one child that waits for the supervisor's word and becomes the code, or,
 * in a session, starts processes as the supervisor asks for them. From then on init only reaps,
 * forwards signals and reports the end. It holds nothing that the code does not have, and its death
 * is the end of the sandbox. */
#include "init/as_root.h"
#include "init/exec_child.h"
#include "init/guest_child.h"
#include "init/perform_child.h"
#include "init/reap.h"
#include "init/session_child.h"
#include "plan/clone.h"
#include "plan/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const struct err *err)
{
    struct ctl_msg msg = {.type = CTL_FAIL, .err = *err};
    ctl_send(&msg, -1);
    return 125;
}

/* In a clone of a template everything was done before this image was executed, by the process that
 * executed it: what is left is to serve, with the interpreter as the first child. */
static int adopt(struct apply_state *st, char **numbers)
{
    st->evidence = (struct ctl_evidence){.landlock_before = (int32_t)strtol(numbers[1], NULL, 10),
                                         .landlock_after = (int32_t)strtol(numbers[2], NULL, 10)};
    st->code_files = strtoull(numbers[3], NULL, 10);
    char none;
    /* Wait until the clone has settled: what is reported from here on holds for both processes. */
    while (read(INIT_FD_SETTLED, &none, 1) < 0 && errno == EINTR)
        ;
    close(INIT_FD_SETTLED);
    if (fcntl(INIT_FD_GO, F_SETFD, FD_CLOEXEC) < 0 ||
        session_adopt((pid_t)strtol(numbers[0], NULL, 10), INIT_FD_GO) < 0)
        return 125;
    return session_serve(st);
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct apply_state st;
    struct started code;
    if (argc == 2 && getpid() == 1 && strcmp(argv[1], GUEST_ARGUMENT) == 0)
        return guest_main();
    const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;
    if (name && getpid() != 1 && strcmp(name + 1, AS_ROOT_NAME) == 0)
        return as_root_main(argv);
    perform_init(&st);
    if (fcntl(INIT_FD_CTL, F_SETFD, FD_CLOEXEC) < 0)
        return 125;
    prctl(PR_SET_NAME, INIT_NAME);
    umask(022);
    if (argc == 6 && strcmp(argv[1], CLONE_ADOPT) == 0)
        return adopt(&st, argv + 2);
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
