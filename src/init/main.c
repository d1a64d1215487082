/* init: the first process inside. It gets the plan as sealed bytes, applies it step by step to
 * itself, then starts one child that waits for the supervisor's word and becomes the code. From
 * then on init only reaps, forwards signals and reports the end. It holds nothing that the code
 * does not have, and its death is the end of the sandbox. */
#include "init/exec_child.h"
#include "init/reap.h"
#include "plan/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char *arg_room[PLAN_MAX_OPS];
static char *env_room[PLAN_MAX_OPS];

int apply_arg(struct apply_state *st, const struct op *op, struct err *err)
{
    if (!op->a || st->argc + 1 >= PLAN_MAX_OPS)
        return err_set(err, ERR_LIMIT, "too many arguments");
    st->argv[st->argc++] = (char *)op->a;
    return 0;
}

static apply_fn *const table[OP_KIND_COUNT] = {
    [OP_QUOTAS] = apply_quotas,
    [OP_HOSTNAME] = apply_hostname,
    [OP_NETWORK_START] = apply_network_start,
    [OP_NETWORK_JOIN] = apply_network_join,
    [OP_NETWORK_LOCAL] = apply_network_local,
    [OP_NETWORK_LISTEN] = apply_network_listen,
    [OP_MOUNTS_PRIVATE] = apply_mounts_private,
    [OP_ROOT] = apply_root,
    [OP_DIR] = apply_dir,
    [OP_FILE] = apply_file,
    [OP_SYMLINK] = apply_symlink,
    [OP_BIND] = apply_bind,
    [OP_WORK] = apply_work,
    [OP_WORK_DIR] = apply_work_dir,
    [OP_COVER] = apply_cover,
    [OP_DEVPTS] = apply_devpts,
    [OP_PROC] = apply_proc,
    [OP_PIVOT] = apply_pivot,
    [OP_LANDLOCK_BEGIN] = apply_landlock_begin,
    [OP_LANDLOCK_ALLOW] = apply_landlock_allow,
    [OP_LANDLOCK_ENFORCE] = apply_landlock_enforce,
    [OP_RLIMIT] = apply_rlimit,
    [OP_NO_NEW_PRIVS] = apply_no_new_privs,
    [OP_DROP_CAPS] = apply_drop_caps,
    [OP_SECCOMP] = apply_seccomp,
    [OP_TTY] = apply_tty,
    [OP_SCOPE_CODE] = apply_scope_code,
    [OP_SUBREAPER] = apply_subreaper,
    [OP_DIE_WITH_PARENT] = apply_die_with_parent,
    [OP_CWD] = apply_cwd,
    [OP_ENV] = apply_env,
    [OP_ARG] = apply_arg,
};

static int apply_plan(struct apply_state *st, const void *bytes, size_t len, struct err *err)
{
    struct plan_reader reader;
    struct op op;
    int got = plan_read_begin(&reader, bytes, len, err);
    while (got >= 0 && (got = plan_read_next(&reader, &op, err)) > 0) {
        if (!table[op.kind])
            return err_set(err, ERR_INTERNAL, "operation %s is not known inside", op_name(op.kind));
        if (table[op.kind](st, &op, err) < 0) {
            err_at(err, op_boundary(op.kind));
            return err_wrap(err, "%s", op_name(op.kind));
        }
    }
    return got;
}

static const void *map_plan(size_t *len, struct err *err)
{
    struct stat sb;
    if (fstat(INIT_FD_PLAN, &sb) < 0 || sb.st_size <= 0 || sb.st_size > PLAN_MAX_BYTES) {
        err_set(err, ERR_PROTOCOL, "no plan");
        return NULL;
    }
    const void *bytes = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, INIT_FD_PLAN, 0);
    if (bytes == MAP_FAILED) {
        err_sys(err, "map the plan");
        return NULL;
    }
    close(INIT_FD_PLAN);
    *len = (size_t)sb.st_size;
    return bytes;
}

/* The supervisor may still be writing it; one that died shows as end of file. */
static bool plan_is_complete(void)
{
    struct ctl_msg msg;
    ssize_t n;
    while ((n = recv(INIT_FD_CTL, &msg, sizeof msg, 0)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t)sizeof msg && msg.type == CTL_PLAN;
}

static int fail(const struct err *err)
{
    struct ctl_msg msg = {.type = CTL_FAIL, .err = *err};
    ctl_send(&msg, -1);
    return 125;
}

int main(void)
{
    struct err err = ERR_INIT;
    struct apply_state st = {.root_fd = -1,
                             .work_fd = -1,
                             .ruleset_fd = -1,
                             .tty_fd = -1,
                             .argv = arg_room,
                             .envp = env_room};
    if (fcntl(INIT_FD_CTL, F_SETFD, FD_CLOEXEC) < 0)
        return 125;
    prctl(PR_SET_NAME, INIT_NAME);
    umask(022);
    if (!plan_is_complete())
        return 125;
    size_t len = 0;
    const void *plan = map_plan(&len, &err);
    if (!plan || apply_plan(&st, plan, len, &err) < 0)
        return fail(&err);
    struct started code;
    if (exec_start(&st, &code, &err) < 0)
        return fail(&err);
    return reap_until_end(&st, &code);
}
