/* brig-proxy: the only process that talks to the outside, and the only one that holds secrets. */
#include <stdio.h>

int main(void)
{
    fputs("brig-proxy is started by brig\n", stderr);
    return 2;
}
