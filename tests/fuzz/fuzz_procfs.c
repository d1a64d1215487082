/* Any text as a file of /proc: the parsers end, stay within it, and give terminated strings. */
#include "os/procfs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static char *copy_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static void check_mounts(const uint8_t *data, size_t size)
{
    char *text = copy_text(data, size), *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct proc_mount m;
        if (procfs_mount_line(line, &m) < 0)
            continue;
        require(memchr(m.dest, '\0', sizeof m.dest) && memchr(m.type, '\0', sizeof m.type) &&
                m.type[0]);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = copy_text(data, size);
    struct proc_status status;
    uint64_t soft = 1, hard = 1;
    if (procfs_status_parse(text, &status) == 0)
        require(strstr(text, "Seccomp:") && strstr(text, "CapBnd:") &&
                status.seccomp_filters >= -1 - INT32_MAX);
    if (procfs_limit(text, "Max open files", &soft, &hard) == 0)
        require(strstr(text, "Max open files") != NULL);
    free(text);
    check_mounts(data, size);
    return 0;
}
