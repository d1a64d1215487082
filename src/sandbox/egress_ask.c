/* network.ask: brig-proxy holds a connection to a host outside of the rules and asks; a person
 * answers; a yes becomes a rule for that origin, for this run. What the proxy says is hostile
 * input: the question is made from the host and the port alone, and only where the policy asks. */
#include "base/cleanup.h"
#include "sandbox/gate.h"
#include "sandbox/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* However often the code tries: a person who is asked all the time says yes to anything. */
#define QUESTIONS_MAX 32

static void reply(struct sandbox *s, uint32_t number, bool allowed)
{
    if (s->link.fd >= 0)
        channel_send(s->link.fd, CH_ANSWER, number, allowed, NULL, -1, NULL);
}

static void forget(struct egress_question *q)
{
    approval_free(q->approval);
    *q = (struct egress_question){0};
}

/* The new rules go to the proxy before the answer does. */
static bool add_rule(struct sandbox *s, const struct egress_question *q)
{
    struct origin origin = {.kind = ORIGIN_OPTION, .name = "approval"};
    struct err err = ERR_INIT;
    if (egress_allow(&s->egress, q->place, &origin, &err) < 0)
        return false;
    struct link_config c = {.egress = &s->egress};
    return s->link.fd >= 0 && link_replace(&s->link, &c, &err) == 0;
}

static void answered(struct sandbox *s, struct egress_question *q, enum approval_answer answer)
{
    bool allowed = answer == APPROVAL_ALLOWED && add_rule(s, q);
    gate_note(s->result, approval_id(q->approval), approval_kind_name(APPROVAL_EGRESS), q->place,
              "network.ask", approval_answer_name(answer), approval_by(q->approval));
    reply(s, q->number, allowed);
    forget(q);
}

static bool terminal_is_taken(const struct sandbox *s)
{
    for (size_t i = 0; i < EGRESS_QUESTIONS; i++)
        if (s->questions[i].approval && approval_has_terminal(s->questions[i].approval))
            return true;
    return false;
}

static void put(struct sandbox *s, struct egress_question *q)
{
    struct err err = ERR_INIT;
    char text[320];
    snprintf(text, sizeof text, "connect to %s", q->place);
    struct approval_question question = {.kind = APPROVAL_EGRESS,
                                         .run = s->id,
                                         .text = text,
                                         .reason = "network.ask: no rule names this host and port",
                                         .timeout_ms = s->request->ask_timeout_ms,
                                         .terminal = !s->request->tty};
    if (approval_ask(&q->approval, &question, &err) < 0) {
        reply(s, q->number, false);
        forget(q);
        return;
    }
    if (s->request->held && !approval_has_terminal(q->approval))
        s->request->held(approval_id(q->approval), text, question.reason);
}

/* On a terminal one after the other. */
static void put_waiting(struct sandbox *s)
{
    for (size_t i = 0; i < EGRESS_QUESTIONS; i++) {
        struct egress_question *q = &s->questions[i];
        if (q->place[0] && !q->approval && !terminal_is_taken(s))
            put(s, q);
    }
}

/* The host as the one parser of hosts reads it, or nothing. */
static bool take_place(const struct sandbox *s, const struct channel_msg *msg, char *out,
                       size_t size)
{
    struct host host;
    if (msg->port == 0 || msg->port > UINT16_MAX ||
        host_parse(msg->text, msg->text_len, false, &host, NULL) < 0 ||
        !egress_asks(&s->egress, &host))
        return false;
    int n = snprintf(out, size, "%s:%u", host.text, msg->port);
    return n > 0 && (size_t)n < size;
}

void sandbox_ask_begin(struct sandbox *s, const struct channel_msg *msg)
{
    struct egress_question *q = NULL;
    for (size_t i = 0; i < EGRESS_QUESTIONS && !q; i++)
        if (!s->questions[i].place[0])
            q = &s->questions[i];
    if (s->session || !q || s->questions_asked >= QUESTIONS_MAX ||
        !take_place(s, msg, q->place, sizeof q->place)) {
        if (q)
            q->place[0] = '\0';
        reply(s, msg->value, false);
        return;
    }
    s->questions_asked++;
    q->number = msg->value;
    put_waiting(s);
}

static int add_all(int set, const struct approval *a)
{
    struct pollfd fds[APPROVAL_FDS_MAX];
    size_t count = approval_poll(a, fds);
    for (size_t i = 0; i < count; i++)
        if (epoll_ctl(set, EPOLL_CTL_ADD, fds[i].fd, &(struct epoll_event){.events = EPOLLIN}) < 0)
            return -errno;
    return 0;
}

/* A set of its own, which is closed as a whole when the questions and those who answer them have
 * changed. */
int sandbox_ask_open(const struct sandbox *s, int *ret)
{
    int result = 0;
    *ret = -1;
    for (size_t i = 0; i < EGRESS_QUESTIONS && result == 0; i++) {
        const struct approval *a = s->questions[i].approval;
        if (a && *ret < 0 && (*ret = epoll_create1(EPOLL_CLOEXEC)) < 0)
            return -errno;
        if (a)
            result = add_all(*ret, a);
    }
    return result;
}

unsigned sandbox_ask_wait_ms(const struct sandbox *s)
{
    int least = INT_MAX;
    for (size_t i = 0; i < EGRESS_QUESTIONS; i++) {
        int ms = s->questions[i].approval ? approval_wait_ms(s->questions[i].approval) : INT_MAX;
        least = ms < least ? ms : least;
    }
    return (unsigned)least;
}

bool sandbox_ask_holds_terminal(const struct sandbox *s)
{
    return terminal_is_taken(s);
}

void sandbox_ask_step(struct sandbox *s)
{
    for (size_t i = 0; i < EGRESS_QUESTIONS; i++) {
        struct egress_question *q = &s->questions[i];
        enum approval_answer answer = q->approval ? approval_step(q->approval) : APPROVAL_PENDING;
        if (answer != APPROVAL_PENDING)
            answered(s, q, answer);
    }
    put_waiting(s);
}

void sandbox_ask_end(struct sandbox *s)
{
    for (size_t i = 0; i < EGRESS_QUESTIONS; i++)
        forget(&s->questions[i]);
}
