/* One connection: the first byte, the handshake, the way through the door, and then bytes both ways
 * with a bounded rest in each (TL-2).
 *
 * Ends are carried through. A client's close_notify is the end of what the front reads, and the
 * other way goes on; a connection that breaks off, without that word, breaks off for the front as
 * well. The end of the front's answer is a close_notify for the client. */
#include "tls/gate.h"

#include "base/cleanup.h"
#include "base/container.h"
#include "base/shake_parse.h"
#include "wire/handover.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define HANDSHAKE_MS  10000 /* from the first moment until the front has it */
#define LINGER_MS     2000
#define LINGER_MAX    (1u << 20)
#define RECORD_MAX    (16u * 1024) /* what a record of TLS holds: a read takes all of it */
#define RECORD_HEADER 5u           /* its kind, version and length */
#define STEPS_MAX     16           /* in one direction, before others have their turn */
/* Records in a row that bring no data: those of a handshake, key updates, refused renegotiations.
 * Each costs the sender less than us. */
#define IDLE_RECORDS_MAX 100
/* Records of a client's side of a handshake, in bytes: two hellos are a few thousand. OpenSSL would
 * take eight times as much, and make room for it as soon as a hello says that it is so long, before
 * the stranger has said anything that can be judged. */
#define HANDSHAKE_BYTES_MAX (2 * RECORD_MAX)
/* Of what waits for a client it takes so much in each PACE_MS, as the front asks of its own. */
#define PACE    (16u * 1024)
#define PACE_MS 75000

enum link_phase {
    LINK_HELLO,     /* not a byte has come */
    LINK_HANDSHAKE, /* of TLS */
    LINK_DOOR,      /* done; the front has not taken it yet */
    LINK_OPEN,      /* bytes go both ways */
    LINK_LINGER,    /* all is said; what still comes is thrown away, or else the answer could be
                       lost with the reset */
    LINK_DEAD,
};

/* One direction. */
struct flow {
    char *held; /* what the other side has not taken yet, or NULL */
    size_t at, len;
    bool eof;  /* nothing more comes in */
    bool done; /* and nothing more goes out */
};

struct link {
    struct gate *gate;
    struct loop_io outer, inner; /* the client; the front */
    struct loop_timer timer;
    struct loop_task release;
    struct ring of_all, of_waiting, of_door;
    struct peer_address from;
    struct peer_group group;
    int handed; /* the front's end, until it has it */
    SSL *ssl;
    enum link_phase phase;
    struct flow up, down;
    uint32_t read_needs, write_needs; /* EPOLL*: what TLS itself waits for */
    bool client_ended;
    bool front_ended; /* all that is left is for a client who may never read it */
    unsigned idle_records;
    size_t shaken; /* bytes of its handshake */
    struct shake said;
    bool claims_much; /* a message of it says that it is longer than is taken */
    size_t moved, discarded;
};

/* ---- those that may give way ---- */

static void waits(struct link *l, bool waiting)
{
    bool was = l->of_waiting.next != &l->of_waiting;
    if (waiting == was)
        return;
    if (waiting) {
        ring_add(&l->gate->waiting, &l->of_waiting);
        l->gate->waiting_count++;
    } else {
        ring_remove(&l->of_waiting);
        l->gate->waiting_count--;
    }
}

/* ---- the end ---- */

static void link_free(struct loop_task *t)
{
    free(container_of(t, struct link, release));
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void drop_inside(struct link *l)
{
    loop_forget(l->gate->loop, &l->inner);
    close_fd(&l->inner.fd);
    close_fd(&l->handed);
    SSL_free(l->ssl);
    l->ssl = NULL;
    free(l->up.held);
    free(l->down.held);
    l->up = l->down = (struct flow){.eof = true, .done = true};
}

static void link_end(struct link *l)
{
    struct gate *g = l->gate;
    if (l->phase == LINK_DEAD)
        return;
    l->phase = LINK_DEAD;
    waits(l, false);
    ring_remove(&l->of_door);
    ring_remove(&l->of_all);
    drop_inside(l);
    loop_forget(g->loop, &l->outer);
    loop_timer_cancel(g->loop, &l->timer);
    close_fd(&l->outer.fd);
    /* Its own callback may be running: the memory goes when the round is over. */
    loop_defer(g->loop, &l->release);
    if (--g->count == 0 && g->ending)
        g->idle(g->ctx);
}

static void linger(struct link *l)
{
    drop_inside(l);
    shutdown(l->outer.fd, SHUT_WR);
    l->phase = LINK_LINGER;
    waits(l, true);
    loop_timer_set(l->gate->loop, &l->timer, LINGER_MS);
    loop_watch(l->gate->loop, &l->outer, EPOLLIN);
}

static void discard(struct link *l)
{
    char block[4096];
    ssize_t n = recv(l->outer.fd, block, sizeof block, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    l->discarded += n > 0 ? (size_t)n : 0;
    if (n <= 0 || l->discarded > LINGER_MAX)
        link_end(l);
}

void link_end_waiting(struct gate *g)
{
    struct ring *next;
    for (struct ring *r = g->waiting.next; r != &g->waiting; r = next) {
        struct link *l = container_of(r, struct link, of_waiting);
        next = r->next;
        if (l->phase != LINK_OPEN)
            link_end(l);
    }
}

bool link_evict(struct gate *g, const struct peer_group *of)
{
    for (struct ring *r = g->waiting.next; r != &g->waiting; r = r->next) {
        struct link *l = container_of(r, struct link, of_waiting);
        if (of && !peer_group_equal(of, &l->group))
            continue;
        link_end(l);
        return true;
    }
    return false;
}

unsigned link_waiting(const struct gate *g, const struct peer_group *of)
{
    unsigned n = 0;
    for (struct ring *r = g->waiting.next; r != &g->waiting; r = r->next)
        n += peer_group_equal(of, &container_of(r, struct link, of_waiting)->group);
    return n;
}

void link_end_all(struct gate *g)
{
    while (g->all.next != &g->all)
        link_end(container_of(g->all.next, struct link, of_all));
}

/* ---- what TLS says ---- */

/* 0: nothing will help. */
static uint32_t needs_of(const struct link *l, int result)
{
    int error = SSL_get_error(l->ssl, result);
    return error == SSL_ERROR_WANT_READ    ? (uint32_t)EPOLLIN
           : error == SSL_ERROR_WANT_WRITE ? (uint32_t)EPOLLOUT
                                           : 0;
}

/* OpenSSL reads on by itself after some records that bring nothing: they are counted as they come,
 * and where there are too many it finds nothing more to read. */
static void count_record(int sent, int version, int type, const void *data, size_t len, SSL *ssl,
                         void *link)
{
    struct link *l = link;
    const uint8_t *header = data;
    (void)version;
    (void)ssl;
    if (sent || type != SSL3_RT_HEADER)
        return;
    l->idle_records++;
    if (l->phase == LINK_HANDSHAKE && len == RECORD_HEADER)
        l->shaken += (size_t)header[3] << 8 | header[4];
}

/* Called before each read and after it: what was read is looked at before OpenSSL has it. */
static long may_read(BIO *bio, int what, const char *data, size_t len, int argi, long argl,
                     int result, size_t *processed)
{
    struct link *l = (struct link *)BIO_get_callback_arg(bio);
    bool before = what == BIO_CB_READ, after = what == (BIO_CB_READ | BIO_CB_RETURN);
    (void)len;
    (void)argi;
    (void)argl;
    if (after && result > 0 && l->phase == LINK_HANDSHAKE)
        l->claims_much = !shake_take(&l->said, data, *processed, HANDSHAKE_BYTES_MAX,
                                     SSL_version(l->ssl) < TLS1_3_VERSION);
    bool enough = l->idle_records > IDLE_RECORDS_MAX || l->shaken > HANDSHAKE_BYTES_MAX;
    if (!(before && enough) && !((before || after) && l->claims_much))
        return result;
    BIO_clear_retry_flags(bio);
    return -1;
}

static SSL *ssl_for(struct link *l)
{
    SSL *ssl = SSL_new(l->gate->settings);
    if (!ssl || SSL_set_fd(ssl, l->outer.fd) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_msg_callback(ssl, count_record);
    SSL_set_msg_callback_arg(ssl, l);
    BIO_set_callback_ex(SSL_get_rbio(ssl), may_read);
    BIO_set_callback_arg(SSL_get_rbio(ssl), (char *)l);
    SSL_set_accept_state(ssl);
    return ssl;
}

/* ---- one direction; each step: 1 go on, 0 wait, negative: it broke off ---- */

static void flow_drop(struct flow *f)
{
    free(f->held);
    f->held = NULL;
    f->at = f->len = 0;
}

static int flow_hold(struct flow *f, const char *data, size_t len)
{
    if (!len)
        return 1;
    f->held = malloc(len);
    if (!f->held)
        return -ENOMEM;
    memcpy(f->held, data, len);
    f->at = 0;
    f->len = len;
    return 0;
}

/* How much the front took. If it takes no more, what it has said is still the client's. */
static size_t send_up(struct link *l, const char *data, size_t len)
{
    ssize_t n = send(l->inner.fd, data, len, MSG_NOSIGNAL);
    if (n >= 0)
        return (size_t)n;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    l->up.eof = l->up.done = true;
    return len;
}

static ssize_t send_down(struct link *l, const char *data, size_t len)
{
    size_t total = 0, n;
    while (total < len) {
        ERR_clear_error();
        int result = SSL_write_ex(l->ssl, data + total, len - total, &n);
        if (result != 1 && !(l->write_needs = needs_of(l, result)))
            return -EPIPE;
        if (result != 1)
            break;
        total += n;
    }
    l->moved += total;
    return (ssize_t)total;
}

static ssize_t flow_send(struct link *l, const struct flow *f, const char *data, size_t len)
{
    return f == &l->up ? (ssize_t)send_up(l, data, len) : send_down(l, data, len);
}

/* Without a close_notify the client could not tell the end from a cut: it is waited for until there
 * is room for it. */
static int say_end(struct link *l)
{
    ERR_clear_error();
    int result = SSL_shutdown(l->ssl);
    if (result < 0)
        return (l->write_needs = needs_of(l, result)) ? -EAGAIN : -EPIPE;
    shutdown(l->outer.fd, SHUT_WR);
    return 0;
}

static int flow_finish(struct link *l, struct flow *f)
{
    int r = f == &l->down ? say_end(l) : 0;
    if (r < 0)
        return r == -EAGAIN ? 0 : r;
    f->done = true;
    if (f == &l->up)
        shutdown(l->inner.fd, SHUT_WR);
    return 0;
}

static ssize_t read_client(struct link *l, char *data, size_t len)
{
    size_t n = 0;
    ERR_clear_error();
    int result = SSL_read_ex(l->ssl, data, len, &n);
    if (result == 1) {
        l->idle_records = 0;
        l->read_needs = EPOLLIN;
        return (ssize_t)n;
    }
    if (SSL_get_error(l->ssl, result) == SSL_ERROR_ZERO_RETURN) {
        l->client_ended = true;
        return 0;
    }
    uint32_t needs = needs_of(l, result);
    l->read_needs = needs ? needs : (uint32_t)EPOLLIN;
    return needs ? -EAGAIN : -EPROTO;
}

/* The front may have closed its end with something unread: an end like any other. */
static ssize_t read_front(struct link *l, char *data, size_t len)
{
    ssize_t n = recv(l->inner.fd, data, len, 0);
    if (n >= 0)
        return n;
    return errno == ECONNRESET ? 0 : errno == EINTR ? -EAGAIN : -errno;
}

static int flow_step(struct link *l, struct flow *f)
{
    static char scratch[RECORD_MAX]; /* one thread; what is not sent at once is copied */
    if (f->len) {
        ssize_t n = flow_send(l, f, f->held + f->at, f->len - f->at);
        if (n < 0)
            return (int)n;
        f->at += (size_t)n;
        if (f->at < f->len)
            return 0;
        flow_drop(f);
    }
    if (f->done)
        return 0;
    if (f->eof)
        return flow_finish(l, f);
    ssize_t n = f == &l->up ? read_client(l, scratch, sizeof scratch)
                            : read_front(l, scratch, sizeof scratch);
    if (n == 0) {
        f->eof = true;
        /* Now: it may be the last step of this turn, and no event would follow. */
        return flow_finish(l, f);
    }
    if (n < 0)
        return n == -EAGAIN ? 0 : (int)n;
    ssize_t sent = flow_send(l, f, scratch, (size_t)n);
    return sent < 0 ? (int)sent : flow_hold(f, scratch + sent, (size_t)(n - sent));
}

static int flow_run(struct link *l, struct flow *f)
{
    int r = 1;
    for (int i = 0; i < STEPS_MAX && r > 0; i++)
        r = flow_step(l, f);
    return r;
}

/* ---- both ---- */

/* A part of the answer, or the word that this was all. */
static bool waits_for_client(const struct link *l)
{
    return l->down.len || (l->down.eof && !l->down.done);
}

/* While something waits for the client, it must take a part of it again and again. */
static void keep_pace(struct link *l)
{
    struct loop *loop = l->gate->loop;
    if (!waits_for_client(l)) {
        loop_timer_cancel(loop, &l->timer);
    } else if (!l->timer.due_ms) {
        l->moved = 0;
        loop_timer_set(loop, &l->timer, PACE_MS);
    }
}

/* Where nothing can be taken on, nothing is read: who sends has to wait. */
static void settle(struct link *l)
{
    struct loop *loop = l->gate->loop;
    uint32_t outer = 0, inner = 0;
    if (!l->up.eof && !l->up.len)
        outer |= l->read_needs;
    if (waits_for_client(l))
        outer |= l->write_needs;
    if (!l->down.eof && !l->down.len)
        inner |= EPOLLIN;
    if (l->up.len)
        inner |= EPOLLOUT;
    /* Its hanging up is of interest in any case, which comes unasked. */
    if (!l->front_ended)
        inner |= EPOLLERR;
    keep_pace(l);
    if (loop_watch(loop, &l->outer, outer) < 0 || loop_watch(loop, &l->inner, inner) < 0)
        link_end(l);
}

static void pump(struct link *l)
{
    int up = flow_run(l, &l->up), down = up < 0 ? up : flow_run(l, &l->down);
    if (up < 0 || down < 0)
        link_end(l);
    else if (l->up.done && l->down.done && l->client_ended)
        link_end(l);
    else if (l->up.done && l->down.done)
        linger(l);
    else
        settle(l);
}

static void on_inner(struct loop_io *io, uint32_t events)
{
    struct link *l = container_of(io, struct link, inner);
    if (events & (EPOLLHUP | EPOLLERR)) {
        flow_drop(&l->up);
        l->up.eof = l->up.done = true;
        /* The front does not count it any more: from here on it counts as one that may be closed.
         */
        l->front_ended = true;
        waits(l, true);
    }
    pump(l);
}

/* ---- the start ---- */

bool link_hand_over(struct ring *at_door)
{
    struct link *l = container_of(at_door, struct link, of_door);
    struct gate *g = l->gate;
    int r = handover_send(g->door.fd, &l->from, l->handed);
    if (r == -EAGAIN)
        return false;
    if (r < 0) {
        link_end(l);
        return true;
    }
    ring_remove(&l->of_door);
    close_fd(&l->handed);
    loop_timer_cancel(g->loop, &l->timer);
    l->phase = LINK_OPEN;
    pump(l);
    return true;
}

static void go_to_door(struct link *l)
{
    int pair[2];
    waits(l, false);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
        link_end(l);
        return;
    }
    l->inner = (struct loop_io){.fd = pair[0], .fn = on_inner};
    l->handed = pair[1];
    l->phase = LINK_DOOR;
    loop_watch(l->gate->loop, &l->outer, 0);
    ring_add(&l->gate->at_door, &l->of_door);
    /* Not past those who came before. */
    if (l->gate->at_door.next != &l->of_door || !link_hand_over(&l->of_door))
        gate_knock(l->gate);
}

static void shake_hands(struct link *l)
{
    ERR_clear_error();
    int result = SSL_do_handshake(l->ssl);
    if (result == 1) {
        go_to_door(l);
        return;
    }
    uint32_t needs = needs_of(l, result);
    ERR_clear_error();
    if (!needs || loop_watch(l->gate->loop, &l->outer, needs) < 0)
        link_end(l);
}

/* Before a word of TLS: no key has been asked for yet, and none that came is read. */
static void say_https(struct link *l)
{
    static const char body[] =
        "{\"code\":400,\"message\":\"this port speaks TLS: say https:// instead of http://\"}";
    char text[300];
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                     sizeof body - 1, body);
    send(l->outer.fd, text, (size_t)n, MSG_NOSIGNAL);
    linger(l);
}

/* Nothing is made for a connection before it has said something. */
static void first_byte(struct link *l)
{
    uint8_t first = 0;
    ssize_t n = recv(l->outer.fd, &first, 1, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == 1 && first >= 'A' && first <= 'Z') {
        say_https(l);
        return;
    }
    l->ssl = n == 1 ? ssl_for(l) : NULL;
    if (!l->ssl) {
        ERR_clear_error();
        link_end(l);
        return;
    }
    l->phase = LINK_HANDSHAKE;
    shake_hands(l);
}

static void on_outer(struct loop_io *io, uint32_t events)
{
    struct link *l = container_of(io, struct link, outer);
    (void)events;
    switch (l->phase) {
    case LINK_HELLO:
        first_byte(l);
        break;
    case LINK_HANDSHAKE:
        shake_hands(l);
        break;
    case LINK_OPEN:
        pump(l);
        break;
    case LINK_LINGER:
        discard(l);
        break;
    case LINK_DOOR:
    case LINK_DEAD:
        break;
    }
}

static void on_timer(struct loop_timer *t)
{
    struct link *l = container_of(t, struct link, timer);
    if (l->phase != LINK_OPEN || l->moved < PACE)
        link_end(l);
    else
        keep_pace(l);
}

void link_new(struct gate *g, int fd, const struct peer_address *from)
{
    struct link *l = calloc(1, sizeof *l);
    if (!l) {
        close(fd);
        return;
    }
    *l = (struct link){.gate = g,
                       .outer = {.fd = fd, .fn = on_outer},
                       .inner = {.fd = -1},
                       .timer.fn = on_timer,
                       .release.fn = link_free,
                       .from = *from,
                       .group = peer_group(from),
                       .handed = -1,
                       .read_needs = EPOLLIN,
                       .write_needs = EPOLLOUT};
    ring_init(&l->of_waiting);
    ring_init(&l->of_door);
    ring_add(&g->all, &l->of_all);
    g->count++;
    waits(l, true);
    loop_timer_set(g->loop, &l->timer, HANDSHAKE_MS);
    if (loop_watch(g->loop, &l->outer, EPOLLIN) < 0)
        link_end(l);
}
