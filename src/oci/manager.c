/* Talks to the service manager at its own socket, which only root, or the user whose manager it is,
 * can reach; see manager.h. */
#include "oci/manager.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "oci/bus.h"
#include "oci/state.h"
#include "os/fd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define SECONDS 60
#define MANAGER "org.freedesktop.systemd1.Manager"
#define PLACE   "/org/freedesktop/systemd1"

struct talk {
    int fd;
    uint32_t serial;
    uint8_t *data; /* of the message that came last */
    struct bus_message message;
    char job[256]; /* that we asked for */
    bool done, failed;
};

static void talk_done(struct talk *t)
{
    if (t->fd >= 0)
        close(t->fd);
    free(t->data);
}

#define cleanup_talk __attribute__((cleanup(talk_done)))

/* ---- the connection ---- */

static int place_of(struct sockaddr_un *at, struct err *err)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    int n;
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!oci_is_users())
        n = snprintf(at->sun_path, sizeof at->sun_path, "/run/systemd/private");
    else if (run && run[0] == '/')
        n = snprintf(at->sun_path, sizeof at->sun_path, "%s/systemd/private", run);
    else
        return err_set(err, ERR_UNSUPPORTED,
                       "--systemd-cgroup: XDG_RUNTIME_DIR does not say where the service manager "
                       "of this user is");
    return n < (int)sizeof at->sun_path
               ? 0
               : err_set(err, ERR_USAGE, "the path of XDG_RUNTIME_DIR is too long");
}

static int receive(int fd, void *data, size_t len, struct err *err)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = recv(fd, (char *)data + have, len - have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "hear from the service manager");
        if (n == 0)
            return err_set(err, ERR_SYSTEM, "the service manager hung up");
        have += (size_t)n;
    }
    return 0;
}

static int send_bytes(int fd, const void *data, size_t len, struct err *err)
{
    ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
    return n == (ssize_t)len ? 0 : err_sys(err, "speak to the service manager");
}

/* "DATA", then "OK" and its name. */
static int expect_line(int fd, const char *begin, struct err *err)
{
    char line[256];
    size_t len = 0;
    do {
        if (len + 1 == sizeof line || receive(fd, line + len, 1, err) < 0)
            return err_set(err, ERR_PROTOCOL, "the service manager said something else than %s",
                           begin);
    } while (line[len++] != '\n');
    line[len] = '\0';
    return text_begins(line, begin)
               ? 0
               : err_set(err, ERR_REFUSED, "the service manager does not let this user in");
}

/* Who we are, the kernel says. A manager that counts processes otherwise would take another one for
 * ours. */
static int greet(int fd, struct err *err)
{
    static const char hello[] = "\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n";
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return err_sys(err, "ask who the service manager is");
    if (peer.pid == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "the service manager is outside of this pid namespace");
    if (send_bytes(fd, hello, sizeof hello - 1, err) < 0 || expect_line(fd, "DATA", err) < 0)
        return err_number(err);
    return expect_line(fd, "OK ", err);
}

static int talk_begin(struct talk *t, struct err *err)
{
    struct sockaddr_un at;
    struct timeval most = {.tv_sec = SECONDS};
    *t = (struct talk){.fd = -1};
    if (place_of(&at, err) < 0)
        return err_number(err);
    t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (t->fd < 0 || setsockopt(t->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) < 0 ||
        setsockopt(t->fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) < 0)
        return err_sys(err, "socket");
    if (connect(t->fd, (struct sockaddr *)&at, sizeof at) < 0) {
        err_sys(err, "reach the service manager at %s", at.sun_path);
        return err_hint(err, "let the engine use the cgroupfs driver where systemd does not run");
    }
    return greet(t->fd, err);
}

/* ---- messages ---- */

static int next_message(struct talk *t, struct err *err)
{
    uint8_t head[16];
    if (receive(t->fd, head, sizeof head, err) < 0)
        return err_number(err);
    size_t len = bus_length(head);
    free(t->data);
    t->data = len ? malloc(len) : NULL;
    if (len && !t->data)
        return err_memory(err);
    if (len) {
        memcpy(t->data, head, sizeof head);
        if (receive(t->fd, t->data + sizeof head, len - sizeof head, err) < 0)
            return err_number(err);
    }
    return len && bus_parse(t->data, len, &t->message)
               ? 0
               : err_set(err, ERR_PROTOCOL, "a message of the service manager is not understood");
}

static int ask(struct talk *t, const char *const to[static 3], const char *signature,
               const struct buf *body, struct err *err)
{
    cleanup_buf struct buf out;
    buf_init(&out, BUS_MESSAGE_MAX);
    bus_call(&out, ++t->serial, to, signature, body);
    if (out.failed || (body && body->failed))
        return err_memory(err);
    if (send_bytes(t->fd, out.data, out.len, err) < 0)
        return err_number(err);
    do {
        if (next_message(t, err) < 0)
            return err_number(err);
    } while (t->message.type == BUS_SIGNAL || t->message.reply_serial != t->serial);
    if (t->message.type != BUS_ERROR)
        return 0;
    const char *why = bus_text_at(&t->message, 0);
    return err_set(err, ERR_REFUSED, "the service manager refuses: %.200s",
                   why                ? why
                   : t->message.error ? t->message.error
                                      : "it does not say why");
}

/* The job of a unit is told to have ended by a signal with four arguments. */
static int await_job(struct talk *t, struct err *err)
{
    const char *job = bus_text_at(&t->message, 0), *which, *result;
    if (!job || snprintf(t->job, sizeof t->job, "%s", job) >= (int)sizeof t->job)
        return err_set(err, ERR_PROTOCOL, "the service manager names no job");
    do {
        if (next_message(t, err) < 0)
            return err_number(err);
        which = bus_text_at(&t->message, 1);
    } while (t->message.type != BUS_SIGNAL || !t->message.member ||
             strcmp(t->message.member, "JobRemoved") != 0 || !which || strcmp(which, t->job) != 0);
    result = bus_text_at(&t->message, 3);
    return result && strcmp(result, "done") == 0
               ? 0
               : err_set(err, ERR_SYSTEM, "the service manager could not do it: %.60s",
                         result ? result : "it does not say why");
}

/* ---- what is asked ---- */

int oci_manager_group(char out[static 512], struct err *err)
{
    static const char *const to[3] = {PLACE, "org.freedesktop.DBus.Properties", "Get"};
    cleanup_talk struct talk t;
    cleanup_buf struct buf body;
    buf_init(&body, 4096);
    bus_string(&body, MANAGER);
    bus_string(&body, "ControlGroup");
    if (talk_begin(&t, err) < 0 || ask(&t, to, "ss", &body, err) < 0)
        return err_number(err);
    const char *group = bus_text_at(&t.message, 0);
    if (!group || (*group && *group != '/') || snprintf(out, 512, "%s", group) >= 512)
        return err_set(err, ERR_PROTOCOL, "the service manager does not say where its groups are");
    return 0;
}

static void put_text(struct buf *b, const char *name, const char *value)
{
    bus_struct(b);
    bus_string(b, name);
    bus_signature(b, "s");
    bus_string(b, value);
}

static void put_bool(struct buf *b, const char *name, bool value)
{
    bus_struct(b);
    bus_string(b, name);
    bus_signature(b, "b");
    bus_bool(b, value);
}

static void put_pid(struct buf *b, pid_t pid)
{
    bus_struct(b);
    bus_string(b, "PIDs");
    bus_signature(b, "au");
    struct bus_array pids = bus_array_begin(b, sizeof(uint32_t));
    bus_u32(b, (uint32_t)pid);
    bus_array_end(b, pids);
}

/* Delegate: the manager leaves what is below the scope alone. The scope ends with the container,
 * however that ends, and its name is free again. */
static void put_scope(struct buf *b, const struct oci_scope *s, pid_t pid)
{
    bus_string(b, s->unit);
    bus_string(b, "fail"); /* another unit of that name is nobody's to take */
    struct bus_array properties = bus_array_begin(b, 8);
    put_text(b, "Description", "a container of brig's");
    put_text(b, "Slice", s->slice);
    put_text(b, "CollectMode", "inactive-or-failed");
    put_bool(b, "Delegate", true);
    put_bool(b, "DefaultDependencies", false);
    put_pid(b, pid);
    bus_array_end(b, properties);
    bus_array_end(b, bus_array_begin(b, 8)); /* no other units */
}

int oci_manager_start(const struct oci_scope *s, pid_t pid, struct err *err)
{
    static const char *const to[3] = {PLACE, MANAGER, "StartTransientUnit"};
    cleanup_talk struct talk t;
    cleanup_buf struct buf body;
    buf_init(&body, 65536);
    put_scope(&body, s, pid);
    if (talk_begin(&t, err) < 0 || ask(&t, to, "ssa(sv)a(sa(sv))", &body, err) < 0 ||
        await_job(&t, err) < 0)
        return err_wrap(err, "make the scope %s", s->unit);
    return 0;
}

void oci_manager_stop(const char *unit)
{
    static const char *const to[3] = {PLACE, MANAGER, "StopUnit"};
    struct err ignored = ERR_INIT;
    cleanup_talk struct talk t;
    cleanup_buf struct buf body;
    buf_init(&body, 4096);
    bus_string(&body, unit);
    bus_string(&body, "replace");
    if (talk_begin(&t, &ignored) == 0 && ask(&t, to, "ss", &body, &ignored) == 0)
        (void)await_job(&t, &ignored);
}
