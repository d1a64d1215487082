/* Provisions a sandbox from a template process instead of starting its first processes, and attests
 * what came of it. */
#include "sandbox/clone.h"

#include "base/cleanup.h"
#include "os/procfs.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <fcntl.h>

/* drivers.S, which the build writes */
extern const char driver_template_py_start[], driver_template_py_end[];

int stem_show(const struct stem_files *f, struct filesystem *fs, struct err *err)
{
    const struct {
        const char *name;
        const void *data;
        size_t len;
    } files[] = {
        {"template.py", driver_template_py_start,
         (size_t)(driver_template_py_end - driver_template_py_start)},
        {"template.so", f->library.data, f->library.len},
        {"template.json", f->config.data, f->config.len},
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (!filesystem_show(fs, files[i].name, files[i].data, files[i].len, err))
            return err_number(err);
    return 0;
}

void clone_plan(struct sandbox *s)
{
    plan_str(&s->plan, OP_CWD, s->request->policy->workspace ? HOME_DIR : "/", NULL, 0);
}

/* IN-1 */
static int lay_channel(struct sandbox *s, struct pump_line lines[PUMP_LINES], int stdio[3],
                       int channel[2])
{
    struct pump_line *line[INTERP_ENDS] = {0};
    int *ours = s->cloned.fds, r;
    for (unsigned i = 0; s->pumped && i < INTERP_ENDS; i++)
        line[i] = &lines[i];
    if ((r = pump_lay(line[INTERP_REQUESTS], false, &channel[0], &ours[INTERP_REQUESTS])) < 0 ||
        (r = pump_lay(line[INTERP_ANSWERS], true, &channel[1], &ours[INTERP_ANSWERS])) < 0 ||
        (r = pump_lay(line[INTERP_STDOUT], true, &stdio[1], &ours[INTERP_STDOUT])) < 0)
        return r;
    lines[INTERP_ANSWERS].kind = PUMP_WORDS;
    return pump_lay(line[INTERP_STDERR], true, &stdio[2], &ours[INTERP_STDERR]);
}

int clone_connect(struct sandbox *s, struct pump_line lines[PUMP_LINES], int stdio[3],
                  int channel[2], struct err *err)
{
    if ((stdio[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        return err_sys(err, "open /dev/null");
    errno = -lay_channel(s, lines, stdio, channel);
    return errno ? err_sys(err, "connect the interpreter") : 0;
}

static int wrong(const char *what, struct err *err)
{
    err_set(err, ERR_PROTOCOL, "%s", what);
    return err_at(err, BOUNDARY_KERNEL);
}

int clone_born(struct sandbox *s, int *pidfd, pid_t pid, struct err *err)
{
    if (!s->source || s->init_pid > 0 || pid <= 1 || *pidfd < 0 || procfs_pidfd(*pidfd) != pid)
        return wrong("a clone did not present itself", err);
    s->init_pid = s->kernel.init_pid = pid;
    s->init_pidfd = fd_steal(pidfd);
    if (lifecycle_adopt(&s->lifecycle, pid, err) < 0)
        return err_number(err);
    int r = message_send(s->ctl_fd, CTL_MAPPED, 0);
    errno = -r;
    return r < 0 ? err_sys(err, "answer the clone") : 0;
}

int clone_waits(struct sandbox *s, pid_t inside, pid_t pid, struct err *err)
{
    if (!s->source || s->cloned.pid > 0 || pid <= 1 || pid == s->init_pid || inside <= 1)
        return wrong("an interpreter that was not asked for", err);
    s->cloned.pid = pid;
    s->cloned.inside = inside;
    return s->code_pid > 0;
}

/* The parent is the template process, or, when that is gone, the first process of its sandbox. */
static int look_at_stem(struct sandbox *s, struct err *err)
{
    struct proc_status status;
    if (procfs_status(s->init_pid, &status, err) < 0)
        return err_number(err);
    if (status.ppid <= 1)
        return wrong("the clone's template is gone", err);
    return procfs_namespaces(status.ppid, s->kernel.foreign, err);
}

int clone_attest(struct sandbox *s, struct err *err)
{
    /* Compared once only: a process cannot come back into the template's namespaces. */
    if ((!s->cloned.checked && look_at_stem(s, err) < 0) ||
        kernel_attest_clone(&s->kernel, s->init_pid, s->cloned.pid, !s->cloned.checked, err) < 0)
        return err_number(err);
    /* The same checks as for its parent, and those of things that each process has for itself. */
    if (credentials_check(NULL, s->cloned.pid, err) < 0)
        return err_number(err);
    s->lifecycle.clone_pid = s->cloned.pid; /* must be in the cgroups as well */
    s->cloned.checked = true;
    return 0;
}
