/* File work on behalf of a call: see work.h. */
#include "daemon/api/work.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void work_stop(struct work *w)
{
    file_cancel(w->file);
    w->file = NULL;
}

void work_pause(struct work *w, bool pause)
{
    if (w->file)
        file_pause(w->file, pause);
}

void work_fail(struct activity *a, int error, const char *path)
{
    const char *hint = error == EXDEV ? "; a folder goes to another file system by mv, in a command"
                       : error == EROFS ? "; write below " HOME_PATH
                                          " or /tmp, or use a template whose "
                                          "policy says filesystem: {writable_root: true}"
                                        : "";
    call_fail(activity_end(a), errno_status(error), "%.256s: %s%s", path, errno_text(error), hint);
}

/* ---- start ---- */

static void on_started(void *ctx, struct file_work *file, int in_fd, const struct err *err)
{
    struct work *w = ctx;
    w->file = file;
    if (w->of->ended) {
        /* Cancelled before its input ends: half an upload is not a file. */
        work_stop(w);
        if (in_fd >= 0)
            close(in_fd);
    }
    if (!activity_back(w->of))
        return;
    if (w->started)
        w->started(w->ctx, in_fd, file ? NULL : err);
    else if (!file)
        call_fail_err(activity_end(w->of), err);
}

static const char prefix[] = "X-Metadata-";

bool work_has_metadata(const struct http_headers *h)
{
    for (size_t i = 0; i < h->count; i++)
        if (strncasecmp(h->items[i].name, prefix, sizeof(prefix) - 1) == 0)
            return true;
    return false;
}

void work_write_metadata(struct json_writer *w, const struct http_headers *h)
{
    jw_kv_object(w, "metadata");
    for (size_t i = 0; i < h->count; i++) {
        char name[256];
        size_t n = 0;
        const char *at = h->items[i].name + sizeof(prefix) - 1;
        if (strncasecmp(h->items[i].name, prefix, sizeof(prefix) - 1) != 0)
            continue;
        for (; at[n] && n + 1 < sizeof(name); n++)
            name[n] = (char)tolower((unsigned char)at[n]);
        name[n] = '\0';
        jw_kv_string(w, name, h->items[i].value);
    }
    jw_object_end(w);
}

void path_write(struct json_writer *w, const char *key, const char *path)
{
    size_t len = strnlen(path, FILES_TEXT_MAX + 1);
    char text[UTF8_ESCAPED_MAX(FILES_TEXT_MAX + 1)];
    jw_kv_bytes(w, key, text, utf8_mend(path, len, text));
}

/* "~" and "~/x"; the others are names like any other, as there is nobody else inside. */
static bool is_of_home(const char *path)
{
    return path[0] == '~' && (path[1] == '\0' || path[1] == '/');
}

static void write_path(struct json_writer *w, const struct box *b, bool as_root, const char *key,
                       const char *path)
{
    char whole[FILES_PATH_MAX + 1];
    if (is_of_home(path) && strlen(path) < FILES_PATH_MAX - sizeof(HOME_PATH)) {
        path_absolute(b, as_root, path, whole);
        path = whole;
    }
    path_write(w, key, path);
}

static void write_request(struct buf *out, const struct box *b, const struct work_request *r)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "op", files_op_name(r->op));
    write_path(&w, b, r->as_root, "path", r->path);
    if (r->to)
        write_path(&w, b, r->as_root, "to", r->to);
    if (r->as_root)
        jw_kv_string(&w, "user", "root");
    if (r->limit)
        jw_kv_uint(&w, "limit", r->limit);
    if (r->depth)
        jw_kv_uint(&w, "depth", r->depth);
    if (r->recursive)
        jw_kv_bool(&w, "recursive", true);
    if (r->metadata)
        work_write_metadata(&w, r->metadata);
    jw_object_end(&w);
}

void work_start(struct work *w, struct activity *of, struct box *b, const struct work_request *r,
                const struct files_sink *sink, work_fn *started)
{
    struct buf text cleanup_buf = {0};
    struct err err = ERR_INIT;
    work_stop(w);
    *w = (struct work){.of = of, .started = started, .ctx = sink->ctx};
    buf_init(&text, 128u * 1024);
    write_request(&text, b, r);
    activity_wait(of);
    if (text.failed) {
        err_set(&err, ERR_USAGE, "the request is too long");
        on_started(w, NULL, -1, &err);
    } else {
        file_start(b, text.data, text.len, r->op, sink, on_started, w);
    }
}

/* ---- errors ---- */

int errno_status(int error)
{
    switch (error) {
    case ENOENT:
        return 404;
    case EEXIST:
        return 409;
    case EISDIR:
    case ENOTDIR:
    case EINVAL:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTEMPTY:
    case EXDEV:
    case EBUSY:
        return 400;
    case EACCES:
    case EPERM:
    case EROFS:
        return 403;
    case EFBIG:
        return 413;
    case ENOSPC:
    case EDQUOT:
        return 507;
    default:
        return 500;
    }
}

const char *errno_text(int error)
{
    switch (error) {
    case EISDIR:
        return "is a folder";
    case EINVAL:
        return "is no regular file";
    case EFBIG:
        return "is too large";
    default:
        return strerror(error);
    }
}

/* ---- entries ---- */

void path_absolute(const struct box *b, bool as_root, const char *path,
                   char out[static FILES_PATH_MAX + 1])
{
    const char *home = as_root ? "/root" : HOME_PATH;
    if (is_of_home(path)) {
        home = as_root || box_info(b)->root ? "/root" : HOME_PATH;
        path += 1 + strspn(path + 1, "/");
    }
    if (*path == '/')
        snprintf(out, FILES_PATH_MAX + 1, "%s", path);
    else
        snprintf(out, FILES_PATH_MAX + 1, *path ? "%s/%s" : "%s", home, path);
}

/* As Go writes a mode, which clients expect: letters for what is special, then nine for the rest.
 */
static void permissions(const struct files_entry *e, char out[static 16])
{
    static const char bits[] = "rwxrwxrwx";
    char *at = out;
    if (e->kind == FILES_DIRECTORY)
        *at++ = 'd';
    if (e->kind == FILES_SYMLINK)
        *at++ = 'L';
    if (e->mode & S_ISUID)
        *at++ = 'u';
    if (e->mode & S_ISGID)
        *at++ = 'g';
    if (e->mode & S_ISVTX)
        *at++ = 't';
    if (at == out)
        *at++ = '-';
    for (int i = 0; i < 9; i++)
        *at++ = e->mode & (0400u >> i) ? bits[i] : '-';
    *at = '\0';
}

/* There is at most one user inside beside root. */
static void write_owner(struct json_writer *w, const char *key, uint32_t id)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", id);
    jw_kv_string(w, key, id == 0 ? "root" : id == 1000 ? "user" : text);
}

static void write_bytes(struct json_writer *w, const char *key, const char *text)
{
    jw_kv_bytes(w, key, text, strlen(text));
}

bool entry_time(const struct files_entry *e, char out[static ENTRY_TIME_SIZE])
{
    time_t seconds = (time_t)e->mtime_sec;
    struct tm tm;
    /* What RFC 3339 can say; a file may claim any time. */
    if (e->mtime_sec < -62135596800 || e->mtime_sec > 253402300799 || !gmtime_r(&seconds, &tm))
        return false;
    snprintf(out, ENTRY_TIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%09uZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
             e->mtime_nsec % 1000000000u);
    return true;
}

static void write_modified(struct json_writer *w, const struct files_entry *e)
{
    char text[ENTRY_TIME_SIZE];
    if (entry_time(e, text))
        jw_kv_string(w, "modifiedTime", text);
}

static void write_attributes(struct json_writer *w, const struct files_entry *e)
{
    size_t at = 0;
    if (!e->metadata_len)
        return;
    jw_kv_object(w, "metadata");
    while (at < e->metadata_len) {
        const char *name = e->metadata + at;
        const char *value = name + strlen(name) + 1;
        jw_kv_bytes(w, name, value, strlen(value));
        at = (size_t)(value + strlen(value) + 1 - e->metadata);
    }
    jw_object_end(w);
}

/* A link has the type and the mode of what it leads to, as with E2B; one that leads nowhere has
 * neither, and leads to itself. */
void entry_write(struct json_writer *w, const struct files_entry *e)
{
    static const char *const types[] = {[0] = "FILE_TYPE_UNSPECIFIED",
                                        [FILES_REGULAR] = "FILE_TYPE_FILE",
                                        [FILES_DIRECTORY] = "FILE_TYPE_DIRECTORY",
                                        [FILES_OTHER] = "FILE_TYPE_UNSPECIFIED"};
    bool is_link = e->kind == FILES_SYMLINK;
    char mode[16], size[24];
    const char *slash = strrchr(e->path, '/');
    permissions(e, mode);
    snprintf(size, sizeof(size), "%llu", (unsigned long long)e->size);
    jw_object_begin(w);
    write_bytes(w, "name", slash && slash[1] ? slash + 1 : e->path);
    jw_kv_string(w, "type", types[is_link ? e->target_kind : e->kind]);
    write_bytes(w, "path", e->path);
    jw_kv_string(w, "size", size);
    jw_kv_uint(w, "mode", (is_link ? e->target_mode : e->mode) & 0777);
    jw_kv_string(w, "permissions", mode);
    write_owner(w, "owner", e->uid);
    write_owner(w, "group", e->gid);
    write_modified(w, e);
    if (is_link)
        write_bytes(w, "symlinkTarget", e->target_kind ? e->target : e->path);
    write_attributes(w, e);
    jw_object_end(w);
}
