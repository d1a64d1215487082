/* BOUNDARY 2: what the code sees.
 *
 * Container tier: a private root built from a chosen, read-only view of the host (or of one
 * folder), one size-capped tmpfs for everything writable, and Landlock on top. Process tier:
 * Landlock alone, over the same choice of host folders.
 *
 * FS-1  Nothing of the host is reachable but what the plan binds.
 * FS-2  No set-up step follows a symbolic link inside the new root.
 * FS-3  Every mount is nosuid, all but device nodes nodev, all but the planned ones read-only, and
 * what is the sandbox's own to write is a file system of its own; checked from outside. FS-4
 * Landlock is in force, shown by a probe. FS-5  Folders that hold credentials, host sockets or
 * brig's own state are never granted, whoever asks. FS-6  The object that was checked is the one
 * that is shown: it is held by descriptor from the check to the end; where a path is needed again,
 * it is walked without links and must lead to that object. FS-7  A grant is reached through no link
 * that a sandbox may have made. FS-8  What is mounted below a granted folder comes along only where
 * the policy says so. FS-13  What the code changes in a writable root goes to its own tmpfs, and
 * nothing of the host is mapped to its uid for it but a folder that was named to be the root. */
#pragma once

#include "audit/evidence.h"
#include "base/err.h"
#include "filesystem/proc_own.h"
#include "os/procfs.h"
#include "plan/control.h"
#include "plan/plan.h"
#include "plan/stage.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* One entry of the host that may become part of the view. */
struct view_entry {
    char path[64];
    char target[192]; /* of a symbolic link, else empty */
    bool is_dir;
    bool foreign;      /* the sandbox's uid does not own it: see layer_child.c */
    uint64_t dev, ino; /* of a folder that serves as root; else 0 */
};

#define VIEW_MAX 64

/* What the host looks like; the only input of the plan beside the policy, so that plans can be
 * golden-tested. */
struct filesystem_host {
    struct view_entry view[VIEW_MAX];
    unsigned view_count;
    char archive[640]; /* of packages: what /etc/apt/sources.list says; empty: none is known */
    int landlock_abi;
};
void filesystem_probe(struct filesystem_host *ret);
/* An entry of the view, if there is one of that name. */
void view_probe(struct filesystem_host *host, const char *path);
/* packages.c: the same for a writable root. */
void filesystem_probe_packages(struct filesystem_host *ret);

#define MOUNTS_MAX 160

struct expected_mount {
    char dest[256];
    uint64_t flags;   /* BIND_* */
    const char *type; /* of the file system, where it is one of the sandbox's own; NULL: any */
    bool seen;
};

struct pinned_grant {
    const char *source; /* without links */
    char *owned;        /* the text of it */
    int fd;             /* O_PATH; valid where there is an owned text */
    const char *dest;
    bool writable;
    bool is_dir;
    bool review; /* shown through a copy-on-write layer; nothing reaches it */
    uint64_t dev, ino;
};

#define GRANTS_MAX 64

/* A file of brig's own making, to be read by the code. */
struct shown_file {
    char path[96]; /* as the code names it */
    const void *data;
    size_t len;
};
#define SHOWN_MAX 16
/* A file of the host's view that a shown one stands for as well. */
struct cover {
    const char *source, *dest;
};
#define COVERS_MAX 8
/* The view `own` of /proc. */
struct own_files {
    bool clock; /* told by the kernel, see kernel/: /proc/uptime stays */
    unsigned cpus;
    char possible[64]; /* of CPUs, as the host's /sys has it */
    struct buf text[PROC_FILE_COUNT];
    int fd[PROC_FILES_LIVE]; /* to write them again, or -1 */
};
/* Small programs that the view may lack, at the end of PATH. */
#define TOOLS_DIR SHOWN_DIR "/bin"
/* The same in the place of the view's, which could do nothing here: before those in PATH. */
#define FIRST_TOOLS_DIR SHOWN_DIR "/sbin"
/* Where there are two users: starts what it is given as root. */
#define AS_ROOT_PATH FIRST_TOOLS_DIR "/as-root"
/* Where a program of brig's own lies on the container tier; on the process tier where it is. */
#define TOOL_PATH "/.brig-tool"
/* The same of a module that an engine runs. */
#define MODULE_PATH "/.brig-module"
/* The same of a program of brig's own that an engine runs as the code. */
#define PROGRAM_PATH "/.brig-program"

/* One sandbox's side of this boundary. */
struct filesystem {
    const struct policy *policy;
    bool namespaced; /* container tier */
    bool private_root;
    bool privileged; /* the supervisor is root: sources are opened by it and passed in as detached
                        mounts */
    uid_t inside_uid;
    bool root_beside;    /* root is there as well: the system is root's, and a home */
    const void *as_root; /* then: a program that starts what it is given as root; NULL: none */
    size_t as_root_len;
    const char *cwd;      /* where the code starts */
    char private_dir[64]; /* process tier: the workspace on the host, else empty */
    int private_fd;
    bool keeps_changes; /* what the code changes in a writable root is wanted when it has ended */
    int changes_fd;     /* the tmpfs that has it: handed out by init; else -1 */
    bool resolver;      /* names can be asked for at 127.0.0.1 */
    bool user_kernel;   /* as the request says */
    enum proc_view proc;
    bool watched_proc;  /* a /proc that hides nothing is handed to the supervisor */
    bool strict_memory; /* its limit is only watched: no way to hide some is left open */
    bool whole_proc; /* a template process: the kernel lets its clones have a /proc only where there
                        is one of which nothing is covered */
    unsigned grant_count, tree_count, mount_count, shown_count, cover_count;
    struct shown_file shown[SHOWN_MAX];
    struct cover covers[COVERS_MAX];
    struct own_files own;
    char made[256];      /* while planning: the folder made last */
    const char *kept[3]; /* while planning: what stays read-only in a writable root */
    unsigned kept_count;
    const char *root;          /* a folder that serves as root; NULL: a view of the host */
    bool own_root;             /* it is brig's own: unpacked, or empty */
    int root_fd;               /* of that folder, else -1 */
    char *root_path;           /* without links */
    int reviews_fd, review_fd; /* review mode: the folder of all of them, and this one's; else -1 */
    const char *review_id;
    char *const *command;
    char review_path[512]; /* of this one's */
    char review_tree[520]; /* process tier: the copy */
    struct disk_base {
        uint64_t bytes, inodes;
    } review_base;        /* what the layer holds before the code runs */
    unsigned covers_seen; /* mounts that hide kernel files in /proc */
    uint64_t landlock_fs; /* handled rights; 0 = not used */
    uint64_t landlock_net;
    uint64_t landlock_scope;
    /* From here on 60 KB that are valid up to their counts, and not touched beyond them. */
    struct filesystem_host host;
    struct pinned_grant grants[GRANTS_MAX];
    int trees[INIT_TREES_MAX]; /* detached mounts, in the order of the plan */
    struct expected_mount mounts[MOUNTS_MAX];
};

struct filesystem_request {
    const struct policy *policy;
    const char *project; /* or NULL */
    const char *tool;    /* a program of brig's own, or NULL */
    const char *root;    /* a folder of brig's own in the place of the policy's root, or NULL */
    const char *output;  /* a folder of brig's own that the code may fill, at WORKSPACE; or NULL */
    const char *module;  /* a file for it, or NULL */
    const char *program; /* what an engine is to run, if that is brig's own, or NULL */
    bool namespaced;
    bool private_root; /* the tier promises one */
    bool privileged;
    uid_t inside_uid;
    bool root_beside;
    const void *as_root;
    size_t as_root_len;
    bool whole_proc;
    bool keeps_changes;
    bool user_kernel; /* the code is one, for other code: it gets the view `own` of /proc, whatever
                         the policy says, since it shows the other code a /proc of its own */
    const char *review, *review_dest; /* a project of which the code gets a copy-on-write view */
    int reviews_fd;                   /* where it is kept */
    const char *id;
    char *const *command; /* for the list of reviews; may be NULL */
};

void filesystem_init(struct filesystem *fs);
/* Checks and pins every grant. */
int filesystem_open(struct filesystem *fs, const struct filesystem_request *request,
                    struct err *err);
int filesystem_plan(struct filesystem *fs, enum plan_stage stage, struct plan *plan,
                    struct err *err);
/* Is there somebody inside who is root? */
bool filesystem_has_root(const struct filesystem *fs);
/* Detached mounts for a supervisor that is root (host_uid is the sandbox's), the private folder of
 * the process tier. `system`: whose the folder is that is the root; the id of its group is the
 * same.
 */
int filesystem_prepare(struct filesystem *fs, uid_t host_uid, gid_t host_gid, uid_t system,
                       struct err *err);
int filesystem_attest(struct filesystem *fs, pid_t pid, const struct ctl_evidence *evidence,
                      struct evidence *out, struct err *err);
/* One mount of the sandbox against what was planned: pure, for tests. */
int attest_mount(struct filesystem *fs, const struct proc_mount *m, struct err *err);
/* Negative if something of it is left on the host. */
int filesystem_teardown(struct filesystem *fs, struct err *err);
/* The view `own` is to be made: not without a private /proc, and not for a template process. */
bool filesystem_has_own(const struct filesystem *fs);
/* Between open and plan: what the files of that view say at the start. `clock`: the time since boot
 * is the sandbox's. */
int filesystem_own(struct filesystem *fs, const struct proc_numbers *n, bool clock,
                   struct err *err);
/* init hands one of them out; takes the descriptor. */
int filesystem_own_take(struct filesystem *fs, int32_t which, int *fd, struct err *err);
/* The same of the tmpfs of a writable root. */
int filesystem_changes_take(struct filesystem *fs, int *fd, struct err *err);
/* Writes them again. */
void filesystem_own_refresh(struct filesystem *fs, const struct proc_numbers *n);
/* Between prepare and plan: shows `data` (which must outlive the plan) as a file of this name.
 * Returns its path inside, or NULL. */
const char *filesystem_show(struct filesystem *fs, const char *name, const void *data, size_t len,
                            struct err *err);
/* Where the view has a plain file at `dest`, the shown file stands there too. True if it does. */
bool filesystem_cover(struct filesystem *fs, const char *shown, const char *dest);

/* answers.c: does everything that the code can map lie on file systems that cannot stop answering?
 * After filesystem_open. If in doubt it does not. */
bool filesystem_answers(const struct filesystem *fs);
bool answers_always(const char *type); /* as mountinfo names it */
/* grants.c */
int grant_pin(struct pinned_grant *g, const char *source, const char *dest, bool writable,
              struct err *err);
/* The same of a folder of brig's own, which no policy could grant. */
int grant_pin_own(struct pinned_grant *g, const char *source, const char *dest, struct err *err);
void grant_unpin(struct pinned_grant *g);
/* What the code calls the place. */
const char *grant_place(const struct filesystem *fs, const struct pinned_grant *g);
/* The grant that is given for review; NULL: none. */
const struct pinned_grant *review_grant(const struct filesystem *fs);
/* Refuses what is mounted below a granted folder, or below the root. */
int grants_check_mounts(const struct filesystem *fs, struct err *err);
/* idmap.c: a detached mount of the grant on which the folder's owner appears as host_uid. */
int grant_tree(const struct pinned_grant *g, bool with_mounts, uid_t host_uid, gid_t host_gid,
               struct err *err);
/* A mapping that can be used again for the same owner. */
struct idmap {
    int fd; /* of a user namespace; -1: none yet */
    uid_t disk_uid, host_uid;
    gid_t disk_gid, host_gid;
};
#define IDMAP_INIT                                                                                 \
    {                                                                                              \
        .fd = -1                                                                                   \
    }
void idmap_done(struct idmap *map);
#define cleanup_idmap __attribute__((cleanup(idmap_done)))
/* Owner's ids of a detached mount, `path` for the message. `more`: other flags to set. */
int tree_map(struct idmap *map, int tree, const char *path, const struct stat *owner,
             uid_t host_uid, gid_t host_gid, uint64_t more, struct err *err);
/* The same without what is mounted below, for a layer; `source` stands for the message. */
int layer_tree(const char *path, uid_t disk_uid, gid_t disk_gid, uid_t host_uid, gid_t host_gid,
               struct err *err);
/* A grant at the place where the work folder would be is the work folder. */
bool workspace_is_granted(const struct filesystem *fs);
/* protect.c: is this a place that never enters a sandbox? `path` is canonical. */
int protect_folder(int fd, struct err *err);
int protect_check(const char *path, struct err *err);
/* image.c: the top-level entries of a folder that serves as root. */
int image_probe(struct filesystem *fs, struct err *err);
void image_close(struct filesystem *fs);
/* In a writable root its owner appears as host_uid, as a grant's does. */
int image_tree(const struct filesystem *fs, struct idmap *map, const struct view_entry *e,
               uid_t host_uid, gid_t host_gid, struct err *err);
bool image_has_folder(const struct filesystem *fs, const char *path);
/* landlock.c */
/* Around the code inside of a machine: the same places, by Landlock alone. */
void filesystem_plan_guest(const struct filesystem *fs, struct plan *plan);
int landlock_plan(struct filesystem *fs, struct plan *plan, struct err *err);
/* container.c */
int container_plan(struct filesystem *fs, struct plan *plan, struct err *err);
/* packages.c */
void packages_plan(const struct filesystem *fs, struct plan *plan);
/* proc_own_files.c */
void own_init(struct own_files *own);
void own_done(struct own_files *own);
/* private_dir.c */
int private_dir_make(struct filesystem *fs, uid_t uid, gid_t gid, struct err *err);
int private_dir_remove(struct filesystem *fs, struct err *err);
int private_dir_write(struct filesystem *fs, const char *name, const void *data, size_t len,
                      struct err *err);

#define WORKSPACE "/workspace"
#define HOME_DIR  "/home/user"
/* Where there are two users, the other one's. */
#define ROOT_HOME_DIR "/root"
