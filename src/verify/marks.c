/* Tasks on the host, found by the name that an attack gave them. */
#include "verify/canaries.h"

#include "os/fd.h"
#include "os/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parent and state of a task; false if it is gone. */
static bool task_stat(const char *pid, const char *mark, pid_t *parent, char *state)
{
    char path[280], text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (!name || !end || strlen(end) < 4)
        return false;
    *end = '\0';
    *state = end[2];
    *parent = (pid_t)strtol(end + 4, NULL, 10);
    return !mark || strcmp(name + 1, mark) == 0;
}

static void end_task(pid_t pid, const char *mark)
{
    char number[16], state;
    pid_t parent;
    int fd = sys_pidfd_open(pid);
    snprintf(number, sizeof number, "%d", pid);
    /* Looked at again while the descriptor keeps the number from being given away. */
    if (fd >= 0 && task_stat(number, mark, &parent, &state))
        sys_pidfd_send_signal(fd, SIGKILL);
    if (fd >= 0)
        close(fd);
}

unsigned marked_tasks(const char *mark, bool end)
{
    unsigned found = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));) {
        pid_t parent;
        char state;
        if (e->d_name[0] < '1' || e->d_name[0] > '9' ||
            !task_stat(e->d_name, mark, &parent, &state) || state == 'Z' || state == 'X')
            continue;
        found++;
        if (end)
            end_task((pid_t)strtol(e->d_name, NULL, 10), mark);
    }
    if (proc)
        closedir(proc);
    return found;
}

static bool is_below(pid_t pid, pid_t top)
{
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        char number[16], state;
        pid_t parent;
        if (pid == top)
            return true;
        snprintf(number, sizeof number, "%d", pid);
        if (!task_stat(number, NULL, &parent, &state))
            return false;
        pid = parent;
    }
    return false;
}

pid_t marked_below(const char *mark, pid_t top)
{
    pid_t found = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && !found && (e = readdir(proc));) {
        pid_t parent, pid = (pid_t)strtol(e->d_name, NULL, 10);
        char state;
        if (pid > 0 && task_stat(e->d_name, mark, &parent, &state) && state != 'Z' &&
            is_below(pid, top))
            found = pid;
    }
    if (proc)
        closedir(proc);
    return found;
}
