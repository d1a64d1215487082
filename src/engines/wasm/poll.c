/* poll_oneoff: waits for descriptors and clocks, with a bounded piece of memory of the runner's. */
#include "engines/wasm/wasi.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#define SUBSCRIPTION   48
#define OLDER_CLOCK    8 /* in wasi_unstable a clock has a name of its own before the rest */
#define EVENT          32
#define SUBSCRIBED_MAX WASI_FDS_MAX

enum { TAG_CLOCK, TAG_READ, TAG_WRITE };

struct wanted {
    uint64_t userdata;
    uint8_t tag;
    uint32_t error;  /* known beforehand */
    uint64_t end_ns; /* clocks: on the monotonic clock */
    bool due;
    int poll_at; /* descriptors: in the array of pollfds; -1: error */
};

static uint64_t now_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* From either clock, absolute or not, to the end on the monotonic one; sums that would wrap mean
 * that it never comes. */
static uint64_t end_of(uint32_t id, uint64_t timeout, bool absolute)
{
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    if (absolute) {
        uint64_t there = now_ns(id == 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC);
        timeout = timeout > there ? timeout - there : 0;
    }
    return timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
}

/* s: what is told of the clock. */
static void read_clock(const uint8_t *s, struct wanted *ret)
{
    uint32_t id;
    uint64_t timeout;
    uint16_t flags;
    memcpy(&id, s, sizeof id);
    memcpy(&timeout, s + 8, sizeof timeout);
    memcpy(&flags, s + 24, sizeof flags);
    if (id > 1 || flags > 1)
        ret->error = WE_INVAL;
    else
        ret->end_ns = end_of(id, timeout, flags & 1);
}

static void read_fd(struct wasi *w, const uint8_t *s, struct wanted *ret, struct pollfd *fds,
                    nfds_t *count)
{
    uint32_t number;
    struct wasi_fd *f;
    memcpy(&number, s + 16, sizeof number);
    ret->error = wasi_look(w, number, WR(WR_POLL), &f);
    if (ret->error)
        return;
    ret->poll_at = (int)*count;
    fds[(*count)++] =
        (struct pollfd){.fd = f->fd, .events = ret->tag == TAG_READ ? POLLIN : POLLOUT};
}

static uint32_t clock_at(const struct wasi *w)
{
    return w->older ? OLDER_CLOCK : 0;
}

static uint32_t read_all(struct wasi *w, const uint8_t *in, uint32_t n, struct wanted *wanted,
                         struct pollfd *fds, nfds_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *s = in + (size_t)i * (SUBSCRIPTION + clock_at(w));
        struct wanted *it = &wanted[i];
        *it = (struct wanted){.tag = s[8], .poll_at = -1, .end_ns = UINT64_MAX};
        memcpy(&it->userdata, s, sizeof it->userdata);
        if (it->tag > TAG_WRITE)
            return WE_INVAL;
        if (it->tag == TAG_CLOCK)
            read_clock(s + 16 + clock_at(w), it);
        else
            read_fd(w, s, it, fds, count);
    }
    return WE_SUCCESS;
}

static uint32_t wait_for(struct wanted *wanted, uint32_t n, struct pollfd *fds, nfds_t count)
{
    uint64_t end = UINT64_MAX, now;
    for (uint32_t i = 0; i < n; i++) {
        if (wanted[i].error)
            end = 0; /* something is to be told at once */
        else if (wanted[i].tag == TAG_CLOCK && wanted[i].end_ns < end)
            end = wanted[i].end_ns;
    }
    for (;;) {
        now = now_ns(CLOCK_MONOTONIC);
        uint64_t left = end > now ? end - now : 0;
        struct timespec t = {.tv_sec = (time_t)(left / 1000000000u),
                             .tv_nsec = (long)(left % 1000000000u)};
        int r = ppoll(fds, count, end == UINT64_MAX ? NULL : &t, NULL);
        if (r >= 0)
            break;
        if (errno != EINTR)
            return wasi_error(errno);
    }
    now = now_ns(CLOCK_MONOTONIC);
    for (uint32_t i = 0; i < n; i++)
        wanted[i].due = wanted[i].tag == TAG_CLOCK && wanted[i].end_ns <= now;
    return WE_SUCCESS;
}

static void write_event(uint8_t *out, const struct wanted *it, const struct pollfd *fds)
{
    uint8_t event[EVENT] = {0};
    uint16_t error = (uint16_t)it->error, flags = 0;
    uint64_t bytes = 0;
    if (it->poll_at >= 0) {
        int ready = 0;
        if (it->tag == TAG_READ && ioctl(fds[it->poll_at].fd, FIONREAD, &ready) == 0 && ready > 0)
            bytes = (uint64_t)ready;
        flags = fds[it->poll_at].revents & POLLHUP ? 1 : 0;
    }
    memcpy(event, &it->userdata, sizeof it->userdata);
    memcpy(event + 8, &error, sizeof error);
    event[10] = it->tag;
    memcpy(event + 16, &bytes, sizeof bytes);
    memcpy(event + 24, &flags, sizeof flags);
    memcpy(out, event, sizeof event);
}

/* a: subscriptions, where events go, how many, where their number goes. */
uint32_t wasi_poll_oneoff(struct wasi *w, const uint64_t *a)
{
    struct wanted wanted[SUBSCRIBED_MAX];
    struct pollfd fds[SUBSCRIBED_MAX];
    nfds_t count;
    if (a[2] == 0 || a[2] > SUBSCRIBED_MAX)
        return WE_INVAL;
    uint32_t n = (uint32_t)a[2], told = 0;
    const uint8_t *in = wasi_span(w, a[0], (uint64_t)n * (SUBSCRIPTION + clock_at(w)));
    uint8_t *out = wasi_span(w, a[1], (uint64_t)n * EVENT);
    if (!in || !out || !wasi_span(w, a[3], 4))
        return WE_FAULT;
    uint32_t r = read_all(w, in, n, wanted, fds, &count);
    if (r == WE_SUCCESS)
        r = wait_for(wanted, n, fds, count);
    if (r != WE_SUCCESS)
        return r;
    for (uint32_t i = 0; i < n; i++) {
        const struct wanted *it = &wanted[i];
        if (it->error || it->due || (it->poll_at >= 0 && fds[it->poll_at].revents))
            write_event(out + (size_t)told++ * EVENT, it, fds);
    }
    return wasi_put32(w, a[3], told);
}
