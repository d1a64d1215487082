/* What the parts of brig-gvisor share. main.c tells the story.
 *
 * GV-1  Processes are traced on this tier alone, by the engine, in the sandbox's own pid namespace;
 * the code behind it cannot.
 * GV-2  Neither the engine nor the code reaches a UNIX socket of the host.
 * GV-3  The runsc that runs is the one that was looked at, and nobody else could have changed it;
 * it runs inside of the walls alone. GV-4  brig alone says with which options runsc runs.
 * GV-5  See lead.h. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "plan/join.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SENTRY_NAME "brig" /* of the one container behind the Sentry */

/* The code, as brig's arguments describe it. */
struct sentry_code {
    const char *runsc;
    const char *platform;
    const char *cwd;
    bool mount_confs; /* this build must be told how each of its mounts is served */
    bool terminal;    /* descriptors 0 to 2 are one */
    bool serves;      /* it only reaps; what it has itself as 0 to 2 is not for it */
    uint64_t uid, memory, cpus, files;
    uint64_t file_size; /* how large one may be; 0: as large as there is room */
    char *const *argv;
    char **env; /* owned: the entries are the caller's */
    /* Of a container of brig oci. */
    bool contained;
    int runsc_fd;      /* in the place of the path */
    struct json *spec; /* in the place of what stands above of the code */
    bool tmp;          /* its root has that folder */
    int begun;         /* is closed then */
};

/* spec.c: the container's description, as config.json would hold it. */
void spec_write(const struct sentry_code *code, struct buf *out);

/* control.c: two connections to the Sentry's control socket. One waits for the end of the code, the
 * other carries signals meanwhile. */
struct control {
    int listener;                 /* the Sentry's */
    char name[JOIN_NAME_LEN + 1]; /* which join.c connects to */
    int wait, signals;
};
int control_open(struct control *c, struct err *err);
/* A further connection; negative: none. */
int control_join(const char *name, struct err *err);
/* One call without an answer yet, with descriptors. */
int control_send(int fd, const char *method, const struct buf *argument, const int *fds,
                 unsigned count, struct err *err);
int control_ask(int fd, const char *method, const struct buf *argument, struct err *err);
int control_signal(const struct control *c, int number, bool all, struct err *err);

/* control_parse.c: what came back so far. */
struct control_answer {
    bool success;
    int64_t result; /* 0 where it is no number */
    size_t len;     /* of the answer; what comes behind it belongs to the next */
    char why[512];  /* printable */
};
/* 1: it is complete; 0: not yet; negative: it is no answer. */
int control_parse(const char *text, size_t len, struct control_answer *ret);

/* main.c: what both ways to be started share. Each ends this process. */
void engine_fail(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
void engine_end_by(int number) __attribute__((noreturn));
uint64_t engine_number(const char *text);
/* The code's variables, of what this process has. Owned; the entries are the environment's. */
char **engine_variables(void);
/* Bytes that JSON can say. */
bool engine_is_text(const char *at);

/* join.c: brig-gvisor join …, in the place of one program of a sandbox that lives. */
void join_main(int argc, char *argv[]) __attribute__((noreturn));

/* contain.c: a container of brig oci, and one more program in one. */
void contain_take(int argc, char *argv[], struct sentry_code *code, struct control *control);
void exec_main(int argc, char *argv[]) __attribute__((noreturn));

/* seal.c: a filter of its own for all that follows. Negative errno. */
int seal_engine(void);

/* runsc.c: the file server and the Sentry. */
struct sentry {
    pid_t gofer, boot;
    int ready; /* a byte comes when the Sentry has booted; its end comes when it could not */
    int words; /* the beginning of what both wrote to stderr; -1: it is not kept */
};
int sentry_start(const struct sentry_code *code, const struct control *c, struct sentry *ret,
                 struct err *err);
/* Why they ended, where they said so: printable, else empty. */
void sentry_last_words(const struct sentry *s, char *ret, size_t size);
