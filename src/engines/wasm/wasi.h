/* WASI preview 1, as a module sees it: numbers in, an errno out, results in the module's memory.
 *
 * Knows no engine: the memory is told to it before each call, so that the fuzzer can drive it.
 *
 * A module may have been built for the preview's older state ("wasi_unstable"): the same calls with
 * the same arguments, where three things lie otherwise in memory, or have other numbers: what a
 * file is told as, from where a place in it counts, and what poll_oneoff is to wait for.
 *
 * WA-1  A path is resolved beneath the folder descriptor that it is relative to (beneath.h).
 * WA-2  Nothing outside of the module's memory is read or written on the module's word: pointer and
 *       length are checked as 64-bit sums, once, before use.
 * WA-3  Rights only shrink: a descriptor never has more than the folder that it was opened from.
 * WA-4  Only descriptors of the module's own table can be named, and what stands behind a number is
 *       looked up anew in each call.
 * WA-5  No piece of the host's memory is as large as a number of the module's says.
 * WA-6  A module has no sockets, and that it tried one is a denial like any refused call. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WASI_FDS_MAX  512
#define WASI_ARGS_MAX 9 /* of one call */

enum wasi_errno {
    WE_SUCCESS = 0,
    WE_2BIG = 1,
    WE_ACCES = 2,
    WE_AGAIN = 6,
    WE_BADF = 8,
    WE_BUSY = 10,
    WE_DQUOT = 19,
    WE_EXIST = 20,
    WE_FAULT = 21,
    WE_FBIG = 22,
    WE_ILSEQ = 25,
    WE_INTR = 27,
    WE_INVAL = 28,
    WE_IO = 29,
    WE_ISDIR = 31,
    WE_LOOP = 32,
    WE_MFILE = 33,
    WE_MLINK = 34,
    WE_NAMETOOLONG = 37,
    WE_NFILE = 41,
    WE_NODEV = 43,
    WE_NOENT = 44,
    WE_NOMEM = 48,
    WE_NOSPC = 51,
    WE_NOSYS = 52,
    WE_NOTDIR = 54,
    WE_NOTEMPTY = 55,
    WE_NOTSOCK = 57,
    WE_NOTSUP = 58,
    WE_NOTTY = 59,
    WE_NXIO = 60,
    WE_OVERFLOW = 61,
    WE_PERM = 63,
    WE_PIPE = 64,
    WE_ROFS = 69,
    WE_SPIPE = 70,
    WE_TXTBSY = 74,
    WE_XDEV = 75,
    WE_NOTCAPABLE = 76,
};

enum wasi_type {
    WT_UNKNOWN = 0,
    WT_BLOCK,
    WT_CHARACTER,
    WT_DIR,
    WT_FILE,
    WT_DGRAM,
    WT_STREAM,
    WT_LINK
};

#define WR(bit) (UINT64_C(1) << (bit))
enum {
    WR_DATASYNC = 0,
    WR_READ = 1,
    WR_SEEK = 2,
    WR_SET_FLAGS = 3,
    WR_SYNC = 4,
    WR_TELL = 5,
    WR_WRITE = 6,
    WR_ADVISE = 7,
    WR_ALLOCATE = 8,
    WR_MAKE_DIR = 9,
    WR_MAKE_FILE = 10,
    WR_LINK_FROM = 11,
    WR_LINK_TO = 12,
    WR_OPEN = 13,
    WR_READDIR = 14,
    WR_READLINK = 15,
    WR_RENAME_FROM = 16,
    WR_RENAME_TO = 17,
    WR_PATH_STAT = 18,
    WR_PATH_SET_SIZE = 19,
    WR_PATH_SET_TIMES = 20,
    WR_STAT = 21,
    WR_SET_SIZE = 22,
    WR_SET_TIMES = 23,
    WR_SYMLINK = 24,
    WR_REMOVE_DIR = 25,
    WR_UNLINK = 26,
    WR_POLL = 27,
};
#define WR_CHANGES                                                                                 \
    (WR(WR_WRITE) | WR(WR_ALLOCATE) | WR(WR_MAKE_DIR) | WR(WR_MAKE_FILE) | WR(WR_LINK_FROM) |      \
     WR(WR_LINK_TO) | WR(WR_RENAME_FROM) | WR(WR_RENAME_TO) | WR(WR_PATH_SET_SIZE) |               \
     WR(WR_PATH_SET_TIMES) | WR(WR_SET_SIZE) | WR(WR_SET_TIMES) | WR(WR_SYMLINK) |                 \
     WR(WR_REMOVE_DIR) | WR(WR_UNLINK))
#define WR_ALL (WR(28) - 1)

struct wasi_fd {
    int fd; /* -1: free */
    enum wasi_type type;
    uint64_t rights;
    uint64_t inherited;  /* the most that what is opened from here can have */
    const char *preopen; /* its name, of a folder that was given; or NULL */
    DIR *dir;            /* of fd_readdir, opened with the first of them */
    uint64_t at;         /* how many entries it has given since its beginning */
};

struct wasi {
    bool older;      /* it was built for wasi_unstable */
    uint8_t *memory; /* of the module, as it is now */
    uint64_t memory_size;
    char *const *args;
    uint32_t arg_count;
    char *const *env;
    uint32_t env_count;
    bool exited; /* proc_exit was called */
    uint32_t exit_code;
    int raised; /* the host's number of a signal that ends it: proc_raise was called; or 0 */
    struct wasi_fd fds[WASI_FDS_MAX];
};

/* The three standard descriptors are there, and nothing else. */
void wasi_init(struct wasi *w);
void wasi_done(struct wasi *w);
/* Takes `fd`, a folder. Negative errno if the table is full. */
int wasi_preopen(struct wasi *w, int fd, const char *name, bool writable);

typedef uint32_t wasi_handler(struct wasi *w, const uint64_t *a);
struct wasi_call {
    const char *name;
    const char *takes; /* 'i' for each 32-bit argument, 'I' for each 64-bit one */
    wasi_handler *handler;
};
/* NULL after the last. */
const struct wasi_call *wasi_call_at(size_t i);

/* memory_guest.c. NULL: not all of it lies in the module's memory. */
void *wasi_span(const struct wasi *w, uint64_t at, uint64_t len);
uint32_t wasi_put32(struct wasi *w, uint64_t at, uint32_t value);
uint32_t wasi_put64(struct wasi *w, uint64_t at, uint64_t value);
bool wasi_get32(const struct wasi *w, uint64_t at, uint32_t *ret);

/* table.c */
uint32_t wasi_error(int code); /* of the host */
/* 0, and the entry with these rights; or why not. */
uint32_t wasi_look(struct wasi *w, uint64_t number, uint64_t rights, struct wasi_fd **ret);
/* WA-3: some of the wanted rights are not among those that there are. */
bool wasi_lacks(uint64_t wanted, uint64_t rights);
/* Takes `fd`, also on failure. */
uint32_t wasi_add(struct wasi *w, int fd, uint64_t rights, uint64_t inherited, uint32_t *ret);
enum wasi_type wasi_type_of(uint32_t mode);

/* The calls, by what they are about. */
#define WASI_CALLS(X)                                                                              \
    X(args_get, "ii")                                                                              \
    X(args_sizes_get, "ii")                                                                        \
    X(environ_get, "ii")                                                                           \
    X(environ_sizes_get, "ii")                                                                     \
    X(clock_res_get, "ii")                                                                         \
    X(clock_time_get, "iIi")                                                                       \
    X(fd_advise, "iIIi")                                                                           \
    X(fd_allocate, "iII")                                                                          \
    X(fd_close, "i")                                                                               \
    X(fd_datasync, "i")                                                                            \
    X(fd_fdstat_get, "ii")                                                                         \
    X(fd_fdstat_set_flags, "ii")                                                                   \
    X(fd_fdstat_set_rights, "iII")                                                                 \
    X(fd_filestat_get, "ii")                                                                       \
    X(fd_filestat_set_size, "iI")                                                                  \
    X(fd_filestat_set_times, "iIIi")                                                               \
    X(fd_pread, "iiiIi")                                                                           \
    X(fd_prestat_get, "ii")                                                                        \
    X(fd_prestat_dir_name, "iii")                                                                  \
    X(fd_pwrite, "iiiIi")                                                                          \
    X(fd_read, "iiii")                                                                             \
    X(fd_readdir, "iiiIi")                                                                         \
    X(fd_renumber, "ii")                                                                           \
    X(fd_seek, "iIii")                                                                             \
    X(fd_sync, "i")                                                                                \
    X(fd_tell, "ii")                                                                               \
    X(fd_write, "iiii")                                                                            \
    X(path_create_directory, "iii")                                                                \
    X(path_filestat_get, "iiiii")                                                                  \
    X(path_filestat_set_times, "iiiiIIi")                                                          \
    X(path_link, "iiiiiii")                                                                        \
    X(path_open, "iiiiiIIii")                                                                      \
    X(path_readlink, "iiiiii")                                                                     \
    X(path_remove_directory, "iii")                                                                \
    X(path_rename, "iiiiii")                                                                       \
    X(path_symlink, "iiiii")                                                                       \
    X(path_unlink_file, "iii")                                                                     \
    X(poll_oneoff, "iiii")                                                                         \
    X(proc_exit, "i")                                                                              \
    X(proc_raise, "i")                                                                             \
    X(random_get, "ii")                                                                            \
    X(sched_yield, "")                                                                             \
    X(sock_accept, "iii")                                                                          \
    X(sock_recv, "iiiiii")                                                                         \
    X(sock_send, "iiiii")                                                                          \
    X(sock_shutdown, "ii")

#define X(name, takes) wasi_handler wasi_##name;
WASI_CALLS(X)
#undef X
