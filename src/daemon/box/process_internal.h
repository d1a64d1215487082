/* A process inside, as the front sees it. */
#pragma once

#include "daemon/box/box_internal.h"

#define RECORD_TEXT_MAX 4096u
#define LOG_MAX         (64u * 1024) /* of one process */
#define LOG_TOTAL       (8u << 20)   /* of all */
#define INPUT_MAX       (1u << 20)   /* that waits while others wait as well */
#define KILL_AGAIN_MS   1000u
#define GRACE_MS        200u         /* for pipes that children hold after the process ended */
#define PUMP_GRACE_MS   3000u        /* the first one, for a pump that waits for its turn */
#define GRACES_MAX      25u          /* as long as more comes that a pump has */
#define PUMP_HOLDS      (2ull << 20) /* with the pipe that it reads from */
#define ENDED_KEPT      8u           /* ended ones whose log is kept */
#define LINGERING_MAX   64u          /* ended ones whose children still hold the pipes */

struct process_client {
    struct trash trash;
    struct process_client *next;
    struct core *core;
    struct process *process; /* NULL: gone */
    struct process_sink sink;
    bool blocked, detached, ended;
};

struct process_stream {
    struct loop_io io; /* fd -1: at its end */
    struct process *process;
    int number;
    uint64_t owed; /* what stood in the pipe when the process ended, and was not read yet */
};

/* A piece of input that somebody waits for. */
struct input_wait {
    struct input_wait *next;
    uint64_t from, until; /* of all bytes that were ever given */
    void (*fn)(void *ctx);
    void *ctx;
};

struct process {
    struct trash trash;
    struct box *box;
    struct process *next;
    int64_t pid, started_ms, ended_ms;
    char *tag;
    struct json *config;
    bool tty, pumped, started, exited, ended, timed_out, oom_killed, grace_over;
    bool kill_due; /* SIGKILL is asked for until its end is known: one request may get lost */
    int status;
    uint64_t denied_mark;         /* when it was started */
    bool settling, settled;       /* it failed: what was refused to it is asked for, is known */
    struct process_stream out[2]; /* stdout or the terminal; stderr */
    struct process_client *clients, *first;
    unsigned blocked; /* clients that cannot take more */
    unsigned graces;  /* since its end; `came`: something did in this one */
    bool came;
    int sizes; /* where the size of a terminal goes; else -1 */

    struct hold hold;     /* of config, queue and log */
    unsigned descriptors; /* charged, and not closed yet */
    struct loop_io in;    /* fd -1: closed */
    struct buf queue;
    size_t queue_at;        /* of it, taken already */
    uint64_t queued, taken; /* bytes in all */
    struct input_wait *waits;
    bool close_when_empty;

    struct loop_timer timer; /* of its life, then the grace */

    char *log;
    size_t log_size, log_at, log_len;
    uint64_t log_lost;
};

void process_finish(struct process *p); /* if it is time */
void process_log_add(struct process *p, const char *data, size_t len);
void process_log_free(struct process *p);
/* process_io.c */
void process_io_init(struct process *p);
int process_io_open(struct process *p, struct wire_msg *m, bool has_stdin, struct err *err);
void process_io_start(struct process *p);
void process_io_exited(struct process *p);
/* Is there more that was written before its end? To be asked at the end of each grace. */
bool process_io_owes(struct process *p);
void process_io_close(struct process *p);
void process_fds_closed(struct process *p, unsigned count);
void process_input_done(struct process *p); /* stdin is closed: who waits is told */

/* process_start after the template's rules on commands (process_gate.c). */
void process_start_now(struct box *b, const struct process_request *r,
                       const struct process_sink *sink, process_fn *fn, void *ctx);
