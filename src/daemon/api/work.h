/* File work on behalf of an activity: one piece of work inside at a time, started, heard and given
 * up. What a worker says goes to the sink; the rest is here. */
#pragma once

#include "daemon/api/activity.h"
#include "files/files.h"

/* {"op","path",…} for files/files.h. */
struct work_request {
    enum files_op op;
    const char *path, *to;
    uint64_t limit; /* 0: none given */
    uint32_t depth;
    bool recursive;
    bool as_root;                        /* where root is there as a second user */
    const struct http_headers *metadata; /* X-Metadata-* among these, or NULL */
};
/* err NULL: it runs; in_fd is the pipe to write to, -1 but for WRITE. */
typedef void work_fn(void *ctx, int in_fd, const struct err *err);

/* A member of what it works for. */
struct work {
    struct activity *of;
    struct file_work *file; /* NULL: nothing runs, or not yet */
    work_fn *started;
    void *ctx;
};
/* In the place of what ran before, never of what is being started. `started` is called once with
 * the sink's ctx, unless the activity has ended; where it is NULL, a work that cannot be started
 * ends the activity, and its call gets the reason. */
void work_start(struct work *w, struct activity *of, struct box *b, const struct work_request *r,
                const struct files_sink *sink, work_fn *started);
void work_stop(struct work *w);              /* the sink hears no more; also when nothing runs */
void work_pause(struct work *w, bool pause); /* the client is slow */
/* Ends the activity; its call gets the error. */
void work_fail(struct activity *a, int error, const char *path);

/* "metadata": what X-Metadata-* headers say, names in lower case. */
bool work_has_metadata(const struct http_headers *h);
void work_write_metadata(struct json_writer *w, const struct http_headers *h);

int errno_status(int error);
const char *errno_text(int error);
/* EntryInfo of the protocol. */
void entry_write(struct json_writer *w, const struct files_entry *e);
/* RFC 3339; false: a file may claim a time that has no such form. */
#define ENTRY_TIME_SIZE 48
bool entry_time(const struct files_entry *e, char out[static ENTRY_TIME_SIZE]);
/* A path from a request, which may have come as bytes that are no UTF-8 (in a form): escaped as the
 * names in answers are (base/utf8.h). */
void path_write(struct json_writer *w, const char *key, const char *path);
/* Absolute, as the worker will see it: relative paths are below the home folder, and "~" is that of
 * the user. */
void path_absolute(const struct box *b, bool as_root, const char *path,
                   char out[static FILES_PATH_MAX + 1]);
#define HOME_PATH "/home/user"
