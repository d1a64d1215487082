#include "network/network.h"

#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int network_plan(struct network *n, enum plan_stage stage, struct plan *plan, struct err *err)
{
    (void)err;
    if (stage == STAGE_BIRTH && n->namespaced)
        plan_op(plan, OP_NETWORK_START);
    if (stage == STAGE_RESTRICT && n->namespaced)
        plan_op(plan, OP_NETWORK_JOIN);
    return 0;
}

/* "Inter-| …", " face |…", then one line per interface. */
static bool only_loopback(const char *text)
{
    const char *line = strchr(text, '\n');
    line = line ? strchr(line + 1, '\n') : NULL;
    for (; line && line[1]; line = strchr(line + 1, '\n')) {
        const char *name = line + 1 + strspn(line + 1, " ");
        if (strncmp(name, "lo:", 3) != 0)
            return false;
    }
    return true;
}

static int refuse(const char *what, struct err *err)
{
    err_set(err, ERR_ATTEST, "the sandbox's network namespace has %s", what);
    return err_at(err, BOUNDARY_NETWORK);
}

/* N-1, seen from outside: one interface, and no route (the local table does not show here). */
int network_attest(struct network *n, pid_t pid, struct evidence *out, struct err *err)
{
    char path[64], text[4096];
    if (n->namespaced) {
        snprintf(path, sizeof path, "/proc/%d/net/dev", pid);
        if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
            return refuse("an unreadable list of interfaces", err);
        if (!only_loopback(text))
            return refuse("an interface other than loopback", err);
        snprintf(path, sizeof path, "/proc/%d/net/route", pid);
        if (file_read(AT_FDCWD, path, text, sizeof text) < 0)
            return refuse("an unreadable list of routes", err);
        const char *second = strchr(text, '\n');
        if (second && second[1])
            return refuse("a route", err);
    }
    evidence_string(out, "mode", "off");
    evidence_string(out, "interfaces",
                    n->namespaced ? "lo" : "none usable: no network socket can be made");
    evidence_uint(out, "routes", 0);
    return 0;
}
