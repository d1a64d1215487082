/* The sandboxes that the daemon has: one `struct box` each, from launch to the last word of its
 * warden. Asynchronous: everything that needs the warden takes a callback. A callback is called
 * exactly once, also when the sandbox ends meanwhile (then with an error).
 *
 * The states are R-L1's (lifecycle/state.h is the machine of one start; daemon/box/box_state.c that
 * of a box: dormant, provisioning, idle (pooled), running, paused, ending, error, gone). Every
 * transition is an audit record. There is no way back: a box that misbehaves is ended. */
#pragma once

#include "audit/denial.h"
#include "base/id.h"
#include "base/json.h"
#include "daemon/base/keys.h"
#include "daemon/core/states.h"
#include "files/files.h"
#include "os/loop.h"
#include "wire/interp.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct core;                               /* all boxes, templates, pools; daemon/core/core.c */
extern const struct core_boxes core_boxes; /* for core_new */
struct box;

#define BOX_TOKEN_LEN 43 /* envdAccessToken: 256 random bits */

enum said { SAID_NOTHING, SAID_YES, SAID_NO };

#define MASK_HOST_SIZE 128
struct box_info {
    char id[BOX_ID_LEN + 1];
    const char *template_name;
    const struct key *owner;
    enum box_state state;
    int64_t started_ms, end_ms; /* wall clock; end_ms moves with the timeout, stands while paused */
    const char *token;
    const char *metadata; /* JSON object text, as given */
    enum said internet;   /* allow_internet_access, when it was made */
    const char *network;  /* JSON object text as last asked for, or NULL */
    const char *project;  /* that it works on a copy of, or NULL */
    uint64_t cpus_milli, memory, disk;
    const char *policy_hash;        /* "sha256:…", of what its warden holds it to */
    bool auto_pause;                /* at the end of the time: pause instead of end */
    bool auto_resume;               /* a request to it while it is paused resumes it */
    bool public_ports;              /* whoever knows its name may use the user's own ports */
    char mask_host[MASK_HOST_SIZE]; /* what services inside see as Host; "": as it came */
    bool from_pool;
    bool root;        /* its one user is root, in its own view */
    bool root_beside; /* or root is there as a second one */
};
const struct box_info *box_info(const struct box *b);
/* The account that is charged for what it makes the daemon hold; NULL: it has no owner yet. */
struct account *box_account(const struct box *b);
/* Something outside of this file that must not outlive its box. `gone` is called once, when the box
 * ends, unless it was taken off before; it is off the list then. */
struct box_dependent {
    struct box_dependent *next, **at; /* at: NULL while it is on no list */
    void (*gone)(struct box_dependent *d);
};
void box_depend(struct box *b, struct box_dependent *d);
void box_undepend(struct box_dependent *d);
struct box_dependent *box_dependents(struct box *b); /* the first of them */

struct box_request {
    const char *template_name;
    const struct key *owner;
    int64_t timeout_ms;          /* of life */
    const struct json *metadata; /* object of strings, or NULL */
    const struct json *env;      /* the same */
    const struct json *network;  /* {"allow":[…],"block":[…]} or NULL: as the template says */
    enum said
        internet; /* as the client said it, to be shown again; what it means is in `network` */
    const struct json *headers; /* set on what it sends, or NULL: for its warden, and secret */
    const char *project;   /* one that the operator offers, by its path or the last part of it */
    const char *mask_host; /* shorter than MASK_HOST_SIZE, or NULL */
    /* Makes the template's stricter, or NULL: an object, or a string with the text of one. Its
     * warden reads it, not the daemon. */
    const struct json *policy;
    bool auto_pause, auto_resume, public_ports;
};
typedef void box_fn(void *ctx, struct box *b, const struct err *err); /* b NULL on failure */
/* From the pool where that can be; else launched, with retries (exponential backoff and jitter) of
 * what may go away by itself. The copy of everything in `r` is the core's. */
void box_create(struct core *c, const struct box_request *r, box_fn *fn, void *ctx);
/* NULL: there is none, or it belongs to another key; the caller cannot tell the difference. A box
 * that is ENDING or later is not found. */
struct box *box_find(struct core *c, const struct key *key, const char *id);
struct box *box_find_any(struct core *c, const char *id); /* before authentication by its token */
struct box *box_by_token(struct core *c, bool (*match)(void *ctx, const struct box *b), void *ctx);
void box_each(struct core *c, const struct key *key, void (*fn)(void *ctx, struct box *b),
              void *ctx);

typedef void box_done_fn(void *ctx, const struct err *err);                  /* NULL: good */
void box_end(struct box *b, const char *reason, box_done_fn *fn, void *ctx); /* fn may be NULL */
void box_set_timeout(struct box *b, int64_t ms_from_now, bool only_extend);
void box_set_auto_pause(struct box *b, bool pause);
void box_pause(struct box *b, box_done_fn *fn, void *ctx);
void box_resume(struct box *b, int64_t timeout_ms, box_done_fn *fn, void *ctx);
/* For requests to one with auto_resume: fn is called when it runs, however many ask for that at the
 * same time; at once if it does. */
void box_wake(struct box *b, box_done_fn *fn, void *ctx);
void box_set_network(struct box *b, const struct json *network, box_done_fn *fn, void *ctx);
struct box_stats {
    int64_t time_ms;
    uint64_t cpu_usec, cpus_milli, memory, memory_limit, memory_cache, disk, disk_limit, pids;
    double cpu_percent;
};
/* Sampled while it lives, the newest last; at most `max`. */
size_t box_stats(const struct box *b, int64_t from_ms, int64_t to_ms, struct box_stats *ret,
                 size_t max);
/* A fresh one, at the end of those; then fn. */
void box_sample(struct box *b, box_done_fn *fn, void *ctx);
/* What whoever had `who` killed for want of memory is told: the limit, and what can be done. The
 * message begins with "oom_killed"; err_is_oom knows it. */
void box_explain_oom(const struct box *b, const char *who, struct err *err);
bool err_is_oom(const struct err *err);
/* fn when everything that was refused to it before is known here, or after SETTLE_MS without. */
void box_settle(struct box *b, box_done_fn *fn, void *ctx);
/* What was refused to the sandbox since the mark was taken, in words, a few of it. */
uint64_t box_denied_mark(const struct box *b);
bool box_denied_since(const struct box *b, uint64_t mark, struct buf *out);
void box_touch(struct box *b); /* somebody used it: idle time starts anew */
/* What was refused to it so far, as far as it has been told; NULL: nothing. Only ever grows. */
const struct denial_list *box_denials(const struct box *b);

/* ---- processes ---- */
struct process; /* lives until it was reaped and nobody is attached any more */
struct process_request {
    const char *const *argv; /* NULL-terminated */
    const struct json *env;  /* over the box's own */
    const char *cwd;         /* NULL: home */
    bool as_root;            /* where root is there as a second user */
    bool tty;
    uint16_t cols, rows;
    bool has_stdin;
    const char *tag;           /* or NULL */
    const struct json *config; /* as it was asked for, to be listed */
    uint64_t timeout_ms;       /* of its whole life; 0: none */
    /* Where the template's rules make it wait for a person: does anybody still want it? NULL: yes.
     * Gets the ctx of process_start. */
    bool (*wanted)(void *ctx);
};
/* What an attached client gets. Output arrives as it comes; a sink that is full says so and output
 * stops being read (the process waits) until process_resume. Without a sink output is dropped. */
struct process_end {
    int wait_status;
    bool timed_out;
    const struct err *oom; /* killed because the sandbox ran out of memory: in words; or NULL */
    const char *denied;    /* it failed, and so much was refused while it ran: in words; or NULL */
};
struct process_sink {
    bool (*output)(void *ctx, int stream /* 1, 2; 0: terminal */, const void *data, size_t len);
    void (*end)(void *ctx, const struct process_end *how); /* after the last output */
    void *ctx;
};
typedef void process_fn(void *ctx, struct process *p, const struct err *err);
/* `sink` may be NULL. Nothing is read before `fn` returns: who attaches there misses nothing. */
void process_start(struct box *b, const struct process_request *r, const struct process_sink *sink,
                   process_fn *fn, void *ctx);
struct process *process_find(struct box *b, int64_t pid, const char *tag);
void process_each(struct box *b, void (*fn)(void *ctx, struct process *p), void *ctx);
int64_t process_pid(const struct process *p);
const char *process_tag(const struct process *p);
const struct json *process_config(const struct process *p);
/* Another client on top; several may be attached. Returns a handle for detaching; it is the
 * caller's until it is detached, also after `end`. NULL: no memory. */
struct process_client *process_attach(struct process *p, const struct process_sink *sink);
struct process_client *
process_first(struct process *p); /* of the sink that process_start was given */
void process_detach(struct process_client *c);
void process_resume(struct process_client *c); /* its sink can take more */
/* 0: all taken; -EAGAIN: kept, and no more until `fn` is called; -EPIPE: stdin is closed; -ENOBUFS:
 * others wait already and there is no room for more, nothing was taken. */
int process_input(struct process *p, const void *data, size_t len, void (*fn)(void *ctx),
                  void *ctx);
/* The client behind this ctx is gone: fn is not called any more, and its input that was not written
 * yet is dropped. */
void process_input_forget(struct process *p, void *ctx);
void process_close_input(struct process *p);
void process_signal(struct process *p, int sig);
void process_resize(struct process *p, uint16_t cols, uint16_t rows);
/* The last output of a process, also of the last few that ended; oldest first. */
struct process_log {
    int64_t pid;
    const char *tag;              /* or NULL */
    const struct json *config;    /* as its request said, or NULL */
    int64_t started_ms, ended_ms; /* wall clock */
    bool ended, oom_killed;
    int wait_status;
    const char *data; /* at most 64 KiB, all streams together as they came */
    size_t len;
    uint64_t lost; /* bytes before them */
};
void process_logs(struct box *b, void (*fn)(void *ctx, const struct process_log *log), void *ctx);

/* ---- files ---- */
struct file_work;
/* `json` as in files/files.h. For WRITE *ret_in is the pipe to write to (non-blocking, the
 * caller's to close, which is the end of the file), else it gets -1. */
typedef void file_fn(void *ctx, struct file_work *w, int in_fd, const struct err *err);
void file_start(struct box *b, const char *json, size_t len, enum files_op op,
                const struct files_sink *sink, file_fn *fn, void *ctx);
void file_pause(struct file_work *w, bool pause); /* the client is slow */
void file_cancel(struct file_work *w);            /* also after its end; frees it */

/* ---- interpreters ---- */
struct context;
struct context_info {
    char id[40];
    enum interp_language language;
    const char *cwd;
};
typedef void context_fn(void *ctx, struct context *c, const struct err *err);
void context_create(struct box *b, enum interp_language l, const char *cwd, context_fn *fn,
                    void *ctx);
/* The implicit one of a language; made when it is first asked for. */
void context_default(struct box *b, enum interp_language l, context_fn *fn, void *ctx);
/* Those that every box has, whether or not they were used: they get their names, and an interpreter
 * when they are first run. Where there is no room for them they are not there. */
void context_name_defaults(struct box *b);
struct context *context_find(struct box *b, const char *id);
void context_each(struct box *b, void (*fn)(void *ctx, struct context *c), void *ctx);
const struct context_info *context_info(const struct context *c);
void context_restart(struct context *c, context_fn *fn, void *ctx);
void context_remove(struct context *c);
struct execution;
enum sink_took {
    SINK_ALL,
    SINK_MORE, /* there is more to be done: once again, after others had their turn */
    SINK_FULL, /* the same, after execution_resume */
};
struct execution_sink {
    bool (*output)(void *ctx, int stream, const void *data, size_t len); /* false: wait */
    enum sink_took (*said)(void *ctx, const struct interp_said *s);      /* count, result, error */
    void (*end)(void *ctx, const struct err *err); /* NULL: complete; the execution is gone */
    void *ctx;
    /* Before an error, or before an end without one: what was refused to the sandbox while it ran,
     * in words. May be NULL. */
    void (*denied)(void *ctx, const char *words);
};
/* Queued behind what the context is doing. */
int execution_start(struct context *c, const char *code, size_t len, const struct json *env,
                    const struct execution_sink *sink, struct execution **ret, struct err *err);
void execution_resume(struct execution *e);
void execution_cancel(struct execution *e); /* interrupts; no more callbacks */

/* ---- pools ---- */
struct pool_info {
    const char *template_name;
    unsigned idle, starting, min, max, target;
    uint64_t hits, misses, expired, failures;
};
void pools_each(struct core *c, void (*fn)(void *ctx, const struct pool_info *p), void *ctx);
int pool_resize(struct core *c, const char *template_name, unsigned min, unsigned max,
                struct err *err);

/* ---- ports ---- */
typedef void port_fn(void *ctx, int fd, const struct err *err); /* fd: the caller's, non-blocking */
void port_connect(struct box *b, uint16_t port, port_fn *fn, void *ctx);
