/* Processor time of processes of brig's own that work for the code: brig-proxy, the pump, who looks
 * at a review. They are in none of the sandbox's groups (the code's memory is not theirs, and they
 * must outlive it), so that what the code makes them do would be on nobody's account. It is added
 * to what the code used, against the limit of processor time and in the receipt (LC-11); so is what
 * the supervisor does for each name that the code asks for and each refusal of brig-proxy's. */
#include "lifecycle/lifecycle.h"

#include "base/cleanup.h"

#include <time.h>

uint64_t helped_time(pid_t pid)
{
    clockid_t id;
    struct timespec t;
    if (pid <= 0 || clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &t) < 0)
        return UINT64_MAX;
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void settle(struct lifecycle *l, struct helped *h)
{
    l->helped_usec += h->now_usec - h->before_usec;
    *h = (struct helped){0};
}

/* What it did before the first look is not the code's: it is when it made itself ready. */
static void look_at(struct lifecycle *l, struct helped *h, pid_t pid)
{
    uint64_t now = helped_time(pid);
    if (pid != h->pid) {
        settle(l, h);
        if (pid > 0 && now != UINT64_MAX)
            *h = (struct helped){.pid = pid, .before_usec = now, .now_usec = now};
    } else if (now != UINT64_MAX && now > h->now_usec) {
        h->now_usec = now;
    }
}

uint64_t helped_look(struct lifecycle *l)
{
    const pid_t pids[HELPED] = {l->helpers[HELPER_PROXY], l->helpers[HELPER_PUMP], l->reviewer};
    uint64_t all = 0;
    for (size_t i = 0; i < HELPED; i++) {
        look_at(l, &l->helped[i], pids[i]);
        all += l->helped[i].now_usec - l->helped[i].before_usec;
    }
    return all + l->helped_usec;
}
