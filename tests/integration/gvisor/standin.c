/* In the place of runsc: an engine that was broken into. brig-gvisor starts it with all that it
 * would give runsc; as the file server it tries what the engine's profile might have left open, and
 * writes down what came of it. Run without brig it is its own control.
 *
 * What brig reads in a runsc: release-20300101.0 gofer-mount-confs */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((used)) static const char marks[] = "release-20300101.0 gofer-mount-confs";
static FILE *out;

static void say(const char *what, long result)
{
    fprintf(out, "%s %s\n", what, result >= 0 ? "done" : strerrorname_np(errno));
}

/* In a child: it changes who tries it. */
static void apart(const char *what, int (*attempt)(void))
{
    fflush(out);
    if (fork() == 0) {
        say(what, attempt());
        fflush(out);
        _exit(0);
    }
    wait(NULL);
}

static int new_user(void)
{
    return unshare(CLONE_NEWUSER);
}
static int new_mount(void)
{
    return unshare(CLONE_NEWNS);
}
static int new_user_by_clone(void)
{
    return (int)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}
static int try_mount(void)
{
    /* In a namespace of its own where it can have one: the control changes nothing for others. */
    if (unshare(CLONE_NEWNS) == 0)
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return mount("none", "/tmp", "tmpfs", 0, NULL);
}
static int try_chroot(void)
{
    struct stat before, after;
    if (stat("/", &before) < 0 || chroot("/usr") < 0 || stat("/", &after) < 0)
        return -1;
    errno = EPERM;
    return before.st_ino == after.st_ino ? -1 : 0;
}
static int try_unix(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0);
}
static int try_packet(void)
{
    return socket(AF_PACKET, SOCK_RAW, 0);
}
static int try_bpf(void)
{
    return (int)syscall(SYS_bpf, 0, (char[128]){0}, 0);
}
static int try_handle(void)
{
    char handle[256] = {(char)128};
    int id;
    return (int)syscall(SYS_name_to_handle_at, AT_FDCWD, "/", handle, &id, 0);
}
static int trace_first(void)
{
    return (int)ptrace(PTRACE_SEIZE, 1, 0, 0);
}
static int trace_own(void)
{
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    int r = (int)ptrace(PTRACE_SEIZE, child, 0, 0);
    kill(child, SIGKILL);
    return r;
}

static char canary[512], port[16];

static int read_canary(void)
{
    return open(canary, O_RDONLY);
}
static int reach_host(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? fd : connect(fd, (struct sockaddr *)&to, sizeof to);
}

/* The folder of the test: told where, and told what to reach. */
int main(int argc, char *argv[])
{
    const char *folder = argc == 2 && argv[1][0] == '/' ? argv[1] : "/attack";
    char path[600];
    if (argc > 2 && strcmp(argv[0], "runsc-gofer") != 0)
        pause(); /* as the Sentry: until it is over */
    snprintf(path, sizeof path, "%s/targets", folder);
    FILE *in = fopen(path, "r");
    if (!in || fscanf(in, "%511s %15s", canary, port) != 2)
        return 1;
    snprintf(path, sizeof path, "%s/said", folder);
    out = fopen(path, "w");
    if (!out)
        return 1;
    apart("new_user", new_user);
    apart("new_user_by_clone", new_user_by_clone);
    apart("new_mount", new_mount);
    apart("mount", try_mount);
    apart("chroot", try_chroot);
    apart("unix", try_unix);
    apart("packet", try_packet);
    apart("bpf", try_bpf);
    apart("handle", try_handle);
    apart("trace_first", trace_first);
    apart("trace_own", trace_own);
    apart("canary", read_canary);
    apart("host_port", reach_host);
    fprintf(out, "end\n");
    fclose(out);
    return 0;
}
