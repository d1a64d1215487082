/* What the processes of a sandbox hold open: files that are deleted, which no walk of the folder
 * finds, and pipes and sockets, whose contents are memory that belongs to no process.
 *
 * All of this touches objects of the code's, and runs on an errand (aside.c). A thread's own table
 * of descriptors could hide some: the filter lets no thread have one where tables are looked at. */
#include "lifecycle/sample.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "lifecycle/disk.h"
#include "lifecycle/sample_parse.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A file that was made, deleted and closed between two looks, and is only mapped: its size cannot
 * be asked for by an ordinary user, and this is more than can be written in that time. */
#define UNKNOWN_BYTES (32u << 20)
/* Lists of mappings are long. */
#define MAPS_EVERY_US 200000u
/* For so long the end of a process may take before it is one that cannot be looked at. */
#define ENDING_MAX_US 500000u

/* A name takes at most 512 bytes in a list, and no less than 20 of what a tmpfs says is the size of
 * a folder. A short one takes 128, and 12 of a folder's size on a disk. */
#define LIST_PER_SIZE 26u
/* The size does not tell of names that come from a lower layer. They cannot become more: it takes
 * several descriptors of one folder to have more than one list of them. This is one of 8000 short
 * names. */
#define LOWER_LIST_BYTES (1u << 20)
/* So large that one descriptor is too many, and no sum overflows. */
#define FOLDER_SIZE_MAX (UINT64_C(1) << 32)

struct folders {
    uint64_t open;  /* descriptors of merged folders */
    uint64_t again; /* of these, such of a folder that another one is of, too */
};

struct file_look {
    const struct lifecycle *l;
    struct sampler *sampler;
    struct looked *sum;
    struct folders *folders;
    int proc;
    uint64_t now;
    uint64_t locks_max; /* to count; 0: none */
};

static uint64_t device_of(const struct sys_statx *sx)
{
    return makedev(sx->dev_major, sx->dev_minor);
}

/* Stands for the device of all files that are watched: a layered one has several, and one number.
 */
#define DELETED UINT64_MAX
#define SHARED  (UINT64_MAX - 1) /* memory that has no file */

/* True the first time. Without memory to remember it, it counts each time: the safe side. */
static bool is_first(const struct file_look *look, uint64_t dev, uint64_t ino)
{
    bool fresh = true;
    inodes_put(&look->sampler->open, dev, ino, &fresh);
    return fresh;
}

/* On the layer of a review every file may have another device: the mount tells. */
static bool is_watched(const struct lifecycle *l, const struct sys_statx *sx)
{
    return (l->work_dev && device_of(sx) == l->work_dev) ||
           (l->review_mount && sx->mnt_id == l->review_mount) ||
           (l->review_dev && device_of(sx) == l->review_dev);
}

/* An engine has the code's memory in such a file, and maps it only while the code runs: of code
 * that sleeps no process has any. */
static void add_memory_file(const struct file_look *look, const struct sys_statx *sx)
{
    if (look->l->memory_files && sx->nlink == 0 && is_first(look, device_of(sx), sx->ino))
        look->sum->memory_files += sx->blocks * 512u;
}

static void add_file(const struct file_look *look, const struct sys_statx *sx)
{
    bool fresh;
    if (!is_watched(look->l, sx)) {
        add_memory_file(look, sx);
        return;
    }
    struct inode_seen *known = inodes_put(&look->sampler->known, 0, sx->ino, &fresh);
    if (known)
        known->bytes = disk_most(sx->size, sx->blocks);
    if (sx->nlink > 0 || !is_first(look, DELETED, sx->ino))
        return;
    look->sum->deleted_bytes += sx->blocks * 512u;
    look->sum->deleted_inodes++;
}

/* An overlay makes the list of a merged folder for whoever reads it, and keeps it as long as one
 * that read it has the folder open: memory of the kernel's that nobody is charged for. Reading the
 * folder after a change makes a new list, and those of earlier readers stay. Nobody tells which
 * descriptors have one, or how large it was: each may have one of the largest folder that was ever
 * seen. Merged folders have a single link; in others nothing is kept for the reader. */
static void add_folder(const struct file_look *look, const struct sys_statx *sx)
{
    struct sampler *s = look->sampler;
    if (sx->nlink > 1 || !inodes_find(&s->layers, device_of(sx), 0))
        return;
    if (sx->size > s->folder_max)
        s->folder_max = sx->size;
    look->folders->open++;
    look->folders->again += !is_first(look, device_of(sx), sx->ino);
}

static uint64_t lists_most(const struct sampler *s, const struct folders *f)
{
    uint64_t size = s->folder_max < FOLDER_SIZE_MAX ? s->folder_max : FOLDER_SIZE_MAX;
    return f->open * size * LIST_PER_SIZE + f->again * LOWER_LIST_BYTES;
}

/* "scm_fds: N" in fdinfo: descriptors that were sent to this socket and not yet taken. */
static int add_flight(const struct file_look *look, const char *at, const char *fd)
{
    char path[96], text[512];
    snprintf(path, sizeof path, "%s/fdinfo/%s", at, fd);
    ssize_t n = file_read(look->proc, path, text, sizeof text);
    if (n > 0 && sample_flight_parse(text) > 0)
        look->sum->in_flight = true;
    return n < 0 ? (int)n : 0;
}

/* What fdinfo tells of the locks that a process has on a file, it tells of each descriptor. */
static bool is_first_of(const struct file_look *look, const struct process *p,
                        const struct sys_statx *sx)
{
    return is_first(look, device_of(sx) ^ (uint64_t)(p->seen.pid + 1) << 40, sx->ino);
}

/* A file of any kind can be locked, in as many places as it has bytes, or could have. */
static int add_locks(const struct file_look *look, const struct process *p, const char *at,
                     const char *fd_name, const struct sys_statx *sx)
{
    char path[96];
    char *line = NULL;
    size_t room = 0;
    if (look->sum->locks >= look->locks_max || !is_first_of(look, p, sx))
        return 0;
    snprintf(path, sizeof path, "%s/fdinfo/%s", at, fd_name);
    int fd = openat(look->proc, path, O_RDONLY | O_CLOEXEC);
    FILE *info = fd < 0 ? NULL : fdopen(fd, "r");
    if (!info)
        return fd < 0 ? -errno : (close(fd), -ENOMEM);
    while ((errno = 0, getline(&line, &room, info)) > 0)
        look->sum->locks += sample_is_lock(line);
    int why = feof(info) ? 0 : errno;
    free(line);
    fclose(info);
    return -why;
}

/* One that is closed meanwhile is as gone as a process. */
static int add_one(const struct file_look *look, const struct process *p, const char *at, int dir,
                   const char *name)
{
    struct sys_statx sx;
    bool strict = lifecycle_strict_memory(look->l);
    if (sys_statx_cached(dir, name, &sx) < 0)
        return -errno;
    int locks = add_locks(look, p, at, name, &sx);
    if (locks < 0)
        return locks;
    if (S_ISREG(sx.mode)) {
        add_file(look, &sx);
    } else if (S_ISDIR(sx.mode)) {
        add_folder(look, &sx);
    } else if (S_ISFIFO(sx.mode) && strict) {
        look->sum->pipes += is_first(look, device_of(&sx), sx.ino);
    } else if (S_ISSOCK(sx.mode)) {
        look->sum->sockets += strict && is_first(look, device_of(&sx), sx.ino);
        return add_flight(look, at, name);
    }
    return 0;
}

/* From when a process gives up its memory until it is gone, what it has open is root's to see. It
 * does nothing more by itself, and what it holds goes with it. A thread that ends is not enough:
 * the others have the same files. */
static bool is_ending(const struct file_look *look, const char *at)
{
    char path[80], text[768];
    struct proc_stat s;
    snprintf(path, sizeof path, "%s/stat", at);
    ssize_t got = file_read(look->proc, path, text, sizeof text);
    if (got <= 0)
        return sample_is_gone((int)-got);
    return procfs_stat_parse(text, &s) && (s.ended || s.ending) && s.tasks < 2;
}

/* Since when it has been seen ending. Where many processes come and go, one of them is at every
 * look: each has its own time. */
static uint64_t ending_since(const struct file_look *look, const struct process *p)
{
    struct sampler *s = look->sampler;
    uint64_t pid = (uint64_t)p->seen.pid;
    const struct inode_seen *before = inodes_find(&s->ending_before, p->seen.start, pid);
    uint64_t since = before ? before->bytes : look->now;
    bool fresh;
    struct inode_seen *kept = inodes_put(&s->ending, p->seen.start, pid, &fresh);
    if (kept)
        kept->bytes = since;
    return kept ? since : 0;
}

/* 0: it is about to be gone, or is. */
static int cannot_look(const struct file_look *look, const struct process *p, const char *at,
                       int error)
{
    bool goes = sample_is_gone(error) ||
                (is_ending(look, at) && look->now - ending_since(look, p) <= ENDING_MAX_US);
    return goes ? 0 : -error;
}

static int look_at_open(const struct file_look *look, const struct process *p, const char *at,
                        DIR *dir)
{
    uint64_t count = 0, locks = look->sum->locks;
    int worst = 0;
    struct dirent *e;
    while ((errno = 0, e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        int result = add_one(look, p, at, dirfd(dir), e->d_name);
        if (result < 0 && (result = cannot_look(look, p, at, -result)) < 0)
            worst = result;
        count++;
    }
    int end = errno ? cannot_look(look, p, at, errno) : 0;
    if (count > look->sum->open_files_max)
        look->sum->open_files_max = count;
    if (look->sum->locks - locks > look->sum->locks_most) {
        look->sum->locks_most = look->sum->locks - locks;
        look->sum->locks_pid = p->seen.pid;
    }
    return end < 0 ? end : worst;
}

static int look_at_files(const struct file_look *look, const struct process *p, const char *at)
{
    char path[80];
    snprintf(path, sizeof path, "%s/fd", at);
    DIR *dir = folder_open(look->proc, path);
    if (!dir)
        return cannot_look(look, p, at, errno);
    int result = look_at_open(look, p, at, dir);
    closedir(dir);
    return result;
}

/* ---- mappings ---- */

static bool is_below(const char *path, const char *folder)
{
    return folder && folder[0] && path_below(path, folder);
}

/* Of a project under review: a file of its own that was replaced is still there, and takes nothing
 * of the host's. The code chose the name: no link of the project's is followed, no other mount
 * entered, and nothing waited for. */
static bool is_of_project(const struct lifecycle *l, const struct sample_mapping *m)
{
    const uint64_t how =
        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | SYS_RESOLVE_CACHED;
    char name[4096];
    struct sys_statx sx;
    size_t skip = l->review_place ? strlen(l->review_place) + 1 : 0;
    size_t len = strlen(m->path) - strlen(SAMPLE_DELETED);
    if (l->project_fd < 0 || !is_below(m->path, l->review_place) || len - skip >= sizeof name)
        return false;
    memcpy(name, m->path + skip, len - skip);
    name[len - skip] = '\0';
    cleanup_fd int fd = sys_openat2(l->project_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, how);
    return fd >= 0 && sys_statx_fd(fd, &sx) == 0 && sx.ino == m->ino;
}

/* For who may: an ordinary user may not. */
static bool look_at_mapped(const struct file_look *look, const char *at,
                           const struct sample_mapping *m, struct sys_statx *ret)
{
    char path[128];
    snprintf(path, sizeof path, "%s/map_files/%" PRIx64 "-%" PRIx64, at, m->from, m->to);
    return sys_statx_cached(look->proc, path, ret) == 0;
}

/* Names tell nothing where the code may rename a folder that the project lies below: the mount
 * does. Where that cannot be asked for, a device that the layers may show is enough, even if a file
 * of the host's lies there too: what is in doubt counts. */
static bool is_of_review(const struct file_look *look, const char *at,
                         const struct sample_mapping *m)
{
    const struct lifecycle *l = look->l;
    struct sys_statx sx;
    if (!l->namespaced || is_below(m->path, l->review_place))
        return is_below(m->path, l->review_place);
    if (!l->review_mount)
        return false;
    if (look_at_mapped(look, at, m, &sx))
        return is_watched(l, &sx);
    for (size_t i = 0; i < ARRAY_LEN(l->review_devs); i++)
        if (l->review_devs[i] == m->dev)
            return true;
    return false;
}

/* By the mapping itself, if brig may look at it; else by what was seen of the file before it was
 * deleted. */
static uint64_t mapped_size(const struct file_look *look, const char *at,
                            const struct sample_mapping *m)
{
    struct sys_statx sx;
    if (look_at_mapped(look, at, m, &sx))
        return disk_most(sx.size, sx.blocks);
    const struct inode_seen *known = inodes_find(&look->sampler->known, 0, m->ino);
    /* If the table of known files was lost, assume the largest size that a file can have. */
    uint64_t unknown = look->l->forgot ? look->l->policy->disk : UNKNOWN_BYTES;
    return known ? known->bytes : unknown;
}

static void add_mapping(const struct file_look *look, const char *at, const char *line)
{
    const struct lifecycle *l = look->l;
    struct sample_mapping m;
    if (!sample_mapping_parse(line, &m))
        return;
    if (strcmp(m.path, "/dev/zero" SAMPLE_DELETED) == 0) {
        look->sampler->shared += lifecycle_strict_memory(l) && is_first(look, SHARED, m.ino);
        return;
    }
    bool review = is_of_review(look, at, &m);
    if (!review && !is_below(m.path, l->guardian.private_dir))
        return;
    if (review && is_of_project(l, &m))
        return;
    /* Open as well: then it has been counted. */
    if (!is_first(look, DELETED, m.ino))
        return;
    look->sampler->mapped_bytes += mapped_size(look, at, &m);
    look->sampler->mapped_inodes++;
}

static int read_mappings(const struct file_look *look, const char *at, FILE *maps)
{
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (errno = 0, n = getline(&line, &room, maps)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        add_mapping(look, at, line);
    }
    int why = feof(maps) ? 0 : errno;
    free(line);
    return -why;
}

static int look_at_mappings(const struct file_look *look, const struct process *p, const char *at)
{
    char path[80];
    snprintf(path, sizeof path, "%s/maps", at);
    int fd = openat(look->proc, path, O_RDONLY | O_CLOEXEC);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    int why = maps ? -read_mappings(look, at, maps) : errno;
    if (maps)
        fclose(maps);
    else if (fd >= 0)
        close(fd);
    return why ? cannot_look(look, p, at, why) : 0;
}

/* ---- all of them ---- */

/* Starts a new list of processes that are ending; those that only the previous list has are
 * gone. */
static void forget_ended(struct sampler *s)
{
    struct inodes spare = s->ending_before;
    s->ending_before = s->ending;
    s->ending = spare;
    inodes_clear(&s->ending);
}

static int look_at_all(const struct file_look *look, const struct processes *list, bool maps)
{
    int worst = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct process *p = &list->items[i];
        char at[PROCESS_NAME_SIZE];
        if ((p->ended && p->tasks < 2) || process_is_init(look->l, list, p) ||
            process_is_own(look->l, p))
            continue;
        process_name(list, p, at);
        int files = look_at_files(look, p, at);
        int mappings = maps ? look_at_mappings(look, p, at) : 0;
        worst = files < 0 ? files : mappings < 0 ? mappings : worst;
    }
    return worst;
}

int sample_files(const struct lifecycle *l, struct looked *ret)
{
    struct sampler *s = l->sampler;
    struct processes list;
    uint64_t now = clock_us();
    bool needed = l->looks_disk || lifecycle_strict_memory(l);
    bool maps = needed && now - s->maps_us >= MAPS_EVERY_US;
    struct folders folders = {0};
    int listed = processes_read(l, &list);
    struct file_look look = {
        .l = l, .sampler = s, .sum = ret, .folders = &folders, .proc = list.proc, .now = now};
    if (ret->counts_locks)
        look.locks_max = l->policy->memory / locks_bytes(1) + 1;
    inodes_clear(&s->open);
    forget_ended(s);
    if (maps) {
        s->maps_us = now;
        s->mapped_bytes = s->mapped_inodes = s->shared = 0;
    }
    int looked = look_at_all(&look, &list, maps);
    ret->deleted_bytes += s->mapped_bytes;
    ret->deleted_inodes += s->mapped_inodes;
    ret->shared = s->shared;
    ret->lists = lists_most(s, &folders);
    ret->folder_max = s->folder_max;
    processes_done(&list);
    return listed < 0 ? listed : looked;
}

/* ---- sockets ---- */

int sample_sockets(pid_t pid, uint64_t *ret)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/net/sockstat", (int)pid);
    ssize_t n = file_read(AT_FDCWD, path, text, sizeof text);
    *ret = n < 0 ? 0 : sample_sockstat_parse(text);
    return n < 0 && !sample_is_gone((int)-n) ? (int)n : 0;
}

int sample_netlink(pid_t pid, uint64_t *ret)
{
    char path[64];
    char *line = NULL;
    size_t room = 0;
    *ret = 0;
    snprintf(path, sizeof path, "/proc/%d/net/netlink", (int)pid);
    FILE *list = fopen(path, "re");
    if (!list)
        return sample_is_gone(errno) ? 0 : -errno;
    while ((errno = 0, getline(&line, &room, list)) > 0)
        *ret += sample_netlink_parse(line);
    int why = feof(list) ? 0 : errno;
    free(line);
    fclose(list);
    return -why;
}

/* The filter lets nobody ask for more, and TCP's own sizes are brought down to it. */
uint64_t sample_socket_buffer(void)
{
    static const char *const names[] = {"/proc/sys/net/core/wmem_default",
                                        "/proc/sys/net/core/rmem_default"};
    uint64_t most = 212992;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char text[32];
        uint64_t value =
            file_read(AT_FDCWD, names[i], text, sizeof text) > 0 ? strtoull(text, NULL, 10) : 0;
        if (value > most)
            most = value;
    }
    return most;
}
