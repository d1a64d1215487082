/* Compiled, with fault.c, as the test build of the daemon is. */
#ifndef BRIG_WEAKEN
#define BRIG_WEAKEN
#endif
#include "daemon/base/fault.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Test(faults, are_off_unless_asked_for)
{
    struct err err = ERR_INIT;
    cr_assert_eq(fault_init(NULL, &err), 0);
    fault_point(FAULT_CLAIM_SENT);
    cr_assert_lt(fault_init("nothing", &err), 0);
    cr_assert_lt(fault_init("box.claim.sent:explode", &err), 0);
    cr_assert_lt(fault_init("box.claim.sent@0", &err), 0);
    cr_assert_eq(fault_init("box.claim.sent:pause@3", &err), 0);
}

/* By which the compiler's trap ends a program. */
#if defined(__x86_64__)
#define TRAP SIGILL
#else
#define TRAP SIGTRAP
#endif

static int die_with(const char *spec, int hits)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        signal(TRAP, SIG_DFL); /* the sanitizer's */
        if (fault_init(spec, NULL) < 0)
            _exit(1);
        for (int i = 0; i < hits; i++) {
            fault_point(FAULT_SPAWNED);
            fault_point(FAULT_CLAIM_SENT);
        }
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status & 0x7f;
}

Test(faults, kill_at_the_named_point_and_no_other)
{
    cr_assert_eq(die_with("box.claim.sent", 1), TRAP);
    cr_assert_eq(die_with("box.claim.sent@3", 2), 0);
    cr_assert_eq(die_with("box.claim.sent@3", 3), TRAP);
    cr_assert_eq(die_with("box.end.sent", 3), 0);
    cr_assert_eq(die_with("box.claim.sent:pause", 1), 0, "and goes on");
}

Test(faults, all_are_listed)
{
    cleanup_buf struct buf out;
    buf_init(&out, 4096);
    fault_list(&out);
    char text[4096];
    snprintf(text, sizeof text, "%s", buf_text(&out));
    unsigned n = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        *end = '\0';
        cr_assert_eq(fault_init(line, NULL), 0, "%s", line);
    }
    cr_assert_eq(n, FAULT_COUNT);
}
