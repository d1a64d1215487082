/* What a module of a container is asked to do: one word for each step, and what came of it on
 * stdout. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void told(const char *what, const char *name, int bad)
{
    printf("%s %s: %s\n", what, name, bad ? strerror(errno) : "done");
    fflush(stdout);
}

static void show(const char *name)
{
    char text[256];
    int fd = open(name, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n < 0) {
        told("read", name, 1);
        return;
    }
    text[n] = '\0';
    printf("%s has %s\n", name, text);
    close(fd);
}

static void list(const char *name)
{
    DIR *dir = opendir(name);
    struct dirent *e;
    if (!dir) {
        told("list", name, 1);
        return;
    }
    while ((e = readdir(dir)))
        printf("%s/%s\n", name, e->d_name);
    closedir(dir);
}

static void put(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    told("write", name, fd < 0 || write(fd, "new\n", 4) != 4);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "read") == 0)
            show(argv[i + 1]);
        else if (strcmp(argv[i], "write") == 0)
            put(argv[i + 1]);
        else if (strcmp(argv[i], "list") == 0)
            list(argv[i + 1]);
        else if (strcmp(argv[i], "env") == 0)
            printf("%s=%s\n", argv[i + 1], getenv(argv[i + 1]) ? getenv(argv[i + 1]) : "(none)");
        else if (strcmp(argv[i], "wait") == 0)
            getchar();
        else if (strcmp(argv[i], "exit") == 0)
            return atoi(argv[i + 1]);
        else if (strcmp(argv[i], "trap") == 0)
            __builtin_trap();
    }
    return 0;
}
