/* In the place of runsc: a build of which no platform works here. What brig reads in it:
 * release-20300101.0 gofer-mount-confs platform/systrap */
#include <string.h>
#include <unistd.h>

__attribute__((used)) static const char marks[] =
    "release-20300101.0 gofer-mount-confs platform/systrap";

int main(int argc, char *argv[])
{
    static const char words[] = "W1 util.go:64] FATAL ERROR: not on this \033host\nand more\n";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "boot") == 0)
            return write(2, words, sizeof words - 1) < 0;
    pause();
    return 0;
}
