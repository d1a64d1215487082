/* Looking at the sandbox's tasks on an errand: what they have open may lie on a file system that
 * does not answer, and whoever looks at a task that ends takes apart what it had (os/errand.h). */
#include "lifecycle/lifecycle.h"

#define PATIENCE_MS 1000
/* So many looks without an answer; what cannot be measured is over its limit by definition. */
#define BLIND_MAX 5

static void look(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    (void)ask, (void)fds;
    sample_tasks(ctx, answer);
}

void aside_init(struct lifecycle *l)
{
    errand_init(&l->looker, look, l, sizeof(char), sizeof(struct sampled));
    l->looker.keep[0] = &l->proc_fd;
    l->looker.keep[1] = &l->work_fd;
}

void aside_done(struct lifecycle *l)
{
    errand_end(&l->looker);
}

bool aside_sample(struct lifecycle *l, struct sampled *ret)
{
    /* The cgroup counts; what is read besides are two small files of each task that need nothing of
     * the task's own. A thousand sandboxes would have a thousand processes more. */
    if (l->cgroup && l->namespaced) {
        sample_tasks(l, ret);
        return true;
    }
    *ret = (struct sampled){0};
    bool seen = errand_ask(&l->looker, "", NULL, ret, PATIENCE_MS) == 0;
    l->blind = seen ? 0 : l->blind + 1;
    return l->blind < BLIND_MAX;
}
