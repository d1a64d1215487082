/* The file API (R-F5): one module for everything that the outside does with files of a sandbox.
 *
 * The work is done INSIDE: init forks a worker that has the root, the uid, the Landlock domain, the
 * filter and the cgroup of the code, and nothing more. The outside never resolves a path of the
 * sandbox and never opens a file of it; it moves bytes between two pipes and checks what it reads.
 * So a link, a race, a FIFO or a name can at most lead the worker to what the code can do anyway,
 * and what is written is counted against the sandbox's own quota and memory limit.
 *
 * FA-1  Nothing of the host is touched on behalf of a path from a request.
 * FA-2  Magic links are never followed; only regular files are read and written, only by a worker
 *       that cannot block on them (O_NONBLOCK, then fstat).
 * FA-3  A write goes to a new file and is renamed over the old name when it is complete: a link or
 *       a hard link in its place is replaced, not followed; half an upload is never seen. Who
 *       watches the folder is told what a write in place would tell: CREATE if the name is new,
 *       CHMOD, MODIFY.
 * FA-4  Constant memory on both sides, whatever the size; a cap on bytes, entries and depth.
 * FA-5  What the worker says is hostile: parse.c bounds and checks it, and has a fuzzer. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan;

enum files_op {
    FILES_NONE = 0,
    FILES_READ,   /* path → HEAD then DATA…, exactly as many bytes as HEAD said, or an error */
    FILES_WRITE,  /* path, bytes from `in` until its end → HEAD when renamed into place; makes
                     parents; metadata = user.e2b.* attributes, replaced as a whole */
    FILES_STAT,   /* path → HEAD, ENTRY; a link is described, with what it leads to */
    FILES_LIST,   /* path, depth → HEAD, ENTRY… (at most limit; more: END with EFBIG); sorted by
                     their bytes, what is in a folder follows it */
    FILES_MKDIR,  /* path → HEAD, ENTRY; makes parents; EEXIST when it is there */
    FILES_REMOVE, /* path; a folder with everything in it → HEAD */
    FILES_MOVE,   /* path, to → HEAD, ENTRY; makes parents of `to`, replaces a file there */
    FILES_WATCH,  /* path, recursive → HEAD, then EVENT… until the reader closes `out` */
    FILES_OP_COUNT,
};
const char *files_op_name(enum files_op op); /* "read", … */
enum files_op files_op_parse(const char *name);

#define FILES_PATH_MAX     4096
#define FILES_TEXT_MAX     UTF8_ESCAPED_MAX(FILES_PATH_MAX) /* of a path as text */
#define FILES_ENTRIES_MAX  20000
#define FILES_DEPTH_MAX    64
#define FILES_METADATA_MAX 16
#define FILES_FOLDERS_MAX  4096 /* that one recursive WATCH may watch */
#define FILES_HOME         "/home/user"
#define FILES_BYTES_MAX    (1ull << 40) /* READ and WRITE where the request names no limit */

/* What crosses to the worker, as one sealed block (plan/plan.h encodes it: OP_FILE_WORK). */
struct files_request {
    enum files_op op;
    const char *path; /* absolute; or relative to `home`; "//", "." and ".." go away as text.
                         Escaped (base/utf8.h) until files_request_plan, which crosses as bytes */
    const char *to;   /* FILES_MOVE */
    const char *home; /* FILES_HOME, or what the caller puts there */
    uint64_t limit;   /* bytes for READ and WRITE, entries for LIST */
    uint32_t depth;   /* LIST: 1 is the folder's own entries */
    bool recursive;
    /* FILES_WRITE */
    unsigned metadata_count;
    struct {
        const char *name, *value;
    } metadata[FILES_METADATA_MAX];
};
/* From the text of WIRE_FILE:
 * {"op","path","to"?,"limit"?,"depth"?,"recursive"?,"metadata"?{},"user"?}. Strings point into
 * `json`, which must outlive the request. */
int files_request_read(const struct json *json, struct files_request *ret, struct err *err);
/* To the worker: one OP_FILE_WORK and an OP_FILE_META for each attribute; then plan_finish. */
void files_request_plan(const struct files_request *r, struct plan *plan);
/* decode_parse.c, in init: no heap, strings point into the block. Checks all that the worker
 * relies on. */
int files_request_decode(const void *bytes, size_t len, struct files_request *ret, struct err *err);

/* worker_child.c. Runs in the worker, sealed. `in`: what is to be written, or -1; `out`: the
 * answer. Never returns to its caller with anything to do but _exit.
 *
 * Giving up. Closing the other end of `out` gives the work up: one that has not begun is
 * not done, the worker stops, and a WRITE leaves nothing behind. The end of `in` alone means that
 * the file is complete. So a caller whose client went away in the middle of an upload closes `out`
 * FIRST and `in` after it; never the other way round. */
int files_work_child(const struct files_request *r, int in, int out);

/* The answer: a sequence of frames, each {u8 type, u8 zero, u16 zero, u32 length (LE)} and
 * `length` bytes: a HEAD with an error and nothing more; or a HEAD without one, what the op says
 * above, and one END. What was cut short is thus always seen.
 *
 * Errors, beside those of the system calls: EINVAL no regular file (FIFO, socket, device), or a
 * path that names nothing ("/" to be removed); EISDIR, ENOTDIR, ENOENT, EEXIST, ENAMETOOLONG, ELOOP
 * (also: a magic link); EACCES (also: /proc, /sys and their like); EFBIG over the limit; ENOSPC and
 * EDQUOT the quota; EBUSY a place where something is mounted; EXDEV a move between two of them; EIO
 * the file shrank while it was read; EOVERFLOW events were lost (END of a WATCH), ENOENT there: the
 * folder is gone. */
enum files_frame_type {
    FILES_HEAD = 1, /* struct files_head */
    FILES_ENTRY,    /* struct files_entry_wire, then name bytes, then link target bytes, then
                       metadata as name NUL value NUL … */
    FILES_EVENT,    /* u32 kind, u32 is_dir, then the name relative to the watched folder */
    FILES_DATA,     /* bytes of the file */
    FILES_END,      /* nothing; or struct files_head with an error in the middle */
};
struct files_frame {
    uint8_t type, zero1;
    uint16_t zero2;
    uint32_t length;
};
#define FILES_FRAME_DATA_MAX (1u << 20)
struct files_head {
    int32_t error; /* 0 or an errno; EFBIG: over the limit */
    uint32_t reserved;
    uint64_t size; /* of the file (READ); bytes written (WRITE) */
};
enum files_kind { FILES_REGULAR = 1, FILES_DIRECTORY, FILES_SYMLINK, FILES_OTHER };
struct files_entry_wire {
    uint32_t kind;
    uint32_t mode; /* permission bits */
    uint32_t uid, gid;
    uint64_t size;
    int64_t mtime_sec;
    uint32_t mtime_nsec;
    uint32_t path_len, target_len, metadata_len;
    uint32_t target_kind, target_mode; /* of what a link leads to; 0: nothing that is there */
};
enum files_event_kind { FILES_CREATE = 1, FILES_MODIFY, FILES_DELETE, FILES_RENAME, FILES_CHMOD };

/* parse.c, outside. */
struct files_entry {
    enum files_kind kind;
    uint32_t mode, uid, gid;
    uint64_t size;
    int64_t mtime_sec;
    uint32_t mtime_nsec;
    /* Of a symbolic link: what it leads to, never a link itself. 0: nothing that is there. */
    enum files_kind target_kind;
    uint32_t target_mode;
    char path[FILES_TEXT_MAX + 1];   /* absolute as asked for; as text, see utf8_escape */
    char target[FILES_TEXT_MAX + 1]; /* of a symbolic link: where it leads, absolute and without
                                        further links; what it says, where it leads nowhere */
    char metadata[4096];             /* name NUL value NUL … */
    size_t metadata_len;
};
struct files_event {
    enum files_event_kind kind;
    bool is_dir;
    char name[FILES_TEXT_MAX + 1]; /* as text */
};
struct files_reader; /* cuts the stream into frames; bounded */
/* `head` comes first and once, `end` last and once (after a head with an error, with the same
 * error). A callback must not free the reader. Callbacks that the op never uses may be NULL. */
struct files_sink {
    void (*head)(void *ctx, int error, uint64_t size);
    void (*entry)(void *ctx, const struct files_entry *e);
    void (*event)(void *ctx, const struct files_event *e);
    void (*data)(void *ctx, const void *bytes, size_t len);
    void (*end)(void *ctx, int error);
    void *ctx;
};
int files_reader_new(struct files_reader **ret, enum files_op op, const struct files_sink *sink,
                     struct err *err);
/* Feeds bytes as they come from the pipe; negative: the worker spoke nonsense, close it. */
int files_reader_feed(struct files_reader *r, const void *bytes, size_t len, struct err *err);
/* The pipe ended: negative if it did so in the middle. */
int files_reader_finish(struct files_reader *r, struct err *err);
void files_reader_free(struct files_reader *r);
