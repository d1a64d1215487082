/* Makes the canaries of one run of `brig verify`, and tells whether somebody reached them. */
#include "verify/canaries.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/syscalls.h"
#include "verify/attack.h"
#include "verify/inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A number that nothing of brig's own uses; not closed on exec, on purpose. */
#define LEAKED_FD 200

void canaries_init(struct canaries *c)
{
    *c = (struct canaries){.folder_fd = -1,
                           .tcp = -1,
                           .tcp6 = -1,
                           .udp = -1,
                           .local = -1,
                           .abstract = -1,
                           .granted = -1,
                           .signals = -1,
                           .door = -1,
                           .shm_id = -1};
    c->lab.pid = -1;
    c->place.leaked = -1;
}

static int random_hex(char *out, size_t size, struct err *err)
{
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_sys(err, "random bytes");
    size_t fit = (size - 1) / 2;
    hex_encode(bytes, fit < sizeof bytes ? fit : sizeof bytes, out);
    return 0;
}

/* On a file system without noexec. The name is random, and only who knows it can enter. */
static int make_folder(struct canaries *c, struct err *err)
{
    static const char *const parents[] = {"/tmp", "/var/tmp"};
    char unique[TOKEN_SIZE];
    if (random_hex(unique, 17, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < ARRAY_LEN(parents); i++) {
        struct statvfs fs;
        if (statvfs(parents[i], &fs) < 0 || (fs.f_flag & (ST_NOEXEC | ST_RDONLY)))
            continue;
        snprintf(c->place.folder, sizeof c->place.folder, "%s/brig-verify-%s", parents[i], unique);
        if (mkdir(c->place.folder, 0700) == 0)
            break;
        c->place.folder[0] = '\0';
    }
    if (!c->place.folder[0]) {
        err_set(err, ERR_SYSTEM,
                "there is no folder for canaries: /tmp and /var/tmp are read-only "
                "or mounted noexec");
        return err_hint(err, "mount one of them without noexec");
    }
    place_derive(&c->place);
    c->folder_fd = open(c->place.folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c->folder_fd < 0 || fchmod(c->folder_fd, 0711) < 0)
        return err_sys(err, "open %s", c->place.folder);
    c->place.leaked = fcntl(c->folder_fd, F_DUPFD, LEAKED_FD);
    return 0;
}

static int make_file(struct canaries *c, const char *name, const char *text, mode_t mode,
                     struct err *err)
{
    cleanup_fd int fd =
        openat(c->folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) < 0)
        return err_sys(err, "make the canary %s", name);
    return 0;
}

static int make_dir(struct canaries *c, const char *name, mode_t mode, struct err *err)
{
    if (mkdirat(c->folder_fd, name, 0700) < 0 || fchmodat(c->folder_fd, name, mode, 0) < 0)
        return err_sys(err, "make the canary %s", name);
    return 0;
}

/* A copy of this very program runs the attacks inside. */
static int copy_tool(struct canaries *c, struct err *err)
{
    char block[65536];
    cleanup_fd int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    cleanup_fd int out =
        openat(c->folder_fd, "brig", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (in < 0 || out < 0)
        return err_sys(err, "copy this program");
    for (ssize_t n; (n = read(in, block, sizeof block)) != 0;)
        if (n < 0 || write(out, block, (size_t)n) != n)
            return err_sys(err, "copy this program");
    return fchmod(out, 0755) < 0 ? err_sys(err, "copy this program") : 0;
}

/* What only modules try to change is a file of its own: who changed it is known. */
static int make_granted(struct canaries *c, struct err *err)
{
    int r = make_file(c, "ro/file", "granted", 0666, err);
    return r < 0 ? r : make_file(c, "ro/module", "granted", 0666, err);
}

static int make_files(struct canaries *c, struct err *err)
{
    if (copy_tool(c, err) < 0 || make_file(c, "canary", c->token, 0666, err) < 0 ||
        make_dir(c, "drop", 0777, err) < 0 || make_dir(c, "ro", 0755, err) < 0 ||
        make_dir(c, "rw", 0777, err) < 0)
        return err_number(err);
    return make_granted(c, err);
}

static int listen_inet(int family, int type, uint16_t *port)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t len = family == AF_INET ? sizeof v4 : sizeof v6;
    cleanup_fd int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, at, len) < 0 || (type == SOCK_STREAM && listen(fd, 64) < 0) ||
        getsockname(fd, at, &len) < 0)
        return -1;
    *port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    return fd_steal(&fd);
}

/* A TCP port on which nobody listens, reserved for the attacks inside, and the UDP port of the same
 * number. */
static void open_numbers(struct canaries *c)
{
    for (int i = 0; c->udp < 0 && i < 50; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof at;
        int on = 1;
        cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
            bind(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
            getsockname(fd, (struct sockaddr *)&at, &len) < 0)
            return;
        c->place.udp = ntohs(at.sin_port);
        c->udp = listen_inet(AF_INET, SOCK_DGRAM, &c->place.udp);
        if (c->udp >= 0)
            c->door = fd_steal(&fd);
    }
}

static int listen_local(const char *name, bool abstract)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path + abstract, name, strlen(name));
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name));
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 64) < 0)
        return -1;
    if (!abstract)
        chmod(name, 0777);
    return fd_steal(&fd);
}

static int open_sockets(struct canaries *c, struct err *err)
{
    char path[PLACE_PATH + 16];
    snprintf(path, sizeof path, "%s/socket", c->place.ro);
    c->tcp = listen_inet(AF_INET, SOCK_STREAM, &c->place.tcp);
    open_numbers(c);
    c->tcp6 = listen_inet(AF_INET6, SOCK_STREAM, &c->place.tcp6); /* not every host has it */
    c->local = listen_local(c->place.socket, false);
    c->granted = listen_local(path, false);
    c->abstract = listen_local(c->place.abstract, true);
    if (c->tcp < 0 || c->udp < 0 || c->local < 0 || c->granted < 0 || c->abstract < 0)
        return err_sys(err, "open the sockets of the canaries");
    return 0;
}

/* Executed, so that its environment, with the canary in it, is in its /proc entry. */
static int start_victim(struct canaries *c, struct err *err)
{
    int said[2];
    char ready;
    if (pipe2(said, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    c->victim = fork();
    if (c->victim == 0) {
        char *argv[] = {"brig-victim", VERIFY_INSIDE, "victim", NULL};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_IGN);
        dup2(said[1], 1);
        execv(c->place.tool, argv);
        _exit(1);
    }
    close(said[1]);
    c->signals = said[0];
    c->place.victim = c->victim;
    if (c->victim < 0 || read(said[0], &ready, 1) != 1)
        return err_sys(err, "start a process to be attacked");
    fcntl(said[0], F_SETFL, O_NONBLOCK);
    return 0;
}

bool canary_signalled(const struct canaries *c)
{
    char bytes[64];
    bool any = false;
    while (read(c->signals, bytes, sizeof bytes) > 0)
        any = true;
    return any;
}

/* If the kernel, or a sandbox around brig itself, lacks some of these, the rows say so. */
static void make_kernel_objects(struct canaries *c)
{
    uint32_t key = 0;
    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key)
        return;
    c->place.shm_key = (int32_t)(key | 1) & 0x7fffffff;
    c->shm_id = shmget(c->place.shm_key, 4096, IPC_CREAT | IPC_EXCL | 0666);
    char *room = c->shm_id < 0 ? (void *)-1 : shmat(c->shm_id, NULL, 0);
    if (room != (void *)-1) {
        memcpy(room, c->token, sizeof c->token);
        shmdt(room);
    }
    mode_t mask = umask(0);
    long queue = syscall(SYS_mq_open, c->place.mqueue, O_CREAT | O_EXCL | O_RDWR, 0666, NULL);
    umask(mask);
    c->has_queue = queue >= 0;
    if (queue >= 0)
        close((int)queue);
    c->has_key = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0 &&
                 syscall(SYS_add_key, "user", "brig-verify", c->token, strlen(c->token),
                         KEY_SPEC_SESSION_KEYRING) >= 0;
}

int canaries_open(struct canaries *c, struct err *err)
{
    if (random_hex(c->token, sizeof c->token, err) < 0 ||
        random_hex(c->secret, sizeof c->secret, err) < 0 || make_folder(c, err) < 0 ||
        make_files(c, err) < 0 || open_sockets(c, err) < 0)
        return err_number(err);
    setenv(c->place.variable, c->token, 1);
    if (start_victim(c, err) < 0 || lab_open(&c->lab, c->secret, err) < 0)
        return err_number(err);
    make_kernel_objects(c);
    c->place.bound = c->lab.ports[LAB_BOUND];
    c->place.plain = c->lab.ports[LAB_PLAIN];
    c->place.closed = c->lab.ports[LAB_CLOSED];
    c->place.names = c->lab.names;
    c->place.caller = (int32_t)geteuid();
    setenv(SECRET_NAME, c->secret, 1);
    for (size_t i = 0; agent_variables[i]; i++)
        setenv(agent_variables[i], c->token, 1);
    return 0;
}

bool canary_connected(int listener)
{
    bool any = false;
    char bytes[64];
    struct sockaddr_storage from;
    for (int fd; listener >= 0 && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        close(fd);
        any = true;
    }
    socklen_t len = sizeof from;
    while (listener >= 0 && recvfrom(listener, bytes, sizeof bytes, MSG_DONTWAIT,
                                     (struct sockaddr *)&from, &len) >= 0)
        any = true;
    return any;
}

void canaries_reset(struct canaries *c)
{
    const int listeners[] = {c->tcp, c->tcp6, c->udp, c->local, c->abstract, c->granted};
    for (size_t i = 0; i < ARRAY_LEN(listeners); i++)
        canary_connected(listeners[i]);
    canary_signalled(c);
    lab_reset(&c->lab);
    make_file(c, "canary", c->token, 0666, NULL);
    make_granted(c, NULL);
    const char *const folders[] = {"drop", "rw"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        cleanup_fd int fd =
            openat(c->folder_fd, folders[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            (void)!remove_contents(fd); /* what stays counts as dropped: no attack fails by it */
    }
}

bool canary_file_changed(const struct canaries *c)
{
    char text[64];
    ssize_t n = file_read(c->folder_fd, "canary", text, sizeof text);
    return n < 0 || strcmp(text, c->token) != 0;
}

bool canary_dropped(const struct canaries *c)
{
    struct stat sb;
    return fstatat(c->folder_fd, "drop/made", &sb, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool granted_changed(const struct canaries *c, const char *name)
{
    char text[64];
    return file_read(c->folder_fd, name, text, sizeof text) < 0 || strcmp(text, "granted") != 0;
}

bool canary_granted_written(const struct canaries *c)
{
    return granted_changed(c, "ro/file");
}

bool canary_module_written(const struct canaries *c)
{
    return granted_changed(c, "ro/module");
}

bool canary_granted_mode(const struct canaries *c)
{
    struct stat sb;
    return fstatat(c->folder_fd, "ro/file", &sb, 0) < 0 || (sb.st_mode & 07777) != 0666;
}

bool canary_set_id(const struct canaries *c)
{
    struct stat sb;
    return fstatat(c->folder_fd, "rw/set-id", &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
           (sb.st_mode & (S_ISUID | S_ISGID));
}

bool canary_bound(const struct canaries *c)
{
    struct stat sb;
    return fstatat(c->folder_fd, "rw/bound", &sb, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(sb.st_mode);
}

bool canary_special(const struct canaries *c)
{
    struct stat sb;
    return fstatat(c->folder_fd, "rw/special", &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISFIFO(sb.st_mode);
}

static int close_folder(struct canaries *c, struct err *err)
{
    int result = c->place.folder[0] ? remove_folder(AT_FDCWD, c->place.folder, c->folder_fd) : 0;
    if (c->folder_fd >= 0)
        close(c->folder_fd);
    if (c->place.leaked >= 0)
        close(c->place.leaked);
    if (result == 0)
        return 0;
    errno = -result;
    err_sys(err, "remove %s", c->place.folder);
    return err_hint(err, "it holds what the attacks were tried on; remove it by hand");
}

int canaries_close(struct canaries *c, struct err *err)
{
    const int fds[] = {c->tcp,      c->tcp6,    c->udp,     c->local,
                       c->abstract, c->granted, c->signals, c->door};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    lab_close(&c->lab);
    if (c->victim > 0) {
        kill(c->victim, SIGKILL);
        while (waitpid(c->victim, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (c->shm_id >= 0)
        shmctl(c->shm_id, IPC_RMID, NULL);
    if (c->has_queue)
        syscall(SYS_mq_unlink, c->place.mqueue);
    int result = close_folder(c, err);
    canaries_init(c);
    return result;
}
