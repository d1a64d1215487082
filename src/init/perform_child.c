/* The plan: which function performs which operation, and the loop over them. */
#include "init/perform_child.h"

#include <errno.h>
#include <sys/mman.h>
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

int apply_session(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)op, (void)err;
    st->session = true;
    return 0;
}

int apply_keep_status(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)op, (void)err;
    st->keep_status = true;
    return 0;
}

/* A descriptor that an engine in the place of the code is given, at a number of its own. By now the
 * trees that had the low numbers are mounted. */
int apply_hand(struct apply_state *st, const struct op *op, struct err *err)
{
    int from = INIT_FD_TREES + (int)op->num[0], to = (int)op->num[1];
    if (from != to && (dup2(from, to) < 0 || close(from) < 0))
        return err_sys(err, "hand over a descriptor");
    st->handed_end = to + 1;
    return 0;
}

static apply_fn *const table[OP_KIND_COUNT] = {
    [OP_QUOTAS] = apply_quotas,
    [OP_OWN_CLOCK] = apply_own_clock,
    [OP_HOSTNAME] = apply_hostname,
    [OP_NETWORK_START] = apply_network_start,
    [OP_NETWORK_JOIN] = apply_network_join,
    [OP_NETWORK_LOCAL] = apply_network_local,
    [OP_NETWORK_LISTEN] = apply_network_listen,
    [OP_MOUNTS_PRIVATE] = apply_mounts_private,
    [OP_LOOK_AS] = apply_look_as,
    [OP_ROOT] = apply_root,
    [OP_DIR] = apply_dir,
    [OP_FILE] = apply_file,
    [OP_COPY] = apply_copy,
    [OP_SYMLINK] = apply_symlink,
    [OP_BIND] = apply_bind,
    [OP_OVERLAY] = apply_overlay,
    [OP_LAYER] = apply_layer,
    [OP_WORK] = apply_work,
    [OP_WORK_DIR] = apply_work_dir,
    [OP_KEPT_DIR] = apply_kept_dir,
    [OP_SHUT] = apply_shut,
    [OP_COVER] = apply_cover,
    [OP_DEVPTS] = apply_devpts,
    [OP_PROC] = apply_proc,
    [OP_PROC_FILE] = apply_proc_file,
    [OP_PIVOT] = apply_pivot,
    [OP_LANDLOCK_BEGIN] = apply_landlock_begin,
    [OP_LANDLOCK_ALLOW] = apply_landlock_allow,
    [OP_LANDLOCK_GRANT] = apply_landlock_grant,
    [OP_LANDLOCK_ENFORCE] = apply_landlock_enforce,
    [OP_RLIMIT] = apply_rlimit,
    [OP_NO_NEW_PRIVS] = apply_no_new_privs,
    [OP_DROP_CAPS] = apply_drop_caps,
    [OP_BESIDE_DOOR] = apply_beside_door,
    [OP_BESIDE] = apply_beside,
    [OP_SECCOMP] = apply_seccomp,
    [OP_TTY] = apply_tty,
    [OP_SCOPE_CODE] = apply_scope_code,
    [OP_KEEP_STATUS] = apply_keep_status,
    [OP_HAND] = apply_hand,
    [OP_SUBREAPER] = apply_subreaper,
    [OP_DIE_WITH_PARENT] = apply_die_with_parent,
    [OP_CWD] = apply_cwd,
    [OP_ENV] = apply_env,
    [OP_ARG] = apply_arg,
    [OP_SESSION] = apply_session,
};

void perform_init(struct apply_state *st)
{
    *st = (struct apply_state){.root_fd = -1,
                               .work_fd = -1,
                               .kept_fd = -1,
                               .view_fd = -1,
                               .ruleset_fd = -1,
                               .aside_fd = -1,
                               .tty_fd = -1,
                               .tty_to = INIT_FD_CTL,
                               .beside_fd = -1,
                               .as_root_fd = -1,
                               .keep_listener = ctl_hand_listener,
                               .argv = arg_room,
                               .envp = env_room};
}

static int perform_one(struct apply_state *st, const struct op *op, struct err *err)
{
    if (!table[op->kind])
        return err_set(err, ERR_INTERNAL, "operation %s is not known inside", op_name(op->kind));
    if (table[op->kind](st, op, err) >= 0)
        return 0;
    err_at(err, op_boundary(op->kind));
    return err_wrap(err, "%s", op_name(op->kind));
}

int perform_plan(struct apply_state *st, const void *bytes, size_t len,
                 bool (*allowed)(enum op_kind kind), struct err *err)
{
    struct plan_reader reader;
    struct op op;
    int got = plan_read_begin(&reader, bytes, len, err);
    while (got >= 0 && (got = plan_read_next(&reader, &op, err)) > 0) {
        if (allowed && !allowed(op.kind))
            return err_set(err, ERR_INTERNAL, "operation %s is not known inside", op_name(op.kind));
        if (perform_one(st, &op, err) < 0)
            return err_number(err);
    }
    return got;
}

int perform_part(struct apply_state *st, const void *bytes, size_t len,
                 bool (*wanted)(enum op_kind kind), struct err *err)
{
    struct plan_reader reader;
    struct op op;
    int got = plan_read_begin(&reader, bytes, len, err);
    while (got >= 0 && (got = plan_read_next(&reader, &op, err)) > 0)
        if (wanted(op.kind) && perform_one(st, &op, err) < 0)
            return err_number(err);
    return got;
}

const void *perform_map(int fd, size_t *len, struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0 || sb.st_size <= 0 || sb.st_size > PLAN_MAX_BYTES) {
        err_set(err, ERR_PROTOCOL, "no plan");
        return NULL;
    }
    const void *bytes = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        err_sys(err, "map the plan");
        return NULL;
    }
    close(fd);
    *len = (size_t)sb.st_size;
    return bytes;
}

/* The supervisor may still be writing it; one that died shows as end of file. */
bool perform_ready(void)
{
    struct ctl_msg msg;
    ssize_t n;
    while ((n = recv(INIT_FD_CTL, &msg, sizeof msg, 0)) < 0 && errno == EINTR)
        ;
    return n == (ssize_t)sizeof msg && msg.type == CTL_PLAN;
}
