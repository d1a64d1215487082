/* The plan: the typed operations that init performs, in order, before the untrusted code starts.
 *
 * Each boundary adds its operations on the host; the finished plan crosses to init as one sealed
 * block of bytes. Every operation has the same shape (four numbers, two strings, one block of
 * data), so that the decoder is small enough to be read in a minute, and a table gives each kind
 * its name and the meaning of its parts. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* OP(KIND, "name", boundary, "a", "b", "n0", "n1", "n2", "n3", data?) */
#define PLAN_OPS(OP)                                                                               \
    OP(QUOTAS, "quotas", KERNEL, NULL, NULL, NULL, NULL, NULL, NULL)                               \
    OP(OWN_CLOCK, "own-clock", KERNEL, NULL, NULL, NULL, NULL, NULL, NULL)                         \
    OP(HOSTNAME, "hostname", KERNEL, "name", NULL, NULL, NULL, NULL, NULL)                         \
    OP(NETWORK_START, "network-start", NETWORK, NULL, NULL, "socket-buffer", NULL, NULL, NULL)     \
    OP(NETWORK_JOIN, "network-join", NETWORK, NULL, NULL, NULL, NULL, NULL, NULL)                  \
    OP(NETWORK_LOCAL, "network-local", NETWORK, NULL, NULL, NULL, NULL, NULL, NULL)                \
    OP(NETWORK_LISTEN, "network-listen", NETWORK, "address", NULL, "kind", "port", "udp", "quiet") \
    OP(MOUNTS_PRIVATE, "mounts-private", FILESYSTEM, NULL, NULL, NULL, NULL, NULL, NULL)           \
    OP(LOOK_AS, "look-as", FILESYSTEM, NULL, NULL, "uid", NULL, NULL, NULL)                        \
    OP(ROOT, "root", FILESYSTEM, NULL, NULL, "size", "inodes", "writable", NULL)                   \
    OP(DIR, "dir", FILESYSTEM, "path", NULL, "mode", NULL, NULL, NULL)                             \
    OP(FILE, "file", FILESYSTEM, "path", NULL, "mode", "anew", NULL, NULL)                         \
    OP(COPY, "copy", FILESYSTEM, "source", "dest", "mode", "anew", NULL, NULL)                     \
    OP(SYMLINK, "symlink", FILESYSTEM, "path", "target", NULL, NULL, NULL, NULL)                   \
    OP(BIND, "bind", FILESYSTEM, "source", "dest", "flags", "fd", "dev", "ino")                    \
    OP(OVERLAY, "overlay", FILESYSTEM, "source", "dest", "flags", "fd", "dev", "ino")              \
    OP(LAYER, "layer", FILESYSTEM, "source", "dest", "flags", "fd", "dev", "ino")                  \
    OP(WORK, "work", FILESYSTEM, NULL, NULL, "size", "inodes", "flags", NULL)                      \
    OP(WORK_DIR, "work-dir", FILESYSTEM, "name", "dest", "mode", "owner", NULL, NULL)              \
    OP(KEPT_DIR, "kept-dir", FILESYSTEM, "name", "dest", NULL, NULL, NULL, NULL)                   \
    OP(SHUT, "shut", FILESYSTEM, "dest", NULL, NULL, NULL, NULL, NULL)                             \
    OP(COVER, "cover", FILESYSTEM, "source", "dest", NULL, NULL, NULL, NULL)                       \
    OP(DEVPTS, "devpts", FILESYSTEM, "dest", NULL, NULL, NULL, NULL, NULL)                         \
    OP(PROC, "proc", FILESYSTEM, "dest", NULL, "view", "whole", "own-clock", NULL)                 \
    OP(PROC_FILE, "proc-file", FILESYSTEM, "path", NULL, "file", "live", NULL, NULL)               \
    OP(PIVOT, "pivot", FILESYSTEM, NULL, NULL, "writable", NULL, NULL, NULL)                       \
    OP(LANDLOCK_BEGIN, "landlock-begin", FILESYSTEM, "probe", "in", "fs", "net", "scope", "abi")   \
    OP(LANDLOCK_ALLOW, "landlock-allow", FILESYSTEM, "path", NULL, "access", "optional", NULL,     \
       NULL)                                                                                       \
    OP(LANDLOCK_GRANT, "landlock-grant", FILESYSTEM, "path", NULL, "access", NULL, "dev", "ino")   \
    OP(LANDLOCK_ENFORCE, "landlock-enforce", FILESYSTEM, NULL, NULL, NULL, NULL, NULL, NULL)       \
    OP(RLIMIT, "rlimit", LIFECYCLE, "name", NULL, "resource", "soft", "hard", "code")              \
    OP(NO_NEW_PRIVS, "no-new-privs", KERNEL, NULL, NULL, NULL, NULL, NULL, NULL)                   \
    OP(DROP_CAPS, "drop-caps", KERNEL, NULL, NULL, "keep", "for-now", NULL, NULL)                  \
    OP(BESIDE_DOOR, "beside-door", KERNEL, NULL, NULL, "inside", NULL, NULL, NULL)                 \
    OP(BESIDE, "beside", KERNEL, NULL, NULL, "uid", NULL, NULL, NULL)                              \
    OP(SECCOMP, "seccomp", KERNEL, NULL, NULL, "notify", NULL, NULL, NULL)                         \
    OP(TTY, "tty", KERNEL, "device", NULL, "cols", "rows", NULL, NULL)                             \
    OP(KEEP_STATUS, "keep-status", KERNEL, NULL, NULL, NULL, NULL, NULL, NULL)                     \
    OP(HAND, "hand", KERNEL, NULL, NULL, "fd", "as", NULL, NULL)                                   \
    OP(SCOPE_CODE, "scope-code", KERNEL, NULL, NULL, "scope", NULL, NULL, NULL)                    \
    OP(SUBREAPER, "subreaper", LIFECYCLE, NULL, NULL, "kill-all", NULL, NULL, NULL)                \
    OP(DIE_WITH_PARENT, "die-with-parent", LIFECYCLE, NULL, NULL, NULL, NULL, NULL, NULL)          \
    OP(CWD, "cwd", FILESYSTEM, "path", NULL, NULL, NULL, NULL, NULL)                               \
    OP(ENV, "env", CREDENTIALS, "entry", NULL, NULL, NULL, NULL, NULL)                             \
    OP(ARG, "arg", NONE, "value", NULL, NULL, NULL, NULL, NULL)                                    \
    OP(SESSION, "session", LIFECYCLE, NULL, NULL, NULL, NULL, NULL, NULL)                          \
    OP(FILE_WORK, "file-work", FILESYSTEM, "path", "to", "op", "limit", "depth", "recursive")      \
    OP(FILE_META, "file-meta", FILESYSTEM, "name", "value", NULL, NULL, NULL, NULL)

enum op_kind {
    OP_NONE = 0,
#define OP(id, ...) OP_##id,
    PLAN_OPS(OP)
#undef OP
        OP_KIND_COUNT,
};

/* Flags of OP_BIND, OP_OVERLAY, OP_LAYER and OP_WORK. */
enum {
    BIND_WRITABLE = 1,
    BIND_NOEXEC = 2,
    BIND_DEVICE = 4,   /* a device node of the host, kept usable */
    BIND_OPTIONAL = 8, /* skip silently if the source does not exist */
    BIND_FILE = 16,    /* the source is not a folder */
    BIND_ALONE = 32,   /* without what is mounted below it */
    BIND_FOLDERS = 64, /* OP_LAYER: its folders belong to somebody else; they become our own */
    BIND_HANDED = 128, /* OP_WORK: the supervisor gets a descriptor of it */
};

struct op {
    enum op_kind kind;
    uint64_t num[4];
    const char *a;
    const char *b;
    const void *data;
    size_t data_len;
};

#define PLAN_MAX_BYTES (4u << 20)
#define PLAN_MAX_OPS   16384u

/* Encoding, on the host. Errors are remembered; plan_finish reports them. */
struct plan {
    struct buf bytes;
    uint32_t count;
};
void plan_init(struct plan *p);
void plan_done(struct plan *p);
void plan_add(struct plan *p, const struct op *op);
int plan_finish(struct plan *p, struct err *err);
/* Shorthands for the common shapes. */
void plan_op(struct plan *p, enum op_kind kind);
void plan_num(struct plan *p, enum op_kind kind, uint64_t n0, uint64_t n1, uint64_t n2);
void plan_arg(struct plan *p, const char *text); /* of the program that is to be called */
void plan_arg_number(struct plan *p, uint64_t value);
void plan_str(struct plan *p, enum op_kind kind, const char *a, const char *b, uint64_t n0);

/* Decoding, in init: hostile input as far as the decoder is concerned. Strings and data point into
 * the block. */
struct plan_reader {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t left;
};
int plan_read_begin(struct plan_reader *r, const void *bytes, size_t len, struct err *err);
/* 1: *op filled in; 0: end of the plan; negative: malformed. */
int plan_read_next(struct plan_reader *r, struct op *op, struct err *err);

const char *op_name(enum op_kind kind);
enum boundary_id op_boundary(enum op_kind kind);
/* One operation per line, for people and golden tests. */
int plan_text(const void *bytes, size_t len, struct buf *out, struct err *err);
