/* The system calls that are left to brig-tls. */
#include "../../lib/unit/sealed.h"
#include "tls/gate.h"

static int load_filter(void)
{
    return gate_seal_calls(NULL);
}

static int try_memory_file(void)
{
    return told(syscall(SYS_memfd_create, "x", 0));
}
static int try_set_flags(void)
{
    return told(fcntl(0, F_SETFL, fcntl(0, F_GETFL)));
}
static int try_set_option(void)
{
    static int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return OTHER;
    return told(setsockopt(fds[0], SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int)));
}
static int try_pair(void)
{
    int fds[2];
    return told(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
}

Test(tls_seal, refuses_files_sockets_and_new_rights)
{
    refused(try_open);
    refused(try_inet_socket);
    refused(try_unix_socket);
    refused(try_memory_file);
    refused(try_executable_memory);
    refused(try_prctl);
    refused(try_duplicate);
    refused(try_kill);
    refused(try_set_flags);
    refused(try_set_option);
}

Test(tls_seal, ends_who_tries_what_only_an_attacker_would)
{
    deadly(try_exec, 0);
    deadly(try_fork, WORKED);
}

Test(tls_seal, leaves_what_it_needs)
{
    cr_expect_eq(run(try_pair, true), WORKED);
    cr_expect_eq(run(try_plain_memory, true), WORKED);
}

static int try_all(void)
{
    struct err err = ERR_INIT;
    return pair_prepare(&err) < 0 || gate_seal(&err) < 0 ? OTHER : WORKED;
}

Test(tls_seal, everything)
{
    cr_expect_eq(run(try_all, false), WORKED);
}
