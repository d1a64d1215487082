/* The control socket to the supervisor, for what each room applies inside: messages with
 * descriptors attached, and the tie that ends a process when the supervisor ends. */
#include "plan/apply.h"

#include "base/cleanup.h"
#include "os/rights.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

int ctl_send(const struct ctl_msg *msg, int fd)
{
    struct iovec part = {(void *)msg, sizeof *msg};
    return rights_send(INIT_FD_CTL, &part, 1, &fd, fd >= 0, 0) == (ssize_t)sizeof *msg ? 0 : -1;
}

int ctl_send_over(int to, enum ctl_type type, int fd)
{
    struct ctl_msg msg = {.type = type};
    struct iovec part = {&msg, sizeof msg};
    return rights_send(to, &part, 1, &fd, 1, 0) == (ssize_t)sizeof msg ? 0 : -1;
}

int ctl_receive(struct ctl_msg *msg, int fds[static CTL_FDS_MAX])
{
    struct iovec part = {msg, sizeof *msg};
    struct rights rights = {.fds = fds, .room = CTL_FDS_MAX};
    ssize_t n = rights_receive(INIT_FD_CTL, &part, 1, 0, &rights);
    if (n == (ssize_t)sizeof *msg && !rights.cut)
        return (int)rights.count;
    rights_close(&rights);
    return -1;
}

int ctl_hand_listener(int fd, const struct op *op, struct err *err)
{
    cleanup_fd int listener = fd;
    struct ctl_msg msg = {.type = CTL_SOCKET, .value = (int32_t)(op->num[0] << 16 | op->num[1])};
    return ctl_send(&msg, listener) < 0 ? err_sys(err, "hand a listener out") : 0;
}

/* A supervisor that died before this is seen by the closed control socket. */
int tie_to_supervisor(struct err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return err_sys(err, "tie the sandbox to its supervisor");
    struct pollfd p = {.fd = INIT_FD_CTL, .events = POLLIN};
    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
        return err_set(err, ERR_INTERRUPTED, "the supervisor is gone");
    return 0;
}
