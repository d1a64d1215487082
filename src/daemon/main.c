/* brig-daemon: the part of `brig serve` that talks to clients. Started by `brig serve` alone, with
 * its sockets at fixed descriptors. */
#include "audit/ask.h"
#include "audit/recorder.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char *argv[])
{
    /* For `brig audit` and `brig keys`, which have no SQLite, and for the recorder's tests. */
    if (argc == 3 && strcmp(argv[1], "audit") == 0)
        return audit_ask(argv[2]);
    if (argc == 2 && strcmp(argv[1], "recorder") == 0)
        return recorder_main(3, 4);
    fputs("brig-daemon is started by brig serve\n", stderr);
    return 125;
}
