/* K-25: a library that is loaded before main() of whatever program the sandbox starts. Its
 * constructor says which restrictions are already in force. */
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void)
{
    char line[128];
    int n =
        snprintf(line, sizeof line, "startup\tseccomp=%d no_new_privs=%d uid=%u\n",
                 prctl(PR_GET_SECCOMP), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), (unsigned)getuid());
    if (write(1, line, (size_t)n) < 0)
        _exit(1);
}
