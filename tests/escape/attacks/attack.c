/* The attack program: one static binary with a sub-command for each family of attacks. It is run
 * outside the sandbox as the control and inside as the test; it never knows which of the two it is.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int outcome(long result)
{
    return result < 0 ? errno : 0;
}

int try_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

void scratch_path(char *out, size_t size, const char *what)
{
    const char *dir = getenv("TMPDIR");
    snprintf(out, size, "%s/escape-%s-%d", dir ? dir : "/tmp", what, (int)getpid());
}

void await_size(const char *path, long long bytes)
{
    struct stat st;
    for (int i = 0; i < 3000 && (stat(path, &st) < 0 || st.st_size < bytes); i++)
        usleep(10000);
}

void say(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(1, text, left);
        if (n <= 0)
            return;
        text += n;
        left -= (size_t)n;
    }
}

void probe_print(const char *row, const char *name, int result)
{
    char line[512];
    const char *word = result == 0 ? "OK" : strerrorname_np(result);
    snprintf(line, sizeof line, "%s\t%s\t%s\n", row, name, word ? word : "EUNKNOWN");
    say(line);
}

static int probe_call(const struct probe *p)
{
    if (p->run)
        return p->run();
    return outcome(
        syscall(p->nr, p->arg[0], p->arg[1], p->arg[2], p->arg[3], p->arg[4], p->arg[5]));
}

void probe_run(const struct probe *p)
{
    int pipefd[2];
    if (p->only) {
        printf("%s\t%s\tONLY %s\n", p->row, p->name, p->only);
        fflush(stdout);
        return;
    }
    if (pipe(pipefd) < 0)
        return;
    pid_t pid = fork();
    if (pid < 0) {
        printf("%s\t%s\tNOFORK\n", p->row, p->name);
        fflush(stdout);
        close(pipefd[0]);
        close(pipefd[1]);
        return;
    }
    if (pid == 0) {
        alarm(5);
        int result = probe_call(p);
        if (write(pipefd[1], &result, sizeof result) < 0)
            _exit(1);
        _exit(0);
    }
    close(pipefd[1]);
    int result = -1, status = 0;
    ssize_t n = read(pipefd[0], &result, sizeof result);
    close(pipefd[0]);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (n == sizeof result) {
        probe_print(p->row, p->name, result);
    } else {
        printf("%s\t%s\tSIGNAL %d\n", p->row, p->name, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        fflush(stdout);
    }
}

void probes_run(const struct probe *probes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        probe_run(&probes[i]);
}

static int cmd_kernel(int argc, char **argv)
{
    (void)argc, (void)argv;
    probes_run(kernel_probes, kernel_probe_count);
    probes_run(kernel_calls, kernel_call_count);
    probes_run(socket_probes, socket_probe_count);
    return 0;
}

/* Several sub-commands in one start: attack batch one a b -- two c -- three */
static int run_command(int argc, char **argv);

static int cmd_batch(int argc, char **argv)
{
    int start = 1;
    for (int i = 1; i <= argc; i++) {
        if (i < argc && strcmp(argv[i], "--") != 0)
            continue;
        if (i > start) {
            argv[i] = NULL;
            printf("== %s\n", argv[start]);
            fflush(stdout);
            pid_t pid = fork();
            if (pid == 0)
                _exit(run_command(i - start, argv + start));
            int status = 0;
            waitpid(pid, &status, 0);
        }
        start = i + 1;
    }
    return 0;
}

static const struct {
    const char *name;
    command *run;
} commands[] = {
    {"batch", cmd_batch},       {"kernel", cmd_kernel},     {"posture", cmd_posture},
    {"fds", cmd_fds},           {"exewrite", cmd_exewrite}, {"tiocsti", cmd_tiocsti},
    {"sweep", cmd_sweep},       {"compat", cmd_compat},     {"startup", cmd_startup},
    {"peer", cmd_peer},         {"victim", cmd_victim},     {"init", cmd_init},
    {"killinit", cmd_killinit}, {"search", cmd_search},     {"rowrite", cmd_rowrite},
    {"climb", cmd_climb},       {"links", cmd_links},       {"remount", cmd_remount},
    {"nodes", cmd_nodes},       {"xattrs", cmd_xattrs},     {"exec", cmd_exec},
    {"ipc", cmd_ipc},           {"await", cmd_await},       {"sockets", cmd_sockets},
    {"controls", cmd_controls}, {"forkbomb", cmd_forkbomb}, {"forkchain", cmd_forkchain},
    {"orphans", cmd_orphans},   {"memory", cmd_memory},     {"spin", cmd_spin},
    {"stubborn", cmd_stubborn}, {"daemons", cmd_daemons},   {"descriptors", cmd_descriptors},
    {"quotas", cmd_quotas},     {"fill", cmd_fill},         {"inodes", cmd_inodes},
    {"flood", cmd_flood},       {"holdout", cmd_holdout},   {"linger", cmd_linger},
    {"beat", cmd_beat},         {"touch", cmd_touch},       {"die", cmd_die},
    {"reach", cmd_reach},       {"listen", cmd_listen},     {"environ", cmd_environ},
    {"direct", cmd_direct},
};

static int run_command(int argc, char **argv)
{
    for (size_t i = 0; argc > 0 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, argv[0]) == 0) {
            int status = commands[i].run(argc, argv);
            fflush(stdout);
            return status;
        }
    }
    fprintf(stderr, "attack: which of these?");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stderr, " %s", commands[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv)
{
    return run_command(argc - 1, argv + 1);
}
