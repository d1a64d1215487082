/* Any absolute path comes out absolute, no longer, without empty, "." and ".." parts, and stays as
 * it is the second time. */
#include "kernel/process/report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_parts(const char *path)
{
    for (const char *at = path; *at && strcmp(path, "/") != 0;) {
        require(*at++ == '/');
        size_t len = strcspn(at, "/");
        require(len > 0 && !(len == 1 && at[0] == '.') && !(len == 2 && memcmp(at, "..", 2) == 0));
        at += len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *path = malloc(size + 2);
    char *again = malloc(size + 2);
    if (path && again) {
        path[0] = '/';
        memcpy(path + 1, data, size);
        path[size + 1] = '\0';
        size_t before = strlen(path);
        report_path_clean(path);
        require(path[0] == '/' && strlen(path) <= before);
        check_parts(path);
        memcpy(again, path, strlen(path) + 1);
        report_path_clean(again);
        require(strcmp(path, again) == 0);
    }
    free(path);
    free(again);
    return 0;
}
