/* What create makes up for the process inside: everything is decided, opened and compiled before it
 * is born, and the process itself only carries it out. What changes on the host afterwards does not
 * count (OC-7).
 *
 * OC-7  The plan of create is what runs: configuration, filter, sources of mounts and namespaces
 * are those of that moment. OC-8  A mount stands where it was judged to stand: its destination is
 * resolved beneath the root, and never lies on the kernel's own file systems. OC-13  No set-id bit
 * and no file capability is left on a file of the host: where one could be written, neither can be
 * set. OC-14  The host's device nodes have mode, owner and times that nobody inside changes. */
#pragma once

#include "kernel/process/filter.h"
#include "oci/cgroup.h"
#include "oci/config.h"
#include "oci/engine.h"
#include "oci/judge.h"
#include "oci/seccomp.h"
#include "plan/plan.h"

#include <limits.h>

struct oci_source {
    int tree; /* a detached mount, or -1: the process inside opens the path itself, and compares */
    char path[PATH_MAX];
    uint64_t dev, ino;
    uint64_t mount; /* the host's number of the mount that it lies on */
    bool folder;
    bool device;
    bool nosuid; /* set-id bits mean nothing there, or nobody could make use of them */
};

/* Kinds of steps, both ways over one socket pair. */
enum oci_word {
    OCI_WORD_FAIL = 1,
    OCI_WORD_GO,
    OCI_WORD_BUILT,
    OCI_WORD_READY,
    OCI_WORD_LISTENER, /* with a socket; the number says of which kind and port */
};
struct oci_step {
    uint32_t word;
    int32_t number;
    struct err err;
};

/* What a process becomes: shared by the first one and by those of exec. */
struct oci_become {
    const struct oci_process *process;
    uint64_t caps[OCI_CAPS_COUNT]; /* of the process's, those that it gets */
    struct filter_program floor;
    struct oci_filter own;
    int sync_fd;    /* to the caller, SEQPACKET */
    int start_fd;   /* the first process: a listening socket; else -1 */
    int console_fd; /* a connected socket that the terminal is sent to, or -1 */
    unsigned keep;  /* descriptors after stderr that stay */
    char **argv, **envp;
    const struct oci_engine *engine; /* it may be of a tier that has none */
    char *number;     /* a place in argv: of the descriptor that the engine gets last */
    bool drop_groups; /* it may have others than the process's */
    int devices_abi;  /* Landlock's ABI; 0: none */
};

struct oci_build {
    const struct oci_config *config;
    struct oci_become become;
    struct oci_source root, sources[OCI_MOUNTS_MAX];
    int sysfs_fd, mqueue_fd; /* made outside, for namespaces that were joined; or -1 */
    const struct oci_cgroup *groups;
    const struct plan *network; /* the ways out, made inside; NULL: none */
    bool joined_uts;
    bool host_writable; /* a file of the host that could get set-id bits or file capabilities, which
                           would outlive the container */
};

/* source.c: opens the root and the sources of bind mounts, and looks at what they are. `bundle` is
 * what relative paths are relative to. */
int oci_sources_open(struct oci_build *b, int bundle, const struct oci_operator *o,
                     struct err *err);
void oci_sources_close(struct oci_build *b);

/* place.c: where a source lies; `magic` is its file system's number. */
int oci_judge_place(const char *path, struct err *err);
int oci_judge_view(const char *path, uint32_t magic, struct err *err);
/* The mount that a source lies on, and with `recursive` those below it, which come along: none of
 * them is a view of the host's kernel, and where one of them has set-id bits, the source has. */
int oci_judge_mounts(struct oci_source *s, bool recursive, struct err *err);
/* Can anybody but root come to it, by the folders that it lies in? */
bool oci_within_reach(const char *path);
int oci_refuse_source(const char *path, const char *why, const char *hint, struct err *err);

/* sockets.c: of the host, bound below the root or a folder that comes along. */
int oci_judge_sockets(const struct oci_build *b, const struct oci_operator *o, struct err *err);

/* build_child.c: the root with its mounts, up to the pivot. */
int oci_build_view(const struct oci_build *b, struct err *err);
/* In the namespaces that one is in: those of the network, and those of the others. */
int oci_sysctls_set(const struct json *list, bool network, bool others, struct err *err);
/* network_child.c: loopback, and the ways out that are planned, whose sockets go to the caller. */
int oci_network_make(const struct oci_build *b, struct err *err);
/* booth_child.c: the booth of a module's engine; its descriptor. */
int oci_booth_make(const struct oci_engine *e, struct err *err);
int oci_booth_shut(int booth, struct err *err);
/* In the booth: a folder, and a module, of the container's view. */
int oci_booth_enter(const char *cwd, struct err *err);
int oci_booth_module(const char *name, const char *cwd, const char *search, struct err *err);
/* mount_child.c */
int oci_mount_make(const struct oci_build *b, int root, size_t i, struct err *err);
/* A place in the root, made where it is missing; a folder or a file. */
int oci_place(int root, const char *path, bool folder, struct err *err);
int oci_attach(int mount, int target, const char *dest, struct err *err);
/* `attr` more than nosuid and noexec. */
int oci_bind_inside(const char *source, int root, const char *dest, uint64_t attr, struct err *err);
int oci_mask(int root, const char *path, struct err *err);
int oci_shut(int root, const char *path, struct err *err);

/* become_child.c: takes the terminal, gives up every right but the process's, reports, waits,
 * executes. Never returns. */
_Noreturn void oci_become(const struct oci_become *p);
_Noreturn void oci_give_up(int sync_fd, struct err *err);
void oci_say(int sync_fd, enum oci_word word);
bool oci_heard(int sync_fd);
