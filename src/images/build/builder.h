/* A Dockerfile that is being built: what the files that know its instructions share. */
#pragma once

#include "images/build/build.h"

#define STAGES_MAX 16

struct stage {
    char *name; /* AS NAME, or NULL */
    struct derived image;
};

struct building {
    const struct build_request *request;
    struct dockerfile file;
    struct stage *stages[STAGES_MAX];
    unsigned count;
    struct words global; /* ARG before the first FROM: NAME=VALUE */
    struct words args;   /* of this stage */
    unsigned archives;   /* unpacked so far */
};

/* builder.c */
/* The stage that is being built. */
struct derived *builder_now(struct building *b);
/* The value of NAME in a list of NAME=VALUE, or NULL. */
const char *builder_find_in(const struct words *list, const char *name);
/* For docker_expand: what a name stands for in this stage; and before the first one. */
const char *builder_variable(void *ctx, const char *name);
const char *builder_global(void *ctx, const char *name);
/* Its words, with the variables' values. */
int builder_expand(struct building *b, const struct instruction *i, struct words *ret,
                   struct err *err);
/* `known` and `idle`, which mean nothing here, end with NULL. */
int builder_check_flags(struct building *b, const struct instruction *i, const char *const *known,
                        const char *const *idle, struct err *err);

/* from.c */
struct stage *builder_stage(const struct building *b, const char *name);
/* What follows stands on `from`, which stays as it is. */
int builder_derive(struct building *b, struct derived *d, const struct derived *from,
                   struct err *err);
int builder_from(struct building *b, const struct instruction *i, struct err *err);

/* run.c */
int builder_run(struct building *b, const struct instruction *i, struct err *err);

/* copy.c */
/* The files of a stage or an image, for --from: a stage's by mounts, too. */
int builder_open_from(void *ctx, const char *from, struct image *image, struct err *err);
int builder_copy(struct building *b, const struct instruction *i, struct err *err);
int builder_workdir(struct building *b, const struct instruction *i, struct err *err);
