/* Looking at what the sandbox's tasks hold open, and at the folders that they write to, on an
 * errand: it may lie on a file system that does not answer, and whoever looks at it while a task
 * closes it closes it in the task's place (os/errand.h). The supervisor goes on meanwhile: it keeps
 * the time limit and looks at the kernel's counters (sample.c). */
#include "lifecycle/lifecycle.h"
#include "lifecycle/sample.h"

#include "base/clock.h"
#include "os/procfs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Most looks are over in a fraction of this; what they found then belongs to the same sample. */
#define WAIT_MS 2
/* For the last one, which nothing follows: without it the run counts as failed, and the machine may
 * be busy. */
#define LAST_MS 10000
/* Looking takes at most a fourth of a processor. */
#define REST_TIMES 3u

struct aside_ask {
    bool alive;  /* there are tasks to look at */
    bool locks;  /* count them too */
    bool forgot; /* l->forgot and l->own as they are now */
    struct own_task own[LIFECYCLE_OWN_MAX];
};

/* ---- the one who looks ---- */

/* Notes the sizes of files while they still have names. */
static enum disk_result measure(struct lifecycle *l, int fd, struct disk_usage *use)
{
    struct inodes *known = l->sampler ? &l->sampler->known : NULL;
    return fd < 0 ? DISK_MEASURED : disk_measure(fd, use, known);
}

static void look(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    struct lifecycle *l = ctx;
    const struct aside_ask *q = ask;
    struct looked *ret = answer;
    uint64_t before = clock_cpu_us();
    (void)fds;
    *ret = (struct looked){.counts_locks = q->locks};
    l->forgot = q->forgot;
    memcpy(l->own, q->own, sizeof l->own);
    /* First, so that a file that is deleted meanwhile is not counted twice. */
    bool seen = !q->alive || sample_files(l, ret) == 0;
    enum disk_result work = measure(l, l->namespaced ? -1 : l->work_fd, &ret->work);
    enum disk_result review = measure(l, l->review_fd, &ret->review);
    ret->blind = !seen || work == DISK_UNSEEN || review == DISK_UNSEEN;
    ret->too_big = work == DISK_TOO_BIG || review == DISK_TOO_BIG;
    ret->cpu_us = clock_cpu_us() - before;
}

/* ---- the supervisor ---- */

void aside_init(struct lifecycle *l)
{
    const int *keep[] = {&l->proc_fd, &l->work_fd, &l->review_fd, &l->project_fd};
    errand_init(&l->looker, look, l, sizeof(struct aside_ask), sizeof(struct looked));
    for (unsigned i = 0; i < sizeof keep / sizeof *keep; i++)
        l->looker.keep[i] = keep[i];
}

int aside_look(struct lifecycle *l)
{
    struct aside_ask ask = {.alive = true, .forgot = l->forgot, .locks = l->sampler->locks_due};
    struct looked seen;
    if (!l->looker.asked && clock_us() < l->rest_us)
        return 0;
    memcpy(ask.own, l->own, sizeof ask.own);
    int result = errand_try(&l->looker, &ask, &seen, WAIT_MS);
    if (result < 0) {
        l->forgot |= result != -EINPROGRESS;
        return result;
    }
    struct looked before = l->looked;
    l->looked = seen;
    locks_counted(l, &before);
    l->sampler->folder_max = seen.folder_max; /* for a child that takes the place of this one */
    l->rest_us = clock_us() + seen.cpu_us * REST_TIMES;
    if (!l->looks && !l->sampler->locks_due)
        errand_end(&l->looker); /* it was for once */
    return 0;
}

uint64_t aside_silence(bool ready, uint64_t used, uint64_t step)
{
    return ready && used < step ? used : step;
}

uint64_t aside_silent_for(struct lifecycle *l, uint64_t step)
{
    struct sampler *s = l->sampler;
    struct proc_stat p;
    if (l->looker.pid <= 0 || !procfs_stat(l->looker.pid, &p))
        return step;
    uint64_t now = p.own * (1000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t used = now > s->looker_us ? now - s->looker_us : 0;
    s->looker_us = now;
    return aside_silence(p.ready, used, step);
}

int aside_measure(struct lifecycle *l)
{
    const struct aside_ask ask = {.alive = false};
    errand_end(&l->looker); /* a look at what is dead by now */
    return errand_ask(&l->looker, &ask, NULL, &l->looked, LAST_MS);
}

void aside_again(struct lifecycle *l)
{
    errand_end(&l->looker);
    l->forgot = true;
    l->looked.pipes = l->looked.sockets = l->looked.lists = l->looked.locks = 0;
    l->sampler->locks_due = true;
    l->rest_us = 0;
}

void aside_done(struct lifecycle *l)
{
    errand_end(&l->looker);
}
