/* Finds, leases and maps subordinate ids of an ordinary user. */
#include "kernel/subids.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAP_UIDS "/usr/bin/newuidmap"
#define MAP_GIDS "/usr/bin/newgidmap"
/* They take two milliseconds; who is named by a directory service may have to be asked for. */
#define MAP_MS 10000
/* Of a large range the lower half stays for engines that map it whole, from its beginning: what
 * they leave on disk for user 999 of a container is not root's of a sandbox. */
#define LARGE 4096u
/* Who has so many sandboxes at a time shares. */
#define TRIES_MAX 65536u
#define FILE_MAX  (1u << 20)

/* Of names of users that are shown in a command. */
#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@+"

/* ---- what there is ---- */

/* All of a file of the host's, or nothing; NULL and errno. */
static char *file_whole(const char *path, size_t *len)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat sb;
    if (fd < 0 || fstat(fd, &sb) < 0)
        return NULL;
    char *text = S_ISREG(sb.st_mode) ? malloc(FILE_MAX) : NULL;
    ssize_t n = 1;
    *len = 0;
    while (text && n > 0) {
        n = read(fd, text + *len, FILE_MAX - *len);
        *len += n > 0 ? (size_t)n : 0;
    }
    return text;
}

/* Directory services are asked by newuidmap, not here: a name that is not in the file is taken from
 * the environment, and all that it does is to choose lines that newuidmap then judges. */
static const char *own_name(char *room, size_t size)
{
    size_t len;
    cleanup_free char *text = file_whole("/etc/passwd", &len);
    if (text && passwd_name(text, len, getuid(), room, size))
        return room;
    const char *name = getenv("LOGNAME");
    bool plain = name && name[0] != '-' && strlen(name) < size && name[strspn(name, PLAIN)] == '\0';
    return plain ? name : NULL;
}

static bool is_account(uint32_t id)
{
    static char *text;
    static size_t len;
    char name[64];
    if (!text)
        text = file_whole("/etc/passwd", &len);
    return text && passwd_name(text, len, id, name, sizeof name);
}

static void read_ranges(const char *path, const char *name, struct subid_ranges *ret)
{
    size_t len = 0;
    cleanup_free char *text = file_whole(path, &len);
    subid_parse(text ? text : "", text ? len : 0, name, getuid(), ret);
}

/* SI-1 */
static bool is_roots_program(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_uid == 0 && !(sb.st_mode & 022) &&
           access(path, X_OK) == 0;
}

struct lack {
    char why[256], how[256], command[256];
};

static void add_ranges(const struct subids *s, const char *name, struct lack *ret)
{
    uint32_t first = s->uids.next > s->gids.next ? s->uids.next : s->gids.next;
    if (name && first <= 0xfffffffeu - 65536u)
        snprintf(ret->command, sizeof ret->command,
                 "usermod --add-subuids %u-%u --add-subgids %u-%u %.60s", first, first + 65535u,
                 first, first + 65535u, name);
}

/* Ids are not available, and why. */
static bool lacks(struct subids *s, struct lack *ret)
{
    char room[64], who[64];
    const char *name = own_name(room, sizeof room);
    if (name)
        snprintf(who, sizeof who, "%s", name);
    else
        snprintf(who, sizeof who, "%u, who has no name in /etc/passwd,", getuid());
    *ret = (struct lack){0};
    read_ranges("/etc/subuid", name, &s->uids);
    read_ranges("/etc/subgid", name, &s->gids);
    bool programs = is_roots_program(MAP_UIDS) && is_roots_program(MAP_GIDS);
    bool ranges = s->uids.count && s->gids.count;
    if (!ranges)
        add_ranges(s, name, ret);
    if (!programs) {
        char more[sizeof ret->command];
        memcpy(more, ret->command, sizeof more);
        snprintf(ret->why, sizeof ret->why,
                 "an ordinary user may map one id into a sandbox, unless newuidmap and newgidmap "
                 "map another one, and they are not in /usr/bin");
        snprintf(ret->command, sizeof ret->command, "apt-get install -y uidmap%s%.200s",
                 more[0] ? " && " : "", more);
    } else if (!ranges) {
        snprintf(ret->why, sizeof ret->why,
                 "an ordinary user may map one id into a sandbox, and %s gives user %.60s no other "
                 "one",
                 s->uids.count ? "/etc/subgid" : "/etc/subuid", who);
    } else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
        snprintf(ret->why, sizeof ret->why,
                 "brig was started with no-new-privileges, and newuidmap is a set-id program");
        snprintf(ret->how, sizeof ret->how,
                 "start it without (systemd: NoNewPrivileges=no; Docker: no "
                 "--security-opt no-new-privileges)");
        return true;
    } else {
        return false;
    }
    if (ret->command[0])
        snprintf(ret->how, sizeof ret->how, "as root: %.240s", ret->command);
    else
        snprintf(ret->how, sizeof ret->how,
                 "have root give this user ranges in /etc/subuid and /etc/subgid");
    return true;
}

bool subids_probe(char why[static 256], char how[static 256], char command[static 256])
{
    struct subids s;
    struct lack lack;
    bool found = !lacks(&s, &lack);
    memcpy(why, lack.why, 256);
    memcpy(how, lack.how, 256);
    memcpy(command, lack.command, 256);
    return found;
}

int subids_find(struct subids *ret, struct err *err)
{
    struct lack lack;
    if (!lacks(ret, &lack))
        return 0;
    err_set(err, ERR_UNSUPPORTED, "kernel.root: two users are not available here: %s", lack.why);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err,
                    "%s; or start brig serve as root; or say kernel: {uid: 0} in the policy of the "
                    "template, and root is the one user",
                    lack.how);
}

/* ---- one of them ---- */

/* A name in the abstract namespace goes with the last descriptor of who bound it. Somebody else can
 * bind one as well, and then has kept a number from us. */
static int hold(uint32_t uid)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int len = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "brig-subid-%u", uid);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    return fd < 0 || bind(fd, (struct sockaddr *)&at, size) < 0 ? -1 : fd_steal(&fd);
}

static bool is_usable(const struct subids *s, uint64_t place, uint64_t gids,
                      struct subid_lease *ret)
{
    ret->uid = subid_at(&s->uids, place);
    ret->gid = subid_at(&s->gids, place % gids);
    return ret->uid != getuid() && ret->gid != getgid() && !is_account(ret->uid);
}

int subids_lease(const struct subids *s, struct subid_lease *ret, struct err *err)
{
    uint64_t uids = subid_total(&s->uids), gids = subid_total(&s->gids);
    uint64_t low = uids >= LARGE ? uids / 2 : 0, room = uids - low;
    struct subid_lease shared = {.fd = -1};
    /* From a place that the next one most likely does not begin at. */
    uint64_t from = (uint64_t)getpid() % (room ? room : 1);
    for (uint64_t i = 0; gids && i < room && i < TRIES_MAX; i++) {
        struct subid_lease one = {.fd = -1};
        if (!is_usable(s, low + (from + i) % room, gids, &one))
            continue;
        if ((one.fd = hold(one.uid)) >= 0) {
            *ret = one;
            return 0;
        }
        if (!shared.uid)
            shared = one;
    }
    *ret = shared;
    if (shared.uid)
        return 0;
    err_set(err, ERR_UNSUPPORTED,
            "kernel.root: every id that /etc/subuid gives this user is an account's");
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "have root give this user a range that nobody else has");
}

/* ---- its map ---- */

/* In the child: nothing of ours comes along. */
static void become(const char *program, char *const argv[], int out, pid_t parent)
{
    static char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", NULL};
    sigset_t none;
    sigemptyset(&none);
    /* Until it is executed: a set-id program is nobody's to end by that. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(126);
    for (int sig = 1; sig < 32; sig++)
        signal(sig, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(out, 2) < 0 ||
        sys_close_range(3, ~0u, 0) < 0 || chdir("/") < 0)
        _exit(126);
    execve(program, argv, envp);
    _exit(127);
}

struct mapper {
    pid_t pid;
    int out;
    char said[200];
    size_t len;
};

/* What it says on its stderr, until it has closed that. */
static bool hear(struct mapper *m, uint64_t deadline)
{
    char spill[256];
    for (uint64_t now; (now = clock_us()) < deadline;) {
        struct pollfd p = {.fd = m->out, .events = POLLIN};
        if (poll(&p, 1, (int)((deadline - now) / 1000) + 1) <= 0)
            continue;
        size_t left = sizeof m->said - 1 - m->len;
        ssize_t n = left ? read(m->out, m->said + m->len, left) : read(m->out, spill, sizeof spill);
        if (n <= 0)
            return n == 0;
        m->len += left ? (size_t)n : 0;
    }
    return false;
}

/* Its status, negative: none in time. Not waited for without end: it may hang where no signal
 * reaches it. */
static int finish(const struct mapper *m, uint64_t deadline)
{
    for (int status; clock_us() < deadline; usleep(200)) {
        pid_t got = waitpid(m->pid, &status, WNOHANG);
        if (got == m->pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (got < 0 && errno != EINTR)
            return -ECHILD;
    }
    kill(m->pid, SIGKILL);
    for (int i = 0; i < 100 && waitpid(m->pid, NULL, WNOHANG) == 0; i++)
        usleep(1000);
    return -ETIMEDOUT;
}

static int failed(const char *program, struct mapper *m, int status, struct err *err)
{
    m->said[m->len] = '\0';
    for (char *c = m->said; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = c[1] ? ' ' : '\0';
    if (status == -ETIMEDOUT)
        err_set(err, ERR_SYSTEM, "kernel.root: %s did not end in %u s", program, MAP_MS / 1000);
    else
        err_set(err, ERR_UNSUPPORTED, "kernel.root: %s could not map a second id (%s)", program,
                m->said[0] ? m->said : "it gives no reason");
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "try `unshare --user --map-root-user --map-auto true` as this user; the "
                         "program must be set-id, and the ranges in /etc/subuid and /etc/subgid "
                         "this user's");
}

static int run(const char *program, char *const argv[], struct err *err)
{
    int ends[2];
    struct mapper m = {.len = 0};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, "make a pipe for %s", program);
    cleanup_fd int out = ends[0];
    m.out = out;
    pid_t self = getpid();
    m.pid = fork();
    if (m.pid == 0)
        become(program, argv, ends[1], self);
    close(ends[1]);
    if (m.pid < 0)
        return err_sys(err, "start %s", program);
    uint64_t deadline = clock_us() + MAP_MS * 1000ull;
    hear(&m, deadline);
    int status = finish(&m, deadline);
    return status == 0 ? 0 : failed(program, &m, status, err);
}

static int map_one(const char *program, pid_t pid, unsigned inside, unsigned own, unsigned root,
                   struct err *err)
{
    char words[5][16];
    snprintf(words[0], sizeof words[0], "%d", (int)pid);
    snprintf(words[1], sizeof words[1], "%u", root);
    snprintf(words[2], sizeof words[2], "%u", inside);
    snprintf(words[3], sizeof words[3], "%u", own);
    char *const argv[] = {(char *)(uintptr_t)(strrchr(program, '/') + 1),
                          words[0],
                          "0",
                          words[1],
                          "1",
                          words[2],
                          words[3],
                          "1",
                          NULL};
    return run(program, argv, err);
}

int subids_map(pid_t pid, uid_t inside, const struct subid_lease *root, struct err *err)
{
    if (map_one(MAP_UIDS, pid, inside, getuid(), root->uid, err) < 0)
        return err_number(err);
    return map_one(MAP_GIDS, pid, inside, getgid(), root->gid, err);
}
