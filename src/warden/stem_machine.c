/* Stems that are machines: a monitor boots the guest in a sandbox like any other and parks it. It
 * has none of the template's folders, variables and rules: the guest hears of them when a clone of
 * it is told who it is. */
#include "warden/stem_kinds.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "sandbox/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* The guest's root is the folder that the monitor serves, and a parked guest has parts of it
 * cached. */
static int prepare(struct stem_warden *w, struct err *err)
{
    w->s->park = w->park;
    if (!reference_of_root(w->policy.root))
        return 0;
    w->request.image = &w->image;
    return sandbox_image_open(&w->policy, &w->image, err) < 0
               ? err_number(err)
               : sandbox_image_apply(&w->policy, &w->image, err);
}

static int start(struct stem_warden *w, struct err *err)
{
    struct plan block;
    int pipe[2];
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    cleanup_fd int handover = -1;
    if (null < 0 || pipe2(pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, "connect the monitor");
    w->errors = pipe[0];
    cleanup_fd int errors = pipe[1];
    if (machine_hand_over(w->s, &handover, err) < 0)
        return err_number(err);
    int fds[SPAWN_FDS] = {[SPAWN_STDIN] = null,
                          [SPAWN_STDOUT] = null,
                          [SPAWN_STDERR] = errors,
                          [SPAWN_REQUESTS] = handover};
    plan_init(&block);
    machine_plan_boot(w->s, &block);
    int result = stem_spawn(w, &block, fds, SPAWN_ANSWERS, err);
    plan_done(&block);
    return result;
}

static int hear(struct stem_warden *w, const struct ctl_msg *msg, struct err *err)
{
    if (msg->type == CTL_ANSWER && msg->err.code != ERR_NONE) {
        *err = msg->err;
        err->message[sizeof err->message - 1] = '\0';
        return -ERR_SYSTEM;
    }
    if (msg->type == CTL_ANSWER && !w->pid)
        w->pid = msg->pid;
    if (msg->type != CTL_EXITED || !w->pid || msg->pid != w->pid)
        return 0;
    if (WIFEXITED(msg->value) && WEXITSTATUS(msg->value) == 0)
        return 1;
    complaint_take(&w->complaint, w->errors);
    const char *said = complaint_text(&w->complaint);
    return err_set(err, ERR_SYSTEM, "its machine could not be parked: %.200s",
                   said[0] ? said : "the monitor ended");
}

/* VM-31. Nobody has it mapped any more: the monitor that filled it ended with its sandbox. */
static int finish(struct stem_warden *w, struct err *err)
{
    const struct parked_facts facts = machine_facts(w->s);
    if (parked_seal(w->park, err) < 0)
        return err_number(err);
    ssize_t n = send(w->door, &facts, sizeof facts, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n == (ssize_t)sizeof facts ? 0 : err_sys(err, "tell of a parked machine");
}

const struct stem_kind stem_machine = {
    .name = "monitor",
    .policy = stem_policy,
    .prepare = prepare,
    .start = start,
    .hear = hear,
    .finish = finish,
};
