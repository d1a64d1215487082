/* Stands in for libFuzzer where there is none: feeds every file of the given folders to a fuzzer
 * once, so that the seeds, and with them every input that once failed, run with the unit tests. */
#include "base/cleanup.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    /* A heap copy of the exact size: reading past the end is then seen. */
    cleanup_free uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return 0;
    __builtin_memcpy(copy, data, size);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(copy, size);
    return 1;
}

static int replay_folder(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            count += replay_file(file);
    }
    if (dir)
        closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (replay_folder(argv[i]) == 0) {
            fprintf(stderr, "%s: no inputs\n", argv[i]);
            return 1;
        }
    }
    return 0;
}
