/* Inside an HTTP session; what session.c, request.c, reading.c, upstream.c, response.c, gateway.c
 * and refusal.c share.
 *
 * A session serves one stream of the sandbox, one request after the other. The request that is
 * being served is an exchange; between two of them there is none, and the session owns no buffer.
 */
#pragma once

#include "http/form.h"
#include "network/doubt.h"
#include "proxy/ask.h"
#include "proxy/body.h"
#include "proxy/proxy.h"
#include "proxy/side.h"

enum session_state {
    SESSION_HEAD,    /* the head of a request is awaited */
    SESSION_ASK,     /* a person is asked about its host */
    SESSION_COLLECT, /* a body is read as a whole, because placeholders in it are swapped */
    SESSION_DIAL,
    SESSION_RELAY,   /* request and response are on their way */
    SESSION_ANSWER,  /* an answer of our own is on its way */
    SESSION_HAND_ON, /* CONNECT or an upgrade: the answer is on its way, then others take over */
    SESSION_LINGER,  /* everything is said; what still comes is thrown away */
};

struct exchange {
    struct http_request request;
    struct target target;
    char *path; /* target.path */
    struct doubts doubts;
    enum entry entry;
    size_t rule;
    uint64_t started_ms;
    struct body_reader body;  /* of the request */
    struct buf collected;     /* SESSION_COLLECT */
    struct held held;         /* for it */
    struct form_reader *form; /* a rule on methods looks for a second one in the body; or NULL */
    bool unsent;              /* the server does not take the rest of it */
    size_t scanned;           /* of the head of the response */
    bool have_response;       /* its head was read and passed on */
    struct http_response response;
    enum http_body to_client;  /* the framing towards the client */
    struct body_reader answer; /* the body of the response */
    bool ended;                /* all of it was handed to the client's side */
    bool redact;               /* secrets belong to this origin: its answers are searched */
    struct redact_stream *search;
    bool retried;
    bool may_retry;   /* on a kept connection that turned out to be dead */
    unsigned interim; /* 1xx responses so far */
    int status;
    uint64_t up, down;
    enum deny_reason reason; /* why it ended early */
    const char *note;
    char note_text[160];
    char hint[192];
};

struct session {
    struct session *next, **link;
    struct proxy *px;
    struct rules *rules; /* by which everything so far was decided */
    enum entry entry;
    bool has_fixed;
    struct target fixed;
    enum session_state state;
    struct side client;
    size_t scanned; /* of the head that is being read */
    bool keep_alive;
    struct exchange *x;

    struct side up;
    struct dial *dial;
    struct asking *asking;
    struct target up_target; /* where `up` leads; method and path are empty */
    size_t up_rule;          /* whose connection it counts as */
    bool up_counted;
    bool up_used; /* it has carried a request before */

    uint64_t active_ms; /* when something moved last */
    size_t lingered;
    struct loop_timer timer;
    struct loop_task task;
};

/* What a step says. */
enum step {
    STEP_ON,   /* go on with the next */
    STEP_WAIT, /* for a stream or the clock */
    STEP_GONE, /* the session has ended: do not touch it */
};

/* ---- session.c ---- */
/* The end of it all; `broken`: the client is to notice that something is missing. */
enum step session_end(struct session *s, bool broken);
enum step client_gone(struct session *s);
void session_moved(struct session *s);
void session_go(struct session *s); /* runs steps until it must wait */
/* For the event: what went wrong, in words of our own. */
void exchange_note(struct exchange *x, const char *text);
enum step session_answered(struct session *s); /* the client has its response */

/* ---- request.c ---- */
enum step request_step(struct session *s);      /* SESSION_HEAD */
enum step request_decide(struct session *s);    /* again, after SESSION_ASK */
enum step collect_step(struct session *s);      /* SESSION_COLLECT */
enum step request_body_step(struct session *s); /* part of SESSION_RELAY */

/* ---- reading.c: one reading of a request (N-16). ---- */
/* By which rule the exchange was allowed, or NULL. */
const struct egress_rule *reading_rule(const struct session *s);
/* These two refuse: then the state is SESSION_ANSWER. The second one to be asked with the headers
 * as they will leave: Connection may have named Content-Type. */
enum step reading_check(struct session *s);
enum step reading_watch_body(struct session *s);
void reading_take_hosts(struct session *s); /* takes out X-Forwarded-Host and its like */
enum step reading_body(struct session *s, const char *piece, size_t len); /* before it is sent */

/* ---- gateway.c: turns a request to the gateway into the one that it asks for. ---- */
bool gateway_is_meant(const struct session *s, const struct http_request *r);
/* Fills in scheme, host and port; replaces the request's method and target. */
int gateway_resolve(struct http_request *r, struct target *t, struct err *err);

/* ---- upstream.c ---- */
enum step upstream_start(struct session *s); /* a kept connection, or a new one */
void upstream_close(struct session *s);
/* It broke, or ended, before a response: once more on a new connection where that is harmless. */
enum step upstream_lost(struct session *s);
void upstream_review(struct session *s); /* a kept connection under new rules */

/* ---- response.c ---- */
enum step response_step(struct session *s); /* part of SESSION_RELAY */

/* ---- refusal.c: answers of our own, as a model can read them. ---- */
enum step refuse(struct session *s, enum deny_reason reason, const char *hint);
/* `word` stands for the reason where no rule is to blame ("unreachable", "timeout", "too-large").
 */
enum step refuse_with(struct session *s, int status, const char *word, const char *message,
                      const char *hint);
