/* Looking at what the sandbox's tasks have open, on an errand: it may lie on a file system that
 * does not answer, and whoever looks at it while the task closes it closes it in the task's place
 * (os/errand.h). What else is sampled are counters of the kernel's, which must be seen in time on a
 * busy machine too: nobody waits for a look, its answer is there at a later sample. */
#include "lifecycle/lifecycle.h"

#include "base/clock.h"

#define WAIT_MS 2
/* What cannot be measured for so long is over its limit by definition. */
#define SILENT_MAX_US 5000000u
/* Between two samples; the rest of a longer time the supervisor itself was stopped. */
#define SAMPLE_MAX_US 250000u

static void look(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    (void)ask, (void)fds;
    sample_deleted(ctx, answer);
}

void aside_init(struct lifecycle *l)
{
    errand_init(&l->looker, look, l, sizeof(char), sizeof(struct sampled));
}

void aside_done(struct lifecycle *l)
{
    errand_end(&l->looker);
}

bool aside_deleted(struct lifecycle *l, uint64_t *ret)
{
    struct sampled s = {0};
    uint64_t now = clock_us(), passed = now - l->look_us;
    bool answered = errand_try(&l->looker, "", &s, WAIT_MS) == 0;
    if (answered)
        l->deleted_bytes = s.deleted_bytes;
    if (answered || !l->look_us)
        l->silent_us = 0;
    else
        l->silent_us += passed < SAMPLE_MAX_US ? passed : SAMPLE_MAX_US;
    l->look_us = now;
    *ret = l->deleted_bytes;
    return l->silent_us < SILENT_MAX_US;
}
