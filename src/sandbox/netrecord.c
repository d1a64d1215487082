/* Keeps the network record of a run up to date in the caller's state folder, for `brig net`, and
 * takes new rules for a run that lives. */
#include "sandbox/netrecord.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "network/channel.h"
#include "os/fd.h"
#include "os/runstate.h"
#include "sandbox/egress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RECORD_MAX  (1u << 20)
#define RECORDS_MAX 100
#define WRITE_US    500000u
#define ANSWER_S    30

/* A name without a file: it is gone when the supervisor is, however that ended. Both sides look at
 * who the other one is. The sandbox cannot name it: its network namespace is another, or it has no
 * UNIX sockets. */
static socklen_t socket_name(const char *id, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "%s-net", id);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

void netrecord_init(struct netrecord *r)
{
    *r = (struct netrecord){.dir = -1, .listen_fd = -1, .client_fd = -1};
}

static void listen_for_changes(struct netrecord *r)
{
    struct sockaddr_un name;
    socklen_t len = socket_name(r->id, &name);
    r->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->listen_fd < 0)
        return;
    if (bind(r->listen_fd, (struct sockaddr *)&name, len) < 0 || listen(r->listen_fd, 4) < 0) {
        close(r->listen_fd);
        r->listen_fd = -1;
    }
}

void netrecord_open(struct netrecord *r, const char *id)
{
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(r->started, sizeof r->started, "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(r->id, sizeof r->id, "%s", id);
    listen_for_changes(r);
    r->dir = runstate_open("net", true);
}

static void record_json(const struct netrecord *r, const struct netlog *log, const struct egress *e,
                        bool last, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "sandbox_id", r->id);
    jw_kv_string(&w, "state", last ? "ended" : "running");
    jw_kv_string(&w, "started", r->started);
    jw_kv_int(&w, "supervisor", last ? 0 : getpid());
    jw_key(&w, "rules");
    jw_array_begin(&w);
    for (size_t i = 0; i < e->rule_count; i++)
        jw_string(&w, e->rules[i].text);
    jw_array_end(&w);
    jw_key(&w, "network");
    netlog_write_json(log, &w, true);
    jw_object_end(&w);
}

/* Whole or not at all: a reader never sees half a record. */
static void replace_file(int dir, const char *name, const struct buf *text)
{
    char fresh[64];
    snprintf(fresh, sizeof fresh, ".%s.new", name);
    cleanup_fd int fd =
        openat(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, text->data, text->len) == (ssize_t)text->len &&
        renameat(dir, fresh, dir, name) == 0)
        return;
    unlinkat(dir, fresh, 0);
}

void netrecord_write(struct netrecord *r, const struct netlog *log, const struct egress *e,
                     bool last)
{
    uint64_t now = clock_us();
    if (r->dir < 0 || (!last && now - r->written_us < WRITE_US))
        return;
    r->written_us = now;
    cleanup_buf struct buf text;
    char name[48];
    buf_init(&text, RECORD_MAX);
    record_json(r, log, e, last, &text);
    snprintf(name, sizeof name, "%s.json", r->id);
    if (!text.failed)
        replace_file(r->dir, name, &text);
}

void netrecord_forget(struct netrecord *r)
{
    char name[48];
    snprintf(name, sizeof name, "%s.json", r->id);
    if (r->dir >= 0)
        unlinkat(r->dir, name, 0);
}

static bool is_caller(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static int read_rules(int fd, struct egress *ret)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0 || sb.st_size <= 0 || sb.st_size > RECORD_MAX)
        return -EINVAL;
    size_t len = (size_t)sb.st_size;
    cleanup_free char *text = malloc(len);
    struct json *root = NULL;
    if (!text || pread(fd, text, len, 0) != (ssize_t)len ||
        json_parse(text, len, &json_default_limits, &root, NULL) < 0)
        return -EINVAL;
    egress_init(ret);
    int r = egress_read_json(ret, root, NULL);
    json_free(root);
    if (r < 0)
        egress_done(ret);
    return r < 0 ? -EINVAL : 0;
}

int netrecord_accept(struct netrecord *r, struct egress *ret)
{
    static const struct timeval patience = {.tv_usec = 200000};
    cleanup_fd int fd = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    cleanup_fd int rules = -1;
    struct channel_msg *msg = fd >= 0 && r->client_fd < 0 ? calloc(1, sizeof *msg) : NULL;
    if (!msg)
        return 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    bool good = is_caller(fd) && channel_receive(fd, msg, &rules, NULL) > 0 &&
                msg->type == CH_CONFIG && rules >= 0 && read_rules(rules, ret) == 0;
    free(msg);
    if (good)
        r->client_fd = fd_steal(&fd);
    return good;
}

void netrecord_answer(struct netrecord *r, bool good, unsigned ended, const char *why)
{
    struct err err = ERR_INIT;
    if (r->client_fd < 0)
        return;
    if (!good)
        err_set(&err, ERR_SYSTEM, "%s", why);
    channel_send(r->client_fd, good ? CH_REPLACED : CH_FAIL, ended, 0, NULL, -1,
                 good ? NULL : &err);
    close(r->client_fd);
    r->client_fd = -1;
}

void netrecord_done(struct netrecord *r)
{
    if (r->listen_fd >= 0)
        close(r->listen_fd);
    if (r->client_fd >= 0)
        close(r->client_fd);
    if (r->dir >= 0)
        close(r->dir);
    netrecord_init(r);
}

/* ---- for the command line ---- */

static int no_record(const char *id, struct err *err)
{
    err_set(err, ERR_USAGE, "there is no record of a network of %s", id);
    return err_hint(err, "`brig net` lists what there is; runs without --allow leave no record");
}

static int read_record(int dir, const char *id, struct buf *ret)
{
    char name[48];
    snprintf(name, sizeof name, "%s.json", id);
    buf_init(ret, RECORD_MAX);
    cleanup_free char *text = malloc(RECORD_MAX + 1);
    ssize_t n = text ? file_read(dir, name, text, RECORD_MAX + 1) : -ENOMEM;
    if (n <= 0)
        return -ENOENT;
    buf_add(ret, text, (size_t)n);
    return 0;
}

int netrecord_read(const char *id, struct buf *ret, struct err *err)
{
    cleanup_fd int dir = runstate_open("net", false);
    if (!run_id_valid(id) || dir < 0 || read_record(dir, id, ret) < 0)
        return no_record(id, err);
    return 0;
}

struct listed {
    char id[32];
    int64_t when_ns;
};

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const struct listed *)a)->when_ns, y = ((const struct listed *)b)->when_ns;
    return x < y ? 1 : x > y ? -1 : 0;
}

static bool take_entry(int dir, const char *name, struct listed *ret)
{
    struct stat sb;
    size_t len = strlen(name);
    if (len < 6 || len - 5 >= sizeof ret->id || strcmp(name + len - 5, ".json") != 0)
        return false;
    memcpy(ret->id, name, len - 5);
    ret->id[len - 5] = '\0';
    if (!run_id_valid(ret->id) || fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    ret->when_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    return true;
}

static size_t list_dir(int dir, struct listed **ret)
{
    size_t count = 0, room = 0;
    int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    DIR *d = folder_take(copy);
    struct listed one;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!take_entry(dir, e->d_name, &one))
            continue;
        if (count == room) {
            struct listed *more = realloc(*ret, (room = room * 2 + 64) * sizeof *more);
            if (!more)
                break;
            *ret = more;
        }
        (*ret)[count++] = one;
    }
    if (d)
        closedir(d);
    if (count)
        qsort(*ret, count, sizeof **ret, newest_first);
    return count;
}

int netrecord_list(void (*fn)(void *ctx, const char *id, const char *json), void *ctx,
                   struct err *err)
{
    (void)err;
    cleanup_fd int dir = runstate_open("net", false);
    cleanup_free struct listed *all = NULL;
    size_t count = dir < 0 ? 0 : list_dir(dir, &all);
    for (size_t i = 0; i < count; i++) {
        cleanup_buf struct buf text = {0};
        char name[48];
        snprintf(name, sizeof name, "%s.json", all[i].id);
        if (i >= RECORDS_MAX)
            unlinkat(dir, name, 0);
        else if (read_record(dir, all[i].id, &text) == 0)
            fn(ctx, all[i].id, buf_text(&text));
    }
    return 0;
}

static int await_answer(int fd, unsigned *ret_ended, struct err *err)
{
    int none = -1;
    cleanup_free struct channel_msg *msg = calloc(1, sizeof *msg);
    if (!msg)
        return err_memory(err);
    int r = channel_receive(fd, msg, &none, err);
    if (none >= 0)
        close(none);
    if (r > 0 && msg->type == CH_REPLACED) {
        *ret_ended = msg->value;
        return 0;
    }
    if (r > 0 && msg->type == CH_FAIL) {
        *err = msg->err;
        return err_number(err);
    }
    return err_set(err, ERR_REFUSED, "the run did not take the new rules");
}

static int not_running(const char *id, struct err *err)
{
    err_set(err, ERR_REFUSED, "%s does not run any more: its rules cannot be changed", id);
    return err_number(err);
}

int netrecord_replace(const char *id, const struct egress *e, unsigned *ret_ended, struct err *err)
{
    static const struct timeval patience = {.tv_sec = ANSWER_S};
    struct sockaddr_un name;
    if (!run_id_valid(id))
        return no_record(id, err);
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, RECORD_MAX);
    jw_init(&w, &text, false);
    egress_write_json(e, &w);
    cleanup_fd int rules = memfd_sealed("brig-egress", text.data, text.len, false, err);
    if (rules < 0)
        return err_number(err);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t len = socket_name(id, &name);
    if (fd < 0 || connect(fd, (struct sockaddr *)&name, len) < 0 || !is_caller(fd))
        return not_running(id, err);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (channel_send(fd, CH_CONFIG, 0, 0, NULL, rules, NULL) < 0)
        return not_running(id, err);
    return await_answer(fd, ret_ended, err);
}
