/* The Sentry's control socket. It lies in the abstract names of the sandbox's own network
 * namespace; both connections are made before the Sentry runs, and after that neither this process
 * nor what it starts can make another UNIX socket (seal.c). Further ones are made by join.c. */
#include "engines/gvisor/gvisor.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "os/rights.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { TO_FIRST = 0, TO_ALL = 1 }; /* as gVisor numbers them */

static int connect_to(const struct sockaddr_un *name, socklen_t len, struct err *err)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)name, len) < 0)
        return err_sys(err, "connect to the Sentry");
    int result = fd;
    fd = -1;
    return result;
}

int control_open(struct control *c, struct err *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t len = sizeof name;
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* An address without a name: the kernel chooses one. */
    if (c->listener < 0 ||
        bind(c->listener, (struct sockaddr *)&name, sizeof name.sun_family) < 0 ||
        listen(c->listener, 2) < 0 || getsockname(c->listener, (struct sockaddr *)&name, &len) < 0)
        return err_sys(err, "make the Sentry's control socket");
    memcpy(c->name, name.sun_path + 1, JOIN_NAME_LEN);
    c->name[JOIN_NAME_LEN] = '\0';
    if ((c->wait = connect_to(&name, len, err)) < 0 ||
        (c->signals = connect_to(&name, len, err)) < 0)
        return err_number(err);
    return 0;
}

int control_join(const char *name, struct err *err)
{
    struct sockaddr_un full = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len != JOIN_NAME_LEN)
        return err_set(err, ERR_USAGE, "%.20s is no name of a Sentry's", name);
    memcpy(full.sun_path + 1, name, len); /* an abstract one: its first byte is 0 */
    return connect_to(&full, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len), err);
}

int control_send(int fd, const char *method, const struct buf *argument, const int *fds,
                 unsigned count, struct err *err)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    jw_begin(&w, &text, 8u << 20);
    jw_kv_string(&w, "method", method);
    jw_key(&w, "arg");
    if (argument)
        jw_written(&w, argument);
    else
        jw_string(&w, SENTRY_NAME);
    jw_object_end(&w);
    if (text.failed)
        return err_set(err, ERR_LIMIT, "the command or its variables are too long");
    struct iovec part = {text.data, text.len};
    ssize_t n = rights_send(fd, &part, 1, fds, count, 0);
    errno = n < 0 ? (int)-n : EPIPE;
    return n == (ssize_t)text.len ? 0 : err_sys(err, "ask the Sentry");
}

int control_ask(int fd, const char *method, const struct buf *argument, struct err *err)
{
    return control_send(fd, method, argument, NULL, 0, err);
}

/* To the first process behind the Sentry, or to all. */
int control_signal(const struct control *c, int number, bool all, struct err *err)
{
    cleanup_buf struct buf argument;
    struct json_writer w;
    char dropped[4096];
    while (recv(c->signals, dropped, sizeof dropped, MSG_DONTWAIT) > 0)
        ;
    jw_begin(&w, &argument, 512);
    jw_kv_string(&w, "CID", SENTRY_NAME);
    jw_kv_int(&w, "Signo", number);
    jw_kv_int(&w, "PID", 0);
    jw_kv_int(&w, "Mode", all ? TO_ALL : TO_FIRST);
    jw_object_end(&w);
    return control_ask(c->signals, "containerManager.Signal", &argument, err);
}
