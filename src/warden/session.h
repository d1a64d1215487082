/* The warden of one sandbox of `brig serve`: what its parts share. The warden is a fork of the
 * launcher; it provisions the sandbox, then serves the front's requests until one of them dies.
 *
 * W-1  The warden takes orders from the front alone. What comes from inside is hostile: it can
 *      answer a request or report an end, and hand out a connection, which is looked at. What it
 *      makes for a terminal goes to a pump, and so does a connection where sandboxes have pumps
 *      (PU-5).
 * W-2  The warden is not in the way of data: the front gets the ends of pipes and sockets.
 * W-3  The end of the front's socket is the end of the sandbox; so is the warden's own death, by
 *      the kernel's doing and the guardian's.
 * W-4  What a request says about the policy is read and decided here, before anything is
 * provisioned: it can make the template's stricter and nothing else.
 * W-5  A process that the front was not told of does not run on: a start that failed for the front
 *      is remembered until init has answered, and what it started is killed. Work on a file that
 *      failed for the front is not begun: the answer has no reader any more, and the worker looks
 *      for one first. What it had begun by then (a move, half of a removal) is not undone. */
#pragma once

#include "os/loop.h"
#include "plan/join.h"
#include "sandbox/internal.h"
#include "warden/complaint.h"
#include "warden/template.h"
#include "wire/wire.h"

#define SESSION_ASKS_MAX 256

/* What every process starts with; later settings replace earlier ones. */
struct environment {
    char **items; /* "NAME=VALUE" */
    size_t count, room;
};
void environment_done(struct environment *e);
int environment_set(struct environment *e, const char *name, const char *value);
bool environment_has(const struct environment *e, const char *name);
bool environment_name_ok(const char *name);

/* A request of the front that init has not answered yet. */
struct ask {
    struct ask *next;
    struct warden *w;
    enum wire_type type; /* of the front's request; WIRE_READY: the interpreter that waits */
    uint32_t front;      /* its number there */
    uint32_t request;    /* its number to init */
    bool beside;         /* it is root's part of init that was asked */
    uint64_t due_ms;
    bool starts;           /* init was asked for a process: SPAWN and READY, and some of CONNECT */
    bool heard;            /* init has answered */
    bool disowned;         /* SPAWN: the front was told that it failed, before init answered */
    bool answered;         /* SPAWN: init has started it */
    pid_t pid;             /* SPAWN */
    struct loop_io status; /* SPAWN: tells whether the program could be executed */
    bool executed;
    bool exited; /* SPAWN: it has ended, before we know that it was executed */
    int exit_status;
    bool freezes;         /* FREEZE: or else it lets go on */
    int fds[INTERP_ENDS]; /* for the front */
    unsigned fd_count;
};

struct carrier; /* carrier.c */

/* A child that looks at what was changed in a project. */
struct review_work {
    pid_t pid; /* 0: none */
    uint32_t request;
    struct loop_io status; /* one byte, or a struct err */
    int text;              /* what is found */
};

/* The gvisor tier; sentry.c. */
struct warden_sentry {
    uint32_t request;   /* by which init was asked for it; 0: it was not */
    pid_t pid;          /* of brig-gvisor, as the sandbox counts; 0: not there yet, or gone */
    bool up, gone;      /* it can start programs; it was up, and has ended */
    bool dead;          /* it has ended, or could not be started */
    const char *killed; /* why it was: a clone that did not come up; or NULL */
    char name[JOIN_NAME_LEN + 1]; /* of its control socket */
    struct loop_io said, errors;
    struct loop_timer late;
    struct complaint complaint;
    struct err err; /* why it did not start */
    size_t most;    /* processes of the front's that were there at one time */
};

#define SETTLES_MAX 64

struct warden {
    struct sandbox *s;
    struct review_work review;
    const struct template *template;
    struct loop *loop;
    struct loop_io front, ctl, beside, init, guardian, seen, proxy, dns;
    struct loop_timer sampling, late, seen_pause, telling;
    struct wire_msg *msg; /* what the front said last */
    struct environment env;
    struct carrier *carriers;
    unsigned carrier_count;
    struct warden_sentry sentry;
    int door; /* to the launcher: it hears there why a parked machine could not be cloned; or -1 */
    struct ask *asks;
    unsigned ask_count;
    uint32_t last_request;
    struct started {
        pid_t pid;
        bool beside; /* by root's part of init */
    } * started;     /* for the front, and alive */
    size_t started_count, started_room;

    bool ready, claimed, frozen;
    bool tightened; /* by the request: the template's policy is another one */
    bool over;
    bool front_gone;
    const char *reason; /* of the end */
    char reason_text[160];

    unsigned sample_ms;
    uint64_t sampled_cpu;
    bool stopped; /* it is paused by signals */
    uint64_t
        stopped_cpu; /* what it had used of the CPU by the first look after that; 0: none yet */
    uint64_t told_denied[DENIAL_KINDS_MAX], told_allowed[DENIAL_KINDS_MAX];
    struct denial_list allowed; /* what the proxy let through, by host */
    uint64_t oom_told;          /* kills for want of memory that were told */
    unsigned oom_open;          /* of them, those that no reported end was put down to yet */
    uint64_t oom_ms;            /* when the last one was seen */
    uint32_t network_request;   /* new rules are on their way to the proxy */
    bool network_pending;
    struct settle { /* who waits until the proxy has told of what it decided */
        uint32_t sync, request;
    } settles[SETTLES_MAX];
    unsigned settle_count;
    uint32_t last_sync;
};

/* warden.c */
void warden_end(struct warden *w, const char *reason);
/* Both end the sandbox if that fails. */
void warden_listen(struct warden *w, struct loop_io *io);
void warden_watch(struct warden *w, struct loop_io *io, int fd,
                  void (*fn)(struct loop_io *io, uint32_t events));
void warden_done(struct warden *w, uint32_t request, int64_t value, const char *text, size_t len,
                 const int *fds, unsigned count);
void warden_fail(struct warden *w, uint32_t request, const struct err *err);
/* All that stands before it is of use is there: the interpreter is started, or it is ready. */
void warden_settled(struct warden *w);
/* Init has hidden itself: the front may let code in. */
void warden_claimed(struct warden *w, uint32_t request);
/* Provisioned and attested; with the interpreter that waits, or why there is none. */
void warden_ready(struct warden *w, pid_t pid, const struct err *why, const int *fds,
                  unsigned count);
void warden_event(struct warden *w, const char *text, size_t len);
/* It could not be cloned, and is started: for the record. */
void warden_cold(struct warden *w, const struct err *why);
void warden_stats(struct warden *w, uint32_t request, const char *text, size_t len);
/* oom: it was killed because the sandbox ran out of memory. */
void warden_exited(struct warden *w, pid_t pid, int status, bool oom);

/* ask.c */
int ask_signal(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err);
int ask_connect(struct warden *w, const struct wire_msg *msg, const struct json *j,
                struct err *err);
int ask_freeze(struct warden *w, const struct wire_msg *msg, struct err *err);
/* NULL: too many. */
struct ask *ask_new(struct warden *w, enum wire_type type, uint32_t front, struct err *err);
int ask_send(struct ask *a, struct ctl_msg *msg, const int *fds, unsigned count, struct err *err);
struct ask *ask_find(struct warden *w, uint32_t request); /* NULL: settled */
void ask_drop(struct ask *a);                             /* unanswered */
void ask_fail(struct ask *a, const struct err *err);      /* tells the front */
void ask_done(struct ask *a);                             /* tells the front, and drops it */
void asks_abandon(struct warden *w);
/* Messages of init's, or of processes that are not yet programs; or of root's part of init. */
void ask_hear(struct warden *w, bool beside);
/* Whom a request is for. NULL: whom the template has. Returns whether that is root's part of init;
 * negative: there is nobody of that name. */
int ask_whom(const struct warden *w, const struct json *user, struct err *err);

/* spawn.c */
int spawn_start(struct warden *w, const struct wire_msg *msg, const struct json *j,
                struct err *err);
/* A port inside of a machine: a process carries the connection. */
int spawn_connection(struct warden *w, uint32_t front, int port, struct err *err);
int spawn_interpreter(struct warden *w, struct err *err);
/* One that is there already. */
void spawn_adopt(struct warden *w, pid_t pid, const int *fds, unsigned count);
void spawn_settle(struct ask *a); /* is it known by now whether it runs? */
void spawn_exited(struct warden *w, pid_t pid, bool beside, int status);
/* Was it root's part of init that started it? */
bool spawn_is_beside(const struct warden *w, pid_t pid);

/* sentry.c: each does nothing, or says no, where there is no Sentry. */
bool sentry_wanted(const struct warden *w);
/* Asks for it; warden_settled follows, or the sandbox's end. */
int sentry_boot(struct warden *w, struct err *err);
/* True: the message was about it. */
bool sentry_hear(struct warden *w, const struct ctl_msg *msg);
void sentry_done(struct warden *w);
/* Negative: there is no room for one more process. */
int sentry_room(struct warden *w, struct err *err);
/* What init is told to send in the place of this signal. */
int sentry_signal(const struct warden *w, int *number, struct err *err);

/* carrier.c: a pump for these lines, if any of them is used; takes them in any case. */
int carrier_start(struct warden *w, struct pump_line lines[PUMP_LINES], struct err *err);
/* One more pipe for what was asked for: ours in the ask, theirs for init. Where there are pumps a
 * line of them lies between, in the order of ours. */
int carrier_lay(struct ask *a, struct pump_line lines[PUMP_LINES], int *theirs, bool we_write,
                struct err *err);
/* LC-11: puts what they have used on the code's account. */
void carriers_look(struct warden *w);
void carriers_end(struct warden *w);

/* file.c */
int file_start(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err);

/* review.c */
int review_ask(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err);
void review_stop(struct warden *w);

/* network.c */
int rules_claim(struct warden *w, const struct json *network, struct err *err);
int rules_change(struct warden *w, const struct wire_msg *msg, const struct json *j,
                 struct err *err);
void rules_watch(struct warden *w); /* of what the network is made now */
/* Answers when all that was refused before is told: by us, and by brig-proxy. */
void rules_settle(struct warden *w, uint32_t request);

/* watch.c */
void watch_start(struct warden *w); /* the code may run from now on */
/* It stands from now on because each task was sent SIGSTOP, or it does not. */
void watch_pause(struct warden *w, bool stopped);
/* Looks at the limits at once: one that was hit ends the sandbox. */
void watch_now(struct warden *w);
/* At an end for other reasons: kills for want of memory since the last look are told, and are not
 * its reason. */
void watch_outlived(struct warden *w);
/* A process ended as one does that was killed: was it for want of memory? Each such kill explains
 * one end. */
bool watch_explains_oom(struct warden *w, int status);
void watch_seen(struct loop_io *io, uint32_t events);
void watch_tell(struct warden *w, bool all); /* what was refused, and what was allowed */
void watch_allowed(struct warden *w, const char *text, size_t len);
void watch_stats(struct warden *w, uint32_t request);
void watch_done(struct warden *w);
void watch_seen_again(struct loop_timer *t);
void watch_sample(struct loop_timer *t);
void watch_telling(struct loop_timer *t);
