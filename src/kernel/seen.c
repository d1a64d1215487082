/* Refused calls are seen: the kernel parks the caller and asks the supervisor, which counts and
 * answers with an error. The answer is "go on" only for reports, by which nothing is decided (K-4):
 * no verdict rests on memory that can be raced. */
#include "base/clock.h"
#include "kernel/kernel.h"
#include "kernel/process/broker.h"
#include "kernel/process/hand.h"
#include "kernel/process/learn.h"
#include "kernel/process/report.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* More refused calls than this are answered slowly. */
#define REFUSED_FAST     2000u
#define REFUSED_PAUSE_MS 1u
/* Answering refused calls costs the supervisor CPU time that no limit of the sandbox counts: after
 * this long, spend at most a quarter of the time on it. */
#define BUSY_US       1000000u
#define BUSY_SHARE    4u
#define BUSY_PAUSE_MS 10u

static int refusal(const struct seccomp_notif *n)
{
    bool x32 = FILTER_NATIVE == FILTER_X86_64 && ((uint32_t)n->data.nr & FILTER_X32_BIT);
    bool foreign = n->data.arch != FILTER_NATIVE || x32;
    return foreign ? -ENOSYS : -EPERM;
}

/* glibc asks a name service daemon, with exactly this socket, whenever a program looks up a user.
 * It is refused like any other, but listing it would put a line under every run. */
static bool is_name_service_probe(const struct seccomp_data *d)
{
    return d->arch == FILTER_NATIVE && d->nr == SYS_socket && (int)d->args[0] == AF_UNIX &&
           (int)d->args[1] == (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* With a network, every look-up of a name asks the kernel for the host's addresses (netlink) and
 * for a route to each answer (a datagram socket that is connected and never used), and does
 * without. */
static bool is_address_probe(const struct kernel *k, const struct seccomp_data *d)
{
    int family = (int)d->args[0], type = (int)d->args[1];
    if (!k->options.brokered_net || d->arch != FILTER_NATIVE || d->nr != SYS_socket || d->args[2])
        return false;
    return (family == AF_NETLINK && type == (SOCK_RAW | SOCK_CLOEXEC)) ||
           ((family == AF_INET || family == AF_INET6) && (type & ~SOCK_CLOEXEC) == SOCK_DGRAM);
}

static void record(struct kernel *k, const struct seccomp_notif *n, struct denial_list *list)
{
    if (is_name_service_probe(&n->data) || is_address_probe(k, &n->data))
        return;
    struct filter_denial d;
    uint64_t args[6];
    memcpy(args, n->data.args, sizeof args);
    filter_describe(n->data.arch, n->data.nr, args, &d);
    if (k->options.module)
        filter_describe_module(&d);
    denial_add(list, d.boundary, d.what, d.rule, d.hint);
    learn_refused(k, &d);
}

/* What the call returns if the supervisor did what was asked, on its own copy of the arguments;
 * else the error for the caller. */
static int judge(struct kernel *k, const struct seccomp_notif *n)
{
    const struct filter_options *o = &k->options;
    bool signals = filter_is_brokered_signal(n->data.arch, n->data.nr);
    bool meta = filter_is_brokered_meta(n->data.arch, n->data.nr);
    if (signals && !o->isolated_pids && !o->scoped_signals)
        return hand_signal(k, n);
    if (meta && !o->own_view && !o->own_uid)
        return hand_change(k, n);
    if (o->own_view && filter_is_brokered_watch(n->data.arch, n->data.nr))
        return hand_watch(k, n);
    if (o->brokered_net && filter_is_brokered_connect(n->data.arch, n->data.nr))
        return broker_connect(k, n);
    return refusal(n);
}

/* Report and learn mode: what the plain filter says to this very call, with these registers. One
 * that it allows goes on, which decides nothing: mounts and Landlock do, in the kernel, on what the
 * call really names by then. */
static uint32_t plain_verdict(const struct kernel *k, const struct seccomp_notif *n)
{
    struct seccomp_data data = n->data;
    bool shown = (k->options.private_shm && filter_is_brokered_shm(data.arch, data.nr)) ||
                 (k->options.report && filter_is_reported(data.arch, data.nr)) ||
                 (k->options.learn && filter_is_learned(data.arch, data.nr));
    return shown ? filter_run(&k->plain, &data) : SECCOMP_RET_USER_NOTIF;
}

/* Until something was opened in /dev/shm there is no name to remove or to link: most programs never
 * do, and are not held up by the hand. */
static int serve_shm(struct kernel *k, const struct seccomp_notif *n)
{
    bool shown = k->options.private_shm && filter_is_brokered_shm(n->data.arch, n->data.nr);
    if (!shown || !(k->shm_used || broker_shm_opens(n)))
        return SHM_PASS;
    int result = hand_shm(k, n);
    if (result != SHM_PASS)
        k->shm_used = true;
    return result;
}

static void report(struct kernel *k, const struct seccomp_notif *n, struct denial_list *list)
{
    if (k->options.report && filter_is_reported(n->data.arch, n->data.nr))
        report_path(k, n, list);
    if (k->options.learn)
        learn_call(k, n);
}

static void tell(struct seccomp_notif_resp *answer, int result)
{
    answer->error = result < 0 ? result : 0;
    answer->val = result < 0 ? 0 : result;
}

/* A call that the plain filter allows. One that names something in /dev/shm is made here; all
 * others go on, and what they really name by then is decided by the kernel. */
static void answer_allowed(struct kernel *k, const struct seccomp_notif *n,
                           struct seccomp_notif_resp *answer, struct denial_list *list)
{
    int result = serve_shm(k, n);
    if (result != SHM_PASS)
        return tell(answer, result);
    report(k, n, list);
    answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
}

/* True: the caller is refused, and it is told. */
static bool answer_call(struct kernel *k, const struct seccomp_notif *n,
                        struct seccomp_notif_resp *answer, struct denial_list *list)
{
    uint32_t verdict = plain_verdict(k, n);
    if (k->options.watched_net && filter_is_brokered_connect(n->data.arch, n->data.nr)) {
        watch_connect(k, n);
        if (k->options.learn)
            learn_connect(k, n);
        answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    } else if (verdict == SECCOMP_RET_ALLOW) {
        answer_allowed(k, n, answer, list);
        return false;
    } else if ((verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO) {
        answer->error = -(int32_t)(verdict & SECCOMP_RET_DATA);
        return false;
    } else {
        tell(answer, judge(k, n));
        k->seen_count++;
    }
    return answer->error == -EPERM || answer->error == -ENOSYS;
}

int seen_answer(struct kernel *k, struct denial_list *list)
{
    union {
        struct seccomp_notif n;
        char room[256]; /* a newer kernel may write more */
    } got;
    union {
        struct seccomp_notif_resp r;
        char room[256];
    } answer;
    memset(&got, 0, sizeof got);
    memset(&answer, 0, sizeof answer);
    if (ioctl(k->listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &got) < 0)
        return errno == ENOENT || errno == EINTR || errno == EAGAIN ? 0 : -errno;
    uint64_t began = clock_us();
    if (!k->seen_from_us)
        k->seen_from_us = began;
    answer.r.id = got.n.id;
    if (answer_call(k, &got.n, &answer.r, list))
        record(k, &got.n, list);
    bool sent = ioctl(k->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0;
    if (!sent && errno != ENOENT)
        return -errno;
    if (!sent && filter_is_brokered_connect(got.n.data.arch, got.n.data.nr) && answer.r.error == 0)
        broker_connect_unanswered(&k->connects);
    if (k->options.brokered_net) /* while nobody waits */
        hand_ready(k);
    k->asked_count++;
    k->seen_busy_us += clock_us() - began;
    return 0;
}

/* K-17 */
unsigned seen_pause_ms(const struct kernel *k)
{
    bool asked_for = k->options.report || k->options.learn;
    if (k->seen_count > REFUSED_FAST)
        return REFUSED_PAUSE_MS;
    uint64_t share = (clock_us() - k->seen_from_us) / BUSY_SHARE;
    return !asked_for && k->seen_busy_us > BUSY_US + share ? BUSY_PAUSE_MS : 0;
}

void seen_rest(struct kernel *k)
{
    if (k->asked_count == k->rested_count)
        hand_rest(k);
    k->rested_count = k->asked_count;
}

void seen_end(struct kernel *k)
{
    hand_rest(k);
}
