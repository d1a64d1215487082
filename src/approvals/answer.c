/* Answers a question of another process, and what both sides share. */
#include "approvals/internal.h"
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/runstate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#define SHOW_S   2
#define ANSWER_S 30

bool approval_is_id(const char *text)
{
    return text_begins(text, "ask-") && strlen(text) == 12 && strspn(text + 4, HEX_DIGITS) == 8;
}

/* A name without a file: it is gone when the asker is, however that ended. A sandbox cannot name
 * it: its network namespace is another, or it has no UNIX sockets. */
socklen_t approval_socket_name(const char *id, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "brig-%s", id);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

bool approval_is_peer(int fd, uid_t *ret_uid)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return false;
    *ret_uid = peer.uid;
    return peer.uid == geteuid() || peer.uid == 0;
}

/* A descriptor, or a negative errno; -ECONNREFUSED: nobody asks under this name. */
static int reach(const char *id, int patience_s)
{
    struct timeval patience = {.tv_sec = patience_s};
    struct sockaddr_un name;
    uid_t uid;
    socklen_t len = approval_socket_name(id, &name);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&name, len) < 0)
        return -errno;
    return approval_is_peer(fd, &uid) ? fd_steal(&fd) : -EPERM;
}

/* The length of the reply, 0 at the end of the other side, or a negative errno. */
static ssize_t exchange(int fd, char op, char *reply, size_t size)
{
    ssize_t n = send(fd, &op, sizeof op, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EPIPE ? 0 : -errno;
    n = recv(fd, reply, size, 0);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    return n;
}

static void list_one(int dir, const char *id,
                     void (*fn)(void *ctx, const char *id, const char *json), void *ctx)
{
    cleanup_fd int fd = reach(id, SHOW_S);
    if (fd == -ECONNREFUSED)
        unlinkat(dir, id, 0);
    cleanup_free char *text = fd >= 0 ? malloc(APPROVAL_REPLY_MAX + 1) : NULL;
    ssize_t n = text ? exchange(fd, OP_SHOW, text, APPROVAL_REPLY_MAX) : fd;
    /* A process that is slow or stopped still waits for an answer, so list it without its text. */
    if (n == -EAGAIN)
        fn(ctx, id, NULL);
    if (n <= 0 || !text)
        return;
    text[n] = '\0';
    fn(ctx, id, text);
}

int approval_list(void (*fn)(void *ctx, const char *id, const char *json), void *ctx)
{
    cleanup_fd int dir = runstate_open(APPROVAL_FOLDER, false);
    int copy = dir < 0 ? -1 : fcntl(dir, F_DUPFD_CLOEXEC, 3);
    DIR *d = folder_take(copy);
    if (!d)
        return 0;
    for (struct dirent *e; (e = readdir(d));)
        if (approval_is_id(e->d_name))
            list_one(dir, e->d_name, fn, ctx);
    closedir(d);
    return 0;
}

static int not_there(const char *id, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "no question %.20s waits here", id);
    return err_hint(err,
                    "`brig approvals` lists those that do; one that was answered, or whose time "
                    "is over, is gone");
}

int approval_answer(const char *id, bool allow, struct err *err)
{
    char reply = 0;
    if (!approval_is_id(id))
        return not_there(id, err);
    cleanup_fd int dir = runstate_open(APPROVAL_FOLDER, false);
    if (dir < 0 || faccessat(dir, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return not_there(id, err);
    cleanup_fd int fd = reach(id, ANSWER_S);
    if (fd == -ECONNREFUSED) {
        unlinkat(dir, id, 0);
        return not_there(id, err);
    }
    ssize_t n = fd >= 0 ? exchange(fd, allow ? OP_ALLOW : OP_DENY, &reply, sizeof reply) : fd;
    if (n == 1 && reply == OP_TAKEN)
        return 0;
    if (n >= 0)
        return err_set(err, ERR_REFUSED, "%s: too late, it was answered or its time is over", id);
    errno = (int)-n;
    return err_sys(err, "answer %s", id);
}
