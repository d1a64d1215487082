/* What a sealed recorder can do, and what it cannot; the control of each is the same call before.
 */
#include "audit/recorder_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char state[] = "/tmp/test-brig-seal-XXXXXX";
static int folder = -1;

static void setup(void)
{
    struct err err = ERR_INIT;
    cr_assert(mkdtemp(state));
    int dir = open(state, O_RDONLY | O_DIRECTORY);
    folder = recorder_folder(dir, &err);
    cr_assert(folder >= 0, "%s", err.message);
    close(dir);
}

static void done(void)
{
    unlinkat(folder, "file", 0);
    close(folder);
    int dir = open(state, O_RDONLY | O_DIRECTORY);
    unlinkat(dir, STORE_FOLDER, AT_REMOVEDIR);
    close(dir);
    rmdir(state);
}
TestSuite(recorder_seal, .init = setup, .fini = done);

enum attempt { OWN_FILE, OTHER_FILE, OTHER_WRITE, SOCKET, PROCESS, PROGRAM };

/* Not _exit(): AddressSanitizer would make calls of its own there, which the filter refuses. */
static void leave(int status)
{
    syscall(SYS_exit_group, status);
}

/* 0 or the errno. */
static int try(enum attempt what)
{
    char *const argv[] = {(char *)"true", NULL};
    int r = -1;
    errno = 0;
    if (what == OWN_FILE)
        r = openat(folder, "file", O_RDWR | O_CREAT, 0600);
    else if (what == OTHER_FILE)
        r = open("/etc/passwd", O_RDONLY);
    else if (what == OTHER_WRITE)
        r = open("/tmp", O_RDWR | O_TMPFILE, 0600);
    else if (what == SOCKET)
        r = socket(AF_INET, SOCK_STREAM, 0);
    else if (what == PROCESS && (r = fork()) == 0)
        leave(0);
    else if (what == PROGRAM)
        r = execv("/bin/true", argv);
    return r < 0 ? errno : 0;
}

/* The wait status of a child that tried it. */
static int outcome(enum attempt what, bool sealed)
{
    pid_t child = fork();
    if (child == 0) {
        struct err err = ERR_INIT;
        bool landlock = false;
        if (sealed && recorder_seal(folder, &landlock, &err) < 0)
            leave(200);
        leave(try(what));
    }
    int status = 0;
    cr_assert(waitpid(child, &status, 0) == child);
    return status;
}

static void expect_refused(enum attempt what, int reason)
{
    int before = outcome(what, false), after = outcome(what, true);
    cr_assert(WIFEXITED(before) && WEXITSTATUS(before) == 0, "control: %d", before);
    cr_assert(WIFEXITED(after) && WEXITSTATUS(after) == reason, "%x", (unsigned)after);
}

static void expect_deadly(enum attempt what)
{
    int before = outcome(what, false), after = outcome(what, true);
    cr_assert(WIFEXITED(before) && WEXITSTATUS(before) == 0, "control: %d", before);
    cr_assert(WIFSIGNALED(after) && WTERMSIG(after) == SIGSYS, "%x", (unsigned)after);
}

Test(recorder_seal, its_own_folder_is_open)
{
    int after = outcome(OWN_FILE, true);
    cr_assert(WIFEXITED(after) && WEXITSTATUS(after) == 0, "%x", (unsigned)after);
}

Test(recorder_seal, other_files_are_closed)
{
    expect_refused(OTHER_FILE, EACCES);
    expect_refused(OTHER_WRITE, EACCES);
}

Test(recorder_seal, there_is_no_network)
{
    expect_refused(SOCKET, EPERM);
}

Test(recorder_seal, there_is_no_other_process)
{
    expect_deadly(PROCESS);
    expect_deadly(PROGRAM);
}
