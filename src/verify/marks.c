/* Tasks on the host, found by the name that an attack gave them. */
#include "verify/canaries.h"

#include "os/procfs.h"
#include "os/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_marked(pid_t pid, const char *mark)
{
    struct proc_stat s;
    return procfs_stat(pid, &s) && !s.ended && strcmp(s.name, mark) == 0;
}

static void end_task(pid_t pid, const char *mark)
{
    int fd = sys_pidfd_open(pid);
    /* Looked at again while the descriptor keeps the number from being given away. */
    if (fd >= 0 && is_marked(pid, mark))
        sys_pidfd_send_signal(fd, SIGKILL);
    if (fd >= 0)
        close(fd);
}

unsigned marked_tasks(const char *mark, bool end)
{
    unsigned found = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid <= 0 || !is_marked(pid, mark))
            continue;
        found++;
        if (end)
            end_task(pid, mark);
    }
    if (proc)
        closedir(proc);
    return found;
}

bool is_below(pid_t pid, pid_t top)
{
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        struct proc_stat s;
        if (pid == top)
            return true;
        if (!procfs_stat(pid, &s))
            return false;
        pid = s.ppid;
    }
    return false;
}

pid_t marked_below(const char *mark, pid_t top)
{
    pid_t found = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && !found && (e = readdir(proc));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 0 && is_marked(pid, mark) && is_below(pid, top))
            found = pid;
    }
    if (proc)
        closedir(proc);
    return found;
}
