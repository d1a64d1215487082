/* File work on behalf of a call: started, fed to the handler, cancelled when the client leaves. */
#pragma once

#include "daemon/api/call.h"
#include "files/files.h"

struct work {
    struct call *call; /* NULL: the client is gone */
    struct loop *loop;
    struct file_work *file; /* NULL until it has started */
    struct loop_task release;
    bool closing;
    void *data; /* the handler's; given to `forget` at the end */
    void (*forget)(void *data);
};

/* {"op","path",…} for files/files.h. */
struct work_request {
    enum files_op op;
    const char *path, *to;
    uint64_t limit; /* 0: none given */
    uint32_t depth;
    bool recursive;
    const struct http_headers *metadata; /* X-Metadata-* among these, or NULL */
};
/* err NULL: it runs; in_fd is the pipe to write to, -1 but for WRITE. Else the handler answers,
 * with work_refuse where nothing else is to be done. The sink's ctx is the work. */
typedef void work_fn(struct work *w, int in_fd, const struct err *err);
/* Takes `data`. Calls back once, unless the client has gone: then everything ends by itself. */
void work_start(struct call *call, struct box *b, const struct work_request *r,
                const struct files_sink *sink, work_fn *started, void *data,
                void (*forget)(void *data));
void work_refuse(struct work *w, const struct err *err);
/* Cancels what still runs and frees everything, after the callbacks of this round. The call is the
 * handler's to answer. */
void work_close(struct work *w);
/* For a call whose answer is still to come. */
void work_fail(struct work *w, int error, const char *path);

/* "metadata": what X-Metadata-* headers say, names in lower case. */
void work_write_metadata(struct json_writer *w, const struct http_headers *h);

int errno_status(int error);
const char *errno_text(int error);
/* EntryInfo of the protocol. */
void entry_write(struct json_writer *w, const struct files_entry *e);
/* RFC 3339; false: a file may claim a time that has no such form. */
#define ENTRY_TIME_SIZE 48
bool entry_time(const struct files_entry *e, char out[static ENTRY_TIME_SIZE]);
/* Absolute, as the worker will see it: relative paths are below the home folder. */
/* A path from a request, which may have come as bytes that are no UTF-8 (in a form): escaped as the
 * names in answers are (base/utf8.h). */
void path_write(struct json_writer *w, const char *key, const char *path);
void path_absolute(const char *path, char out[static FILES_PATH_MAX + 1]);
#define HOME_PATH "/home/user"
