/* An image that is made of another one: layers are put on top of its files, its config is changed,
 * and it gets a name of its own. By `brig run --commit`, and by `brig image build`.
 *
 * IM-14  What code left behind is hostile data. It is written into a layer by a walk that follows
 * no link, opens nothing but plain files and folders, and counts; and that layer is unpacked as any
 * other is, in the sandbox of brig-unpack, and must be what was written. IM-15  Of the context only
 * what lies in it is read: no name climbs, no link on the way is followed, no device or FIFO is
 * opened. Of the image only what lies in its root is written. */
#pragma once

#include "images/build/dockerfile.h"
#include "images/load/load.h"
#include "images/load/tar.h"
#include "sandbox/sandbox.h"

/* ---- edit.c: the config ---- */

/* What an image says about how it is run. */
struct edit {
    struct words env; /* NAME=VALUE */
    struct words entrypoint, command, shell;
    struct words labels;         /* NAME=VALUE, besides those of the base */
    struct words ports, volumes; /* besides those of the base */
    char *user, *folder, *stop_signal;
    bool command_chosen; /* here, not by the base */
};
int edit_begin(struct edit *e, const struct image_config *base, struct err *err);
/* The same as another one, of an earlier stage. */
int edit_copy(struct edit *to, const struct edit *from, struct err *err);
void edit_done(struct edit *e);
const char *edit_variable(const struct edit *e, const char *name);
int edit_set(struct words *list, const char *name, const char *value, struct err *err);
/* ENV, WORKDIR, USER, ENTRYPOINT, CMD, LABEL, EXPOSE, VOLUME, STOPSIGNAL, SHELL. 0: it is another
 * one. `find` knows the variables. */
int edit_apply(struct edit *e, const struct instruction *i, char escape, docker_find *find,
               void *ctx, struct err *err);
/* `--change 'ENV A=b'`: one instruction, on an image that is there. */
int edit_change(struct edit *e, const char *text, struct err *err);

/* ---- derive.c ---- */

struct step {
    char *text;
    bool layer; /* it brought one */
};

struct derived {
    struct store store;
    struct scratch scratch; /* "empty", "layer", "added" */
    struct scratch root;    /* "tree": becomes the image's */
    struct image base;      /* root_fd < 0: none, from scratch */
    char tree[PATH_MAX], empty[PATH_MAX];
    struct edit edit;
    struct descriptor added[IMAGE_LAYERS_MAX];
    unsigned added_count;
    struct held_layers held; /* those of `added`, and perhaps of a stage that this one continues */
    struct merge_room room;
    struct step *steps; /* history */
    size_t step_count;
    struct root_facts sum;
    uint64_t max_bytes, max_entries;
};
/* `base` NULL: an empty root. derive_done() it also on failure. */
int derive_begin(struct derived *d, const char *base, uint64_t max_bytes, uint64_t max_entries,
                 struct err *err);
void derive_done(struct derived *d);
/* One layer: derive_open gives the file that it is to be written to, derive_put lays it over the
 * files; if it was written: a negative `written` is what is returned, and nothing is laid. One
 * without entries is none. */
int derive_open(struct derived *d, struct tar *t, struct err *err);
int derive_put(struct derived *d, struct tar *t, int written, const char *text, struct err *err);
/* The same, and the step is kept under this key for the next build. */
int derive_put_step(struct derived *d, struct tar *t, int written, const char *text,
                    const char *key, struct err *err);
/* A step that was kept. */
struct step_found;
int derive_put_found(struct derived *d, const struct step_found *found, const char *text,
                     struct err *err);
int derive_note(struct derived *d, const char *text, bool layer, struct err *err);
/* Gives it its name. */
int derive_finish(struct derived *d, const char *name, struct load_result *ret, struct err *err);

/* ---- steps.c: what earlier builds did ---- */

#define STEP_KEY_SIZE 65
bool step_can_be_kept(const struct policy *p);
/* `left_out`: of its changes. */
int step_key(const struct derived *d, const struct policy *p, const struct words *argv,
             const struct words *left_out, char ret[static STEP_KEY_SIZE], struct err *err);
struct step_found {
    int fd; /* -1: it changed nothing */
    char digest[DIGEST_SIZE];
    uint64_t size;
};
/* 1: it was done before; the caller closes `fd`. */
int step_find(const struct store *s, const char *key, struct step_found *ret);
/* The layer is this file; `digest` NULL: nothing changed. */
void step_keep(const struct store *s, const char *key, int dir, const char *file,
               const char *digest);
/* Removes what was not used for longest, until this is kept at most. Returns how many. */
unsigned steps_trim(const struct store *s, uint64_t max_bytes, unsigned max_count, uint64_t *bytes);

/* ---- changes.c ---- */

/* What a run changed, as a layer; but what is at the paths `but` (or NULL). */
int changes_write(const struct run_changes *c, const struct words *but, struct tar *t,
                  uint64_t max_bytes, uint64_t max_entries, uint64_t *left_out, struct err *err);

/* ---- commit.c ---- */

struct commit_request {
    const char *base, *name;
    const struct run_changes *changes;
    const char *const *edits; /* --change */
    size_t edit_count;
    const char *text; /* for the history */
};
int commit_image(const struct commit_request *request, struct load_result *ret, struct err *err);

/* ---- context.c: COPY and ADD ---- */

struct copying {
    struct tar *tar;
    int from;                    /* the context, or the root of an image */
    bool is_image;               /* links on the way count as inside of it */
    const struct ignore *ignore; /* or NULL */
    int tree;                    /* the files of the image that is made */
    long mode;                   /* of --chmod; -1: as it is */
    uint64_t left_bytes, left_entries;
    const char *of; /* "the context" */
};
/* `dest` is absolute; a folder if it ends in a slash. */
int context_copy(struct copying *c, const struct words *sources, const char *dest, struct err *err);
/* All that is in the folder `from`, into `dest`. */
int context_copy_all(struct copying *c, int from, const char *dest, struct err *err);
/* A plain file of the context by its name, for ADD; -1 with no error: it is none that one pattern
 * names. */
int context_open_file(const struct copying *c, const char *source);
/* Absolute, without "." and ".."; it ends in a slash where `path` does. */
int context_place(const char *folder, const char *path, char ret[static PATH_MAX], struct err *err);
bool context_has_folder(int tree, const char *path);

/* ---- builder.c ---- */

struct build_request {
    int context; /* a folder */
    const char *dockerfile;
    size_t dockerfile_len;
    const struct ignore *ignore;
    const char *name, *target;
    const char *const *args; /* NAME=VALUE */
    size_t arg_count;
    uint64_t max_bytes, max_entries;
    bool no_cache; /* each RUN is done, also one that was done before */
    /* The policy of a RUN, as the caller's options say; policy_done() it also on failure. */
    int (*policy)(void *ctx, struct policy *ret, struct err *err);
    /* "STEP 3/7: RUN …"; and what has no meaning here. */
    void (*step)(void *ctx, unsigned at, unsigned of, const char *text);
    void (*note)(void *ctx, unsigned line, const char *text);
    void (*ran)(void *ctx, const struct policy *policy, const struct run_result *result);
    void *ctx;
    int out_fd; /* of the commands */
};
int build_image(const struct build_request *request, struct load_result *ret, struct err *err);
