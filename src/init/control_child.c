/* Messages between init and its supervisor over the control socket, with descriptors attached. */
#include "plan/apply.h"

#include "base/cleanup.h"
#include "os/rights.h"

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
