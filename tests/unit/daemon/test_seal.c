/* The system calls that are left to brig-daemon. */
#include "daemon/seal.h"

#include "../../lib/unit/sealed.h"
#include "base/cleanup.h"
#include "os/landlock.h"

#include <stdlib.h>
#include <sys/ioctl.h>

static int load_filter(void)
{
    return front_seal_calls(NULL);
}

static int try_pipe(void)
{
    int fds[2];
    return told(pipe2(fds, O_CLOEXEC));
}
static int terminal = -1; /* the pumps have them */
static int try_window_size(void)
{
    struct winsize ws = {0};
    return told(ioctl(terminal, TIOCSWINSZ, &ws));
}
/* Putting words into a terminal's mouth; on a pipe the harmless twin of it. */
static int try_terminal_input(void)
{
    int fds[2], on = 1;
    return pipe2(fds, O_CLOEXEC) < 0 ? OTHER : told(ioctl(fds[0], FIONBIO, &on));
}

Test(seal_filter, refuses_files_and_new_rights)
{
    refused(try_open);
    refused(try_unix_socket);
    refused(try_inet_socket);
    refused(try_inet6_datagrams);
    refused(try_terminal_input);
    cr_assert_geq(terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), 0);
    refused(try_window_size);
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

Test(seal_filter, leaves_what_the_front_needs)
{
    cr_expect_eq(run(try_plain_memory, true), WORKED);
    cr_expect_eq(run(try_pipe, true), WORKED);
    cr_expect_eq(run(try_getpid, true), WORKED);
}

/* All of it together, as whoever runs this. */
static int try_all(void)
{
    struct front_seal seal;
    struct err err = ERR_INIT;
    bool root = geteuid() == 0;
    if (front_seal(&seal, &err) < 0)
        return 1;
    if (root && syscall(SYS_getuid) >= 0)
        return 2; /* not even asked for any more */
    return seal.paths ? WORKED : OTHER;
}

Test(seal_filter, everything)
{
    int r = run(try_all, false);
    cr_expect(r == WORKED || (r == OTHER && landlock_abi() == 0), "%d", r);
}
