/* The file system device (virtio-fs): the guest sees what the monitor sees, with the monitor's
 * rights. The monitor stands in the sandbox's private root, so that grants, read-only folders,
 * review mode and limits hold here as they hold for code that runs there itself.
 *
 * VM-8   A file is found by its folder's descriptor and one name without a slash; no link is
 * followed, and no path is ever put together.
 * VM-9   The monitor opens regular files and folders, nothing else, and makes no special files.
 * VM-10  Numbers that the guest gives for files and handles are indices, looked up and checked:
 * what was never issued, or was given back, is ESTALE or EBADF. VM-11  How many files the guest can
 * make the monitor hold is bounded; beyond it is ENFILE. VM-16  Of file systems that the kernel
 * makes up (proc, sysfs, …) the guest sees the folder that they are mounted on and nothing else:
 * they are the monitor's, and its memory is a file there. VM-12  Owners come from the monitor's own
 * identity, never from a request; set-id bits are dropped. VM-22 A file that can be reached in two
 * places is opened through the one that the guest named, with the rights of that one. */
#pragma once

#include "base/err.h"
#include "engines/vm/device.h"

#include <sys/types.h>

#define FS_NODES_MAX   65536u
#define FS_HANDLES_MAX 16384u
#define FS_PARKED_MAX                                                                              \
    256u /* nodes of a guest that was parked: it has looked at next to nothing                     \
          */

struct fs_node {
    int fd; /* O_PATH; -1: free */
    dev_t dev;
    ino_t ino;
    uint64_t mount;
    bool closed;    /* a place of the kernel's own (served): its name is there, and nothing in it */
    uint64_t known; /* how often the guest was told of it, less what it has forgotten */
    uint32_t next;  /* in its bucket, or in the list of free ones */
};

struct fs_handle {
    int fd; /* -1: free */
    bool folder;
    uint32_t node;
    uint32_t next;
};

struct fs {
    struct device device;
    int self_fd; /* /proc/self/fd: where an O_PATH descriptor becomes one to read or write with */
    struct fs_node *nodes;
    uint32_t *buckets;
    struct fs_handle *handles;
    uint32_t node_count, node_free, handle_count, handle_free;
    uint32_t nodes_max, handles_max; /* what the limit of descriptors allows of them */
    uint64_t requests;
    bool shared; /* others than the guest change files: it believes nothing that may be written */
    uint8_t *in, *out; /* one request, copied; its answer */
};

/* root: an open folder, which the device owns from then on. 0 or a negative errno. */
int fs_init(struct fs *fs, const struct guest_memory *memory, int root, int self_fd);
void fs_done(struct fs *fs);
/* Somebody else works on the same files (the workers of a sandbox that lives on), and the guest
 * must see it at once. */
void fs_share(struct fs *fs, bool shared);

/* fs_state.c: what the guest knows of files, by their paths. Nothing may be open. Restored into a
 * file system that was just made, whose root may be another one: each file is found beneath it
 * again, without following a link, and must be of the same kind; else it fails. */
int fs_save(struct fs *fs, struct state_writer *w, struct err *err);
int fs_restore(struct fs *fs, struct state_reader *r, struct err *err);

/* fs_nodes.c */
/* Puts a file where it was: the descriptor is taken over. For numbers that go up. */
int fs_node_put(struct fs *fs, uint64_t id, int fd, bool closed, uint64_t known);
struct fs_node *fs_node(struct fs *fs, uint64_t id);
/* The same, unless it is closed. */
struct fs_node *fs_node_open(struct fs *fs, uint64_t id);
/* Takes the descriptor over, whatever happens. A number, or a negative errno. */
int64_t fs_remember(struct fs *fs, int fd, bool closed);
void fs_forget(struct fs *fs, uint64_t id, uint64_t times);
struct fs_handle *fs_handle(struct fs *fs, uint64_t id, bool folder);
int64_t fs_handle_new(struct fs *fs, int fd, bool folder, uint64_t node);
void fs_handle_drop(struct fs *fs, uint64_t id, bool folder);
/* VM-16: is it of a file system whose contents the guest may see? */
bool fs_served(int fd);
/* Opens what the node stands for: a regular file or a folder. A descriptor or a negative errno. */
int fs_open_node(struct fs *fs, const struct fs_node *node, int flags);
