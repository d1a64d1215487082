/* An interpreter inside, as the front sees it. */
#pragma once

#include "daemon/box/box_internal.h"

#define QUEUE_MAX        32u         /* executions of one context, the running one included */
#define QUEUE_BYTES_MAX  (24u << 20) /* of code that waits */
#define CONTEXT_READY_MS 60000u      /* until the interpreter says that it is there */
#define INTERRUPT_MS     3000u       /* then again; after INTERRUPTS times it is killed */
#define INTERRUPTS       4u
#define FAREWELL_MS      5000u /* between the end of its channel and the word that it exited */

struct context_wait {
    struct context_wait *next;
    context_fn *fn;
    void *ctx;
};

struct context_stream {
    struct loop_io io; /* fd -1: at its end */
    struct context *context;
    uint64_t owed; /* what stood in the pipe when the driver said its last word */
};

struct execution {
    struct trash trash;
    struct context *context; /* NULL: gone */
    struct execution *next;
    uint64_t id;
    struct hold hold;
    size_t size; /* of the frame, also after it was sent */
    struct buf frame;
    struct execution_sink sink;
    bool cancelled, failed;
    bool settling, settled; /* before its error is told: what was refused to it */
    uint64_t denied_mark;   /* when it began */
    uint64_t began_us;
};

/* ASLEEP: it has a name, and its interpreter is started when there is something to run. */
enum context_state { CONTEXT_STARTING, CONTEXT_READY, CONTEXT_LOST, CONTEXT_ASLEEP };

struct context {
    struct trash trash;
    struct box *box;
    struct context *next;
    struct context_info info;
    char *cwd;
    bool is_default;
    bool waited; /* its interpreter was there before the claim: it lacks the box's environment */
    enum context_state state;
    unsigned spawn; /* which one: an answer to an earlier spawn is not this one's */
    int64_t pid;    /* 0: none */
    int status;
    bool exited, exit_known, exit_noted;
    bool exit_late; /* nobody waits any more for what a pump may still have of it */
    bool oom;       /* it was killed because the sandbox ran out of memory */

    struct loop_io requests, channel; /* what it is told, what it says */
    struct context_stream out[2];
    struct hold hold;
    struct interp_reader reader;
    struct interp_parsing parsing; /* of the next word, if `reading` */
    size_t frame, parsed;          /* its bytes, and what of its tree is on the account */
    struct interp_said word;       /* points into what the reader holds */
    bool reading, has_word, blocked, pumping;
    struct loop_timer again; /* there may be words that no event announces */
    struct loop_timer timer; /* until it is ready; later between interrupts, or the farewell */

    struct execution *first, **end; /* the first one runs if `running` */
    unsigned queued;
    size_t queued_bytes, sent; /* sent: of the first one's frame */
    uint64_t next_id;
    bool counted;               /* the running one's first word is here */
    bool served;                /* this interpreter has brought one to its end */
    bool running, interrupting; /* interrupting: SIGINT is on its way */
    unsigned interrupts;
    struct context_wait *waits;
};

/* context.c */
void context_wake(struct context *c); /* starts one that is asleep */
void context_lose(struct context *c, const struct err *why);
/* The same, but a context that worked goes on with a fresh interpreter. */
void context_renew(struct context *c, const struct err *why);
/* The interpreter has ended: true if a fresh one takes what this one had not begun. */
bool context_relieve(struct context *c);
void context_tell_ready(struct context *c);
/* context_io.c */
void context_io_init(struct context *c);
int context_io_open(struct context *c, const int fds[INTERP_ENDS], struct err *err);
void context_io_close(struct context *c);
void context_pump(struct context *c);
void context_watch(struct context *c);
void context_pump_soon(struct context *c);
void context_lose_touch(
    struct context *c); /* nothing can be sent to it any more: treated as its end */
/* execution.c */
void execution_next(struct context *c); /* starts the first one if nothing runs */
void execution_send(struct context *c); /* more of its code */
/* False: not all of it yet; it is to be said again. */
bool execution_hear(struct context *c, const struct interp_said *s);
void execution_output(struct context *c, int stream, const char *data, size_t len);
void execution_fail_all(struct context *c, const struct err *why);
void execution_on_timer(struct context *c);
