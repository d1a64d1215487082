/* The launcher's list of stems: which is fresh, which is stuck or failed, and when the next one is
 * started. */
#include "warden/stems.h"

#include "base/cleanup.h"
#include "base/container.h"
#include "base/json.h"
#include "kernel/kernel.h"
#include "os/fd.h"
#include "warden/stem.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* A stem that was started and has not reported for this long is stuck. */
#define START_MS     120000
#define PATIENCE_MS  5000
#define LOADING_MS   30000
#define STUCK_MS     8000 /* more than anybody's patience */
#define BACKOFF_MS   500
#define FAILURES_MAX 8 /* 500 ms · 2^8 is two minutes */
#define LONGEST_MS   ((uint64_t)BACKOFF_MS << FAILURES_MAX)
#define SAID_MAX     65536

struct stem {
    struct stems *set;
    char name[TEMPLATE_NAME_MAX + 1];
    pid_t pid;           /* of its warden; 0: gone */
    struct loop_io link; /* to the warden */
    struct loop_io door; /* to the stem itself; -1: not for use any more */
    bool machine;
    int far; /* of a stem that is a machine: the other end of its socket, for wardens that make
                clones */
    struct parked parked;
    uid_t lease;
    uint64_t since_ms, ready_ms;
    uint64_t
        queued_ms; /* since when there were requests that it has not taken; 0: there are none */
    unsigned users, clones;
    bool ready;
};

void stems_init(struct stems *s, struct loop *loop)
{
    *s = (struct stems){.loop = loop, .image = -1};
}

static const char *name_of(const struct stem *m)
{
    return m->machine ? "parked machine" : "template process";
}

static void say(const struct stems *s, const char *name, const char *what)
{
    char text[1200];
    snprintf(text, sizeof text, "template %s: %.1000s", name, what);
    if (s->say)
        s->say(s->ctx, text);
}

/* ---- what went wrong before ---- */

static unsigned past_of(struct stems *s, const char *name)
{
    unsigned free_slot = 0;
    for (unsigned i = 0; i < ARRAY_LEN(s->past); i++) {
        if (strcmp(s->past[i].name, name) == 0)
            return i;
        if (!s->past[i].name[0])
            free_slot = i;
    }
    snprintf(s->past[free_slot].name, sizeof s->past[0].name, "%s", name);
    s->past[free_slot].failures = 0;
    s->past[free_slot].not_before_ms = 0;
    return free_slot;
}

/* That a machine could be parked does not mean that its clones work: each may fail. A stem that was
 * used for longer than anybody waits for the next one does not count as one that failed. */
static void forgive(struct stem *m)
{
    if (m->ready && (!m->machine || loop_now_ms(m->set->loop) - m->ready_ms > LONGEST_MS))
        m->set->past[past_of(m->set, m->name)].failures = 0;
}

/* Wait twice as long each time, with some randomness so that not all are started at once. */
static void failed(struct stem *m)
{
    struct stems *s = m->set;
    unsigned at = past_of(s, m->name);
    forgive(m);
    unsigned n = s->past[at].failures < FAILURES_MAX ? s->past[at].failures++ : FAILURES_MAX;
    uint64_t wait = (uint64_t)BACKOFF_MS << n;
    s->past[at].not_before_ms =
        loop_now_ms(s->loop) + wait + (uint64_t)(getpid() + (int)s->count * 37) % (wait / 4 + 1);
}

/* ---- the end of one ---- */

static void close_io(struct stem *m, struct loop_io *io)
{
    loop_forget(m->set->loop, io);
    if (io->fd >= 0)
        close(io->fd);
    io->fd = -1;
}

static void let_go(struct stem *m)
{
    if (m->users == 0 && m->door.fd < 0)
        close_io(m, &m->link); /* its warden ends */
    if (m->users > 0 || m->pid > 0 || m->door.fd >= 0)
        return;
    struct stems *s = m->set;
    for (unsigned i = 0; i < s->count; i++)
        if (s->items[i] == m)
            s->items[i] = s->items[--s->count];
    close_io(m, &m->link);
    free(m);
}

/* It takes no more requests, and ends when those that were sent are served. */
static void retire(struct stem *m)
{
    close_io(m, &m->door);
    parked_close(&m->parked); /* clones have it for themselves */
    if (m->far >= 0)
        close(fd_steal(&m->far));
    let_go(m);
}

void stems_drop(struct stems *s, struct stem *stem)
{
    (void)s;
    stem->users--;
    let_go(stem);
}

static void on_door(struct loop_io *io, uint32_t events);
static void on_link(struct loop_io *io, uint32_t events);

/* Its end may be noticed before its last message was read. */
static void hear_last_words(struct stem *m)
{
    if (m->link.fd >= 0)
        on_link(&m->link, 0);
    if (m->machine && m->door.fd >= 0 && !m->ready)
        on_door(&m->door, 0);
}

static void lose_warden(struct stem *m, int status)
{
    char text[100];
    hear_last_words(m);
    m->pid = 0;
    if (m->machine && m->ready && m->door.fd >= 0) { /* it needs none any more */
        close_io(m, &m->link);
        return;
    }
    if (m->door.fd >= 0)
        failed(m);
    if (m->door.fd >= 0 && status != 0) {
        snprintf(text, sizeof text, "its %s could not be kept; sandboxes start cold", name_of(m));
        say(m->set, m->name, text);
    }
    retire(m);
}

bool stems_child(struct stems *s, pid_t pid, int status)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->items[i]->pid == pid) {
            lose_warden(s->items[i], status);
            return true;
        }
    return false;
}

void stems_retire(struct stems *s, const char *name)
{
    for (unsigned i = s->count; i-- > 0;)
        if (!name || strcmp(s->items[i]->name, name) == 0)
            retire(s->items[i]);
}

void stems_close(struct stems *s)
{
    s->closed = true;
    stems_retire(s, NULL);
}

void stems_done(struct stems *s)
{
    if (!s->loop)
        return;
    while (s->count) {
        struct stem *m = s->items[0];
        m->users = 0;
        m->pid = 0;
        retire(m);
    }
    if (s->image >= 0)
        close(s->image);
    s->image = -1;
}

/* ---- what they say ---- */

static void is_ready(struct stem *m)
{
    m->ready = true;
    m->ready_ms = loop_now_ms(m->set->loop);
    forgive(m);
}

static void is_of_no_use(struct stem *m, const char *why)
{
    if (why)
        say(m->set, m->name, why);
    failed(m);
    retire(m);
}

/* What the interpreter says; a process of brig's, but it is parsed as what comes from anybody. */
static void hear_process(struct stem *m, const char *text, size_t len)
{
    struct json *root = NULL;
    if (json_parse(text, len, &json_default_limits, &root, NULL) < 0)
        return;
    const struct json *ready = json_get(root, "ready"), *missing = json_get(root, "missing");
    const char *error = json_text(root, "error");
    if (ready && json_type(ready) == JSON_BOOL && json_bool(ready)) {
        is_ready(m);
        if (missing && json_type(missing) == JSON_ARRAY && json_count(missing) > 0 &&
            json_string(json_at(missing, 0))) {
            char what[200];
            snprintf(what, sizeof what, "%zu modules are not installed, among them %.100s",
                     json_count(missing), json_string(json_at(missing, 0)));
            say(m->set, m->name, what);
        }
    } else {
        is_of_no_use(m, error ? error : "its template process is not ready");
    }
    json_free(root);
}

/* What its warden says, which is a fork of ours. VM-31 */
static void hear_machine(struct stem *m, const char *text, size_t len)
{
    if (len != sizeof m->parked.facts || !parked_sealed(&m->parked)) {
        is_of_no_use(m, "its machine was parked, but can still be changed: it is not used");
        return;
    }
    memcpy(&m->parked.facts, text, len);
    is_ready(m);
}

/* A warden that wanted to make a clone, a fork of ours as well. */
static void hear_failure(struct stem *m, char *text, size_t len)
{
    char what[300];
    text[len < SAID_MAX ? len : SAID_MAX - 1] = '\0';
    snprintf(what, sizeof what, "its parked machine is given up: %.200s", text);
    is_of_no_use(m, what);
}

static void on_door(struct loop_io *io, uint32_t events)
{
    struct stem *m = container_of(io, struct stem, door);
    static char text[SAID_MAX];
    (void)events;
    ssize_t n = recv(io->fd, text, sizeof text, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && !m->ready)
        (m->machine ? hear_machine : hear_process)(m, text, (size_t)n);
    else if (n > 0 && m->machine)
        hear_failure(m, text, (size_t)n);
    else
        is_of_no_use(m, NULL);
}

static void on_link(struct loop_io *io, uint32_t events)
{
    struct stem *m = container_of(io, struct stem, link);
    char text[600];
    (void)events;
    ssize_t n = recv(io->fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        text[n] = '\0';
        is_of_no_use(m, text);
        return;
    }
    loop_forget(m->set->loop, io); /* the child's end is heard of soon */
}

/* ---- starting ---- */

static bool watch(struct stem *m, struct loop_io *io, int fd,
                  void (*fn)(struct loop_io *io, uint32_t events))
{
    *io = (struct loop_io){.fd = fd, .fn = fn};
    return loop_watch(m->set->loop, io, EPOLLIN) >= 0;
}

static bool fork_warden(struct stem *m, const struct template *t)
{
    int link[2], door[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0)
        return false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, door) < 0) {
        close(link[0]);
        close(link[1]);
        return false;
    }
    m->pid = fork();
    if (m->pid == 0) {
        m->set->become(m->set->ctx, link[1], door[1], t, m->lease, m->machine ? &m->parked : NULL);
        _exit(125);
    }
    close(link[1]);
    if (m->machine)
        m->far = door[1];
    else
        close(door[1]);
    return watch(m, &m->link, link[0], on_link) && watch(m, &m->door, door[0], on_door) &&
           m->pid > 0;
}

/* What it needs of the launcher. */
static int make(struct stem *m, struct err *err)
{
    if (m->machine)
        return parked_make(&m->parked, err);
    m->lease = geteuid() == 0 ? kernel_lease() : 0;
    if (m->set->image < 0)
        m->set->image = kernel_image(err);
    return m->set->image < 0 ? err_number(err) : 0;
}

static struct stem *start(struct stems *s, const struct template *t)
{
    struct err err = ERR_INIT;
    struct stem *m = s->count < STEMS_MAX ? calloc(1, sizeof *m) : NULL;
    if (!m)
        return NULL;
    *m = (struct stem){.set = s,
                       .link = {.fd = -1},
                       .door = {.fd = -1},
                       .far = -1,
                       .machine = stem_parks(t),
                       .parked = PARKED_NONE,
                       .since_ms = loop_now_ms(s->loop)};
    snprintf(m->name, sizeof m->name, "%s", t->name);
    s->items[s->count++] = m;
    if (make(m, &err) < 0 || !fork_warden(m, t)) {
        failed(m);
        m->pid = m->pid > 0 ? m->pid : 0;
        retire(m);
        return NULL;
    }
    return m;
}

/* ---- choosing ---- */

static bool is_fresh(const struct stem *m)
{
    uint64_t age = loop_now_ms(m->set->loop) - m->since_ms;
    if (!m->ready)
        return age < START_MS + (m->machine ? run_boot_ms(TIER_VM) : 0);
    return age < STEMS_AGE_MS && m->clones < STEMS_CLONES_MAX;
}

/* A stem of this template that can be used: a fresh one first. */
static struct stem *find(struct stems *s, const char *name, bool ready)
{
    struct stem *best = NULL;
    for (unsigned i = 0; i < s->count; i++) {
        struct stem *m = s->items[i];
        if (m->door.fd < 0 || strcmp(m->name, name) != 0 || m->ready != ready)
            continue;
        if (!best || (is_fresh(m) && !is_fresh(best)))
            best = m;
    }
    return best;
}

/* Ends the stems that a ready and fresh one has replaced, and those that never became ready. */
static void retire_old(struct stems *s, const char *name, const struct stem *best)
{
    for (unsigned i = s->count; i-- > 0;) {
        struct stem *m = s->items[i];
        if (m == best || m->door.fd < 0 || strcmp(m->name, name) != 0 || is_fresh(m))
            continue;
        if (!m->ready)
            failed(m);
        if (!m->ready || (best && best->ready && is_fresh(best))) {
            forgive(m);
            retire(m);
        }
    }
}

/* What was parked stays in memory until the last of its clones has ended, and is on nobody's
 * account: clones that live long must not keep one after the other. */
static bool may_start(struct stems *s, const char *name)
{
    unsigned kept = 0, at = past_of(s, name);
    if (loop_now_ms(s->loop) < s->past[at].not_before_ms)
        return false;
    for (unsigned i = 0; i < s->count; i++)
        kept += s->items[i]->machine && s->items[i]->door.fd < 0 && s->items[i]->users > 0 &&
                strcmp(s->items[i]->name, name) == 0;
    if (kept < STEMS_KEPT_MAX)
        return true;
    s->past[at].not_before_ms = loop_now_ms(s->loop) + LONGEST_MS;
    say(s, name, "no other machine is parked: too many are kept by sandboxes that live on");
    return false;
}

/* A stem that does not answer requests is replaced by another. The requests that it already has
 * stay with it. */
static bool is_stuck(struct stem *m)
{
    int queued = 0;
    uint64_t now = loop_now_ms(m->set->loop);
    if (ioctl(m->door.fd, SIOCOUTQ, &queued) < 0 || queued == 0)
        m->queued_ms = 0;
    else if (m->queued_ms == 0)
        m->queued_ms = now;
    return m->queued_ms && now - m->queued_ms > STUCK_MS;
}

static struct stem *choose(struct stems *s, const struct template *t)
{
    struct stem *ready = find(s, t->name, true);
    if (ready && is_stuck(ready)) {
        say(s, t->name, "its template process does not answer; another one is started");
        retire(ready);
        ready = find(s, t->name, true);
    }
    retire_old(s, t->name, ready);
    struct stem *coming = find(s, t->name, false);
    bool wanted = !ready || !is_fresh(ready);
    if (wanted && !coming && !s->closed && may_start(s, t->name))
        coming = start(s, t);
    return ready ? ready : coming;
}

struct stem *stems_take(struct stems *s, const struct template *t, bool patient,
                        struct stem_source *ret)
{
    char why[STEM_WHY_SIZE];
    if (!stem_possible(t, why))
        return NULL;
    struct stem *m = choose(s, t);
    if (!m || (!m->ready && (!patient || m->machine)))
        return NULL;
    m->users++;
    m->clones++;
    *ret = (struct stem_source){
        .machine = m->machine,
        .process = {.door = m->door.fd,
                    .image = s->image,
                    .lease = m->lease,
                    .patience_ms = m->ready ? PATIENCE_MS : LOADING_MS},
        .parked = m->parked,
        .door = m->far,
    };
    return m;
}
