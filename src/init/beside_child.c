/* Two users in one sandbox: init becomes two processes, one for each of them.
 *
 * Nobody who is one of them can become the other one: that takes a capability, and there is none in
 * the sandbox. So the step is made while init still has two, after all else is in force: it forks.
 * Its child stays root and serves what root is asked for; init itself, the first process, becomes
 * the ordinary user. Both give the rest up before they read a request, and are the same from then
 * on: the same namespaces, mounts, Landlock domain and filter, no capability, and a control socket
 * of their own each.
 *
 * K-19  The only processes that ever had the ids of both are these two, before the code. */
#include "base/cleanup.h"
#include "plan/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* For everybody inside. */
static int listen_inside(struct apply_state *st, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = AS_ROOT_SOCKET};
    st->as_root_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (st->as_root_fd < 0 || bind(st->as_root_fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        chmod(AS_ROOT_SOCKET, 0666) < 0 || listen(st->as_root_fd, 64) < 0)
        return err_sys(err, "listen for sudo");
    return 0;
}

/* Made before the filter is loaded, which has no need to allow it. */
int apply_beside_door(struct apply_state *st, const struct op *op, struct err *err)
{
    int ends[2], on = 1;
    if (op->num[0] && listen_inside(st, err) < 0)
        return err_number(err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(err, "make the control socket of root's part");
    cleanup_fd int outer = ends[0];
    st->beside_fd = ends[1];
    struct ctl_msg msg = {.type = CTL_DOOR};
    if (setsockopt(outer, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0 || ctl_send(&msg, outer) < 0)
        return err_sys(err, "hand out the control socket of root's part");
    return 0;
}

/* Nobody's to look into from now on, and with nothing that would change an id once more. */
static int give_up_rest(struct err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &head, none) < 0)
        return err_sys(err, "drop the last capabilities");
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return err_sys(err, "hide init");
    return 0;
}

static int become_user(unsigned uid, struct err *err)
{
    if (syscall(SYS_setresgid, uid, uid, uid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0)
        return err_sys(err, "take uid %u", uid);
    return tie_to_supervisor(err);
}

int apply_beside(struct apply_state *st, const struct op *op, struct err *err)
{
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, "start root's part of init");
    /* The first one's own is closed by this, for the child. */
    if (pid == 0 &&
        (dup2(st->beside_fd, INIT_FD_CTL) < 0 || fcntl(INIT_FD_CTL, F_SETFD, FD_CLOEXEC) < 0))
        return err_sys(err, "take the control socket of root's part");
    close(st->beside_fd);
    st->beside_fd = -1;
    st->beside = pid;
    if (pid > 0 && st->as_root_fd >= 0) {
        close(st->as_root_fd);
        st->as_root_fd = -1;
    }
    if (pid > 0 && become_user((unsigned)op->num[0], err) < 0)
        return err_number(err);
    return give_up_rest(err);
}
