/* Any bytes as the answer of a file worker: refused, or everything that comes out is bounded, in
 * order and clean, whatever the pieces in which it came. The first byte is the operation, the
 * second the size of the pieces. */
#include "files/files.h"

#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

struct seen {
    enum files_op op;
    unsigned heads, ends, entries;
    uint64_t promised, bytes, hash;
    int error, end;
};

static void mix(struct seen *s, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++)
        s->hash = (s->hash ^ at[i]) * 1099511628211u;
}

static void check_path(const char *path)
{
    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "/");
        require(n > 0 && !(n == 1 && at[0] == '.') && !(n == 2 && memcmp(at, "..", 2) == 0));
        at += n;
        require(*at != '/' || at[1]);
        at += *at == '/';
    }
}

static void on_head(void *ctx, int error, uint64_t size)
{
    struct seen *s = ctx;
    require(s->heads++ == 0 && s->ends == 0 && error >= 0 && error < 4096);
    s->error = error;
    s->promised = size;
}

static void on_entry(void *ctx, const struct files_entry *e)
{
    struct seen *s = ctx;
    require(s->heads == 1 && s->ends == 0 && s->error == 0);
    require(++s->entries <= FILES_ENTRIES_MAX && (s->op == FILES_LIST || s->entries == 1));
    require(strnlen(e->path, sizeof e->path) <= FILES_PATH_MAX && e->path[0] == '/');
    check_path(e->path + 1);
    require(strnlen(e->target, sizeof e->target) <= FILES_PATH_MAX);
    require((unsigned)e->target_kind <= FILES_OTHER && e->target_kind != FILES_SYMLINK);
    require(e->target_mode <= 07777 && (e->target_kind == 0 || e->kind == FILES_SYMLINK));
    require(e->kind >= FILES_REGULAR && e->kind <= FILES_OTHER && e->mode <= 07777);
    require(e->metadata_len <= sizeof e->metadata);
    size_t at = 0;
    while (at < e->metadata_len) {
        size_t n = strnlen(e->metadata + at, e->metadata_len - at);
        require(n > 0 && at + n < e->metadata_len);
        at += n + 1;
        at += strnlen(e->metadata + at, e->metadata_len - at) + 1;
    }
    require(at == e->metadata_len);
    mix(s, e->path, strlen(e->path));
}

static void on_event(void *ctx, const struct files_event *e)
{
    struct seen *s = ctx;
    require(s->op == FILES_WATCH && s->heads == 1 && s->ends == 0 && s->error == 0);
    require(e->kind >= FILES_CREATE && e->kind <= FILES_CHMOD && e->name[0]);
    check_path(e->name);
    mix(s, e->name, strlen(e->name));
}

static void on_data(void *ctx, const void *bytes, size_t len)
{
    struct seen *s = ctx;
    require(s->op == FILES_READ && s->heads == 1 && s->ends == 0 && s->error == 0 && len > 0);
    s->bytes += len;
    require(s->bytes <= s->promised);
    mix(s, bytes, len);
}

static void on_end(void *ctx, int error)
{
    struct seen *s = ctx;
    require(s->heads == 1 && s->ends++ == 0);
    require(!s->error || s->error == error);
    require(error || s->op != FILES_READ || s->bytes == s->promised);
    s->end = error;
}

static int read_all(struct seen *s, enum files_op op, const uint8_t *data, size_t size, size_t step)
{
    struct files_sink sink = {on_head, on_entry, on_event, on_data, on_end, s};
    struct files_reader *r;
    struct err err = ERR_INIT;
    *s = (struct seen){.op = op};
    require(files_reader_new(&r, op, &sink, &err) == 0);
    int done = 0;
    for (size_t at = 0; at < size && done == 0; at += step)
        done = files_reader_feed(r, data + at, step < size - at ? step : size - at, &err);
    if (done == 0)
        done = files_reader_finish(r, &err);
    require((done < 0) == (err.code == ERR_PROTOCOL));
    require(done < 0 || (s->heads == 1 && s->ends == 1));
    files_reader_free(r);
    return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole, parts;
    if (size < 2)
        return 0;
    enum files_op op = (enum files_op)(1 + data[0] % (FILES_OP_COUNT - 1));
    size_t step = 1u + data[1];
    int one = read_all(&whole, op, data + 2, size - 2, size);
    int two = read_all(&parts, op, data + 2, size - 2, step);
    require((one < 0) == (two < 0));
    require(whole.hash == parts.hash && whole.entries == parts.entries &&
            whole.bytes == parts.bytes && whole.ends == parts.ends && whole.end == parts.end);
    return 0;
}
