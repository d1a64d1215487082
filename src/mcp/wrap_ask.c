/* Asks people about calls, on behalf of the process that moves the lines and has no rights. */
#include "approvals/approval.h"
#include "mcp/wrap.h"
#include "mcp/wrap_serve.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

struct question {
    uint32_t ticket;
    struct approval *approval;
};

struct asker {
    int socket;
    wrap_held_fn *held;
    struct question open[WRAP_WAITING_MAX];
    size_t count;
    bool over;
};

static void tell(struct asker *a, uint32_t ticket, enum wrap_answer answer)
{
    struct wrap_ask_msg msg = {.type = WRAP_ANSWERED, .ticket = ticket, .answer = answer};
    if (send(a->socket, &msg, sizeof msg, MSG_NOSIGNAL) < 0)
        a->over = true;
}

static void drop(struct asker *a, size_t i)
{
    approval_free(a->open[i].approval);
    a->open[i] = a->open[--a->count];
}

static void tell_of(const struct asker *a, const struct approval *approval,
                    const struct wrap_ask_msg *msg)
{
    cleanup_buf struct buf what;
    cleanup_buf struct buf reason;
    buf_init(&what, 2 * APPROVAL_TEXT_MAX);
    buf_init(&reason, 2 * APPROVAL_TEXT_MAX);
    approval_show_text(&what, msg->text, strlen(msg->text), APPROVAL_TEXT_MAX);
    approval_show_text(&reason, msg->reason, strlen(msg->reason), APPROVAL_TEXT_MAX);
    if (a->held)
        a->held(approval_id(approval), buf_text(&what), buf_text(&reason));
}

static void start(struct asker *a, struct wrap_ask_msg *msg)
{
    struct err err = ERR_INIT;
    msg->text[sizeof msg->text - 1] = msg->reason[sizeof msg->reason - 1] = '\0';
    /* Not on the terminal: it belongs to the client, if there is one at all. */
    const struct approval_question q = {
        .kind = APPROVAL_TOOL, .text = msg->text, .reason = msg->reason};
    struct approval *approval = NULL;
    if (a->count == WRAP_WAITING_MAX || approval_ask(&approval, &q, &err) < 0) {
        tell(a, msg->ticket, WRAP_ANSWER_NOBODY);
        return;
    }
    a->open[a->count++] = (struct question){msg->ticket, approval};
    tell_of(a, approval, msg);
}

static void on_message(struct asker *a)
{
    struct wrap_ask_msg msg;
    ssize_t n = recv(a->socket, &msg, sizeof msg, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof msg) {
        a->over = true;
        return;
    }
    if (msg.type == WRAP_ASK) {
        start(a, &msg);
        return;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (a->open[i].ticket == msg.ticket) {
            drop(a, i);
            return;
        }
    }
}

static void step_all(struct asker *a)
{
    for (size_t i = a->count; i-- > 0;) {
        enum approval_answer answer = approval_step(a->open[i].approval);
        if (answer == APPROVAL_PENDING)
            continue;
        tell(a, a->open[i].ticket,
             answer == APPROVAL_ALLOWED  ? WRAP_ANSWER_ALLOW
             : answer == APPROVAL_DENIED ? WRAP_ANSWER_DENY
                                         : WRAP_ANSWER_TIME);
        drop(a, i);
    }
}

void wrap_ask_people(int socket, wrap_held_fn *held)
{
    static struct pollfd fds[1 + WRAP_WAITING_MAX * APPROVAL_FDS_MAX];
    struct asker a = {.socket = socket, .held = held};
    while (!a.over) {
        nfds_t n = 1;
        int wait = -1;
        fds[0] = (struct pollfd){.fd = socket, .events = POLLIN};
        for (size_t i = 0; i < a.count; i++) {
            int ms = approval_wait_ms(a.open[i].approval);
            n += approval_poll(a.open[i].approval, fds + n);
            wait = ms >= 0 && (wait < 0 || ms < wait) ? ms : wait;
        }
        if (poll(fds, n, wait) < 0 && errno != EINTR)
            break;
        if (fds[0].revents)
            on_message(&a);
        step_all(&a);
    }
    while (a.count)
        drop(&a, a.count - 1);
}
