/* The parts of the file worker (files/files.h). It runs inside, as a process of its own that
 * init forked: no heap, no stdio, no locks, static buffers that are touched only where the work
 * needs them. Functions return a negative errno. */
#pragma once

#include "files/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define FILES_META_PREFIX    "user.e2b."
#define FILES_META_NAME_MAX  200 /* the kernel's limit is 255 with the prefix */
#define FILES_META_VALUE_MAX 2048
bool files_metadata_fits(const char *name, const char *value);

/* ---- the answer: out_child.c ---- */
void files_out_begin(int fd);
/* Buffered; what they return is -EPIPE once nobody reads any more. */
int files_out_head(int error, uint64_t size);
int files_out_end(int error);
int files_out_event(enum files_event_kind kind, bool is_dir, const char *name);
/* The entry `name` of the folder `dir`: itself; of a link also what it leads to. */
int files_out_entry(int dir, const char *name, const char *path, mode_t *ret_mode, dev_t *ret_dev);
/* All of an answer that is one entry, told under `path`. */
int files_answer_entry(int dir, const char *name, const char *path);
int files_out_flush(void);
/* Past the buffer: all of these bytes; waiting until it takes more. */
int files_out_write(const void *bytes, size_t len);
int files_out_room(void);
/* Did the reader go away? And: wait until it did (-EPIPE), or until `fd` can be read. */
bool files_out_gone(void);
int files_out_wait(int fd);

/* ---- paths: path_child.c ---- */
/* `path` as an absolute one without "//", "." and "..": the text that is used and shown. */
int files_path_clean(const char *home, const char *path, char ret[FILES_PATH_MAX + 1]);
/* As openat, no O_CREAT; magic links are not followed. */
int files_path_open(int dir, const char *path, int flags);
/* The folder above as an O_PATH descriptor; *leaf is what it is called there, "" for the root. */
int files_path_parent(const char *path, bool make, const char **leaf);
/* "/proc/self/fd/N" */
#define FILES_FD_PATH 32
void files_fd_path(int fd, char ret[FILES_FD_PATH]);
/* -EACCES for file systems of the kernel's own, whose files are no files. */
int files_place_check(int fd);
/* walk_child.c: the same as files_path_open where the filter hides openat2. */
int files_walk_open(int dir, const char *path, int flags);

/* ---- folders: dir_child.c ---- */
struct files_dir {
    int fd;
    int at, len;
    dev_t dev;
    size_t path_len;  /* LIST */
    unsigned cleared; /* REMOVE: entries that this pass made disappear */
    uint32_t slot;    /* WATCH */
    char name[256];   /* REMOVE: what it is called in the folder above */
    char block[8192] __attribute__((aligned(8)));
};
/* One for each level of a walk, for whichever operation runs. */
extern struct files_dir files_dirs[FILES_DEPTH_MAX];
/* A folder in a folder, by its name; no link. */
int files_dir_open(int dir, const char *name);
void files_dir_begin(struct files_dir *d, int fd);
/* The next name but "." and ".."; NULL at the end. */
const char *files_dir_next(struct files_dir *d);
void files_dir_rewind(struct files_dir *d);
/* sort_child.c: the same names in order, `level` being that of `d`. */
void files_sorted_begin(unsigned level);
const char *files_sorted_next(unsigned level, struct files_dir *d);
void files_dir_end(struct files_dir *d);

/* ---- operations; the path is cleaned ---- */
int files_read_child(const struct files_request *r, const char *path);
int files_write_child(const struct files_request *r, const char *path, int in);
int files_list_child(const struct files_request *r, char path[FILES_PATH_MAX + 1]);
int files_remove_child(const char *path);
int files_move_child(const struct files_request *r, const char *path);
/* WRITE's way for the file `in`, with the mode, the times and the metadata that it has. When it is
 * in place `leave` takes the old name away; if that fails, all is as it was. */
int files_copy_child(int dir, const char *leaf, int in, const struct stat *as,
                     int (*leave)(void *ctx), void *ctx);
int files_watch_child(const struct files_request *r, const char *path);

/* A name for what is not complete yet; nobody guesses it, and WATCH says nothing about it. */
#define FILES_TEMP_LEN 28
void files_temp_name(char ret[FILES_TEMP_LEN]);
bool files_temp_is(const char *name);
/* The same for what will take the place of a file: who watches sees that file change, not appear.
 */
void files_temp_name_over(char ret[FILES_TEMP_LEN]);
bool files_temp_is_over(const char *name);
