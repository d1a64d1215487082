/* The porter: plans the ways out, starts brig-proxy beside a container, listens to it. See
 * porter.h. */
#include "oci/porter.h"

#include "audit/denial.h"
#include "audit/evidence.h"
#include "audit/netlog.h"
#include "base/cleanup.h"
#include "kernel/kernel.h"
#include "oci/container.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/seal.h"
#include "os/sys.h"
#include "sandbox/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define NAME       "brig-porter"
#define AWAIT_MS   20000
#define RECORD_MAX (1u << 20)

/* ---- outside: what create does ---- */

int oci_porter_plan(struct oci_porter *p, const struct oci_config *c, const struct oci_operator *o,
                    struct err *err)
{
    int r = oci_egress_decide(c, o, &p->policy, err);
    if (r <= 0)
        return r;
    p->asked = true;
    plan_init(&p->plan);
    if (network_open(&p->network, &p->policy, true, err) < 0 ||
        network_plan(&p->network, STAGE_RESTRICT, &p->plan, err) < 0)
        return err_number(err);
    if (p->network.listeners > ARRAY_LEN(p->listeners))
        return err_set(err, ERR_LIMIT, "the rules need too many listeners");
    return plan_finish(&p->plan, err);
}

int oci_porter_take(struct oci_porter *p, int sync_fd, struct err *err)
{
    while (p->asked && p->count < p->network.listeners) {
        int32_t number;
        int fd = oci_expect_listener(sync_fd, &number, err);
        if (fd < 0)
            return err_number(err);
        p->listeners[p->count].fd = fd;
        p->listeners[p->count++].number = number;
        if (network_take(&p->network, fd, number, err) < 0)
            return err_number(err);
    }
    return 0;
}

int oci_porter_attest(struct oci_porter *p, pid_t container, struct json_writer *w, struct err *err)
{
    struct evidence out = {.w = w};
    jw_object_begin(w);
    if (p->asked && network_attest(&p->network, container, &out, err) < 0)
        return err_number(err);
    jw_object_end(w);
    return 0;
}

void oci_porter_await(const struct oci_state *s)
{
    struct proc_stat st;
    cleanup_fd int fd = s->porter > 0 ? sys_pidfd_open(s->porter) : -1;
    if (fd < 0 || !procfs_stat(s->porter, &st) || st.start != s->porter_start)
        return;
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (poll(&ended, 1, AWAIT_MS) <= 0)
        sys_pidfd_send_signal(fd, SIGKILL);
    waitpid(s->porter, NULL, WNOHANG); /* of `run` it is a child; else of the engine's */
}

void oci_porter_done(struct oci_porter *p)
{
    for (unsigned i = 0; i < p->count; i++)
        close(p->listeners[i].fd);
    p->count = 0;
    if (!p->asked)
        return;
    plan_done(&p->plan);
    policy_done(&p->policy);
    p->asked = false;
}

/* ---- beside: the process itself ---- */

struct post {
    struct oci_porter *porter;
    const struct oci_log *log;
    const char *id;
    struct link link;
    struct netlog *netlog;
    struct denial_list denials;
    int sync_fd, container_fd, record_fd;
};

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Of what the engine and create have open it keeps what it works with: a pipe of the container's
 * that stayed open would never end for who reads it, and the state would stay locked. */
static int keep_only(const struct post *p, struct err *err)
{
    int keep[OCI_LISTENERS_MAX + 8] = {p->sync_fd, p->container_fd, p->record_fd};
    size_t count = 3;
    unsigned next = 3;
    if (p->log->engine >= 0)
        keep[count++] = p->log->engine;
    if (p->log->operators >= 0)
        keep[count++] = p->log->operators;
    for (unsigned i = 0; i < p->porter->count; i++)
        keep[count++] = p->porter->listeners[i].fd;
    qsort(keep, count, sizeof keep[0], compare);
    for (size_t i = 0; i < count; next = (unsigned)keep[i++] + 1)
        if ((unsigned)keep[i] > next && sys_close_range(next, (unsigned)keep[i] - 1, 0) < 0)
            return err_sys(err, "close what is not the porter's");
    if (sys_close_range(next, ~0u, 0) < 0)
        return err_sys(err, "close what is not the porter's");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        if (dup2(null, fd) < 0)
            return err_sys(err, "leave the standard streams");
    return null < 0 ? err_sys(err, "open /dev/null") : 0;
}

/* Of what brig-proxy says much is made by strangers; who hears it has nothing to give away. Same
 * uid as brig-proxy, so that the end of one is the end of the other. */
static int seal(uid_t uid, struct err *err)
{
    static const int allowed[] = {SEAL_CALLS_LIFE, SYS_write, SYS_recvmsg, SYS_sendmsg,
                                  SYS_shutdown,    SYS_close, SYS_ppoll,
#ifdef SYS_poll
                                  SYS_poll,
#endif
                                  SYS_kill,        SYS_wait4};
    static const struct seal_choice choices[] = {SEAL_CHOICES_NO_CODE};
    if (seal_identity(uid, uid, NAME, err) < 0 || seal_paths(-1, 0, NAME, err) < 0 ||
        seal_ports(NAME, err) < 0)
        return err_number(err);
    return seal_calls(SEAL_LISTS(allowed, choices), NAME, err);
}

static int open_gates(struct post *p, struct err *err)
{
    uid_t uid = geteuid() == 0 ? kernel_leased_uid(0) | KERNEL_UID_PROXY : 0;
    struct link_config c = {.egress = &p->porter->policy.egress, .uid = uid};
    if (netlog_new(&p->netlog, err) < 0 || link_start(&p->link, &c, err) < 0 ||
        link_await(&p->link, -1, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < p->porter->count; i++) {
        int32_t number = p->porter->listeners[i].number;
        enum channel_listener kind = (enum channel_listener)(number >> 16);
        if (link_listener(&p->link, p->porter->listeners[i].fd, kind, (uint16_t)number) < 0)
            return err_set(err, ERR_SYSTEM, "brig-proxy died during the set-up");
        close(p->porter->listeners[i].fd);
    }
    return seal(uid, err);
}

/* A kind of denial is told once, when it is new; how often it was, at the end. */
static void tell(const struct post *p, const struct denial *d)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    jw_begin(&w, &out, 8192);
    jw_kv_string(&w, "container", p->id);
    jw_kv_string(&w, "boundary", boundary_name(d->boundary));
    jw_kv_string(&w, "what", d->what);
    jw_kv_string(&w, "rule", d->rule);
    jw_kv_string(&w, "hint", d->hint);
    jw_object_end(&w);
    oci_log_tell(p->log, "warning", "denied", "denial", &out);
}

/* {"lost_events": n}: what it could not deliver. */
static void take_totals(struct post *p, const struct channel_msg *msg)
{
    struct json *root = NULL;
    if (json_parse(msg->text, msg->text_len, &json_default_limits, &root, NULL) < 0)
        return;
    uint64_t lost = json_uint(root, "lost_events");
    if (lost)
        netlog_lost(p->netlog, lost);
    json_free(root);
}

static void on_message(void *ctx, const struct channel_msg *msg)
{
    struct post *p = ctx;
    size_t before = p->denials.count;
    if (msg->type == CH_EVENT)
        netlog_add(p->netlog, msg->text, msg->text_len, &p->denials);
    else if (msg->type == CH_BYE)
        take_totals(p, msg);
    while (before < p->denials.count)
        tell(p, &p->denials.items[before++]);
}

/* No way out is left then, and the container runs on without. */
static void on_death(struct post *p)
{
    struct denial d = {.boundary = BOUNDARY_NETWORK,
                       .what = "every connection: brig-proxy died",
                       .rule = "no proxy, no network",
                       .hint = "start the container anew; if it happens again, report it",
                       .count = 1};
    denial_put(&p->denials, &d);
    tell(p, &d);
}

static void stand(struct post *p)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = p->container_fd, .events = POLLIN},
                               {.fd = p->link.fd, .events = POLLIN}};
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return;
        if (fds[0].revents)
            return;
        int r = 0;
        for (int i = 0; fds[1].revents && i < 64 && (r = link_next(&p->link)) > 0; i++)
            on_message(p, p->link.msg);
        if (r < 0)
            on_death(p);
    }
}

static void write_record(const struct post *p)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    jw_begin(&w, &out, RECORD_MAX);
    jw_key(&w, "network");
    netlog_write_json(p->netlog, &w, false);
    jw_key(&w, "denials");
    denial_write_json(&p->denials, &w);
    jw_object_end(&w);
    if (!out.failed)
        (void)!write(p->record_fd, out.data, out.len);
}

static _Noreturn void post_main(struct post *p)
{
    struct err err = ERR_INIT;
    struct oci_step ready = {.word = OCI_WORD_READY};
    prctl(PR_SET_NAME, NAME, 0, 0, 0);
    link_init(&p->link);
    if (setsid() < 0 || chdir("/") < 0)
        err_sys(&err, "leave the caller's session");
    else if (keep_only(p, &err) == 0)
        open_gates(p, &err);
    if (err.code != ERR_NONE) {
        link_done(&p->link);
        oci_give_up(p->sync_fd, &err);
    }
    ready.number = p->link.pid;
    if (write(p->sync_fd, &ready, sizeof ready) == (ssize_t)sizeof ready) {
        close(p->sync_fd);
        stand(p);
    }
    link_end(&p->link, on_message, p);
    write_record(p);
    seal_exit(0);
    _exit(0);
}

/* ---- its birth ---- */

static int open_post(struct post *p, pid_t container, const struct oci_state *s, struct err *err)
{
    p->container_fd = sys_pidfd_open(container);
    if (p->container_fd < 0)
        return err_sys(err, "pidfd of the container");
    p->record_fd = openat(s->dir_fd, OCI_NETWORK_FILE,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return p->record_fd < 0 ? err_sys(err, "make %s", OCI_NETWORK_FILE) : 0;
}

static int give_birth(struct oci_porter *p, struct post *post, struct oci_state *s, struct err *err)
{
    int pair[2];
    int32_t proxy = 0;
    struct proc_stat st;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, "socket pair");
    cleanup_fd int ours = pair[0];
    post->sync_fd = pair[1];
    p->pid = fork();
    if (p->pid == 0)
        post_main(post);
    close(pair[1]);
    if (p->pid < 0 || !procfs_stat(p->pid, &st))
        return err_sys(err, "start the porter");
    s->porter = p->pid;
    s->porter_start = st.start;
    if (oci_expect_number(ours, OCI_WORD_READY, &proxy, err) < 0)
        return err_number(err);
    p->network.proxy_pid = proxy;
    return 0;
}

int oci_porter_start(struct oci_porter *p, pid_t container, struct oci_state *s,
                     const struct oci_log *log, struct err *err)
{
    if (!p->asked)
        return 0;
    struct post *post = calloc(1, sizeof *post);
    if (!post)
        return err_memory(err);
    *post = (struct post){
        .porter = p, .log = log, .id = s->id, .sync_fd = -1, .container_fd = -1, .record_fd = -1};
    int r = open_post(post, container, s, err);
    if (r == 0)
        r = give_birth(p, post, s, err);
    if (post->container_fd >= 0)
        close(post->container_fd);
    if (post->record_fd >= 0)
        close(post->record_fd);
    free(post);
    return r;
}
