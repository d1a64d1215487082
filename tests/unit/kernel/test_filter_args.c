/* The argument checks, with the values that truncation and sign extension make interesting. Each
 * case names the options under which it holds. */
#include "filter_fixture.h"

#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define HIGH 0xffffffff00000000ull /* noise in the half that the kernel does not take */

static const struct filter_options scoped = {.scoped_signals = true, .notify = true};
static const struct filter_options unix_only = {.unix_sockets = true, .notify = true};
static const struct filter_options net_only = {.isolated_net = true, .notify = true};

struct arg_case {
    const struct filter_options *options;
    int nr;
    uint64_t args[3];
    uint32_t want;
};

static void check_cases(const struct arg_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct arg_case *c = &cases[i];
        uint32_t got = verdict(c->options, c->nr, c->args[0], c->args[1], c->args[2]);
        cr_assert_eq(got, c->want, "case %zu: %s(%#lx, %#lx, %#lx) is %#x, not %#x", i,
                     filter_call_name((unsigned)c->nr), c->args[0], c->args[1], c->args[2], got,
                     c->want);
    }
}
#define CASES(...)                                                                                 \
    check_cases((const struct arg_case[]){__VA_ARGS__},                                            \
                sizeof((const struct arg_case[]){__VA_ARGS__}) / sizeof(struct arg_case))

Test(filter_args, namespaces)
{
    static const uint64_t kinds[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        CASES({&container, SYS_clone, {kinds[i]}, SEEN},
              {&container, SYS_clone, {HIGH | kinds[i] | 17}, SEEN},
              {&process, SYS_clone, {kinds[i] | CLONE_VM | CLONE_VFORK}, SEEN},
              {&container, SYS_unshare, {kinds[i]}, SEEN},
              {&process, SYS_unshare, {kinds[i] | CLONE_FILES}, SEEN}, );
    }
    CASES({&container, SYS_clone, {17}, ALLOW},
          {&container, SYS_clone, {0x3d0f00 /* a thread */}, ALLOW},
          {&container, SYS_clone, {CLONE_VM | CLONE_VFORK | 17}, ALLOW},
          {&container, SYS_clone, {HIGH | 17}, ALLOW}, /* the kernel cuts it off */
          {&container, SYS_clone, {0x80 | 17}, ALLOW}, /* an odd exit signal, not CLONE_NEWTIME */
          {&container, SYS_unshare, {0x80}, SEEN},     /* but here it is */
          {&container, SYS_unshare, {1ull << 32}, SEEN}, {&container, SYS_unshare, {HIGH}, SEEN},
          {&container, SYS_unshare, {CLONE_FILES | CLONE_FS}, ALLOW},
          {&container, SYS_unshare, {0x100000}, SEEN}, /* no flag of unshare today */
          {&container, SYS_setns, {3, 0}, SEEN}, );
}

Test(filter_args, inet_sockets_need_an_own_network)
{
    CASES({&process, SYS_socket, {AF_INET, SOCK_STREAM}, SEEN},
          {&unix_only, SYS_socket, {AF_INET, SOCK_STREAM}, SEEN},
          {&unix_only, SYS_socket, {AF_INET6, SOCK_DGRAM}, SEEN},
          {&net_only, SYS_socket, {AF_INET, SOCK_STREAM}, ALLOW},
          {&net_only, SYS_socket, {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}, ALLOW},
          {&net_only, SYS_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 6}, ALLOW},
          {&net_only, SYS_socket, {HIGH | AF_INET, HIGH | SOCK_STREAM, HIGH | 6}, ALLOW},
          {&net_only, SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}, SEEN},
          {&net_only, SYS_socket, {AF_INET, SOCK_RAW | SOCK_CLOEXEC}, SEEN},
          {&net_only, SYS_socket, {HIGH | AF_INET, HIGH | SOCK_RAW}, SEEN},
          {&net_only, SYS_socket, {AF_INET, 10 /* SOCK_PACKET */, 0x300}, SEEN},
          {&net_only, SYS_socket, {AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP}, SEEN},
          {&net_only, SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}, NOPROTO},
          {&net_only, SYS_socket, {AF_INET, SOCK_STREAM, 262 /* MPTCP */}, NOPROTO},
          {&net_only, SYS_socket, {AF_INET, SOCK_DGRAM, 115 /* L2TP */}, NOPROTO},
          {&net_only, SYS_socket, {AF_INET, 0, 0}, SEEN},
          {&net_only, SYS_socket, {AF_INET | 0x80000000u, SOCK_STREAM}, SEEN}, );
}

Test(filter_args, netlink_only_for_routes)
{
    CASES({&process, SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, SEEN},
          {&net_only, SYS_socket, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0}, ALLOW},
          {&net_only, SYS_socket, {HIGH | AF_NETLINK, SOCK_RAW, HIGH}, ALLOW}, );
    for (uint64_t protocol = 1; protocol < 64; protocol++)
        CASES({&container, SYS_socket, {AF_NETLINK, SOCK_RAW, protocol}, SEEN},
              {&container, SYS_socket, {AF_NETLINK, SOCK_DGRAM, HIGH | protocol}, SEEN}, );
}

Test(filter_args, other_families_are_closed_everywhere)
{
    for (uint64_t family = 0; family < 64; family++) {
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
            continue;
        for (uint64_t type = 0; type < 16; type++)
            CASES({&container, SYS_socket, {family, type}, SEEN},
                  {&container, SYS_socketpair, {family, type}, SEEN},
                  {&process, SYS_socket, {family, type}, SEEN}, );
    }
}

Test(filter_args, unix_sockets)
{
    CASES({&process, SYS_socket, {AF_UNIX, SOCK_STREAM}, SEEN},
          {&net_only, SYS_socket, {AF_UNIX, SOCK_STREAM}, SEEN},
          {&net_only, SYS_socket, {HIGH | AF_UNIX, SOCK_DGRAM}, SEEN},
          {&unix_only, SYS_socket, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, ALLOW},
          {&process, SYS_socketpair, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, ALLOW},
          {&process, SYS_socketpair, {HIGH | AF_UNIX, HIGH | SOCK_SEQPACKET}, ALLOW},
          {&process, SYS_socketpair, {AF_UNIX, SOCK_DGRAM}, SEEN},
          {&process, SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK}, SEEN},
          {&process, SYS_socketpair, {AF_UNIX, HIGH | SOCK_DGRAM}, SEEN},
          {&process, SYS_socketpair, {AF_UNIX, SOCK_RAW /* is SOCK_DGRAM */}, SEEN},
          {&net_only, SYS_socketpair, {AF_UNIX, SOCK_DGRAM}, SEEN},
          {&unix_only, SYS_socketpair, {AF_UNIX, SOCK_DGRAM}, ALLOW},
          {&unix_only, SYS_socketpair, {AF_INET, SOCK_STREAM}, SEEN}, );
}

Test(filter_args, protocols_on_top_of_tcp)
{
    CASES({&container, SYS_setsockopt, {3, IPPROTO_TCP, TCP_NODELAY}, ALLOW},
          {&container, SYS_setsockopt, {3, IPPROTO_TCP, TCP_ULP}, QUIET},
          {&container, SYS_setsockopt, {3, HIGH | IPPROTO_TCP, HIGH | TCP_ULP}, QUIET},
          {&container, SYS_setsockopt, {3, SOL_SOCKET, TCP_ULP}, ALLOW}, );
}

static const struct filter_options brokered = {.brokered_net = true, .notify = true};
static const struct filter_options brokered_unix = {
    .brokered_net = true, .unix_sockets = true, .notify = true};

Test(filter_args, brokered_sockets_are_tcp)
{
    static const uint64_t families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < 2; i++) {
        uint64_t f = families[i];
        CASES({&process, SYS_socket, {f, SOCK_STREAM, 0}, SEEN},
              {&brokered, SYS_socket, {f, SOCK_STREAM, 0}, ALLOW},
              {&brokered, SYS_socket, {f, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 6}, ALLOW},
              {&brokered, SYS_socket, {HIGH | f, HIGH | SOCK_STREAM, HIGH | 6}, ALLOW},
              {&brokered_unix, SYS_socket, {f, SOCK_STREAM, 0}, ALLOW},
              {&brokered, SYS_socket, {f, SOCK_STREAM, 262 /* MPTCP */}, NOPROTO},
              {&brokered, SYS_socket, {f, SOCK_STREAM, IPPROTO_SCTP}, NOPROTO},
              {&brokered, SYS_socket, {f, SOCK_STREAM, HIGH | 256 /* SMC */}, NOPROTO}, );
        for (uint64_t type = 0; type < 16; type++)
            for (uint64_t protocol = 0; protocol < 20; protocol++)
                if (type != SOCK_STREAM)
                    CASES({&brokered, SYS_socket, {f, type, protocol}, SEEN},
                          {&brokered, SYS_socket, {f, HIGH | SOCK_NONBLOCK | type}, SEEN}, );
    }
    for (uint64_t family = 0; family < 64; family++)
        if (family != AF_INET && family != AF_INET6)
            CASES({&brokered, SYS_socket, {family, SOCK_STREAM}, SEEN},
                  {&brokered, SYS_socket, {HIGH | family, SOCK_RAW}, SEEN}, );
    CASES({&brokered_unix, SYS_socket, {AF_UNIX, SOCK_STREAM}, ALLOW},
          {&brokered_unix, SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, SEEN}, );
}

/* Whatever else is open, and whatever stands in its registers. */
Test(filter_args, a_brokered_connect_is_always_seen)
{
    static const int others[] = {SYS_bind, SYS_listen, SYS_accept, SYS_accept4};
    CASES({&brokered, SYS_connect, {3, 0x1000, 16}, SEEN},
          {&brokered, SYS_connect, {HIGH, HIGH, HIGH}, SEEN},
          {&brokered_unix, SYS_connect, {3, 0x1000, 110}, SEEN},
          {&net_only, SYS_connect, {3, 0x1000, 16}, ALLOW},
          {&unix_only, SYS_connect, {3, 0x1000, 110}, ALLOW}, );
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CASES({&brokered, others[i], {3, 0x1000, 16}, SEEN},
              {&net_only, others[i], {3, 0x1000, 16}, ALLOW}, );
    for (unsigned nr = 0; nr < 1024; nr++) {
        cr_assert_eq(filter_is_brokered_connect(ARCH_X86_64, (int)nr), nr == SYS_connect);
        cr_assert_not(filter_is_brokered_connect(ARCH_I386, (int)nr));
        cr_assert_not(filter_is_brokered_connect(ARCH_X86_64, (int)nr | X32));
    }
}

/* A send that would connect. */
Test(filter_args, fast_open)
{
    static const struct {
        int nr;
        unsigned flags;
    } calls[] = {{SYS_sendto, 3}, {SYS_sendmsg, 2}, {SYS_sendmmsg, 3}};
    static const uint64_t open[] = {0, MSG_NOSIGNAL, MSG_DONTWAIT | MSG_MORE, HIGH,
                                    ~(uint64_t)MSG_FASTOPEN};
    for (size_t i = 0; i < 3; i++) {
        uint64_t args[6] = {3, 0x1000, 0x1000, 0x1000, 0x1000, 16};
        for (size_t j = 0; j < sizeof(open) / sizeof(open[0]); j++) {
            args[calls[i].flags] = open[j];
            build(&brokered);
            cr_assert_eq(run(ARCH_X86_64, calls[i].nr, args).ret, ALLOW);
            args[calls[i].flags] |= MSG_FASTOPEN;
            cr_assert_eq(run(ARCH_X86_64, calls[i].nr, args).ret, NOTSUP);
            build(&net_only);
            cr_assert_eq(run(ARCH_X86_64, calls[i].nr, args).ret, ALLOW);
        }
    }
}

/* What decides where the packets of the supervisor's connect go, or keeps it from completing. */
Test(filter_args, brokered_socket_options)
{
    static const struct {
        int level, option;
    } closed[] =
        {
            {IPPROTO_IP, IP_OPTIONS}, /* source routes */
            {IPPROTO_IP, IP_TRANSPARENT},
            {IPPROTO_IP, IP_UNICAST_IF},
            {IPPROTO_IP, IP_ADD_MEMBERSHIP},
            {IPPROTO_IP, MCAST_JOIN_GROUP},
            {IPPROTO_IP, 64 /* iptables */},
            {IPPROTO_IPV6, IPV6_RTHDR},
            {IPPROTO_IPV6, IPV6_2292RTHDR},
            {IPPROTO_IPV6, IPV6_2292PKTOPTIONS},
            {IPPROTO_IPV6, IPV6_PKTINFO},
            {IPPROTO_IPV6, IPV6_NEXTHOP},
            {IPPROTO_IPV6, IPV6_ADDRFORM},
            {IPPROTO_IPV6, IPV6_UNICAST_IF},
            {IPPROTO_IPV6, IPV6_JOIN_GROUP},
            {SOL_SOCKET, SO_BINDTODEVICE},
            {SOL_SOCKET, 62 /* SO_BINDTOIFINDEX */},
            {SOL_SOCKET, SO_MARK},
            {SOL_SOCKET, SO_ATTACH_FILTER},
            {SOL_SOCKET, SO_ATTACH_BPF},
            {SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF},
            {SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF},
            {IPPROTO_TCP, TCP_MD5SIG},
            {IPPROTO_TCP, TCP_REPAIR},
            {IPPROTO_TCP, TCP_FASTOPEN},
            {IPPROTO_TCP, TCP_FASTOPEN_CONNECT},
            {IPPROTO_TCP, TCP_ULP},
            {IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE},
            {SOL_TCP, 38 /* TCP_AO_ADD_KEY */},
            {270 /* SOL_NETLINK */, 1},
            {284 /* SOL_MPTCP */, 1},
            {282 /* SOL_TLS */, 1},
            {-1, 1},
        },
      open[] = {
          {SOL_SOCKET, SO_REUSEADDR},
          {SOL_SOCKET, SO_KEEPALIVE},
          {SOL_SOCKET, SO_SNDBUF},
          {SOL_SOCKET, SO_RCVBUF},
          {SOL_SOCKET, SO_LINGER},
          {SOL_SOCKET, SO_RCVTIMEO},
          {SOL_SOCKET, SO_SNDTIMEO},
          {IPPROTO_TCP, TCP_NODELAY},
          {IPPROTO_TCP, TCP_CORK},
          {IPPROTO_TCP, TCP_KEEPIDLE},
          {IPPROTO_TCP, TCP_KEEPINTVL},
          {IPPROTO_TCP, TCP_KEEPCNT},
          {IPPROTO_TCP, TCP_USER_TIMEOUT},
          {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
          {IPPROTO_IP, IP_TOS},
          {IPPROTO_IPV6, IPV6_V6ONLY},
          {IPPROTO_IPV6, IPV6_TCLASS},
      };
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
        uint64_t level = (uint32_t)closed[i].level, option = (uint32_t)closed[i].option;
        CASES({&brokered, SYS_setsockopt, {3, level, option}, QUIET},
              {&brokered, SYS_setsockopt, {3, HIGH | level, HIGH | option}, QUIET}, );
    }
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        uint64_t level = (uint32_t)open[i].level, option = (uint32_t)open[i].option;
        CASES({&brokered, SYS_setsockopt, {3, level, option}, ALLOW},
              {&brokered, SYS_setsockopt, {3, HIGH | level, HIGH | option}, ALLOW}, );
    }
}

/* On the host's network, what it is made of is nobody's business. */
Test(filter_args, interfaces_of_the_host)
{
    CASES({&process, SYS_ioctl, {3, SIOCGIFCONF}, QUIET},
          {&brokered, SYS_ioctl, {3, SIOCGIFADDR}, QUIET},
          {&brokered, SYS_ioctl, {3, HIGH | SIOCETHTOOL}, QUIET},
          {&brokered, SYS_ioctl, {3, SIOCADDRT}, QUIET}, {&brokered, SYS_ioctl, {3, 0x89ff}, QUIET},
          {&brokered, SYS_ioctl, {3, 0x8a00}, ALLOW},
          {&brokered, SYS_ioctl, {3, SIOCATMARK}, ALLOW},
          {&brokered, SYS_ioctl, {3, FIONREAD}, ALLOW},
          {&net_only, SYS_ioctl, {3, SIOCGIFCONF}, ALLOW}, );
}

Test(filter_args, terminal_ioctls)
{
    static const uint64_t closed[] = {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD};
    for (size_t i = 0; i < 4; i++)
        CASES({&container, SYS_ioctl, {0, closed[i]}, SEEN},
              {&process, SYS_ioctl, {0, HIGH | closed[i]}, SEEN},
              {&process, SYS_ioctl, {closed[i], 0}, ALLOW}, );
    CASES({&container, SYS_ioctl, {0, TIOCGWINSZ}, ALLOW},
          {&process, SYS_ioctl, {0, FIONBIO}, ALLOW}, {&process, SYS_ioctl, {0, FIOSETOWN}, QUIET},
          {&process, SYS_ioctl, {0, HIGH | SIOCSPGRP}, QUIET},
          {&scoped, SYS_ioctl, {0, FIOSETOWN}, ALLOW},
          {&container, SYS_ioctl, {0, SIOCSPGRP}, ALLOW}, );
}

Test(filter_args, signals_by_descriptor_owner)
{
    CASES({&process, SYS_fcntl, {0, F_SETOWN}, QUIET},
          {&process, SYS_fcntl, {0, HIGH | F_SETOWN_EX}, QUIET},
          {&process, SYS_fcntl, {0, F_SETSIG}, QUIET},
          {&process, SYS_fcntl, {0, F_SETFL, O_ASYNC}, ALLOW},
          {&process, SYS_fcntl, {0, F_DUPFD_CLOEXEC}, ALLOW},
          {&scoped, SYS_fcntl, {0, F_SETOWN}, ALLOW},
          {&container, SYS_fcntl, {0, F_SETOWN}, ALLOW}, );
}

Test(filter_args, signals_are_brokered_where_they_could_leave)
{
    CASES({&process, SYS_kill, {0, 9}, ALLOW}, {&process, SYS_kill, {HIGH, 9}, ALLOW},
          {&process, SYS_kill, {1, 9}, SEEN}, {&process, SYS_kill, {(uint64_t)-1, 9}, SEEN},
          {&process, SYS_kill, {0xffffffff, 9}, SEEN}, {&process, SYS_kill, {1, 0}, SEEN},
          {&process, SYS_tkill, {1, 9}, SEEN}, {&process, SYS_tgkill, {1, 1, 9}, SEEN},
          {&process, SYS_rt_sigqueueinfo, {1, 9}, SEEN},
          {&process, SYS_rt_tgsigqueueinfo, {1, 1, 9}, SEEN},
          {&process, SYS_pidfd_send_signal, {3, 9}, ABSENT},
          {&scoped, SYS_kill, {(uint64_t)-1, 9}, ALLOW}, {&scoped, SYS_tgkill, {1, 1, 9}, ALLOW},
          {&scoped, SYS_pidfd_send_signal, {3, 9}, ALLOW}, {&scoped, SYS_pidfd_open, {1}, ABSENT},
          {&container, SYS_kill, {1, 9}, ALLOW}, {&container, SYS_pidfd_open, {1}, ALLOW}, );
    for (unsigned nr = 0; nr < 1024; nr++) {
        bool by_pid = nr == SYS_kill || nr == SYS_tkill || nr == SYS_tgkill ||
                      nr == SYS_rt_sigqueueinfo || nr == SYS_rt_tgsigqueueinfo;
        cr_assert_eq(filter_is_brokered_signal(ARCH_X86_64, (int)nr), by_pid, "%u", nr);
        cr_assert_not(filter_is_brokered_signal(ARCH_I386, (int)nr));
        cr_assert_not(filter_is_brokered_signal(ARCH_X86_64, (int)nr | X32));
    }
    cr_assert_not(filter_is_brokered_signal(ARCH_X86_64, -1));
}

Test(filter_args, limits_and_priorities_of_others)
{
    static const int calls[] = {SYS_prlimit64,      SYS_sched_setaffinity, SYS_sched_setscheduler,
                                SYS_sched_setparam, SYS_sched_setattr,     SYS_get_robust_list};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        CASES({&process, calls[i], {0}, ALLOW}, {&process, calls[i], {HIGH}, ALLOW},
              {&process, calls[i], {1}, SEEN}, {&scoped, calls[i], {HIGH | 1}, SEEN},
              {&process, calls[i], {0x80000000u}, SEEN}, {&container, calls[i], {1}, ALLOW}, );
    CASES({&process, SYS_setpriority, {PRIO_PROCESS, 0}, ALLOW},
          {&process, SYS_setpriority, {PRIO_PGRP, 0}, ALLOW},
          {&process, SYS_setpriority, {PRIO_PROCESS, 7}, SEEN},
          {&process, SYS_setpriority, {PRIO_USER, 0}, SEEN},
          {&process, SYS_setpriority, {HIGH | PRIO_USER, HIGH}, SEEN},
          {&process, SYS_setpriority, {0x80000000u, 0}, SEEN},
          {&container, SYS_setpriority, {PRIO_USER, 0}, ALLOW},
          {&process, SYS_ioprio_set, {IOPRIO_WHO_PROCESS, 0}, ALLOW},
          {&process, SYS_ioprio_set, {IOPRIO_WHO_PGRP, 0}, ALLOW},
          {&process, SYS_ioprio_set, {IOPRIO_WHO_PGRP, 5}, SEEN},
          {&process, SYS_ioprio_set, {IOPRIO_WHO_USER, 0}, SEEN},
          {&container, SYS_ioprio_set, {IOPRIO_WHO_USER, 0}, ALLOW}, );
}

Test(filter_args, device_nodes)
{
    static const uint64_t open[] = {0, S_IFREG, S_IFIFO, S_IFSOCK};
    static const uint64_t closed[] = {S_IFCHR, S_IFBLK, S_IFDIR, S_IFLNK, 0xf000};
    for (size_t i = 0; i < 4; i++)
        CASES({&container, SYS_mknod, {1, open[i] | 0644}, ALLOW},
              {&process, SYS_mknodat, {1, 1, open[i] | 0644}, ALLOW},
              /* above 16 bits nothing counts */
              {&process, SYS_mknod, {1, HIGH | 0xffff0000u | open[i]}, ALLOW}, );
    for (size_t i = 0; i < 5; i++)
        CASES({&container, SYS_mknod, {1, closed[i] | 0644}, SEEN},
              {&process, SYS_mknodat, {1, 1, closed[i] | 0644}, SEEN},
              {&process, SYS_mknod, {1, HIGH | 0xffff0000u | closed[i]}, SEEN},
              {&process, SYS_mknodat, {0, S_IFREG, closed[i]}, SEEN}, );
}

Test(filter_args, single_options_of_shared_calls)
{
    CASES({&container, SYS_prctl, {15 /* PR_SET_NAME */}, ALLOW},
          {&container, SYS_prctl, {22 /* PR_SET_SECCOMP */, 2}, ALLOW},
          {&container, SYS_prctl, {35 /* PR_SET_MM */}, QUIET},
          {&container, SYS_prctl, {HIGH | 62 /* PR_SCHED_CORE */}, QUIET},
          {&container, SYS_seccomp, {SECCOMP_SET_MODE_FILTER, 0}, ALLOW},
          {&container, SYS_seccomp, {SECCOMP_SET_MODE_FILTER, 8}, QUIET},
          {&container, SYS_seccomp, {HIGH | SECCOMP_SET_MODE_FILTER, HIGH | 9}, QUIET},
          {&container, SYS_seccomp, {SECCOMP_GET_ACTION_AVAIL, 8}, ALLOW},
          {&container, SYS_personality, {0xffffffff}, ALLOW},
          {&container, SYS_personality, {(uint64_t)-1}, ALLOW},
          {&container, SYS_personality, {0x40000}, ALLOW},
          {&container, SYS_personality, {HIGH | 0x20008}, ALLOW},
          {&container, SYS_personality, {0x400000 /* READ_IMPLIES_EXEC */}, SEEN},
          {&container, SYS_personality, {HIGH | 1}, SEEN}, );
}

Test(filter_args, truncation_by_a_read_only_open)
{
    static const struct filter_options guarded = {.scoped_truncate = true, .notify = true};
    CASES({&process, SYS_open, {0, O_RDONLY | O_TRUNC}, SEEN},
          {&process, SYS_open, {0, HIGH | O_RDONLY | O_TRUNC | O_CLOEXEC}, SEEN},
          {&process, SYS_openat, {0, 0, O_RDONLY | O_TRUNC}, SEEN},
          {&process, SYS_openat, {0, 0, O_RDONLY}, ALLOW},
          {&process,
           SYS_openat,
           {0, 0, O_WRONLY | O_CREAT | O_TRUNC},
           ALLOW}, /* Landlock asks for write */
          {&process, SYS_openat2, {0}, ABSENT}, {&process, SYS_truncate, {0}, SEEN},
          {&guarded, SYS_openat, {0, 0, O_RDONLY | O_TRUNC}, ALLOW},
          {&guarded, SYS_openat2, {0}, ALLOW}, {&guarded, SYS_truncate, {0}, ALLOW},
          {&container, SYS_openat, {0, 0, O_RDONLY | O_TRUNC}, ALLOW}, );
}

Test(filter_args, set_id_bits_where_host_folders_are_writable)
{
    static const struct filter_options writable = {
        .isolated_pids = true, .own_view = true, .host_writable = true, .notify = true};
    CASES({&writable, SYS_chmod, {0, 04755}, SEEN}, {&writable, SYS_chmod, {0, 02755}, SEEN},
          {&writable, SYS_chmod, {0, HIGH | 0755}, ALLOW},
          {&writable, SYS_fchmod, {0, 04000}, SEEN}, {&writable, SYS_fchmod, {0, 01777}, ALLOW},
          {&writable, SYS_fchmodat, {0, 0, 06755}, SEEN},
          {&writable, SYS_fchmodat2, {0, 0, 04755}, SEEN},
          {&writable, SYS_fchmodat, {0, 0, 0755}, ALLOW}, {&writable, SYS_creat, {0, 04755}, SEEN},
          {&writable, SYS_creat, {0, 0644}, ALLOW},
          {&writable, SYS_open, {0, O_CREAT | O_WRONLY, 04755}, SEEN},
          {&writable, SYS_open, {0, O_TMPFILE | O_RDWR, 02755}, SEEN},
          {&writable, SYS_open, {0, O_RDONLY | O_DIRECTORY, 04755}, ALLOW}, /* no new file */
          {&writable, SYS_open, {0, O_CREAT | O_WRONLY, 0755}, ALLOW},
          {&writable, SYS_mknod, {0, S_IFREG | 04755}, SEEN},
          {&writable, SYS_mknodat, {0, 0, S_IFIFO | 02644}, SEEN},
          {&writable, SYS_mknodat, {0, 0, S_IFIFO | 0644}, ALLOW},
          {&writable, SYS_openat2, {0}, ABSENT}, {&container, SYS_chmod, {0, 04755}, ALLOW},
          {&container, SYS_open, {0, O_CREAT, 04755}, ALLOW}, );
}
