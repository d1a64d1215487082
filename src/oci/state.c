/* The folder of a container's state; see state.h. */
#include "oci/state.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define STATE_FILE "state.json"

const char *oci_status_name(enum oci_status s)
{
    static const char *const names[] = {"creating", "created", "running", "paused", "stopped"};
    return names[s];
}

/* ---- files ---- */

char *oci_file_read(int dir, const char *path, size_t max, size_t *len, struct err *err)
{
    struct stat sb;
    cleanup_fd int fd =
        openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0) {
        err_sys(err, "open %s", path);
        return NULL;
    }
    if (!S_ISREG(sb.st_mode)) {
        err_set(err, ERR_REFUSED, "%s is not a plain file", path);
        return NULL;
    }
    if ((uint64_t)sb.st_size > max) {
        err_set(err, ERR_LIMIT, "%s is over %zu bytes", path, max);
        return NULL;
    }
    size_t room = (size_t)sb.st_size + 1, have = 0;
    cleanup_free char *text = malloc(room);
    if (!text) {
        err_memory(err);
        return NULL;
    }
    for (ssize_t n; have < room - 1 && (n = read(fd, text + have, room - 1 - have)) != 0;
         have += (size_t)n)
        if (n < 0) {
            err_sys(err, "read %s", path);
            return NULL;
        }
    text[have] = '\0';
    *len = have;
    char *taken = text;
    text = NULL;
    return taken;
}

int oci_file_replace(int dir, const char *name, const void *data, size_t len, mode_t mode,
                     struct err *err)
{
    char fresh[300];
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return err_sys(err, "random number");
    snprintf(fresh, sizeof fresh, ".brig-%016llx", (unsigned long long)number);
    cleanup_fd int fd =
        openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return err_sys(err, "make %s", name);
    if (fd_write_all(fd, data, len) < 0 || renameat(dir, fresh, dir, name) < 0) {
        err_sys(err, "write %s", name);
        unlinkat(dir, fresh, 0);
        return err_number(err);
    }
    return 0;
}

/* ---- folders ---- */

/* Engines of ordinary users (podman) make a user namespace, in which the user is root, and call
 * from there: such a root has the user's rights over the host and no others. */
bool oci_is_users(void)
{
    char map[256], word[16];
    unsigned inside, outside, count;
    if (geteuid() != 0)
        return true;
    if (file_read(AT_FDCWD, "/proc/self/setgroups", word, sizeof word) > 0 &&
        text_begins(word, "deny"))
        return true;
    return file_read(AT_FDCWD, "/proc/self/uid_map", map, sizeof map) > 0 &&
           sscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && count == 1;
}

static int usual_root(char out[static 512], struct err *err)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    if (!oci_is_users() && (!run || getuid() == 0)) {
        snprintf(out, 512, "/run/brig-oci");
        return 0;
    }
    if (!run || run[0] != '/') {
        err_set(err, ERR_USAGE, "where is the state to be kept?");
        return err_hint(err, "give --root DIR, or set XDG_RUNTIME_DIR");
    }
    snprintf(out, 512, "%s/brig-oci", run);
    return 0;
}

static void make_folders(const char *path)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            mkdir(part, 0711);
            *at = '/';
        }
    mkdir(part, 0700);
}

int oci_root_open(const char *root, bool make, struct err *err)
{
    char usual[512];
    struct stat sb;
    if (!root && usual_root(usual, err) < 0)
        return err_number(err);
    root = root ? root : usual;
    if (make)
        make_folders(root);
    cleanup_fd int fd = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return err_sys(err, "open the state folder %s", root);
    if (sb.st_uid != geteuid() || (sb.st_mode & 022)) {
        err_set(err, ERR_REFUSED, "the state folder %s can be changed by others", root);
        return err_hint(
            err,
            "it must belong to you and be writable by nobody else: chmod go-w, or another --root");
    }
    return fd_steal(&fd);
}

static int lock(struct oci_state *s, struct err *err)
{
    return flock(s->dir_fd, LOCK_EX) < 0 ? err_sys(err, "lock the state of %s", s->id) : 0;
}

int oci_state_make(struct oci_state *s, int root_fd, const char *id, struct err *err)
{
    struct tm tm;
    time_t now = time(NULL);
    *s = (struct oci_state){.root_fd = root_fd, .dir_fd = -1};
    snprintf(s->id, sizeof s->id, "%s", id);
    if (mkdirat(root_fd, id, 0700) < 0) {
        if (errno != EEXIST)
            return err_sys(err, "make the state of %s", id);
        err_set(err, ERR_REFUSED, "container with id exists: %s", id);
        return err_hint(err, "choose another id, or delete that one");
    }
    s->dir_fd = openat(root_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->dir_fd < 0)
        return err_sys(err, "open the state of %s", id);
    strftime(s->created, sizeof s->created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    return lock(s, err);
}

static void copy(char *out, size_t size, const struct json *j, const char *key)
{
    snprintf(out, size, "%s", json_shown(j, key));
}

static int load(struct oci_state *s, struct err *err)
{
    size_t len;
    struct json *j = NULL;
    cleanup_free char *text = oci_file_read(s->dir_fd, STATE_FILE, 65536, &len, err);
    if (!text)
        return err->sys_errno == ENOENT ? 0
                                        : err_number(err); /* still being made, or never finished */
    if (json_parse(text, len, &json_default_limits, &j, err) < 0)
        return err_wrap(err, "state of %s", s->id);
    copy(s->bundle, sizeof s->bundle, j, "bundle");
    copy(s->cgroup, sizeof s->cgroup, j, "cgroup");
    copy(s->scope, sizeof s->scope, j, "scope");
    copy(s->created, sizeof s->created, j, "created");
    copy(s->version, sizeof s->version, j, "version");
    s->pid = (pid_t)json_number(j, "pid");
    s->start = json_uint(j, "start");
    s->started = json_flag(j, "started");
    s->hooked = json_flag(j, "hooked");
    s->grouped = json_flag(j, "grouped");
    s->host_writable = json_flag(j, "host_writable");
    s->maps_host_root = json_flag(j, "maps_host_root");
    s->porter = (pid_t)json_number(j, "porter");
    s->porter_start = json_uint(j, "porter_start");
    s->proxy_port = (uint16_t)json_uint(j, "proxy_port");
    s->sign = json_flag(j, "sign");
    s->sealed_network = json_flag(j, "sealed_network");
    /* Made before there was another one. */
    if (tier_parse(json_shown(j, "tier"), &s->tier) < 0)
        s->tier = TIER_CONTAINER;
    json_free(j);
    return 0;
}

int oci_state_open(struct oci_state *s, int root_fd, const char *id, struct err *err)
{
    *s = (struct oci_state){.root_fd = root_fd, .dir_fd = -1};
    snprintf(s->id, sizeof s->id, "%s", id);
    s->dir_fd =
        root_fd < 0 ? -1 : openat(root_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->dir_fd < 0 && (root_fd < 0 || errno == ENOENT)) {
        err_set(err, ERR_NOT_FOUND, "container does not exist: %s", id);
        return err_hint(err, "brig oci list shows those of this --root");
    }
    if (s->dir_fd < 0)
        return err_sys(err, "open the state of %s", id);
    if (lock(s, err) < 0 || load(s, err) < 0) {
        if (err->sys_errno == ENOENT) /* deleted while we waited for the lock */
            err->code = ERR_NOT_FOUND;
        return err_number(err);
    }
    *err = (struct err)ERR_INIT;
    return 0;
}

int oci_state_save(const struct oci_state *s, struct err *err)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    jw_begin(&w, &out, 65536);
    jw_kv_string(&w, "id", s->id);
    jw_kv_string(&w, "version", s->version);
    jw_kv_string(&w, "bundle", s->bundle);
    jw_kv_string(&w, "cgroup", s->cgroup);
    jw_kv_string(&w, "scope", s->scope);
    jw_kv_string(&w, "created", s->created);
    jw_kv_int(&w, "pid", s->pid);
    jw_kv_uint(&w, "start", s->start);
    jw_kv_bool(&w, "started", s->started);
    jw_kv_bool(&w, "hooked", s->hooked);
    jw_kv_bool(&w, "grouped", s->grouped);
    jw_kv_bool(&w, "host_writable", s->host_writable);
    jw_kv_bool(&w, "maps_host_root", s->maps_host_root);
    jw_kv_int(&w, "porter", s->porter);
    jw_kv_uint(&w, "porter_start", s->porter_start);
    jw_kv_uint(&w, "proxy_port", s->proxy_port);
    jw_kv_bool(&w, "sign", s->sign);
    jw_kv_bool(&w, "sealed_network", s->sealed_network);
    jw_kv_string(&w, "tier", tier_name(s->tier));
    jw_object_end(&w);
    if (out.failed)
        return err_set(err, ERR_LIMIT, "the state of %s is too long", s->id);
    return oci_file_replace(s->dir_fd, STATE_FILE, out.data, out.len, 0600, err);
}

int oci_state_keep_config(const struct oci_state *s, const char *text, size_t len, struct err *err)
{
    return oci_file_replace(s->dir_fd, OCI_CONFIG_COPY, text, len, 0600, err);
}

char *oci_state_config(const struct oci_state *s, size_t *len, struct err *err)
{
    return oci_file_read(s->dir_fd, OCI_CONFIG_COPY, OCI_CONFIG_MAX, len, err);
}

/* ---- what it is doing ---- */

bool oci_state_alive(const struct oci_state *s)
{
    struct proc_stat st;
    return s->pid > 0 && procfs_stat(s->pid, &st) && st.start == s->start && !st.ended;
}

int oci_state_pidfd(const struct oci_state *s)
{
    cleanup_fd int fd = s->pid > 0 ? sys_pidfd_open(s->pid) : -1;
    if (fd < 0 || !oci_state_alive(s)) {
        errno = ESRCH;
        return -ESRCH;
    }
    return fd_steal(&fd);
}

enum oci_status oci_state_status(const struct oci_state *s)
{
    struct oci_cgroup g;
    if (s->pid == 0)
        return OCI_CREATING;
    if (!oci_state_alive(s))
        return OCI_STOPPED;
    if (!s->started)
        return OCI_CREATED;
    bool frozen = s->grouped && oci_cgroup_find(s->cgroup, &g, NULL) == 0 && oci_cgroup_frozen(&g);
    return frozen ? OCI_PAUSED : OCI_RUNNING;
}

/* Also what somebody who was killed had begun to write. What says what the rest is goes last: who
 * finds some of it left still knows whose. */
void oci_state_remove(struct oci_state *s)
{
    DIR *dir = s->dir_fd < 0 ? NULL : folder_open(s->dir_fd, ".");
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            strcmp(e->d_name, STATE_FILE) != 0)
            unlinkat(s->dir_fd, e->d_name, 0);
    if (dir)
        closedir(dir);
    if (s->dir_fd >= 0) {
        unlinkat(s->dir_fd, STATE_FILE, 0);
        unlinkat(s->root_fd, s->id, AT_REMOVEDIR);
    }
}

void oci_state_done(struct oci_state *s)
{
    if (s->dir_fd >= 0) {
        flock(s->dir_fd, LOCK_UN); /* a child may share it for a moment longer */
        close(s->dir_fd);
    }
    s->dir_fd = -1;
}

void oci_state_write(const struct oci_state *s, enum oci_status status,
                     const struct json *annotations, struct json_writer *w)
{
    jw_object_begin(w);
    jw_kv_string(w, "ociVersion", s->version[0] ? s->version : OCI_VERSION);
    jw_kv_string(w, "id", s->id);
    jw_kv_string(w, "status", oci_status_name(status));
    jw_kv_int(w, "pid", status == OCI_STOPPED ? 0 : s->pid);
    jw_kv_string(w, "bundle", s->bundle);
    jw_kv_string(w, "created", s->created);
    if (json_count(annotations))
        jw_kv_json(w, "annotations", annotations);
    jw_object_end(w);
}
