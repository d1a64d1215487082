/* Says which of its streams are a terminal, and what is answered there. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char line[80] = "";
    printf("%d %d %d\n", isatty(0), isatty(1), isatty(2));
    fflush(stdout);
    if (fgets(line, sizeof line, stdin))
        printf("got %s", line);
    return 0;
}
