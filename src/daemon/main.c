/* brig-daemon: the part of `brig serve` that talks to clients. Started by `brig serve` alone, with
 * its sockets at fixed descriptors. */
#include <stdio.h>

int main(void)
{
    fputs("brig-daemon is started by brig serve\n", stderr);
    return 125;
}
