/* The system calls that are left to brig-proxy. */
#include "../../lib/unit/sealed.h"
#include "base/cleanup.h"
#include "proxy/proxy.h"

static int load_filter(void)
{
    return seal_filter_load(NULL);
}

Test(seal_filter, refuses_files_and_new_rights)
{
    refused(try_open);
    refused(try_unix_socket);
    refused(try_executable_memory);
    refused(try_make_executable);
    refused(try_prctl);
    refused(try_duplicate);
    refused(try_kill);
}

Test(seal_filter, ends_who_tries_what_only_an_attacker_would)
{
    deadly(try_exec, 0);
    deadly(try_fork, WORKED);
    deadly(try_ptrace, WORKED);
}

Test(seal_filter, leaves_what_a_proxy_needs)
{
    cr_expect_eq(run(try_inet_socket, true), WORKED);
    cr_expect_eq(run(try_inet6_datagrams, true), WORKED);
    cr_expect_eq(run(try_plain_memory, true), WORKED);
    cr_expect_eq(run(try_getpid, true), WORKED);
}
