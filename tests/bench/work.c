/* What tests/bench/tiers lets every tier do: `work calls N` enters the kernel N times, `work walk
 * FOLDER` looks at every entry below a folder. It is compiled for the host, and as a module, where
 * a call to the kernel is one to the runner. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __wasm__
#include <time.h>
#else
#include <sys/syscall.h>
#endif

#define PATH_ROOM 4096

static void call_kernel(void)
{
#ifdef __wasm__
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    syscall(SYS_getppid);
#endif
}

/* path: PATH_ROOM bytes, of which len are used. What cannot be opened or is too long is not walked.
 */
static long walk(char *path, size_t len)
{
    DIR *dir = opendir(path);
    long seen = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        size_t name = strlen(e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            len + name + 2 > PATH_ROOM) {
            continue;
        }
        path[len] = '/';
        memcpy(path + len + 1, e->d_name, name + 1);
        seen++;
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            seen += walk(path, len + 1 + name);
        }
        path[len] = 0;
    }
    if (dir) {
        closedir(dir);
    }
    return seen;
}

int main(int argc, char **argv)
{
    static char path[PATH_ROOM];
    if (argc == 3 && strcmp(argv[1], "calls") == 0) {
        for (long i = 0, n = atol(argv[2]); i < n; i++) {
            call_kernel();
        }
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "walk") == 0 && strlen(argv[2]) < sizeof path) {
        strcpy(path, argv[2]);
        long seen = walk(path, strlen(path));
        printf("%ld\n", seen);
        return seen > 0 ? 0 : 1;
    }
    return argc == 1 ? 0 : 2;
}
