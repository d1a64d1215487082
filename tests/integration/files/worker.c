/* The file worker as a program, to be run inside a sandbox by brig run:
 *   worker OP PATH [to=PATH] [depth=N] [limit=N] [recursive] [meta=NAME:VALUE]…
 * reads what is to be written from stdin and answers on stdout. `worker openat2` says on stdout
 * whether the call is there. */
#include "files/files.h"
#include "os/sys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"",      "read",   "write", "stat", "list",
                                    "mkdir", "remove", "move",  "watch"};

static void option(struct files_request *r, char *text)
{
    char *value = strchr(text, '=');
    if (value)
        *value++ = '\0';
    if (strcmp(text, "to") == 0)
        r->to = value;
    else if (strcmp(text, "depth") == 0)
        r->depth = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(text, "limit") == 0)
        r->limit = strtoull(value, NULL, 10);
    else if (strcmp(text, "recursive") == 0)
        r->recursive = true;
    else if (strcmp(text, "meta") == 0) {
        r->metadata[r->metadata_count].name = value;
        r->metadata[r->metadata_count].value = strchr(value, ':') + 1;
        *strchr(value, ':') = '\0';
        r->metadata_count++;
    }
}

int main(int argc, char **argv)
{
    struct files_request r = {.home = FILES_HOME, .limit = FILES_BYTES_MAX, .depth = 1};
    if (argc == 2 && strcmp(argv[1], "openat2") == 0) {
        int fd = sys_openat2(AT_FDCWD, "/", O_PATH, 0, 0);
        puts(fd < 0 ? strerrorname_np(errno) : "there");
        return 0;
    }
    for (int op = 1; argc > 2 && op < FILES_OP_COUNT; op++)
        if (strcmp(argv[1], names[op]) == 0)
            r.op = (enum files_op)op;
    if (r.op == FILES_NONE)
        return 2;
    r.path = argv[2];
    for (int i = 3; i < argc; i++)
        option(&r, argv[i]);
    return files_work_child(&r, r.op == FILES_WRITE ? 0 : -1, 1);
}
