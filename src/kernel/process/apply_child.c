/* The apply verb of the kernel boundary: capabilities, no-new-privs, the system call filter.
 *
 * K-5  After these steps init itself has no more rights than the code it is about to start. */
#include "base/cleanup.h"
#include "os/sys.h"
#include "plan/apply.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER 8
#endif
/* Linux 5.19: a call that the supervisor is about to answer is not interrupted and made again,
 * which would have it done twice. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV 32
#endif
#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

int apply_no_new_privs(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st, (void)op;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? err_sys(err, "no_new_privs") : 0;
}

/* All of them but those named, for a template process; or for now, until init is two processes
 * (init/beside_child.c): then no program that is executed can have them. */
int apply_drop_caps(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st;
    uint32_t keep = (uint32_t)op->num[0], pass_on = op->num[1] ? 0 : keep;
    /* Past the last capability the kernel says EINVAL; without CAP_SETPCAP (an ordinary user
     * outside any user namespace) EPERM, and then no-new-privs already keeps the bounding set from
     * mattering. */
    for (int cap = 0; cap < 64; cap++)
        if (!(cap < 32 && (pass_on & 1u << cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            break;
    if (!pass_on)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    /* Dropping the inheritable set drops the ambient one too. */
    struct __user_cap_data_struct left[2] = {
        {.effective = keep, .permitted = keep, .inheritable = pass_on}};
    return syscall(SYS_capset, &head, left) < 0 ? err_sys(err, "drop all capabilities") : 0;
}

static int send_listener(int fd, int reason, struct err *err)
{
    struct ctl_msg msg = {.type = CTL_LISTENER, .value = reason};
    return ctl_send(&msg, fd) < 0 ? err_sys(err, "hand over the seccomp listener") : 0;
}

static int load_filter(unsigned flags, struct sock_fprog *program)
{
    unsigned more = flags ? SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV : 0;
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | more, program);
    if (fd < 0 && errno == EINVAL && more)
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
    return fd;
}

int apply_seccomp(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st;
    struct sock_fprog program = {.len = (unsigned short)(op->data_len / sizeof(struct sock_filter)),
                                 .filter = (struct sock_filter *)op->data};
    unsigned flags = op->num[0] ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    cleanup_fd int fd = load_filter(flags, &program);
    if (fd < 0 && flags && errno == EBUSY) {
        /* Somebody outside already listens to this process (a nested sandbox). Without a listener
         * the same calls are refused all the same, but nobody sees them: the supervisor says so in
         * the receipt. */
        fd = load_filter(0, &program);
        if (fd < 0)
            return err_sys(err, "load the system call filter");
        fd = -1;
        return send_listener(-1, EBUSY, err);
    }
    if (fd < 0)
        return err_sys(err, "load the system call filter");
    if (!flags) {
        fd = -1;
        return 0;
    }
    return send_listener(fd, 0, err);
}

int apply_tty(struct apply_state *st, const struct op *op, struct err *err)
{
    st->tty = true;
    if (!op->a) /* descriptors 0 to 2 already are the terminal */
        return 0;
    cleanup_fd int master = open(op->a, O_RDWR | O_NOCTTY | O_CLOEXEC);
    int unlock = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return err_sys(err, "open a private terminal");
    /* O_CLOEXEC would stick to the open file here, and show on every copy of the descriptor. */
    st->tty_fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    if (st->tty_fd < 0 || fcntl(st->tty_fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_sys(err, "open the inner side of the terminal");
    struct winsize size = {.ws_col = (unsigned short)op->num[0],
                           .ws_row = (unsigned short)op->num[1]};
    if (size.ws_col && size.ws_row && ioctl(master, TIOCSWINSZ, &size) < 0)
        return err_sys(err, "set the size of the terminal");
    return ctl_send_over(st->tty_to, CTL_TTY, master) < 0 ? err_sys(err, "hand over the terminal")
                                                          : 0;
}

int apply_scope_code(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)err;
    st->code_scope = op->num[0];
    return 0;
}
