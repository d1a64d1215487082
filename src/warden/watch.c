/* What the warden watches while the code runs: refused calls, the network, usage, limits. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/num.h"
#include "warden/session.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define TELL_MS 1000u
/* A thousand sandboxes that do nothing must cost nothing: who is idle is looked at less and less.
 */
#define IDLE_MS         1000u
#define IDLE_SAMPLED_MS 250u
#define IDLE_CPU_USEC   2000u
/* A process that was killed for want of memory, and the shell above it, have ended within this
 * time. */
#define EXPLAINS_MS 5000u

/* ---- refused calls ---- */

void watch_seen_again(struct loop_timer *t)
{
    struct warden *w = container_of(t, struct warden, seen_pause);
    if (w->seen.fd >= 0)
        warden_listen(w, &w->seen);
}

void watch_seen(struct loop_io *io, uint32_t events)
{
    struct warden *w = container_of(io, struct warden, seen);
    struct kernel *k = &w->s->kernel;
    bool good = (events & EPOLLIN) && seen_answer(k, &w->s->result->denials) >= 0;
    if (!good) {
        loop_forget(w->loop, io);
        close(k->listener_fd);
        k->listener_fd = io->fd = -1;
        return;
    }
    watch_tell(w, false);
    unsigned pause = seen_pause_ms(k);
    if (!pause)
        return;
    loop_watch(w->loop, io, 0);
    loop_timer_set(w->loop, &w->seen_pause, pause);
}

/* ---- events ---- */

static void tell_one(struct warden *w, const char *kind, const struct denial *d, uint64_t count)
{
    cleanup_buf struct buf text;
    struct json_writer j;
    buf_init(&text, 4096);
    jw_init(&j, &text, false);
    jw_object_begin(&j);
    jw_kv_string(&j, "boundary", boundary_name(d->boundary));
    jw_kv_string(&j, "kind", kind);
    jw_key(&j, "what");
    jw_bytes(&j, d->what, strlen(d->what));
    jw_key(&j, "rule");
    jw_bytes(&j, d->rule, strlen(d->rule));
    jw_key(&j, "hint");
    jw_bytes(&j, d->hint, strlen(d->hint));
    jw_kv_uint(&j, "count", count);
    jw_object_end(&j);
    warden_event(w, buf_text(&text), text.len);
}

/* True if some of it must wait. */
static bool tell_list(struct warden *w, const char *kind, const struct denial_list *list,
                      uint64_t *told, bool all)
{
    bool waits = false;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t fresh = list->items[i].count - told[i];
        if (fresh && (all || told[i] == 0)) {
            tell_one(w, kind, &list->items[i], fresh);
            told[i] += fresh;
        } else {
            waits |= fresh != 0;
        }
    }
    return waits;
}

/* A new kind at once; how often, at most once a second. */
void watch_tell(struct warden *w, bool all)
{
    if (!w->ready)
        return;
    bool waits = tell_list(w, "denied", &w->s->result->denials, w->told_denied, all);
    waits |= tell_list(w, "allowed", &w->allowed, w->told_allowed, all);
    if (waits && !w->telling.due_ms)
        loop_timer_set(w->loop, &w->telling, TELL_MS);
}

void watch_telling(struct loop_timer *t)
{
    watch_tell(container_of(t, struct warden, telling), true);
}

/* What brig-proxy let through, counted by host. Hostile input. */
void watch_allowed(struct warden *w, const char *text, size_t len)
{
    struct json *root = NULL;
    if (json_parse(text, len, &json_default_limits, &root, NULL) < 0 ||
        json_type(root) != JSON_OBJECT) {
        json_free(root);
        return;
    }
    const struct json *port = json_get(root, "port");
    if (strcmp(json_shown(root, "verdict"), "allowed") == 0) {
        char what[96];
        snprintf(what, sizeof what, "%.8s://%.70s:%u", json_shown(root, "scheme"),
                 json_shown(root, "host"),
                 port && json_type(port) == JSON_INT ? (unsigned)json_int(port) : 0);
        denial_add(&w->allowed, BOUNDARY_NETWORK, what, json_shown(root, "rule"), "");
    }
    json_free(root);
}

/* ---- usage ---- */

/* CPU time grows at most this fast, each that helps being one more processor: no need to look
 * before it can have run out. */
static uint64_t cpu_time_left_ms(const struct warden *w)
{
    const struct policy *p = w->s->request->policy;
    uint64_t used = w->s->lifecycle.usage.cpu_usec / 1000;
    uint64_t cpus = p->cpus_milli == POLICY_UNLIMITED ? 64000 : p->cpus_milli;
    if (p->cpu_time_ms == POLICY_UNLIMITED)
        return UINT64_MAX;
    return used >= p->cpu_time_ms ? 0 : (p->cpu_time_ms - used) * 1000 / (cpus + HELPED * 1000);
}

static void next_sample(struct warden *w)
{
    const struct lifecycle *l = &w->s->lifecycle;
    seen_rest(&w->s->kernel);
    unsigned busy = lifecycle_sample_ms(l), idle = l->cgroup ? IDLE_MS : IDLE_SAMPLED_MS;
    bool still = l->usage.cpu_usec < w->sampled_cpu + IDLE_CPU_USEC;
    w->sampled_cpu = l->usage.cpu_usec;
    w->sample_ms = !still || !w->sample_ms ? busy : w->sample_ms * 2;
    if (w->sample_ms > idle)
        w->sample_ms = idle;
    uint64_t left = cpu_time_left_ms(w);
    loop_timer_set(w->loop, &w->sampling,
                   left < w->sample_ms ? (left < busy ? busy : left) : w->sample_ms);
}

/* One refusal for each: the receipt lists it, and the front tells whoever is interested. */
static void tell_killed(struct warden *w)
{
    const struct lifecycle *l = &w->s->lifecycle;
    char limit[NUM_TEXT_SIZE], rule[64];
    num_format_size(l->policy->memory, limit);
    snprintf(rule, sizeof rule, "lifecycle.memory: %s", limit);
    for (; w->oom_told < l->usage.outlived; w->oom_told++, w->oom_open++) {
        w->oom_ms = loop_now_ms(w->loop);
        denial_add(&w->s->result->denials, BOUNDARY_LIFECYCLE,
                   "oom_killed: a process was killed, the sandbox goes on", rule,
                   "use less memory at a time, or raise lifecycle.memory in the template");
    }
    watch_tell(w, false);
}

/* Where all memory of the code is one kernel's, no process can go alone: those that the host sees
 * are that kernel's own, and it may wait for one of them for ever. */
static bool go_on_without_it(struct warden *w)
{
    return !sentry_wanted(w) && lifecycle_relieve(&w->s->lifecycle);
}

/* LC-10: a timer of the code's can send SIGCONT, which lets a task go on that was stopped; nothing
 * else stops it where there is no freezer. A pause has no end, and no time limit holds in it. */
void watch_pause(struct warden *w, bool stopped)
{
    w->stopped = stopped;
    w->stopped_cpu = 0;
}

static bool stands_still(struct warden *w)
{
    uint64_t used = w->s->lifecycle.usage.code_usec + 1;
    if (!w->stopped_cpu)
        w->stopped_cpu = used;
    return !w->stopped || used < w->stopped_cpu + LIFECYCLE_STILL_USEC;
}

void watch_now(struct warden *w)
{
    if (w->over)
        return;
    carriers_look(w);
    enum limit hit = lifecycle_sample(&w->s->lifecycle);
    if (!stands_still(w)) {
        warden_end(w, "it went on while it was paused");
        return;
    }
    if (hit == LIMIT_MEMORY && go_on_without_it(w)) {
        tell_killed(w);
        hit = LIMIT_NONE;
    }
    if (hit != LIMIT_NONE)
        warden_end(w, "limit");
    else {
        sandbox_own_refresh(w->s);
        next_sample(w);
    }
}

void watch_outlived(struct warden *w)
{
    struct lifecycle *l = &w->s->lifecycle;
    if (l->hit == LIMIT_NONE && lifecycle_counts_memory(l) && lifecycle_sample(l) == LIMIT_MEMORY &&
        go_on_without_it(w))
        tell_killed(w);
}

/* The kernel does not say whom it killed. A shell whose command was killed ends with 128 + 9. */
bool watch_explains_oom(struct warden *w, int status)
{
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL))
        return false;
    watch_now(w);
    if (loop_now_ms(w->loop) - w->oom_ms > EXPLAINS_MS)
        w->oom_open = 0;
    if (!w->oom_open)
        return false;
    w->oom_open--;
    return true;
}

void watch_sample(struct loop_timer *t)
{
    watch_now(container_of(t, struct warden, sampling));
}

void watch_start(struct warden *w)
{
    w->sample_ms = 0;
    next_sample(w);
}

static uint64_t disk_used(const struct lifecycle *l)
{
    struct statfs s;
    if (l->work_fd < 0 || fstatfs(l->work_fd, &s) < 0)
        return 0;
    return (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
}

static uint64_t known(uint64_t value, uint64_t fallback)
{
    return value == UINT64_MAX ? fallback : value;
}

void watch_stats(struct warden *w, uint32_t request)
{
    watch_tell(w, true); /* who asks has then heard of all that was refused before */
    struct lifecycle *l = &w->s->lifecycle;
    const struct policy *p = w->s->request->policy;
    cleanup_buf struct buf text;
    struct json_writer j;
    struct sampled s;
    struct cgroup_usage u;
    memset(&u, 0xff, sizeof u);
    if (l->cgroup)
        cgroup_usage(&l->group, &u);
    (void)sample_tasks(l, &s); /* whatever of it can be seen: limits are kept elsewhere */
    uint64_t memory = known(u.memory_now, s.memory), cpu = known(u.cpu_usec, s.cpu_usec);
    uint64_t peak = known(u.memory_peak, l->usage.memory_peak);
    buf_init(&text, 4096);
    jw_init(&j, &text, false);
    jw_object_begin(&j);
    carriers_look(w);
    cpu = (cpu > l->usage.code_usec ? cpu : l->usage.code_usec) + helped_look(l);
    jw_kv_uint(&j, "cpu_usec", cpu);
    jw_kv_uint(&j, "cpus_milli", p->cpus_milli);
    jw_kv_uint(&j, "memory", memory);
    jw_kv_uint(&j, "memory_peak", peak > memory ? peak : memory);
    jw_kv_uint(&j, "memory_limit", p->memory);
    jw_kv_uint(&j, "memory_cache", l->cgroup ? known(cgroup_memory_cache(&l->group), 0) : 0);
    jw_kv_uint(&j, "pids", known(u.pids_now, s.tasks));
    jw_kv_uint(&j, "pids_limit", p->pids);
    jw_kv_uint(&j, "disk", disk_used(l));
    jw_kv_uint(&j, "disk_limit", p->disk);
    jw_object_end(&j);
    warden_stats(w, request, buf_text(&text), text.len);
}
