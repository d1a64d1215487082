/* Steps through the system calls of a command, from outside:
 *
 *   tracer log FILE -- CMD…
 *       every call of every task: INDEX TASK NR RESULT ARG0 ARG1 ARG2 TEXT
 *   tracer count FILE -- CMD…
 *       how many calls the command itself makes; its children are not traced, so that it waits for
 *       them no longer than usual
 *   tracer kill N -- CMD…
 *       SIGKILL for the command itself at its Nth call; its children are not traced
 *   tracer kill-call NR N -- CMD…
 *       the same, at the Nth call with number NR
 *   tracer fail NR N RESULT -- CMD…
 *       the Nth call with number NR (any task) is not made and returns RESULT
 *
 * Ends as the command ended; status 99 says that the Nth call never came. */
#include "registers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PTRACE_GET_SYSCALL_INFO
#define PTRACE_GET_SYSCALL_INFO 0x420e
#endif

enum mode { MODE_LOG, MODE_COUNT, MODE_KILL, MODE_FAIL };
#define ANY_CALL (-1)

struct task {
    pid_t pid;
    bool known;  /* its first stop was seen */
    bool inject; /* the call it is in must fail */
    long nr;
    unsigned long arg[3];
    char text[160];
};

static struct task tasks[4096];
static size_t task_count;
static enum mode mode;
static FILE *log_file;
static long wanted_nr, wanted_result;
static unsigned long wanted, seen, calls;
static bool hit;

static struct task *task_of(pid_t pid)
{
    for (size_t i = 0; i < task_count; i++)
        if (tasks[i].pid == pid)
            return &tasks[i];
    size_t slot = task_count < sizeof tasks / sizeof *tasks ? task_count++ : 0;
    tasks[slot] = (struct task){.pid = pid};
    return &tasks[slot];
}

static bool has_path_at(long nr, int *index)
{
    switch (nr) {
    case SYS_openat:
    case SYS_mkdirat:
    case SYS_unlinkat:
    case SYS_openat2:
    case SYS_mknodat:
    case SYS_fchmodat:
    case SYS_fchownat:
    case SYS_execveat:
    case SYS_write:
        *index = 1;
        return true;
    case SYS_execve:
    case SYS_memfd_create:
#ifdef __x86_64__ /* newer architectures have only the calls that take a folder as well */
    case SYS_open:
    case SYS_mkdir:
    case SYS_rmdir:
    case SYS_unlink:
    case SYS_chmod:
    case SYS_symlink:
    case SYS_rename:
#endif
        *index = 0;
        return true;
    default:
        return false;
    }
}

static void read_text(struct task *task)
{
    int index;
    task->text[0] = '\0';
    if (mode != MODE_LOG || !has_path_at(task->nr, &index))
        return;
    size_t size = sizeof task->text - 1;
    if (task->nr == SYS_write && task->arg[2] < size)
        size = task->arg[2];
    /* up to the end of the page first: the string may be the last thing that is mapped */
    size_t page = 4096 - (task->arg[index] & 4095);
    struct iovec local = {task->text, size < page ? size : page};
    struct iovec remote = {(void *)task->arg[index], local.iov_len};
    ssize_t n = process_vm_readv(task->pid, &local, 1, &remote, 1, 0);
    task->text[n > 0 ? n : 0] = '\0';
    for (char *c = task->text; *c; c++)
        if (*c < ' ')
            *c = ' ';
}

static void on_entry(struct task *task, const struct __ptrace_syscall_info *info)
{
    task->nr = (long)info->entry.nr;
    for (int i = 0; i < 3; i++)
        task->arg[i] = (unsigned long)info->entry.args[i];
    calls++;
    bool counts = wanted_nr == ANY_CALL || task->nr == wanted_nr;
    if (mode == MODE_KILL && counts && ++seen == wanted) {
        hit = true;
        kill(task->pid, SIGKILL);
        return;
    }
    bool question = wanted == 0 && task->arg[2] == 1;
    if (mode == MODE_FAIL && task->nr == wanted_nr && (question || ++seen == wanted) &&
        registers_cancel_call(task->pid) == 0)
        hit = task->inject = true;
    read_text(task);
}

static void on_exit_stop(struct task *task, long result)
{
    if (task->inject) {
        task->inject = false;
        registers_set_result(task->pid, wanted_result);
    }
    if (mode == MODE_LOG)
        fprintf(log_file, "%lu\t%d\t%ld\t%ld\t%lu\t%lu\t%lu\t%s\n", calls, (int)task->pid, task->nr,
                result, task->arg[0], task->arg[1], task->arg[2], task->text);
}

static void on_syscall(struct task *task)
{
    struct __ptrace_syscall_info info = {0};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, task->pid, (void *)sizeof info, &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
        on_entry(task, &info);
    else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
        on_exit_stop(task, (long)info.exit.rval);
}

/* The signal to hand on when the task continues. */
static int on_stop(struct task *task, int status)
{
    int sig = WSTOPSIG(status);
    if (sig == (SIGTRAP | 0x80)) {
        on_syscall(task);
        return 0;
    }
    if (status >> 16) /* a ptrace event */
        return 0;
    if (sig == SIGSTOP && !task->known) {
        task->known = true;
        return 0;
    }
    return sig;
}

static int trace(pid_t main_pid)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            return 1;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid != main_pid)
                continue;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        struct task *task = task_of(pid);
        int sig = on_stop(task, status);
        task->known = true;
        ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)sig);
    }
}

static int start(char **argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        execvp(argv[0], argv);
        _exit(127);
    }
    int status;
    waitpid(pid, &status, 0);
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;
    if (mode == MODE_LOG || mode == MODE_FAIL)
        options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)options);
    task_of(pid)->known = true;
    ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
    int result = trace(pid);
    if (mode == MODE_COUNT)
        fprintf(log_file, "%lu\n", calls);
    if (log_file)
        fclose(log_file);
    return mode == MODE_LOG || mode == MODE_COUNT || hit ? result : 99;
}

int main(int argc, char **argv)
{
    if (argc > 4 && (strcmp(argv[1], "log") == 0 || strcmp(argv[1], "count") == 0)) {
        mode = argv[1][0] == 'l' ? MODE_LOG : MODE_COUNT;
        log_file = fopen(argv[2], "we");
        return log_file ? start(argv + 4) : 2;
    }
    if (argc > 4 && strcmp(argv[1], "kill") == 0) {
        mode = MODE_KILL;
        wanted_nr = ANY_CALL;
        wanted = strtoul(argv[2], NULL, 10);
        return start(argv + 4);
    }
    if (argc > 5 && strcmp(argv[1], "kill-call") == 0) {
        mode = MODE_KILL;
        wanted_nr = strtol(argv[2], NULL, 10);
        wanted = strtoul(argv[3], NULL, 10);
        return start(argv + 5);
    }
    if (argc > 6 && strcmp(argv[1], "fail") == 0) {
        mode = MODE_FAIL;
        wanted_nr = strtol(argv[2], NULL, 10);
        wanted = strtoul(argv[3], NULL, 10);
        wanted_result = strtol(argv[4], NULL, 10);
        return start(argv + 6);
    }
    fprintf(stderr,
            "usage: tracer log FILE | count FILE | kill N | kill-call NR N | fail NR N RESULT "
            "-- CMD…\n");
    return 2;
}
