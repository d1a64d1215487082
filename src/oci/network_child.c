/* The container's own network, as the process inside: loopback, which ordinary programs expect to
 * be up, and with rules the listeners of the ways out. They are handed to the caller, who gives
 * them to brig-proxy; the namespace itself has no route. */
#include "base/cleanup.h"
#include "oci/build.h"
#include "os/rights.h"
#include "plan/apply.h"

#include <errno.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static int handed_to = -1; /* what takes a listener has no room for more to know */

static int hand_out(int fd, const struct op *op, struct err *err)
{
    cleanup_fd int listener = fd;
    struct oci_step step = {.word = OCI_WORD_LISTENER,
                            .number = (int32_t)(op->num[0] << 16 | op->num[1])};
    struct iovec part = {&step, sizeof step};
    ssize_t n = rights_send(handed_to, &part, 1, &listener, 1, 0);
    if (n == (ssize_t)sizeof step)
        return 0;
    errno = n < 0 ? (int)-n : EPIPE;
    return err_sys(err, "hand a listener out");
}

static int raise_loopback(struct err *err)
{
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &up) < 0 ? err_sys(err, "bring loopback up") : 0;
}

static int perform(struct apply_state *st, const struct op *op, struct err *err)
{
    if (op->kind == OP_NETWORK_LOCAL)
        return apply_network_local(st, op, err);
    if (op->kind == OP_NETWORK_LISTEN)
        return apply_network_listen(st, op, err);
    return 0; /* the namespace itself, in which this process was born */
}

int oci_network_make(const struct oci_build *b, struct err *err)
{
    struct apply_state st = {.keep_listener = hand_out};
    struct plan_reader reader;
    struct op op;
    if (b->config->ns[OCI_NS_NETWORK].path)
        return 0; /* the pod's */
    if (raise_loopback(err) < 0)
        return err_number(err);
    if (!b->network)
        return 0;
    handed_to = b->become.sync_fd;
    int got = plan_read_begin(&reader, b->network->bytes.data, b->network->bytes.len, err);
    while (got >= 0 && (got = plan_read_next(&reader, &op, err)) > 0)
        if (perform(&st, &op, err) < 0)
            return err_at(err, BOUNDARY_NETWORK);
    return got;
}
