/* Where clients connect to: a UNIX socket that only its owner can use, and a port, of loopback
 * unless another address is named. */
#include "cli/serve/serve.h"
#include "cli/state.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "os/rights.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG         1024
#define FIRST_PASSED_FD 3
#define DEFAULT_LISTEN  "127.0.0.1:0"

static struct listener *add(struct launcher_config *c, int fd, const char *kind, struct err *err)
{
    if (c->listener_count == LAUNCHER_LISTENERS_MAX) {
        err_set(err, ERR_LIMIT, "more than %d sockets to listen on", LAUNCHER_LISTENERS_MAX);
        return NULL;
    }
    struct listener *l = &c->listeners[c->listener_count++];
    *l = (struct listener){.fd = fd, .kind = kind};
    return l;
}

static const char *scheme(const struct launcher_config *c)
{
    return c->certificate ? "https" : "http";
}

static void name_tcp(const struct launcher_config *c, struct listener *l)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    char text[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    bool all = true;
    if (getsockname(l->fd, (struct sockaddr *)&at, &len) == 0 && at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&at;
        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
        port = ntohs(in6->sin6_port);
        all = IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) || IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
    } else if (at.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&at;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        port = ntohs(in->sin_port);
        all = in->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    bool v6 = strchr(text, ':') != NULL;
    snprintf(l->address, sizeof l->address, "%s://%s%s%s:%u", scheme(c), v6 ? "[" : "", text,
             v6 ? "]" : "", port);
    snprintf(l->host, sizeof l->host, "%s", all ? "" : text);
}

/* "ADDRESS:PORT", v6 in brackets. */
static int parse_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len,
                         struct err *err)
{
    char host[80];
    uint64_t port = 0;
    const char *colon = strrchr(text, ':');
    struct sockaddr_in *in = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
    memset(ret, 0, sizeof *ret);
    if (!colon || (size_t)(colon - text) >= sizeof host ||
        num_parse_uint(colon + 1, &port, NULL) < 0 || port > 65535)
        return err_set(err, ERR_USAGE, "--listen %.60s: expected ADDRESS:PORT", text);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    size_t len = strlen(host);
    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        *ret_len = sizeof *in6;
        if (inet_pton(AF_INET6, host + 1, &in6->sin6_addr) == 1)
            return 0;
    } else {
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        *ret_len = sizeof *in;
        if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                      &in->sin_addr) == 1)
            return 0;
    }
    return err_set(err, ERR_USAGE, "--listen %.60s: expected an address, such as 127.0.0.1", text);
}

static int listen_tcp(struct launcher_config *c, const char *text, struct err *err)
{
    struct sockaddr_storage at = {0};
    socklen_t len = 0;
    int on = 1;
    if (parse_address(text, &at, &len, err) < 0)
        return err_number(err);
    cleanup_fd int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(err, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, BACKLOG) < 0)
        return err_sys(err, "cannot listen on %s", text);
    struct listener *l = add(c, fd, "tcp", err);
    if (!l)
        return err_number(err);
    fd = -1;
    name_tcp(c, l);
    return 0;
}

/* Where the caller's sockets belong; the folder is made where it is missing. */
static int choose_path(const struct serve_state *state, const char *asked, char ret[static 108],
                       struct err *err)
{
    char folder[STATE_RUNTIME_SIZE], path[3200];
    state_runtime(folder);
    if (asked)
        snprintf(path, sizeof path, "%s", asked);
    else if (folder[0] && (mkdir(folder, 0700) == 0 || errno == EEXIST))
        snprintf(path, sizeof path, "%s/brig.sock", folder);
    else
        snprintf(path, sizeof path, "%s/brig.sock", state->path);
    if (strlen(path) >= 108) {
        err_set(err, ERR_USAGE, "%.100s… is too long for a socket", path);
        return err_hint(err, "name a shorter one with --socket");
    }
    snprintf(ret, 108, "%s", path);
    return 0;
}

/* Remove a socket file that nobody listens on any more; refuse to take one that is in use. */
static int clear_path(const struct sockaddr_un *at, struct err *err)
{
    struct stat sb;
    if (lstat(at->sun_path, &sb) < 0)
        return errno == ENOENT ? 0 : err_sys(err, "%s", at->sun_path);
    if (!S_ISSOCK(sb.st_mode) || sb.st_uid != geteuid())
        return err_set(err, ERR_REFUSED, "%s exists and is no socket of ours", at->sun_path);
    cleanup_fd int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe >= 0 && connect(probe, (const struct sockaddr *)at, sizeof *at) == 0) {
        err_set(err, ERR_REFUSED, "somebody already serves %s", at->sun_path);
        return err_hint(err, "end it, or name another socket with --socket");
    }
    return unlink(at->sun_path) < 0 ? err_sys(err, "remove %s", at->sun_path) : 0;
}

static int listen_unix(struct serve_sockets *s, struct launcher_config *c, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, s->unix_path, sizeof at.sun_path);
    s->unix_path[0] = '\0'; /* not ours yet */
    if (clear_path(&at, err) < 0)
        return err_number(err);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t old = umask(0177);
    int bound = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&at, sizeof at);
    umask(old);
    /* Before the first caller can connect: it holds for later ones alone. */
    if (bound == 0)
        socket_take_no_rights(fd);
    if (bound < 0 || listen(fd, BACKLOG) < 0)
        return err_sys(err, "cannot listen on %s", at.sun_path);
    memcpy(s->unix_path, at.sun_path, sizeof s->unix_path);
    struct listener *l = add(c, fd, "unix", err);
    if (!l)
        return err_number(err);
    fd = -1;
    snprintf(l->address, sizeof l->address, "unix:%s", at.sun_path);
    return 0;
}

/* systemd.socket(5): the sockets stand from descriptor 3 on. */
static int take_passed(struct launcher_config *c, struct err *err)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    uint64_t number = 0, count = 0;
    bool ours = pid && fds && num_parse_uint(pid, &number, NULL) == 0 &&
                number == (uint64_t)getpid() && num_parse_uint(fds, &count, NULL) == 0;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    for (uint64_t i = 0; ours && i < count && i < LAUNCHER_LISTENERS_MAX; i++) {
        int fd = FIRST_PASSED_FD + (int)i, listening = 0;
        struct sockaddr_storage at = {0};
        socklen_t len = sizeof at, size = sizeof listening;
        if (getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 || !listening)
            return err_set(err, ERR_USAGE, "descriptor %d is no listening socket", fd);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
        struct listener *l = add(c, fd, at.ss_family == AF_UNIX ? "unix" : "tcp", err);
        if (!l)
            return err_number(err);
        if (at.ss_family == AF_UNIX)
            snprintf(l->address, sizeof l->address, "unix:%.107s",
                     ((const struct sockaddr_un *)&at)->sun_path);
        else
            name_tcp(c, l);
    }
    return 0;
}

/* The unit of the service names the address that its socket unit has opened already. */
static bool is_passed(const struct launcher_config *c, const char *listen)
{
    char address[sizeof c->listeners[0].address];
    snprintf(address, sizeof address, "%s://%s", scheme(c), listen);
    for (size_t i = 0; i < c->listener_count; i++)
        if (strcmp(c->listeners[i].address, address) == 0)
            return true;
    return false;
}

int serve_listen(struct serve_sockets *s, const struct serve_state *state, const char *listen,
                 const char *socket, struct launcher_config *c, struct err *err)
{
    *s = (struct serve_sockets){0};
    if (take_passed(c, err) < 0)
        return err_number(err);
    bool passed = c->listener_count > 0;
    if (!passed || socket) {
        if (choose_path(state, socket, s->unix_path, err) < 0 || listen_unix(s, c, err) < 0)
            return err_number(err);
        if (socket)
            serve_keep(s->unix_path);
    }
    if (passed && (!listen || is_passed(c, listen)))
        return 0;
    return listen_tcp(c, listen ? listen : DEFAULT_LISTEN, err);
}

void serve_sockets_done(struct serve_sockets *s, struct launcher_config *c)
{
    while (c->listener_count)
        close(c->listeners[--c->listener_count].fd);
    if (s->unix_path[0])
        unlink(s->unix_path);
}

void serve_notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof at.sun_path)
        return;
    memcpy(at.sun_path, path, strlen(path));
    if (path[0] == '@')
        at.sun_path[0] = '\0';
    cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (fd >= 0)
        sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&at, len);
}
