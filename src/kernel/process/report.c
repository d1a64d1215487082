/* Report mode: turns a call that names a path into a denial if the path lies outside of what the
 * code sees. */
#include "kernel/process/report.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "kernel/process/hand.h"
#include "kernel/process/task_memory.h"
#include "os/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct named {
    int dir;          /* descriptor of the task, or AT_FDCWD */
    uint64_t address; /* of the path */
    bool write;
};

static bool flags_write(uint64_t flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
}

static bool openat2_writes(struct kernel *k, const struct seccomp_notif *n)
{
    uint64_t flags = 0;
    hand_word(k, n, n->data.args[2], &flags);
    return flags_write(flags);
}

/* Calls without a folder argument, then those with one. */
static struct named read_call(struct kernel *k, const struct seccomp_notif *n)
{
    const struct seccomp_data *d = &n->data;
    switch (d->nr) {
#ifdef SYS_open
    case SYS_open:
        return (struct named){AT_FDCWD, d->args[0], flags_write(d->args[1])};
    case SYS_creat:
    case SYS_mkdir:
    case SYS_unlink:
    case SYS_rmdir:
        return (struct named){AT_FDCWD, d->args[0], true};
    case SYS_rename:
        return (struct named){AT_FDCWD, d->args[1], true};
#endif
    case SYS_truncate:
        return (struct named){AT_FDCWD, d->args[0], true};
    case SYS_openat:
        return (struct named){(int)d->args[0], d->args[1], flags_write(d->args[2])};
    case SYS_openat2:
        return (struct named){(int)d->args[0], d->args[1], openat2_writes(k, n)};
    case SYS_renameat:
    case SYS_renameat2:
        return (struct named){(int)d->args[2], d->args[3], true};
    default:
        return (struct named){(int)d->args[0], d->args[1], true};
    }
}

static bool start_folder(pid_t pid, int dir, char out[PATH_MAX])
{
    char link[64];
    if (dir == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/cwd", pid);
    else
        snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, dir);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n <= 0)
        return false;
    out[n] = '\0';
    return out[0] == '/';
}

bool report_absolute(int mem, pid_t pid, int dir, uint64_t address, char out[static PATH_MAX])
{
    char name[PATH_MAX];
    if (task_copy_path(mem, address, name) < 0 || !name[0])
        return false;
    out[0] = '\0';
    if (name[0] != '/' && !start_folder(pid, dir, out))
        return false;
    size_t used = strlen(out);
    if (used + strlen(name) + 2 > PATH_MAX)
        return false;
    out[used++] = '/';
    memcpy(out + used, name, strlen(name) + 1);
    report_path_clean(out);
    return true;
}

/* The most specific place that covers the path decides. */
static const struct kernel_place *place_of(const struct kernel *k, const char *path)
{
    const struct kernel_place *best = NULL;
    size_t best_len = 0;
    for (unsigned i = 0; i < k->place_count; i++) {
        size_t len = strlen(k->places[i].path);
        if (path_within(path, k->places[i].path) && len >= best_len) {
            best = &k->places[i];
            best_len = len;
        }
    }
    return best;
}

/* Paths come from inside: control characters must not reach a terminal. */
static void printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

/* A file of the host's that is not in view. A place that covers the whole root (a writable one)
 * says where can be written, and nothing about what is there. */
static bool is_hidden(struct kernel *k, const struct seccomp_notif *n,
                      const struct kernel_place *place, const char *path)
{
    if (place && place->path[0])
        return false;
    return hand_exists(k, path) > 0 && hand_has(k, n, path) <= 0;
}

void report_path(struct kernel *k, const struct seccomp_notif *n, struct denial_list *list)
{
    char path[PATH_MAX], what[96];
    struct named a = read_call(k, n);
    if (hand_path(k, n, a.dir, a.address, path, NULL) < 0)
        return;
    const struct kernel_place *place = place_of(k, path);
    bool refused = a.write ? !place || !place->writable : is_hidden(k, n, place, path);
    if (!refused)
        return;
    printable(path);
    snprintf(what, sizeof what, "%s %s", a.write ? "write" : "read", path);
    denial_add(list, BOUNDARY_FILESYSTEM, what,
               a.write && place ? "filesystem.view: read-only" : "filesystem.view: not in view",
               a.write ? "write to the workspace or /tmp, or grant the folder with --rw DIR"
                       : "grant the folder with --ro DIR, unless it holds credentials");
}
