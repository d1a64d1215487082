/* A `brig serve` of our own.
 *
 *   folder   in the folder of the user's runtime files, 0700: state, key, socket
 *   socket   ours, handed over listening: requests may come before the daemon is there
 *   death    we die: the kernel sends it SIGTERM, it ends in order and removes the folder
 *            it dies: its pidfd tells us, and the folder is removed here
 *            both at once: the next `brig mcp` removes folders that nobody holds */
#include "cli/mcp/mcp.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/state.h"
#include "cli/term.h"
#include "os/remove.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREFIX "mcp-"
#define END_MS 15000 /* for an end in order */

/* ---- where ---- */

/* 0700 and the caller's own, made where it is missing. */
static bool folder_good(const char *path)
{
    struct stat sb;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return false;
    return lstat(path, &sb) == 0 && S_ISDIR(sb.st_mode) && sb.st_uid == geteuid() &&
           !(sb.st_mode & (S_IWGRP | S_IWOTH));
}

/* Short: a socket's path has little room. */
static int choose_base(char ret[static 80], struct err *err)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        snprintf(ret, 80, "/run/brig");
    else if (runtime && runtime[0] == '/' && strlen(runtime) < 60)
        snprintf(ret, 80, "%s/brig", runtime);
    else
        ret[0] = '\0';
    if (ret[0] && folder_good(ret))
        return 0;
    snprintf(ret, 80, "/tmp/brig-%u", (unsigned)geteuid());
    if (folder_good(ret))
        return 0;
    err_set(err, ERR_SYSTEM, "%s is not a folder that only you can write to", ret);
    return err_hint(err, "set XDG_RUNTIME_DIR to a folder of your own");
}

/* ---- what others left ---- */

/* True: nobody has it. Neither is made here: what has none yet is just being made. */
static bool unlocked(int dir, const char *name)
{
    cleanup_fd int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 ? flock(fd, LOCK_EX | LOCK_NB) == 0 : errno == ENOENT;
}

static void sweep_one(int base, const char *name)
{
    cleanup_fd int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat sb;
    if (dir < 0 || fstat(dir, &sb) < 0 || sb.st_uid != geteuid())
        return;
    if (faccessat(dir, "owner", F_OK, AT_SYMLINK_NOFOLLOW) < 0 || !unlocked(dir, "owner") ||
        !unlocked(dir, "lock"))
        return;
    remove_folder(base, name, dir);
}

static void sweep(const char *base)
{
    DIR *d = opendir(base);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (text_begins(e->d_name, PREFIX))
            sweep_one(dirfd(d), e->d_name);
    if (d)
        closedir(d);
}

/* ---- the folder ---- */

static int make_folder(struct mcp_private *p, struct err *err)
{
    char base[80];
    if (choose_base(base, err) < 0)
        return err_number(err);
    sweep(base);
    snprintf(p->folder, sizeof p->folder, "%s/" PREFIX "XXXXXX", base);
    if (!mkdtemp(p->folder)) {
        p->folder[0] = '\0';
        return err_sys(err, "make a folder in %s", base);
    }
    p->folder_fd = open(p->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->folder_fd < 0)
        return err_sys(err, "open %s", p->folder);
    p->owner_fd = openat(p->folder_fd, "owner", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (p->owner_fd < 0 || flock(p->owner_fd, LOCK_EX | LOCK_NB) < 0)
        return err_sys(err, "lock %s", p->folder);
    return 0;
}

static int make_key(const struct mcp_private *p, struct client *c, struct err *err)
{
    char line[API_KEY_SIZE + 1];
    cleanup_fd int fd = openat(p->folder_fd, "key", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "make a key in %s", p->folder);
    if (api_key_make(c->key, err) < 0)
        return err_number(err);
    int len = snprintf(line, sizeof line, "%s\n", c->key);
    bool good = write(fd, line, (size_t)len) == len;
    explicit_bzero(line, sizeof line);
    return good ? 0 : err_sys(err, "write a key in %s", p->folder);
}

static int make_socket(const struct mcp_private *p, struct client *c, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/sock", p->folder);
    snprintf(c->path, sizeof c->path, "%s", at.sun_path);
    snprintf(c->authority, sizeof c->authority, "localhost");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t old = umask(0177);
    int bound = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&at, sizeof at);
    umask(old);
    if (bound == 0 && listen(fd, 128) == 0)
        return fd;
    err_sys(err, "cannot listen on %s", at.sun_path);
    if (fd >= 0)
        close(fd);
    return err_number(err);
}

/* ---- the process ---- */

#define LISTEN_FD 3 /* systemd.socket(5): how a listening socket is handed over */

static void exec_serve(const struct mcp_private *p, const struct mcp_private_options *o, int fd,
                       pid_t parent)
{
    char number[16];
    const char *argv[12] = {"brig", "serve", "--ephemeral", "--state", p->folder};
    size_t n = 5;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (o->templates) {
        argv[n++] = "--templates";
        argv[n++] = o->templates;
    }
    if (o->project) {
        argv[n++] = "--project";
        argv[n++] = o->project;
    }
    snprintf(number, sizeof number, "%d", (int)getpid());
    /* Its stdout must not be ours: on ours nothing but protocol messages may appear. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent || null < 0 ||
        dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        (fd == LISTEN_FD ? fcntl(fd, F_SETFD, 0) : dup2(fd, LISTEN_FD)) < 0 ||
        setenv("LISTEN_FDS", "1", 1) < 0 || setenv("LISTEN_PID", number, 1) < 0)
        _exit(125);
    unsetenv("NOTIFY_SOCKET");
    signal(SIGPIPE, SIG_DFL);
    setsid(); /* a Ctrl-C of the terminal is for us: it then ends in order */
    execv("/proc/self/exe", (char *const *)argv);
    term_say("start brig serve: %s", strerror(errno));
    _exit(125);
}

int mcp_private_start(struct mcp_private *p, const struct mcp_private_options *o, struct client *c,
                      struct err *err)
{
    pid_t parent = getpid();
    if (make_folder(p, err) < 0 || make_key(p, c, err) < 0)
        return err_number(err);
    cleanup_fd int fd = make_socket(p, c, err);
    if (fd < 0)
        return err_number(err);
    p->pid = fork();
    if (p->pid == 0)
        exec_serve(p, o, fd, parent);
    if (p->pid < 0) {
        p->pid = 0;
        return err_sys(err, "fork");
    }
    p->pidfd = sys_pidfd_open(p->pid);
    return p->pidfd < 0 ? err_sys(err, "pidfd_open") : 0;
}

static void end_process(struct mcp_private *p)
{
    struct pollfd end = {.fd = p->pidfd, .events = POLLIN};
    kill(p->pid, SIGTERM);
    if (poll(&end, 1, END_MS) <= 0)
        kill(p->pid, SIGKILL);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

void mcp_private_end(struct mcp_private *p)
{
    if (p->pid)
        end_process(p);
    if (p->folder[0] && remove_folder(AT_FDCWD, p->folder, p->folder_fd) < 0)
        term_say("left behind: %s could not be removed", p->folder);
    if (p->folder_fd >= 0)
        close(p->folder_fd);
    if (p->owner_fd >= 0)
        close(p->owner_fd);
    if (p->pidfd >= 0)
        close(p->pidfd);
}
