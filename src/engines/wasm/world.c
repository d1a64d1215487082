/* What is neither file nor folder: arguments, variables, clocks, randomness, the end. And sockets,
 * of which there are none. */
#include "engines/wasm/wasi.h"

#include "base/cleanup.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t put_sizes(struct wasi *w, char *const *texts, uint32_t count, const uint64_t *a)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(texts[i]) + 1;
    if (bytes > UINT32_MAX)
        return WE_OVERFLOW;
    uint32_t r = wasi_put32(w, a[0], count);
    return r ? r : wasi_put32(w, a[1], (uint32_t)bytes);
}

static uint32_t put_texts(struct wasi *w, char *const *texts, uint32_t count, const uint64_t *a)
{
    uint64_t at = a[1];
    for (uint32_t i = 0; i < count; i++) {
        size_t len = strlen(texts[i]) + 1;
        void *place = wasi_span(w, at, len);
        uint32_t r = wasi_put32(w, a[0] + 4 * (uint64_t)i, (uint32_t)at);
        if (!place || r)
            return WE_FAULT;
        memcpy(place, texts[i], len);
        at += len;
    }
    return WE_SUCCESS;
}

uint32_t wasi_args_sizes_get(struct wasi *w, const uint64_t *a)
{
    return put_sizes(w, w->args, w->arg_count, a);
}

uint32_t wasi_args_get(struct wasi *w, const uint64_t *a)
{
    return put_texts(w, w->args, w->arg_count, a);
}

uint32_t wasi_environ_sizes_get(struct wasi *w, const uint64_t *a)
{
    return put_sizes(w, w->env, w->env_count, a);
}

uint32_t wasi_environ_get(struct wasi *w, const uint64_t *a)
{
    return put_texts(w, w->env, w->env_count, a);
}

static bool clock_of(uint64_t id, clockid_t *ret)
{
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
                                       CLOCK_THREAD_CPUTIME_ID};
    if (id >= sizeof clocks / sizeof clocks[0])
        return false;
    *ret = clocks[id];
    return true;
}

static uint64_t nanoseconds(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

uint32_t wasi_clock_res_get(struct wasi *w, const uint64_t *a)
{
    clockid_t id;
    struct timespec t;
    if (!clock_of(a[0], &id))
        return WE_INVAL;
    if (clock_getres(id, &t) < 0)
        return wasi_error(errno);
    return wasi_put64(w, a[1], nanoseconds(&t));
}

uint32_t wasi_clock_time_get(struct wasi *w, const uint64_t *a)
{
    clockid_t id;
    struct timespec t;
    if (!clock_of(a[0], &id))
        return WE_INVAL;
    if (clock_gettime(id, &t) < 0)
        return wasi_error(errno);
    return wasi_put64(w, a[2], nanoseconds(&t));
}

uint32_t wasi_random_get(struct wasi *w, const uint64_t *a)
{
    uint8_t *at = wasi_span(w, a[0], a[1]);
    if (!at)
        return WE_FAULT;
    for (uint64_t left = a[1]; left;) {
        ssize_t n = getrandom(at, left < 65536 ? left : 65536, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return wasi_error(errno);
        at += n;
        left -= (uint64_t)n;
    }
    return WE_SUCCESS;
}

uint32_t wasi_sched_yield(struct wasi *w, const uint64_t *a)
{
    (void)w;
    (void)a;
    sched_yield();
    return WE_SUCCESS;
}

/* The engine ends the process when it sees the mark. */
uint32_t wasi_proc_exit(struct wasi *w, const uint64_t *a)
{
    w->exited = true;
    w->exit_code = (uint32_t)a[0];
    return WE_SUCCESS;
}

/* By WASI's numbers. A module has no handlers: what each does to a program that has none. One that
 * is stopped could be continued by nobody. */
#define IGNORED 0
#define STOPS   (-1)
static const int8_t effects[] = {IGNORED, SIGHUP,  SIGINT,  SIGQUIT, SIGILL,    SIGTRAP, SIGABRT,
                                 SIGBUS,  SIGFPE,  SIGKILL, SIGUSR1, SIGSEGV,   SIGUSR2, SIGPIPE,
                                 SIGALRM, SIGTERM, IGNORED, IGNORED, STOPS,     STOPS,   STOPS,
                                 STOPS,   IGNORED, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, IGNORED,
                                 SIGPOLL, SIGPWR,  SIGSYS};

/* The engine ends the process when it sees the mark. */
uint32_t wasi_proc_raise(struct wasi *w, const uint64_t *a)
{
    if (a[0] >= ARRAY_LEN(effects))
        return WE_INVAL;
    if (effects[a[0]] == STOPS)
        return WE_NOTSUP;
    w->raised = effects[a[0]];
    return WE_SUCCESS;
}

/* No number of the table is a socket, and nothing makes one. WA-6: that a module asked for one is
 * told by the same call of the host's, on no descriptor: the filter of a sandbox that runs modules
 * refuses it, and the supervisor writes down what it was. Elsewhere it says EBADF. */
static uint32_t no_socket(struct wasi *w, uint64_t number, long call)
{
    struct wasi_fd *f;
    syscall(call, -1L, 0L, 0L, 0L, 0L, 0L);
    uint32_t r = wasi_look(w, number, 0, &f);
    return r ? r : WE_NOTSOCK;
}

uint32_t wasi_sock_accept(struct wasi *w, const uint64_t *a)
{
    return no_socket(w, a[0], SYS_accept);
}

uint32_t wasi_sock_recv(struct wasi *w, const uint64_t *a)
{
    return no_socket(w, a[0], SYS_recvfrom);
}

uint32_t wasi_sock_send(struct wasi *w, const uint64_t *a)
{
    return no_socket(w, a[0], SYS_sendto);
}

uint32_t wasi_sock_shutdown(struct wasi *w, const uint64_t *a)
{
    return no_socket(w, a[0], SYS_shutdown);
}
