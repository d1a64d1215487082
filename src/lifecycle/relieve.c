/* LC-8  Out of memory in a sandbox that lives on: one process goes, and the others keep what they
 *       have. Whoever waits for it is told.
 *
 * With a cgroup the kernel chooses and kills, and it is only counted here: as a rule the process
 * that has most. Init is the smallest of all, so that it is chosen when nobody else is left. Where
 * memory is only sampled, the same choice is made here. */
#include "lifecycle/lifecycle.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "lifecycle/sample_parse.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DYING_MAX_US 2000000u /* a process that takes longer to go does not help */

/* The memory that killing this process would free. */
static uint64_t memory_of(int task)
{
    char few[PROC_STATUS_SIZE];
    cleanup_free char *many = NULL;
    const char *text = procfs_status_text(task, "status", few, &many);
    return text ? sample_memory_parse(text) : 0;
}

/* And what its locks hold, if it is the one that has most of them. */
static uint64_t locks_of(const struct lifecycle *l, const char *name)
{
    bool most = l->looked.locks > 0 && strtol(name, NULL, 10) == l->looked.locks_pid;
    return most ? locks_bytes(l->looked.locks_most) : 0;
}

static bool is_candidate(const char *name)
{
    return name[0] >= '1' && name[0] <= '9' && strcmp(name, "1") != 0;
}

/* A folder of /proc names one task for as long as it is open: a number that is used again is not
 * mistaken for it. -1: nobody has any. */
static int find_largest(const struct lifecycle *l)
{
    uint64_t most = 0;
    int found = -1;
    DIR *dir = folder_open(l->proc_fd, ".");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!is_candidate(e->d_name))
            continue;
        cleanup_fd int task = openat(l->proc_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint64_t has = task < 0 ? 0 : memory_of(task) + locks_of(l, e->d_name);
        if (has <= most)
            continue;
        most = has;
        if (found >= 0)
            close(found);
        found = fd_steal(&task);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* A process that ends frees its memory first, then closes its files. */
static bool has_ended(int task)
{
    char text[768];
    struct proc_stat s;
    return file_read(task, "stat", text, sizeof text) <= 0 || !procfs_stat_parse(text, &s) ||
           s.ended;
}

/* Its memory is not given back at once. */
static bool is_dying(struct lifecycle *l)
{
    if (l->dying_fd < 0)
        return false;
    bool there = !has_ended(l->dying_fd) || memory_of(l->dying_fd) > 0;
    if (there && clock_us() - l->dying_us < DYING_MAX_US)
        return true;
    close(fd_steal(&l->dying_fd));
    if (!l->looks && l->looked.locks == 0)
        return false;
    /* The last look still counted what the killed process had open: look again before another one
     * is killed. */
    aside_again(l);
    return !there;
}

static bool kill_largest(struct lifecycle *l)
{
    cleanup_fd int task = find_largest(l);
    if (task < 0 || sys_pidfd_send_signal(task, SIGKILL) < 0)
        return false;
    l->usage.outlived++;
    l->dying_fd = fd_steal(&task);
    l->dying_us = clock_us();
    return true;
}

bool lifecycle_relieve(struct lifecycle *l)
{
    if (!l->session || !l->over_memory)
        return false;
    if (l->usage.oom_kills == 0 && (l->proc_fd < 0 || (!is_dying(l) && !kill_largest(l))))
        return false;
    l->usage.outlived += l->usage.oom_kills;
    l->oom_seen += l->usage.oom_kills;
    l->usage.oom_kills = 0;
    l->over_memory = false;
    l->hit = LIMIT_NONE;
    return true;
}
