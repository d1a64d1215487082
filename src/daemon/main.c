/* brig-daemon: the part of `brig serve` that talks to clients. Started by `brig serve` alone, with
 * its sockets at fixed descriptors. */
#include "audit/ask.h"
#include "audit/recorder.h"
#include "daemon/api.h"
#include "daemon/front.h"

#include <stdio.h>
#include <string.h>

static int print_routes(void)
{
    struct buf out;
    buf_init(&out, 64u * 1024);
    api_print_routes(&out);
    fputs(buf_text(&out), stdout);
    buf_done(&out);
    return 0;
}

int main(int argc, char *argv[])
{
    /* For `brig audit` and `brig keys`, which have no SQLite, and for the recorder's tests. */
    if (argc == 3 && strcmp(argv[1], "audit") == 0)
        return audit_ask(argv[2]);
    if (argc == 2 && strcmp(argv[1], "recorder") == 0)
        return recorder_main(3, 4);
    if (argc == 2 && strcmp(argv[1], "--routes") == 0)
        return print_routes();
    if (argc > 1 && (strcmp(argv[1], "unix") == 0 || strcmp(argv[1], "tcp") == 0))
        return front_run(argv + 1);
    fputs("brig-daemon is started by brig serve\n", stderr);
    return 125;
}
