/* Asks a child in the user namespace of the process, or looks itself. */
#include "os/peek.h"

#include "os/errand.h"
#include "os/fd.h"
#include "os/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* Nothing of a sandbox runs when it is looked at so; a busy machine is all that takes time. */
#define PEEK_MS 20000

enum peek { PEEK_DESCRIPTORS, PEEK_ENVIRONMENT };

struct question {
    enum peek what;
    pid_t pid;
};

struct reply {
    int result;
    uint64_t bits;
    struct err err;
};

static int look_at_environment(pid_t pid, struct err *err)
{
    char path[64], text[16];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    ssize_t n = file_read(AT_FDCWD, path, text, sizeof text);
    errno = n < 0 ? (int)-n : 0;
    return n < 0 ? err_sys(err, "read %s", path) : n > 0;
}

static void look(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    const struct question *q = ask;
    struct reply *r = answer;
    (void)ctx, (void)fds;
    *r = (struct reply){.err = ERR_INIT};
    r->result = q->what == PEEK_DESCRIPTORS ? procfs_inherited_fds(q->pid, &r->bits, &r->err)
                                            : look_at_environment(q->pid, &r->err);
}

static int send_for(const int *user_ns, const struct question *q, struct reply *ret,
                    struct err *err)
{
    struct errand e;
    errand_init(&e, look, NULL, sizeof *q, sizeof *ret);
    e.user_ns = user_ns;
    int result = errand_ask(&e, q, NULL, ret, PEEK_MS);
    errand_end(&e);
    errno = -result;
    if (result < 0)
        return err_sys(err, "look at the sandbox from its user namespace");
    if (ret->result < 0)
        *err = ret->err;
    return ret->result;
}

static int ask(const int *user_ns, enum peek what, pid_t pid, struct reply *ret, struct err *err)
{
    const struct question q = {.what = what, .pid = pid};
    if (user_ns && *user_ns >= 0)
        return send_for(user_ns, &q, ret, err);
    look(NULL, &q, NULL, ret);
    if (ret->result < 0)
        *err = ret->err;
    return ret->result;
}

int peek_inherited_fds(const int *user_ns, pid_t pid, uint64_t *ret, struct err *err)
{
    struct reply r;
    int result = ask(user_ns, PEEK_DESCRIPTORS, pid, &r, err);
    *ret = result < 0 ? 0 : r.bits;
    return result;
}

int peek_environment(const int *user_ns, pid_t pid, struct err *err)
{
    struct reply r;
    return ask(user_ns, PEEK_ENVIRONMENT, pid, &r, err);
}
