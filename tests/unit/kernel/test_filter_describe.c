/* The words of denials. */
#include "filter_fixture.h"

#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct filter_denial describe(uint32_t entry, int nr, uint64_t a, uint64_t b, uint64_t c)
{
    struct filter_denial d;
    memset(&d, 0xff, sizeof(d));
    filter_describe(entry, nr, (const uint64_t[6]){a, b, c}, &d);
    return d;
}

#define EXPECT(call, a, b, c, where, text)                                                         \
    do {                                                                                           \
        if (number(call) < 0)                                                                      \
            break;                                                                                 \
        struct filter_denial d_ = describe(arch, number(call), a, b, c);                           \
        cr_expect_str_eq(d_.what, text);                                                           \
        cr_expect_eq(d_.boundary, BOUNDARY_##where, "%s", d_.what);                                \
    } while (0)

TestBoth(filter_describe, names_the_attempt)
{
    EXPECT(CALL_mount, 0, 0, 0, FILESYSTEM, "mount");
    EXPECT(CALL_chroot, 0, 0, 0, FILESYSTEM, "chroot");
    EXPECT(CALL_ptrace, 16, 1, 0, KERNEL, "ptrace");
    EXPECT(CALL_keyctl, 0, 0, 0, KERNEL, "keyctl");
    EXPECT(CALL_clone, CLONE_NEWUSER | CLONE_NEWNS | 17, 0, 0, KERNEL,
           "clone(CLONE_NEWUSER|CLONE_NEWNS)");
    EXPECT(CALL_clone, CLONE_NEWNET | 0x80, 0, 0, KERNEL, "clone(CLONE_NEWNET)");
    EXPECT(CALL_unshare, 0x80, 0, 0, KERNEL, "unshare(CLONE_NEWTIME)");
    EXPECT(CALL_unshare, 1ull << 40, 0, 0, KERNEL, "unshare");
    EXPECT(CALL_socket, AF_PACKET, SOCK_RAW, 3, NETWORK, "socket(AF_PACKET)");
    EXPECT(CALL_socket, AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1, NETWORK, "socket(AF_INET, SOCK_RAW)");
    EXPECT(CALL_socket, AF_NETLINK, SOCK_RAW, 12, NETWORK, "socket(AF_NETLINK, protocol 12)");
    EXPECT(CALL_socket, 63, 1, 0, NETWORK, "socket(family 63)");
    EXPECT(CALL_socket, AF_UNIX, SOCK_STREAM, 0, FILESYSTEM, "socket(AF_UNIX, SOCK_STREAM)");
    EXPECT(CALL_socketpair, AF_UNIX, SOCK_DGRAM, 0, FILESYSTEM, "socketpair(AF_UNIX, SOCK_DGRAM)");
    EXPECT(CALL_connect, 3, 0, 0, NETWORK, "connect");
    EXPECT(CALL_ioctl, 0, TIOCSTI, 0, KERNEL, "ioctl(TIOCSTI)");
    EXPECT(CALL_ioctl, 0, ~0xffffffffull | TIOCLINUX, 0, KERNEL, "ioctl(TIOCLINUX)");
    EXPECT(CALL_mknod, 0, S_IFCHR | 0666, 0, FILESYSTEM, "mknod(character device)");
    EXPECT(CALL_mknodat, 0, 0, S_IFBLK | 0666, FILESYSTEM, "mknodat(block device)");
    EXPECT(CALL_prlimit64, 4711, 0, 0, LIFECYCLE, "prlimit64(other process)");
    EXPECT(CALL_kill, 4711, 9, 0, KERNEL, "kill(other process)");
    cr_expect_str_eq(describe(arch, 999, 0, 0, 0).what, "call 999");
    cr_expect_eq(describe(arch, 999, 0, 0, 0).boundary, BOUNDARY_KERNEL);
}

Test(filter_describe, names_other_entries)
{
    cr_assert_str_eq(describe(ARCH_I386, 11, 0, 0, 0).what, "i386 call 11");
    cr_assert_str_eq(describe(ARCH_ARM, 20, 0, 0, 0).what, "32-bit arm call 20");
    cr_assert_str_eq(describe(FILTER_X86_64, X32 | 1, 0, 0, 0).what, "x32 call 1");
    cr_assert_str_eq(describe(FILTER_AARCH64, X32 | 1, 0, 0, 0).what, "call 1073741825");
    cr_assert_str_eq(describe(0x1234, 5, 0, 0, 0).what, "call 5 of architecture 0x1234");
    cr_assert_eq(describe(ARCH_I386, 11, 0, 0, 0).boundary, BOUNDARY_KERNEL);
    cr_assert_eq(describe(ARCH_ARM, 11, 0, 0, 0).boundary, BOUNDARY_KERNEL);
}

/* WA-6 */
TestBoth(filter_describe, names_what_a_module_tried)
{
    static const struct {
        enum call call;
        const char *what, *of_module;
    } rows[] = {{CALL_accept, "accept", "sock_accept"},
                {CALL_recvfrom, "recvfrom", "sock_recv"},
                {CALL_sendto, "sendto", "sock_send"},
                {CALL_shutdown, "shutdown", "sock_shutdown"},
                {CALL_bind, "bind", "bind"},
                {CALL_ptrace, "ptrace", "ptrace"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct filter_denial plain = describe(arch, number(rows[i].call), ~0ull, 0, 0), d = plain;
        bool own = strcmp(rows[i].what, rows[i].of_module) != 0;
        cr_expect_str_eq(plain.what, rows[i].what);
        filter_describe_module(&d);
        cr_expect_str_eq(d.what, rows[i].of_module);
        cr_expect_eq(strcmp(d.rule, "kernel.tier: a module has no sockets") == 0, own);
        cr_expect_eq(strstr(d.hint, "--tier container --allow") != NULL, own);
        cr_expect(!own || d.boundary == BOUNDARY_NETWORK);
    }
}

/* Whatever the arguments: texts are there and fit the list of denials. */
TestBoth(filter_describe, says_something_of_use_about_every_call)
{
    static const uint64_t values[] = {0, 1, 2, 16, 0x5412, 0x7e020080, ~0ull, 1ull << 63};
    for (int nr = -2; nr < 1024; nr++) {
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            struct filter_denial d = describe(arch, nr, values[i], values[i], values[i]);
            cr_assert(d.what[0] && memchr(d.what, 0, sizeof(d.what)));
            cr_assert(d.boundary > BOUNDARY_NONE && d.boundary < BOUNDARY_COUNT);
            cr_assert(strncmp(d.rule, "kernel.seccomp: ", 16) == 0 && strlen(d.rule) < 96);
            cr_assert(d.hint[0] && strlen(d.hint) < 192);
        }
    }
}

/* A call that some options notify has words of its own, not the fallback. */
TestBoth(filter_describe, every_call_that_can_be_seen_has_its_own_words)
{
    const char *fallback = describe(arch, 999, 0, 0, 0).rule;
    build(&process);
    for (int nr = 0; nr < 1024; nr++) {
        struct sim_result r = run(arch, nr, (const uint64_t[6]){~0ull, ~0ull, ~0ull});
        if (r.ret == SEEN)
            cr_assert_str_neq(describe(arch, nr, 0, 0, 0).rule, fallback, "%d", nr);
    }
}
