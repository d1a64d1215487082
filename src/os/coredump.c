/* What becomes of a process that crashes: see coredump.h. */
#include "os/coredump.h"

#include "os/fd.h"

#include <fcntl.h>
#include <sys/resource.h>

#define PATTERN "/proc/sys/kernel/core_pattern"

/* "|program", or "@socket" of a program. What cannot be read may be either. */
static bool goes_to_program(void)
{
    char text[256];
    ssize_t n = file_read(AT_FDCWD, PATTERN, text, sizeof text);
    return n <= 0 || text[0] == '|' || text[0] == '@';
}

int coredump_limit(uint64_t *ret, struct err *err)
{
    struct rlimit now = {0};
    getrlimit(RLIMIT_CORE, &now);
    *ret = 1;
    if (now.rlim_max >= 1)
        return 0;
    now.rlim_max = 1; /* only root can */
    if (setrlimit(RLIMIT_CORE, &now) == 0)
        return 0;
    *ret = 0;
    if (!goes_to_program())
        return 0;
    err_set(err, ERR_UNSUPPORTED,
            "on this host a crash of the code would start a program of root's (" PATTERN
            "), and with a limit of no core files at all brig may not prevent it");
    return err_hint(err, "start brig where `ulimit -Hc` is not 0");
}
