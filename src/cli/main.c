#include <stdio.h>

int main(void)
{
    puts("brig " BRIG_VERSION);
    return 0;
}
