/* The argument checks, with the values that truncation and sign extension make interesting. Each
 * case names the options under which it holds. */
#include "filter_fixture.h"

#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define HIGH 0xffffffff00000000ull /* noise in the half that the kernel does not take */

static const struct filter_options scoped = {.scoped_signals = true, .notify = true};
static const struct filter_options unix_only = {.unix_sockets = true, .notify = true};
static const struct filter_options net_only = {.isolated_net = true, .notify = true};
static const struct filter_options counted_net = {
    .isolated_net = true, .counted_memory = true, .notify = true};

struct arg_case {
    const struct filter_options *options;
    enum call call;
    uint64_t args[4];
    uint32_t want;
};

/* By brig's own interpreter, which the supervisor asks in report mode. */
static uint32_t interpreted(int nr, const uint64_t args[6])
{
    struct seccomp_data data = {.nr = nr, .arch = arch};
    memcpy(data.args, args, sizeof(data.args));
    return filter_run(&program, &data);
}

static void check_cases(const struct arg_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct arg_case *c = &cases[i];
        const uint64_t args[6] = {c->args[0], c->args[1], c->args[2], c->args[3]};
        if (number(c->call) < 0) /* aarch64 has none of the old calls by path alone */
            continue;
        build(c->options);
        uint32_t got = run(arch, number(c->call), args).ret;
        cr_assert_eq(got, interpreted(number(c->call), args));
        cr_assert_eq(got, c->want, "case %zu: %s(%#lx, %#lx, %#lx, %#lx) is %#x, not %#x", i,
                     call_numbers[c->call].name, args[0], args[1], args[2], args[3], got, c->want);
    }
}
#define CASES(...)                                                                                 \
    check_cases((const struct arg_case[]){__VA_ARGS__},                                            \
                sizeof((const struct arg_case[]){__VA_ARGS__}) / sizeof(struct arg_case))

TestBoth(filter_args, namespaces)
{
    static const uint64_t kinds[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        CASES({&container, CALL_clone, {kinds[i]}, SEEN},
              {&container, CALL_clone, {HIGH | kinds[i] | 17}, SEEN},
              {&process, CALL_clone, {kinds[i] | CLONE_VM | CLONE_VFORK}, SEEN},
              {&container, CALL_unshare, {kinds[i]}, SEEN},
              {&process, CALL_unshare, {kinds[i] | CLONE_FILES}, SEEN}, );
    }
    CASES({&container, CALL_clone, {17}, ALLOW},
          {&container, CALL_clone, {0x3d0f00 /* a thread */}, ALLOW},
          {&container, CALL_clone, {CLONE_VM | CLONE_VFORK | 17}, ALLOW},
          {&container, CALL_clone, {HIGH | 17}, ALLOW}, /* the kernel cuts it off */
          {&container, CALL_clone, {0x80 | 17}, ALLOW}, /* an odd exit signal, not CLONE_NEWTIME */
          {&container, CALL_unshare, {0x80}, SEEN},     /* but here it is */
          {&container, CALL_unshare, {1ull << 32}, SEEN}, {&container, CALL_unshare, {HIGH}, SEEN},
          {&container, CALL_unshare, {CLONE_FILES | CLONE_FS}, ALLOW},
          {&container, CALL_unshare, {0x100000}, SEEN}, /* no flag of unshare today */
          {&container, CALL_setns, {3, 0}, SEEN}, );
}

TestBoth(filter_args, inet_sockets_need_an_own_network)
{
    CASES({&process, CALL_socket, {AF_INET, SOCK_STREAM}, SEEN},
          {&unix_only, CALL_socket, {AF_INET, SOCK_STREAM}, SEEN},
          {&unix_only, CALL_socket, {AF_INET6, SOCK_DGRAM}, SEEN},
          {&net_only, CALL_socket, {AF_INET, SOCK_STREAM}, ALLOW},
          {&net_only, CALL_socket, {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}, ALLOW},
          {&net_only, CALL_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 6}, ALLOW},
          {&net_only, CALL_socket, {HIGH | AF_INET, HIGH | SOCK_STREAM, HIGH | 6}, ALLOW},
          {&net_only, CALL_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}, SEEN},
          {&net_only, CALL_socket, {AF_INET, SOCK_RAW | SOCK_CLOEXEC}, SEEN},
          {&net_only, CALL_socket, {HIGH | AF_INET, HIGH | SOCK_RAW}, SEEN},
          {&net_only, CALL_socket, {AF_INET, 10 /* SOCK_PACKET */, 0x300}, SEEN},
          {&net_only, CALL_socket, {AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP}, SEEN},
          {&net_only, CALL_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}, NOPROTO},
          {&net_only, CALL_socket, {AF_INET, SOCK_STREAM, 262 /* MPTCP */}, NOPROTO},
          {&net_only, CALL_socket, {AF_INET, SOCK_DGRAM, 115 /* L2TP */}, NOPROTO},
          {&net_only, CALL_socket, {AF_INET, 0, 0}, SEEN},
          {&net_only, CALL_socket, {AF_INET | 0x80000000u, SOCK_STREAM}, SEEN}, );
}

TestBoth(filter_args, netlink_only_for_routes)
{
    CASES({&process, CALL_socket, {AF_NETLINK, SOCK_RAW, 0}, SEEN},
          {&net_only, CALL_socket, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0}, ALLOW},
          {&net_only, CALL_socket, {HIGH | AF_NETLINK, SOCK_RAW, HIGH}, ALLOW}, );
    for (uint64_t protocol = 1; protocol < 64; protocol++)
        CASES({&container, CALL_socket, {AF_NETLINK, SOCK_RAW, protocol}, SEEN},
              {&container, CALL_socket, {AF_NETLINK, SOCK_DGRAM, HIGH | protocol}, SEEN}, );
}

TestBoth(filter_args, other_families_are_closed_everywhere)
{
    for (uint64_t family = 0; family < 64; family++) {
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
            continue;
        for (uint64_t type = 0; type < 16; type++)
            CASES({&container, CALL_socket, {family, type}, SEEN},
                  {&container, CALL_socketpair, {family, type}, SEEN},
                  {&process, CALL_socket, {family, type}, SEEN}, );
    }
}

TestBoth(filter_args, unix_sockets)
{
    CASES({&process, CALL_socket, {AF_UNIX, SOCK_STREAM}, SEEN},
          {&net_only, CALL_socket, {AF_UNIX, SOCK_STREAM}, SEEN},
          {&net_only, CALL_socket, {HIGH | AF_UNIX, SOCK_DGRAM}, SEEN},
          {&unix_only, CALL_socket, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, ALLOW},
          {&process, CALL_socketpair, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, ALLOW},
          {&process, CALL_socketpair, {HIGH | AF_UNIX, HIGH | SOCK_SEQPACKET}, ALLOW},
          {&process, CALL_socketpair, {AF_UNIX, SOCK_DGRAM}, SEEN},
          {&process, CALL_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK}, SEEN},
          {&process, CALL_socketpair, {AF_UNIX, HIGH | SOCK_DGRAM}, SEEN},
          {&process, CALL_socketpair, {AF_UNIX, SOCK_RAW /* is SOCK_DGRAM */}, SEEN},
          {&net_only, CALL_socketpair, {AF_UNIX, SOCK_DGRAM}, SEEN},
          {&unix_only, CALL_socketpair, {AF_UNIX, SOCK_DGRAM}, ALLOW},
          {&unix_only, CALL_socketpair, {AF_INET, SOCK_STREAM}, SEEN}, );
}

static const struct filter_options brokered = {.brokered_net = true, .notify = true};
static const struct filter_options brokered_unix = {
    .brokered_net = true, .unix_sockets = true, .notify = true};

TestBoth(filter_args, brokered_sockets_are_tcp)
{
    static const uint64_t families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < 2; i++) {
        uint64_t f = families[i];
        CASES({&process, CALL_socket, {f, SOCK_STREAM, 0}, SEEN},
              {&brokered, CALL_socket, {f, SOCK_STREAM, 0}, ALLOW},
              {&brokered, CALL_socket, {f, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 6}, ALLOW},
              {&brokered, CALL_socket, {HIGH | f, HIGH | SOCK_STREAM, HIGH | 6}, ALLOW},
              {&brokered_unix, CALL_socket, {f, SOCK_STREAM, 0}, ALLOW},
              {&brokered, CALL_socket, {f, SOCK_STREAM, 262 /* MPTCP */}, NOPROTO},
              {&brokered, CALL_socket, {f, SOCK_STREAM, IPPROTO_SCTP}, NOPROTO},
              {&brokered, CALL_socket, {f, SOCK_STREAM, HIGH | 256 /* SMC */}, NOPROTO}, );
        for (uint64_t type = 0; type < 16; type++)
            for (uint64_t protocol = 0; protocol < 20; protocol++)
                if (type != SOCK_STREAM)
                    CASES({&brokered, CALL_socket, {f, type, protocol}, SEEN},
                          {&brokered, CALL_socket, {f, HIGH | SOCK_NONBLOCK | type}, SEEN}, );
    }
    for (uint64_t family = 0; family < 64; family++)
        if (family != AF_INET && family != AF_INET6)
            CASES({&brokered, CALL_socket, {family, SOCK_STREAM}, SEEN},
                  {&brokered, CALL_socket, {HIGH | family, SOCK_RAW}, SEEN}, );
    CASES({&brokered_unix, CALL_socket, {AF_UNIX, SOCK_STREAM}, ALLOW},
          {&brokered_unix, CALL_socket, {AF_NETLINK, SOCK_RAW, 0}, SEEN}, );
}

/* Whatever else is open, and whatever stands in its registers. */
TestBoth(filter_args, a_brokered_connect_is_always_seen)
{
    static const enum call others[] = {CALL_bind, CALL_listen, CALL_accept, CALL_accept4};
    CASES({&brokered, CALL_connect, {3, 0x1000, 16}, SEEN},
          {&brokered, CALL_connect, {HIGH, HIGH, HIGH}, SEEN},
          {&brokered_unix, CALL_connect, {3, 0x1000, 110}, SEEN},
          {&net_only, CALL_connect, {3, 0x1000, 16}, ALLOW},
          {&unix_only, CALL_connect, {3, 0x1000, 110}, ALLOW}, );
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CASES({&brokered, others[i], {3, 0x1000, 16}, SEEN},
              {&net_only, others[i], {3, 0x1000, 16}, ALLOW}, );
    for (int nr = 0; nr < 1024; nr++) {
        cr_assert_eq(filter_is_brokered_connect(arch, nr), nr == number(CALL_connect));
        cr_assert_not(filter_is_brokered_connect(ARCH_I386, nr));
        cr_assert_not(filter_is_brokered_connect(ARCH_ARM, nr));
        cr_assert_not(filter_is_brokered_connect(arch, nr | X32));
    }
}

/* A send that would connect. */
TestBoth(filter_args, fast_open)
{
    static const struct {
        enum call call;
        unsigned flags;
    } calls[] = {{CALL_sendto, 3}, {CALL_sendmsg, 2}, {CALL_sendmmsg, 3}};
    static const uint64_t open[] = {0, MSG_NOSIGNAL, MSG_DONTWAIT | MSG_MORE, HIGH,
                                    ~(uint64_t)MSG_FASTOPEN};
    for (size_t i = 0; i < 3; i++) {
        uint64_t args[6] = {3, 0x1000, 0x1000, 0x1000, 0x1000, 16};
        for (size_t j = 0; j < sizeof(open) / sizeof(open[0]); j++) {
            args[calls[i].flags] = open[j];
            build(&brokered);
            cr_assert_eq(run(arch, number(calls[i].call), args).ret, ALLOW);
            args[calls[i].flags] |= MSG_FASTOPEN;
            cr_assert_eq(run(arch, number(calls[i].call), args).ret, NOTSUP);
            build(&net_only);
            cr_assert_eq(run(arch, number(calls[i].call), args).ret, ALLOW);
        }
    }
}

static void check_option(int level_, int option_, uint32_t with_own_network, uint32_t without)
{
    uint64_t level = (uint32_t)level_, option = (uint32_t)option_;
    CASES({&container, CALL_setsockopt, {3, level, option}, with_own_network},
          {&counted_net, CALL_setsockopt, {3, HIGH | level, HIGH | option}, with_own_network},
          {&brokered, CALL_setsockopt, {3, level, option}, without},
          {&process, CALL_setsockopt, {3, HIGH | level, HIGH | option}, without}, );
}

/* What decides where the packets of the supervisor's connect go, or keeps it from completing; and
 * what has code of its own in the kernel that nobody needs. */
TestBoth(filter_args, socket_options)
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
            {IPPROTO_UDP, 100 /* UDP_ENCAP */},
            {IPPROTO_UDP, 103 /* UDP_SEGMENT */},
            {IPPROTO_UDP, 1 /* UDP_CORK */},
            {SOL_SOCKET, 60 /* SO_ZEROCOPY */},
            {IPPROTO_IP, MCAST_MSFILTER},
            {IPPROTO_IPV6, IPV6_JOIN_ANYCAST},
            {IPPROTO_IPV6, 32 /* IPV6_FLOWLABEL_MGR */},
            {IPPROTO_ICMPV6, 1 /* ICMP6_FILTER */},
            {SOL_RAW, 1},
            {IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE},
            {SOL_TCP, 38 /* TCP_AO_ADD_KEY */},
            {270 /* SOL_NETLINK */, 1},
            {284 /* SOL_MPTCP */, 1},
            {282 /* SOL_TLS */, 1},
            {-1, 1},
        },
      open[] =
          {
              {SOL_SOCKET, SO_REUSEADDR},       {SOL_SOCKET, SO_KEEPALIVE},
              {SOL_SOCKET, SO_RCVTIMEO},        {SOL_SOCKET, SO_SNDTIMEO},
              {IPPROTO_TCP, TCP_NODELAY},       {IPPROTO_TCP, TCP_CORK},
              {IPPROTO_TCP, TCP_KEEPIDLE},      {IPPROTO_TCP, TCP_KEEPINTVL},
              {IPPROTO_TCP, TCP_KEEPCNT},       {IPPROTO_TCP, TCP_USER_TIMEOUT},
              {IPPROTO_TCP, TCP_NOTSENT_LOWAT}, {IPPROTO_IP, IP_TOS},
              {IPPROTO_IPV6, IPV6_V6ONLY},      {IPPROTO_IPV6, IPV6_TCLASS},
          },
      own[] = {
          {SOL_SOCKET, SO_TIMESTAMP},       {IPPROTO_IP, IP_PKTINFO},
          {IPPROTO_IP, IP_RECVTOS},         {IPPROTO_IP, IP_MULTICAST_TTL},
          {IPPROTO_IP, IP_MULTICAST_LOOP},  {IPPROTO_IPV6, IPV6_MULTICAST_HOPS},
          {IPPROTO_IPV6, IPV6_RECVPKTINFO}, {SOL_NETLINK, 11 /* NETLINK_EXT_ACK */},
      };
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
        check_option(closed[i].level, closed[i].option, NOOPT, NOOPT);
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
        check_option(open[i].level, open[i].option, ALLOW, ALLOW);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        check_option(own[i].level, own[i].option, ALLOW, NOOPT);
    /* Said to be set, and not: nothing inside can make a close wait. */
    check_option(SOL_SOCKET, SO_LINGER, PRETEND, PRETEND);
}

/* What lies in a buffer counts as if it were full: where nothing else counts it, none gets larger.
 */
TestBoth(filter_args, buffers_of_sockets)
{
    struct filter_options own = net_only, hosts = process;
    own.strict_memory = hosts.strict_memory = true;
    CASES({&container, CALL_setsockopt, {3, SOL_SOCKET, SO_SNDBUF}, ALLOW},
          {&counted_net, CALL_setsockopt, {3, SOL_SOCKET, SO_RCVBUF}, ALLOW},
          {&net_only, CALL_setsockopt, {3, SOL_SOCKET, SO_SNDBUF}, ALLOW},
          {&own, CALL_setsockopt, {3, SOL_SOCKET, SO_SNDBUF}, PRETEND},
          {&own, CALL_setsockopt, {3, SOL_SOCKET, HIGH | SO_RCVBUF}, PRETEND},
          {&hosts, CALL_setsockopt, {3, SOL_SOCKET, SO_RCVBUF}, PRETEND},
          {&container, CALL_setsockopt, {3, SOL_SOCKET, SO_SNDBUFFORCE}, NOOPT},
          {&process, CALL_setsockopt, {3, SOL_SOCKET, SO_RCVBUFFORCE}, NOOPT}, );
}

/* Every number of every level, against the table. */
TestBoth(filter_args, socket_options_are_those_of_the_table)
{
    static const int levels[] = {IPPROTO_IP,   SOL_SOCKET,     IPPROTO_TCP, IPPROTO_UDP,
                                 IPPROTO_IPV6, IPPROTO_ICMPV6, SOL_RAW,     SOL_NETLINK};
    for (size_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++)
        for (int option = 0; option < 160; option++) {
            uint32_t own = NOOPT, any = NOOPT;
#define OPTION(level_, first, last, who, names, why)                                               \
    if (levels[l] == level_ && option >= first && option <= last) {                                \
        own = TABLE_##who##_OWN;                                                                   \
        any = TABLE_##who##_ANY;                                                                   \
    }
#define TABLE_ANY_OWN       ALLOW
#define TABLE_ANY_ANY       ALLOW
#define TABLE_OWN_OWN       ALLOW
#define TABLE_OWN_ANY       NOOPT
#define TABLE_COUNTED_OWN   ALLOW
#define TABLE_COUNTED_ANY   ALLOW
#define TABLE_PRETENDED_OWN PRETEND
#define TABLE_PRETENDED_ANY PRETEND
#include "kernel/process/sockopts.def"
#undef OPTION
            check_option(levels[l], option, own, any);
        }
}

/* On the host's network, what it is made of is nobody's business. */
TestBoth(filter_args, interfaces_of_the_host)
{
    CASES({&process, CALL_ioctl, {3, SIOCGIFCONF}, QUIET},
          {&brokered, CALL_ioctl, {3, SIOCGIFADDR}, QUIET},
          {&brokered, CALL_ioctl, {3, HIGH | SIOCETHTOOL}, QUIET},
          {&brokered, CALL_ioctl, {3, SIOCADDRT}, QUIET},
          {&brokered, CALL_ioctl, {3, 0x89ff}, QUIET}, {&brokered, CALL_ioctl, {3, 0x8a00}, ALLOW},
          {&brokered, CALL_ioctl, {3, SIOCATMARK}, ALLOW},
          {&brokered, CALL_ioctl, {3, FIONREAD}, ALLOW},
          {&net_only, CALL_ioctl, {3, SIOCGIFCONF}, ALLOW}, );
}

TestBoth(filter_args, terminal_ioctls)
{
    static const uint64_t closed[] = {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD};
    for (size_t i = 0; i < 4; i++)
        CASES({&container, CALL_ioctl, {0, closed[i]}, SEEN},
              {&process, CALL_ioctl, {0, HIGH | closed[i]}, SEEN},
              {&process, CALL_ioctl, {closed[i], 0}, ALLOW}, );
    CASES({&container, CALL_ioctl, {0, TIOCGWINSZ}, ALLOW},
          {&process, CALL_ioctl, {0, FIONBIO}, ALLOW},
          {&process, CALL_ioctl, {0, FIOSETOWN}, QUIET},
          {&process, CALL_ioctl, {0, HIGH | SIOCSPGRP}, QUIET},
          {&scoped, CALL_ioctl, {0, FIOSETOWN}, ALLOW},
          {&container, CALL_ioctl, {0, SIOCSPGRP}, ALLOW}, );
}

TestBoth(filter_args, signals_by_descriptor_owner)
{
    CASES({&process, CALL_fcntl, {0, F_SETOWN}, QUIET},
          {&process, CALL_fcntl, {0, HIGH | F_SETOWN_EX}, QUIET},
          {&process, CALL_fcntl, {0, F_SETSIG}, QUIET},
          {&process, CALL_fcntl, {0, F_SETFL, O_ASYNC}, ALLOW},
          {&process, CALL_fcntl, {0, F_DUPFD_CLOEXEC}, ALLOW},
          {&scoped, CALL_fcntl, {0, F_SETOWN}, ALLOW},
          {&container, CALL_fcntl, {0, F_SETOWN}, ALLOW}, );
}

/* Where /dev/shm is a folder of the sandbox's own, what could name it is shown. */
TestBoth(filter_args, names_in_shared_memory)
{
    static const struct filter_options shm = {.private_shm = true, .own_uid = true, .notify = true};
    static const struct filter_options rw = {
        .private_shm = true, .own_uid = true, .host_writable = true, .notify = true};
    static const struct filter_options unseen = {.private_shm = true, .own_uid = true};
    uint64_t nofollow = arch == FILTER_X86_64 ? 0400000 : 0100000;
    uint64_t directory = arch == FILTER_X86_64 ? 0200000 : 040000;
    uint64_t here = (uint32_t)AT_FDCWD;
    CASES({&shm, CALL_openat, {here, 0, O_RDWR | O_CREAT | O_EXCL, 0600}, SEEN},
          {&shm, CALL_openat, {here, 0, O_RDWR | nofollow}, SEEN},
          {&shm, CALL_openat, {here, 0, HIGH | O_RDWR | nofollow}, SEEN},
          {&shm, CALL_openat, {here, 0, O_RDONLY | nofollow | O_NONBLOCK}, SEEN},
          {&shm, CALL_openat, {here, 0, nofollow | directory}, ALLOW},
          {&shm, CALL_openat, {here, 0, nofollow | O_PATH}, ALLOW},
          {&shm, CALL_openat, {here, 0, nofollow | O_NOCTTY}, ALLOW},
          {&shm, CALL_openat, {here, 0, O_WRONLY | O_CREAT | O_EXCL | nofollow, 0600}, ALLOW},
          {&shm, CALL_openat, {5, 0, O_RDWR | O_CREAT | O_EXCL | nofollow, 0600}, ALLOW},
          {&shm, CALL_openat, {here, 0, O_RDWR | O_CREAT, 0600}, ALLOW},
          {&shm, CALL_openat, {here, 0, O_RDONLY}, ALLOW},
          {&shm, CALL_open, {0, O_RDWR | nofollow}, SEEN}, {&shm, CALL_open, {0, O_RDONLY}, ALLOW},
          {&rw, CALL_openat, {here, 0, O_CREAT | O_EXCL, 04755}, SEEN},
          {&rw, CALL_openat, {here, 0, O_CREAT, 0644}, ALLOW},
          {&rw, CALL_openat, {here, 0, O_RDONLY | nofollow}, SEEN}, {&shm, CALL_unlink, {0}, SEEN},
          {&shm, CALL_link, {0}, SEEN}, {&shm, CALL_unlinkat, {here}, SEEN},
          {&shm, CALL_unlinkat, {HIGH | here}, SEEN}, {&shm, CALL_unlinkat, {5}, ALLOW},
          {&shm, CALL_unlinkat, {here, 0, AT_REMOVEDIR}, ALLOW},
          {&shm, CALL_linkat, {here, 0, 5}, ALLOW}, {&shm, CALL_linkat, {5, 0, here}, ALLOW},
          {&shm, CALL_linkat, {here, 0, here}, SEEN}, {&unseen, CALL_unlinkat, {here}, ALLOW},
          {&unseen, CALL_openat, {here, 0, O_CREAT | O_EXCL}, ALLOW},
          {&process, CALL_unlinkat, {here}, ALLOW}, {&container, CALL_unlinkat, {here}, ALLOW}, );
}

/* What others do with the files that all of them share. */
TestBoth(filter_args, what_others_do)
{
    CASES({&container, CALL_fcntl, {0, F_NOTIFY}, QUIET},
          {&process, CALL_fcntl, {0, HIGH | F_NOTIFY}, QUIET},
          {&container, CALL_fcntl, {0, F_SETLEASE, F_RDLCK}, QUIET},
          {&container, CALL_fcntl, {0, 1040 /* F_SETDELEG */}, QUIET},
          {&container, CALL_fcntl, {0, F_GETLEASE}, ALLOW},
          {&container, CALL_fcntl, {0, F_SETLK}, ALLOW},
          {&container, CALL_fcntl, {0, F_SETPIPE_SZ}, ALLOW},
          {&container, CALL_fcntl, {0, F_ADD_SEALS}, ALLOW},
          {&container, CALL_inotify_add_watch, {3, 0, IN_MODIFY | IN_CREATE | IN_ONLYDIR}, ALLOW},
          {&container, CALL_inotify_add_watch, {3, 0, IN_OPEN}, SEEN},
          {&container, CALL_inotify_add_watch, {3, 0, IN_ACCESS | IN_MODIFY}, SEEN},
          {&container, CALL_inotify_add_watch, {3, 0, IN_CLOSE_NOWRITE}, SEEN},
          {&container, CALL_inotify_add_watch, {3, 0, HIGH | IN_ALL_EVENTS}, SEEN},
          {&process, CALL_inotify_add_watch, {3, 0, IN_MODIFY}, QUIET}, );
}

TestBoth(filter_args, signals_are_brokered_where_they_could_leave)
{
    CASES({&process, CALL_kill, {0, 9}, ALLOW}, {&process, CALL_kill, {HIGH, 9}, ALLOW},
          {&process, CALL_kill, {1, 9}, SEEN}, {&process, CALL_kill, {(uint64_t)-1, 9}, SEEN},
          {&process, CALL_kill, {0xffffffff, 9}, SEEN}, {&process, CALL_kill, {1, 0}, SEEN},
          {&process, CALL_tkill, {1, 9}, SEEN}, {&process, CALL_tgkill, {1, 1, 9}, SEEN},
          {&process, CALL_rt_sigqueueinfo, {1, 9}, SEEN},
          {&process, CALL_rt_tgsigqueueinfo, {1, 1, 9}, SEEN},
          {&process, CALL_pidfd_send_signal, {3, 9}, ABSENT},
          {&scoped, CALL_kill, {(uint64_t)-1, 9}, ALLOW}, {&scoped, CALL_tgkill, {1, 1, 9}, ALLOW},
          {&scoped, CALL_pidfd_send_signal, {3, 9}, ALLOW}, {&scoped, CALL_pidfd_open, {1}, ABSENT},
          {&container, CALL_kill, {1, 9}, ALLOW}, {&container, CALL_pidfd_open, {1}, ALLOW}, );
    for (int nr = 0; nr < 1024; nr++) {
        bool by_pid = nr == number(CALL_kill) || nr == number(CALL_tkill) ||
                      nr == number(CALL_tgkill) || nr == number(CALL_rt_sigqueueinfo) ||
                      nr == number(CALL_rt_tgsigqueueinfo);
        cr_assert_eq(filter_is_brokered_signal(arch, nr), by_pid, "%d", nr);
        cr_assert_not(filter_is_brokered_signal(ARCH_I386, nr));
        cr_assert_not(filter_is_brokered_signal(ARCH_ARM, nr));
        cr_assert_not(filter_is_brokered_signal(arch, nr | X32));
    }
    cr_assert_not(filter_is_brokered_signal(arch, -1));
}

TestBoth(filter_args, limits_and_priorities_of_others)
{
    static const enum call calls[] = {CALL_prlimit64,          CALL_sched_setaffinity,
                                      CALL_sched_setscheduler, CALL_sched_setparam,
                                      CALL_sched_setattr,      CALL_get_robust_list};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        CASES({&process, calls[i], {0}, ALLOW}, {&process, calls[i], {HIGH}, ALLOW},
              {&process, calls[i], {1}, SEEN}, {&scoped, calls[i], {HIGH | 1}, SEEN},
              {&process, calls[i], {0x80000000u}, SEEN}, {&container, calls[i], {1}, ALLOW}, );
    CASES({&process, CALL_setpriority, {PRIO_PROCESS, 0}, ALLOW},
          {&process, CALL_setpriority, {PRIO_PGRP, 0}, ALLOW},
          {&process, CALL_setpriority, {PRIO_PROCESS, 7}, SEEN},
          {&process, CALL_setpriority, {PRIO_USER, 0}, SEEN},
          {&process, CALL_setpriority, {HIGH | PRIO_USER, HIGH}, SEEN},
          {&process, CALL_setpriority, {0x80000000u, 0}, SEEN},
          {&container, CALL_setpriority, {PRIO_USER, 0}, ALLOW},
          {&process, CALL_ioprio_set, {IOPRIO_WHO_PROCESS, 0}, ALLOW},
          {&process, CALL_ioprio_set, {IOPRIO_WHO_PGRP, 0}, ALLOW},
          {&process, CALL_ioprio_set, {IOPRIO_WHO_PGRP, 5}, SEEN},
          {&process, CALL_ioprio_set, {IOPRIO_WHO_USER, 0}, SEEN},
          {&container, CALL_ioprio_set, {IOPRIO_WHO_USER, 0}, ALLOW}, );
}

/* LC-9: with a limit of 0 the kernel gives crashes to a program of the host, with 1 it does not. */
TestBoth(filter_args, the_limit_of_core_files_stays)
{
    static const struct filter_options *const all[] = {&container, &process, &scoped};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CASES({all[i], CALL_setrlimit, {RLIMIT_CORE, 1}, PRETEND},
              {all[i], CALL_setrlimit, {HIGH | RLIMIT_CORE, 1}, PRETEND},
              {all[i], CALL_setrlimit, {RLIMIT_NOFILE, 1}, ALLOW},
              {all[i], CALL_prlimit64, {0, RLIMIT_CORE, 1, 0}, PRETEND},
              {all[i], CALL_prlimit64, {0, HIGH | RLIMIT_CORE, HIGH, 0}, PRETEND},
              /* A question goes on, both at once do not. */
              {all[i], CALL_prlimit64, {0, RLIMIT_CORE, 0, 1}, ALLOW},
              {all[i], CALL_prlimit64, {0, RLIMIT_CORE, 1, 1}, QUIET},
              {all[i], CALL_prlimit64, {0, RLIMIT_CORE, 1, HIGH}, QUIET},
              {all[i], CALL_prlimit64, {0, RLIMIT_NOFILE, 1, 1}, ALLOW}, );
    CASES({&container, CALL_prlimit64, {7, RLIMIT_CORE, 1, 0}, PRETEND},
          {&process, CALL_prlimit64, {7, RLIMIT_CORE, 1, 0}, SEEN}, );
}

TestBoth(filter_args, device_nodes)
{
    static const uint64_t open[] = {0, S_IFREG, S_IFIFO, S_IFSOCK};
    static const uint64_t closed[] = {S_IFCHR, S_IFBLK, S_IFDIR, S_IFLNK, 0xf000};
    for (size_t i = 0; i < 4; i++)
        CASES({&container, CALL_mknod, {1, open[i] | 0644}, ALLOW},
              {&process, CALL_mknodat, {1, 1, open[i] | 0644}, ALLOW},
              /* above 16 bits nothing counts */
              {&process, CALL_mknod, {1, HIGH | 0xffff0000u | open[i]}, ALLOW}, );
    for (size_t i = 0; i < 5; i++)
        CASES({&container, CALL_mknod, {1, closed[i] | 0644}, SEEN},
              {&process, CALL_mknodat, {1, 1, closed[i] | 0644}, SEEN},
              {&process, CALL_mknod, {1, HIGH | 0xffff0000u | closed[i]}, SEEN},
              {&process, CALL_mknodat, {0, S_IFREG, closed[i]}, SEEN}, );
}

TestBoth(filter_args, memory_that_nobody_counts)
{
    struct filter_options watched = container;
    watched.counted_memory = false;
    watched.strict_memory = true;
    watched.shared_max = 1u << 20;
    CASES({&container, CALL_mmap, {0, 4096, 3, 0x22 /* private, anonymous */}, ALLOW},
          {&container, CALL_mmap, {0, 4096, 3, 0x21 /* shared, anonymous */}, ALLOW},
          {&container, CALL_mmap, {0, 4096, 3, 0x40022 /* huge */}, QUIET},
          {&container, CALL_mmap, {0, 4096, 3, HIGH | 0x40002}, QUIET},
          {&watched, CALL_mmap, {0, 4096, 3, 0x22}, ALLOW},
          {&watched, CALL_mmap, {0, 4096, 3, 0x01 /* a file, shared */}, ALLOW},
          {&watched, CALL_mmap, {0, 1u << 20, 3, 0x21}, ALLOW},
          {&watched, CALL_mmap, {0, (1u << 20) + 1, 3, 0x22}, ALLOW},
          {&watched, CALL_mmap, {0, (1u << 20) + 1, 3, 0x21}, SEEN},
          {&watched, CALL_mmap, {0, HIGH | 4096, 3, 0x21}, SEEN},
          {&watched, CALL_mmap, {0, 2u << 20, 3, HIGH | 0x8021 /* filled at once */}, SEEN},
          {&watched, CALL_mmap, {0, 4096, 3, 0x40021}, QUIET},
          {&process, CALL_mmap, {0, 4096, 3, 0x21}, ALLOW},
          {&container, CALL_memfd_create, {0, 1}, ALLOW},
          {&container, CALL_memfd_create, {0, HIGH | 5 /* huge */}, QUIET},
          {&watched, CALL_memfd_create, {0, 1}, ABSENT}, {&watched, CALL_vmsplice, {0}, QUIET},
          {&container, CALL_vmsplice, {0}, ALLOW}, {&container, CALL_tee, {0}, ALLOW},
          {&container, CALL_splice, {0}, INVALID}, {&process, CALL_sendfile, {1}, INVALID},
          {&watched, CALL_msgget, {0}, SEEN}, {&watched, CALL_semget, {0}, SEEN},
          {&container, CALL_semget, {0}, ALLOW},
          {&container, CALL_fcntl, {0, 1031 /* F_SETPIPE_SZ */}, ALLOW},
          {&watched, CALL_fcntl, {0, 1031}, QUIET}, {&watched, CALL_fcntl, {0, HIGH | 1031}, QUIET},
          {&watched, CALL_fcntl, {0, 1032 /* F_GETPIPE_SZ */}, ALLOW},
          {&process, CALL_fcntl, {0, 1031}, ALLOW}, );
}

TestBoth(filter_args, one_table_of_descriptors_where_they_are_looked_at)
{
    struct filter_options looked = container;
    looked.looked_at = true;
    CASES({&looked, CALL_clone, {17}, ALLOW},
          {&looked, CALL_clone, {0x3d0f00 /* a thread */}, ALLOW},
          {&looked, CALL_clone, {0x3d0f00 & ~CLONE_FILES}, QUIET},
          {&looked, CALL_clone, {HIGH | (0x3d0f00 & ~CLONE_FILES)}, QUIET},
          {&looked, CALL_clone, {CLONE_VM | CLONE_VFORK | 17}, ALLOW},
          {&looked, CALL_clone, {CLONE_NEWUSER | 17}, SEEN},
          {&container, CALL_clone, {0x3d0f00 & ~CLONE_FILES}, ALLOW},
          {&looked, CALL_unshare, {CLONE_FS}, ALLOW}, {&looked, CALL_unshare, {CLONE_FILES}, QUIET},
          {&looked, CALL_unshare, {CLONE_FILES | CLONE_NEWNS}, SEEN},
          {&looked, CALL_fcntl, {0, 37 /* F_OFD_SETLK */}, INVALID},
          {&looked, CALL_fcntl, {0, HIGH | 38 /* F_OFD_SETLKW */}, INVALID},
          {&looked, CALL_fcntl, {0, 36 /* F_OFD_GETLK */}, ALLOW},
          {&looked, CALL_fcntl, {0, F_SETLK}, ALLOW}, {&container, CALL_fcntl, {0, 37}, ALLOW},
          {&looked, CALL_fcntl, {0, F_NOTIFY}, QUIET},
          {&looked, CALL_close_range, {3, ~0u, 0}, ALLOW},
          {&looked, CALL_close_range, {3, ~0u, 4 /* cloexec */}, ALLOW},
          {&looked, CALL_close_range, {3, ~0u, HIGH | 2 /* unshare */}, QUIET},
          {&container, CALL_close_range, {3, ~0u, 2}, ALLOW}, );
}

TestBoth(filter_args, single_options_of_shared_calls)
{
    CASES({&container, CALL_prctl, {15 /* PR_SET_NAME */}, ALLOW},
          {&container, CALL_prctl, {22 /* PR_SET_SECCOMP */, 2}, ALLOW},
          {&container, CALL_prctl, {35 /* PR_SET_MM */}, QUIET},
          {&container, CALL_prctl, {HIGH | 62 /* PR_SCHED_CORE */}, QUIET},
          {&container, CALL_prctl, {68 /* PR_GET_MEMORY_MERGE */}, ALLOW},
          {&container, CALL_seccomp, {SECCOMP_SET_MODE_FILTER, 0}, ALLOW},
          {&container, CALL_seccomp, {SECCOMP_SET_MODE_FILTER, 8}, QUIET},
          {&container, CALL_seccomp, {HIGH | SECCOMP_SET_MODE_FILTER, HIGH | 9}, QUIET},
          {&container, CALL_seccomp, {SECCOMP_GET_ACTION_AVAIL, 8}, ALLOW},
          {&container, CALL_personality, {0xffffffff}, ALLOW},
          {&container, CALL_personality, {(uint64_t)-1}, ALLOW},
          {&container, CALL_personality, {0x40000}, ALLOW},
          {&container, CALL_personality, {HIGH | 0x20008}, ALLOW},
          {&container, CALL_personality, {0x400000 /* READ_IMPLIES_EXEC */}, SEEN},
          {&container, CALL_personality, {HIGH | 1}, SEEN}, );
}

/* WA-6 */
TestBoth(filter_args, what_a_modules_runner_says_where_the_network_is_brokered)
{
    static const struct filter_options module = {
        .brokered_net = true, .module = true, .notify = true};
    CASES({&module, CALL_sendto, {UINT64_MAX, 0, 0, 0}, SEEN},
          {&module, CALL_sendto, {3, 0, 0, 0}, ALLOW},
          {&module, CALL_sendto, {3, 0, 0, MSG_FASTOPEN}, NOTSUP},
          {&module, CALL_recvfrom, {UINT32_MAX, 0, 0, 0}, SEEN}, );
}

/* K-21 */
TestBoth(filter_args, memory_is_not_merged_with_that_of_others)
{
    const struct filter_options *const each[] = {&container, &process};
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
        CASES({each[i], CALL_prctl, {67 /* PR_SET_MEMORY_MERGE */, 1}, INVALID},
              {each[i], CALL_prctl, {HIGH | 67, HIGH | 1}, INVALID},
              {each[i], CALL_madvise, {0, 4096, 12 /* MADV_MERGEABLE */}, INVALID},
              {each[i], CALL_madvise, {0, 4096, HIGH | 12}, INVALID},
              {each[i], CALL_madvise, {12, 12, 13 /* MADV_UNMERGEABLE */}, ALLOW},
              {each[i], CALL_madvise, {0, 4096, 4 /* MADV_DONTNEED */}, ALLOW},
              {each[i], CALL_process_madvise, {0, 0, 0, 12}, SEEN}, );
    }
}

TestBoth(filter_args, truncation_by_a_read_only_open)
{
    static const struct filter_options guarded = {.scoped_truncate = true, .notify = true};
    CASES({&process, CALL_open, {0, O_RDONLY | O_TRUNC}, SEEN},
          {&process, CALL_open, {0, HIGH | O_RDONLY | O_TRUNC | O_CLOEXEC}, SEEN},
          {&process, CALL_openat, {0, 0, O_RDONLY | O_TRUNC}, SEEN},
          {&process, CALL_openat, {0, 0, O_RDONLY}, ALLOW},
          {&process,
           CALL_openat,
           {0, 0, O_WRONLY | O_CREAT | O_TRUNC},
           ALLOW}, /* Landlock asks for write */
          {&process, CALL_openat2, {0}, ABSENT}, {&process, CALL_truncate, {0}, SEEN},
          {&guarded, CALL_openat, {0, 0, O_RDONLY | O_TRUNC}, ALLOW},
          {&guarded, CALL_openat2, {0}, ALLOW}, {&guarded, CALL_truncate, {0}, ALLOW},
          {&container, CALL_openat, {0, 0, O_RDONLY | O_TRUNC}, ALLOW}, );
}

/* Given to users that are not there: pretended. To the one who is, by either number: the kernel's
 * to say. */
TestBoth(filter_args, owners_where_there_are_two_users)
{
    static const struct {
        uint64_t uid, gid;
        bool real;
    } rows[] = {{0, 0, false},
                {6, 12, false},
                {UINT32_MAX, UINT32_MAX, false},
                {UINT64_MAX, 42, false},
                {1000, 0, true},
                {0, 1000, true},
                {1000, 1000, true},
                {(1ull << 32) + 1000, 0, true},
                {1000ull << 32, 0, false}};
    const struct filter_options two = {
        .isolated_pids = true, .own_view = true, .other_owner = 1000};
    struct filter_options control = two;
    control.other_owner = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint64_t plain[6] = {1, rows[i].uid, rows[i].gid};
        const uint64_t at[6] = {AT_FDCWD, 1, rows[i].uid, rows[i].gid};
        build(&two);
        uint32_t want = rows[i].real ? ALLOW : PRETEND;
        cr_assert_eq(run(arch, number(CALL_fchown), plain).ret, want, "row %zu", i);
        cr_assert_eq(run(arch, number(CALL_fchownat), at).ret, want, "row %zu", i);
        build(&control);
        cr_assert_eq(run(arch, number(CALL_fchownat), at).ret, ALLOW, "row %zu", i);
    }
}

TestBoth(filter_args, set_id_bits_where_host_folders_are_writable)
{
    static const struct filter_options writable = {
        .isolated_pids = true, .own_view = true, .host_writable = true, .notify = true};
    CASES({&writable, CALL_chmod, {0, 04755}, SEEN}, {&writable, CALL_chmod, {0, 02755}, SEEN},
          {&writable, CALL_chmod, {0, HIGH | 0755}, ALLOW},
          {&writable, CALL_fchmod, {0, 04000}, SEEN}, {&writable, CALL_fchmod, {0, 01777}, ALLOW},
          {&writable, CALL_fchmodat, {0, 0, 06755}, SEEN},
          {&writable, CALL_fchmodat2, {0, 0, 04755}, SEEN},
          {&writable, CALL_fchmodat, {0, 0, 0755}, ALLOW},
          {&writable, CALL_creat, {0, 04755}, SEEN}, {&writable, CALL_creat, {0, 0644}, ALLOW},
          {&writable, CALL_open, {0, O_CREAT | O_WRONLY, 04755}, SEEN},
          {&writable, CALL_open, {0, O_TMPFILE | O_RDWR, 02755}, SEEN},
          {&writable, CALL_open, {0, O_RDONLY | O_DIRECTORY, 04755}, ALLOW}, /* no new file */
          {&writable, CALL_open, {0, O_CREAT | O_WRONLY, 0755}, ALLOW},
          {&writable, CALL_openat, {0, 0, O_CREAT | O_WRONLY, 04755}, SEEN},
          {&writable, CALL_openat, {0, 0, O_TMPFILE | O_RDWR, HIGH | 02755}, SEEN},
          {&writable, CALL_openat, {0, 0, O_RDONLY | O_DIRECTORY, 04755}, ALLOW},
          {&writable, CALL_openat, {0, 0, O_CREAT | O_WRONLY, HIGH | 0755}, ALLOW},
          {&writable, CALL_mknod, {0, S_IFREG | 04755}, SEEN},
          {&writable, CALL_mknodat, {0, 0, S_IFIFO | 02644}, SEEN},
          {&writable, CALL_mknodat, {0, 0, S_IFIFO | 0644}, ALLOW},
          {&writable, CALL_openat2, {0}, ABSENT}, {&container, CALL_chmod, {0, 04755}, ALLOW},
          {&container, CALL_open, {0, O_CREAT, 04755}, ALLOW},
          {&container, CALL_openat, {0, 0, O_CREAT, 04755}, ALLOW}, );
}
