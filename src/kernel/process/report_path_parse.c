/* Paths that the code named, made comparable. Hostile bytes; the fuzzer is
 * tests/fuzz/fuzz_report_path.c. */
#include "kernel/process/report.h"

#include <string.h>

/* By text alone: ".", ".." and double slashes go. `path` has room for what stands in it. */
void report_path_clean(char *path)
{
    char *to = path;
    for (const char *at = path; *at;) {
        while (*at == '/')
            at++;
        size_t len = strcspn(at, "/");
        if (len == 2 && at[0] == '.' && at[1] == '.') {
            while (to > path && *--to != '/')
                ;
        } else if (len && !(len == 1 && at[0] == '.')) {
            *to++ = '/';
            memmove(to, at, len);
            to += len;
        }
        at += len;
    }
    if (to == path)
        *to++ = '/';
    *to = '\0';
}
