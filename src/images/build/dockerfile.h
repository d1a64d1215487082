/* A Dockerfile: what it says, taken apart. The text is somebody else's: read strictly and within
 * bounds, and what is not known is an error that names its line.
 *
 * IM-13  Of a Dockerfile only the instructions of this table mean something. No line of it starts a
 *        program outside of a sandbox, names another reader for itself, or mounts anything of the
 * host's.
 *
 * IM-18  What its variables make of each other is bounded: a short file can double a value line by
 *        line. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define DOCKERFILE_MAX   (1u << 20)
#define INSTRUCTIONS_MAX 1000
#define WORDS_MAX        1000
#define WORDS_BYTES      (1u << 20)

/* Texts that are owned. Variables that stand for others grow fast: their bytes are counted too. */
struct words {
    char **items; /* NULL-terminated where there are any */
    size_t count, room, bytes;
    size_t most; /* 0: WORDS_MAX, and WORDS_BYTES in all */
};
int words_add(struct words *w, const char *text, size_t len, struct err *err);
/* One of them becomes another; takes `text`, also on failure. */
int words_replace(struct words *w, char **item, char *text, struct err *err);
void words_done(struct words *w);

enum docker_op {
    DOCKER_FROM,
    DOCKER_RUN,
    DOCKER_COPY,
    DOCKER_ADD,
    DOCKER_ENV,
    DOCKER_ARG,
    DOCKER_WORKDIR,
    DOCKER_USER,
    DOCKER_ENTRYPOINT,
    DOCKER_CMD,
    DOCKER_LABEL,
    DOCKER_EXPOSE,
    DOCKER_VOLUME,
    DOCKER_STOPSIGNAL,
    DOCKER_SHELL,
    DOCKER_HEALTHCHECK,
    DOCKER_MAINTAINER,
};

struct instruction {
    enum docker_op op;
    unsigned line;      /* on which it begins */
    char *text;         /* all of it, on one line */
    struct words flags; /* "--from=x", before the arguments */
    struct words args;  /* of ENV, LABEL and ARG: name and value in turn */
    bool exec;          /* the arguments were a JSON array */
};
/* Values have their quotes and $ as they stand. Those of ARG begin with '=', or are "!" where there
 * is no default. */
struct dockerfile {
    struct instruction *items;
    size_t count;
    char escape; /* '\\' or '`' */
};
int dockerfile_parse(const char *text, size_t len, struct dockerfile *ret, struct err *err);
void dockerfile_done(struct dockerfile *d);
/* The value of --NAME=VALUE, or NULL. */
const char *instruction_flag(const struct instruction *i, const char *name);

/* A word with its quotes taken off and $NAME, ${NAME}, ${NAME:-WORD} and ${NAME:+WORD} filled in.
 * `find` returns NULL for what is not set. */
typedef const char *docker_find(void *ctx, const char *name);
int docker_expand(const char *word, char escape, docker_find *find, void *ctx, struct buf *out,
                  struct err *err);

/* ---- .dockerignore ---- */

struct ignore {
    struct words patterns; /* cleaned; an exception begins with '!' */
};
int ignore_parse(const char *text, size_t len, struct ignore *ret, struct err *err);
void ignore_done(struct ignore *i);
/* Of a path in the context, without a slash at either end. */
bool ignore_has(const struct ignore *i, const char *path);
