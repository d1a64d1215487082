/* The `brig` command. Safe descriptors first, then the verb. */
#include "cli/oci/oci.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "verify/inside.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Started with stdin, stdout or stderr closed, the next file opened would land on its number, and
 * the program's output in that file: put /dev/null there first. One poll() asks about all three. */
static int fill_standard_descriptors(void)
{
    struct pollfd fds[] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
    if (poll(fds, 3, 0) < 0)
        return -1;
    for (int i = 0; i < 3; i++) {
        if ((fds[i].revents & POLLNVAL) && open("/dev/null", O_RDWR) != i)
            return -1;
    }
    return 0;
}

static int print_version(void)
{
    static const char text[] = "brig " BRIG_VERSION "\n";
    return term_write(STDOUT_FILENO, text, sizeof text - 1) < 0 ? 125 : 0;
}

int main(int argc, char *argv[])
{
    if (fill_standard_descriptors() < 0)
        return 125;
    /* A reader of ours that goes away must not take the supervisor with it before it has cleaned
     * up. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 1)
        return 125;
    const char *name = strrchr(argv[0], '/');
    if (strcmp(name ? name + 1 : argv[0], "brig-oci") == 0)
        return oci_main(argc - 1, argv + 1);
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
        return print_version();
    if (argc > 1 && strcmp(argv[1], VERIFY_INSIDE) == 0)
        return verify_inside(argc - 2, argv + 2);
    return verb_dispatch(&verb_root, argc - 1, argv + 1);
}
