/* The network namespace is empty but for loopback, which ordinary programs expect to be up. */
#include "base/cleanup.h"
#include "plan/apply.h"

#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int apply_loopback(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st, (void)op;
    cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(err, "socket for the loopback interface");
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    memcpy(request.ifr_name, "lo", 3);
    return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? err_sys(err, "bring loopback up") : 0;
}
