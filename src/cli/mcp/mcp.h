/* brig mcp: lines of JSON-RPC on stdin and stdout, POST /mcp behind. */
#pragma once

#include "cli/client/client.h"

#include <stdbool.h>
#include <sys/types.h>

/* private.c: a `brig serve` of our own, with a folder, a key and a socket that nobody else has.
 * It ends with us and we end with it, whichever dies first and however. */
struct mcp_private {
    char folder[100];
    int folder_fd;
    int owner_fd; /* locked as long as we live */
    pid_t pid;    /* 0: not started */
    int pidfd;
};
struct mcp_private_options {
    const char *templates; /* or NULL */
    const char *project;   /* or NULL */
};
int mcp_private_start(struct mcp_private *p, const struct mcp_private_options *o, struct client *c,
                      struct err *err);
void mcp_private_end(struct mcp_private *p);

/* bridge.c: until stdin ends. `pidfd`: of what must live as long as we do, or -1. `project`:
 * sandboxes work on a view of the project that the daemon offers. */
int mcp_bridge_run(const struct client *c, int pidfd, bool project, struct err *err);
