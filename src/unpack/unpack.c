/* From a stream to a folder: libarchive takes off the compression, then reads the tar that is in
 * it. Two readers in a row, because the digest that a config names is that of the tar; a thread of
 * its own makes that digest (hasher.c). */
#include "unpack/unpack.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/layer_marks.h"
#include "base/quote.h"
#include "base/text.h"
#include "unpack/hasher.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256u << 10) /* of what is still compressed */

struct source {
    struct archive *plain; /* without compression */
    struct hasher hasher;
    uint64_t left; /* bytes that may still come */
    bool too_much;
};

static void archive_done(struct archive **a)
{
    archive_read_free(*a);
}
#define cleanup_archive __attribute__((cleanup(archive_done)))

/* libarchive's words may have the archive's in them. */
static int broken(struct archive *a, const char *what, struct err *err)
{
    struct quoted q;
    const char *why = archive_error_string(a);
    int code = archive_errno(a);
    if (code == ENOMEM)
        return err_set(err, ERR_LIMIT, "%s: it asks for more memory than there is", what);
    return err_set(err, ERR_REFUSED, "%s: %s", what, quote(&q, why ? why : "it is damaged"));
}

/* The next piece without compression, which is on its way to the digest. */
static ssize_t next_piece(struct source *s, const void **ret)
{
    char *room = hasher_room(&s->hasher);
    ssize_t n = archive_read_data(s->plain, room, HASHER_PIECE);
    if (n <= 0)
        return n;
    if ((uint64_t)n > s->left) {
        s->too_much = true;
        return n;
    }
    s->left -= (uint64_t)n;
    hasher_add(&s->hasher, (size_t)n);
    *ret = room;
    return n;
}

static ssize_t read_plain(struct archive *a, void *ctx, const void **ret)
{
    struct source *s = ctx;
    ssize_t n = next_piece(s, ret);
    if (n >= 0 && !s->too_much)
        return n;
    if (n < 0)
        archive_set_error(a, EIO, "%s", archive_error_string(s->plain));
    else
        archive_set_error(a, EFBIG, "too large");
    return -1;
}

/* ---- one entry ---- */

static int too_large(const struct unpack *u, struct err *err)
{
    err_set(err, ERR_LIMIT, "it has more than the %" PRIu64 " bytes that are left for it",
            u->limits.bytes);
    return err_hint(err, "if it is meant to be that large: --max-size");
}

static int write_all(int fd, const char *data, size_t len, int64_t at, struct err *err)
{
    while (len) {
        ssize_t n = pwrite(fd, data, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "write a file of the image");
        data += n;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int count_bytes(struct unpack *u, int64_t size, struct err *err)
{
    if (size < 0 || (uint64_t)size > u->limits.bytes - u->counts.bytes)
        return too_large(u, err);
    u->counts.bytes += (uint64_t)size;
    return 0;
}

/* The size that a header names is counted before a byte is written: holes count as well. */
static int write_content(struct unpack *u, struct archive *a, int fd, int64_t size, struct err *err)
{
    const void *block;
    size_t len;
    int64_t at;
    int r;
    if (count_bytes(u, size, err) < 0)
        return err_number(err);
    while ((r = archive_read_data_block(a, &block, &len, &at)) == ARCHIVE_OK) {
        if (at < 0 || at > size || (int64_t)len > size - at)
            return err_set(err, ERR_REFUSED, "an entry is longer than it says");
        if (write_all(fd, block, len, at, err) < 0)
            return err_number(err);
    }
    if (r != ARCHIVE_EOF)
        return broken(a, "the content of an entry", err);
    return ftruncate(fd, size) == 0 ? 0 : err_sys(err, "set the size of a file");
}

/* Nobody looks at a time before 1970 or after 2200 but to break something. */
static void set_time(int dir, const char *leaf, struct archive_entry *e)
{
    int64_t seconds = archive_entry_mtime_is_set(e) ? archive_entry_mtime(e) : 0;
    if (seconds < 0 || seconds > INT64_C(7258118400))
        seconds = 0;
    struct timespec times[2] = {{.tv_sec = (time_t)seconds}, {.tv_sec = (time_t)seconds}};
    (void)utimensat(dir, leaf, times, AT_SYMLINK_NOFOLLOW);
}

static int make_file(struct unpack *u, struct archive *a, struct archive_entry *e, int dir,
                     const char *leaf, struct err *err)
{
    cleanup_fd int fd =
        openat(dir, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "make a file of the image");
    if (write_content(u, a, fd, archive_entry_size(e), err) < 0)
        return err_number(err);
    /* IM-3: the owner of the store must be able to read and remove it all. */
    if (fchmod(fd, (archive_entry_perm(e) & 0777) | 0400) < 0)
        return err_sys(err, "set the mode of a file");
    set_time(dir, leaf, e);
    return 0;
}

static int make_folder(struct archive_entry *e, int dir, const char *leaf, struct err *err)
{
    char via[NAME_MAX + sizeof "/" LAYER_VIA];
    if (mkdirat(dir, leaf, 0755) < 0 && errno != EEXIST)
        return err_sys(err, "make a folder of the image");
    /* Now an entry names it. */
    snprintf(via, sizeof via, "%s/" LAYER_VIA, leaf);
    if (unlinkat(dir, via, 0) < 0 && errno != ENOENT)
        return err_sys(err, "take a mark off a folder");
    if (fchmodat(dir, leaf, (archive_entry_perm(e) & 01777) | 0700, 0) < 0)
        return err_sys(err, "set the mode of a folder");
    set_time(dir, leaf, e);
    return 0;
}

static int make_symlink(struct archive_entry *e, int dir, const char *leaf, struct err *err)
{
    const char *target = archive_entry_symlink(e);
    if (!target || !target[0] || strlen(target) >= PATH_MAX)
        return err_set(err, ERR_REFUSED, "a link without a target, or with too long a one");
    return symlinkat(target, dir, leaf) == 0 ? 0 : err_sys(err, "make a link of the image");
}

static int no_file(const char *name, struct err *err)
{
    struct quoted q;
    return err_set(err, ERR_REFUSED, "a hard link to %s, which is no file of the image",
                   quote(&q, name));
}

static int lower_link_name(const char *leaf, char ret[static NAME_MAX + 1], struct err *err)
{
    if (snprintf(ret, NAME_MAX + 1, LAYER_LINK "%s", leaf) > NAME_MAX)
        return err_set(err, ERR_REFUSED, "a hard link with too long a name");
    return 0;
}

/* What a lower layer has is not here; but another name of it may have been marked: then both are
 * names of the same, in whatever order they are made. */
static int mark_link(struct unpack *u, int held, const char *from_leaf, int dir, const char *leaf,
                     const char *from, struct err *err)
{
    char mark[NAME_MAX + 1], other[NAME_MAX + 1], target[PATH_MAX];
    if (lower_link_name(leaf, mark, err) < 0)
        return err_number(err);
    int len = snprintf(other, sizeof other, LAYER_LINK "%s", from_leaf);
    ssize_t n = len > NAME_MAX ? 0 : readlinkat(held, other, target, sizeof target - 1);
    if (n > 0) {
        target[n] = '\0';
        from = target;
    }
    if (tree_clear(dir, leaf, false, err) < 0 || tree_clear(dir, mark, false, err) < 0)
        return err_number(err);
    u->lower_links = true;
    return symlinkat(from, dir, mark) == 0 ? 0 : err_sys(err, "mark a hard link");
}

/* Whatever has the name now is no hard link to a lower layer's file any more. */
static int unmark_link(const struct unpack *u, int dir, const char *leaf, struct err *err)
{
    char mark[NAME_MAX + 1];
    if (!u->lower_links || strlen(leaf) + strlen(LAYER_LINK) > NAME_MAX)
        return 0;
    if (lower_link_name(leaf, mark, err) < 0)
        return err_number(err);
    return tree_clear(dir, mark, false, err);
}

static int make_hard_link(struct unpack *u, const char *target, const char *name, struct err *err)
{
    char from[UNPACK_NAME_MAX];
    const char *from_leaf, *leaf;
    struct stat sb, there;
    if (tree_name(target, from, err) < 0)
        return err_wrap(err, "a hard link");
    int parent = from[0] ? tree_parent(&u->tree, from, &from_leaf, err) : -1;
    if (parent < 0)
        return from[0] ? err_number(err) : err_set(err, ERR_REFUSED, "a hard link to the root");
    cleanup_fd int held = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int dir = tree_parent(&u->tree, name, &leaf, err);
    if (held < 0 || dir < 0)
        return dir < 0 ? err_number(err) : err_sys(err, "open a folder of the image");
    if (u->tree.marks && text_begins(from_leaf, LAYER_WHITEOUT))
        return no_file(from, err);
    if (fstatat(held, from_leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return u->tree.marks && errno == ENOENT
                   ? mark_link(u, held, from_leaf, dir, leaf, from, err)
                   : no_file(from, err);
    if (S_ISDIR(sb.st_mode))
        return no_file(from, err);
    /* IM-5: who copies or hashes the tree reads the file once for each of its names. */
    if (count_bytes(u, sb.st_size, err) < 0)
        return err_number(err);
    bool same = fstatat(dir, leaf, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == sb.st_ino;
    if (same)
        return 0;
    if (tree_clear(dir, leaf, false, err) < 0 || unmark_link(u, dir, leaf, err) < 0)
        return err_number(err);
    return linkat(held, from_leaf, dir, leaf, 0) == 0 ? 0 : err_sys(err, "make a hard link");
}

/* IM-4: what it hides is not here, so that what is here stays. */
static int whiteout(struct unpack *u, int dir, const char *leaf, struct err *err)
{
    const char *hidden = leaf + strlen(LAYER_WHITEOUT);
    if (text_begins(leaf, LAYER_OTHER) && strcmp(leaf, LAYER_OPAQUE) != 0) {
        u->counts.left_out++; /* other marks of a storage driver mean nothing here */
        return 0;
    }
    if (!hidden[0] || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
        return err_set(err, ERR_REFUSED, "a whiteout that names no file");
    return tree_mark(dir, leaf, err);
}

static int make_entry(struct unpack *u, struct archive *a, struct archive_entry *e,
                      const char *name, int dir, const char *leaf, struct err *err)
{
    const char *hard = archive_entry_hardlink(e);
    mode_t type = archive_entry_filetype(e);
    if (!hard && type != S_IFREG && type != S_IFDIR && type != S_IFLNK) {
        u->counts.left_out++; /* IM-3 */
        return 0;
    }
    int r = 0;
    if (!hard)
        r = tree_clear(dir, leaf, type == S_IFDIR, err);
    if (r >= 0 && !hard)
        r = unmark_link(u, dir, leaf, err);
    if (r < 0)
        return r;
    if (hard)
        return make_hard_link(u, hard, name, err);
    if (type == S_IFDIR)
        return make_folder(e, dir, leaf, err);
    if (type == S_IFLNK)
        return make_symlink(e, dir, leaf, err);
    return make_file(u, a, e, dir, leaf, err);
}

static int entry(struct unpack *u, struct archive *a, struct archive_entry *e, struct err *err)
{
    char name[UNPACK_NAME_MAX];
    const char *leaf, *given = archive_entry_pathname(e);
    struct quoted q;
    if (tree_count(&u->tree, err) < 0)
        return err_number(err);
    if (!given)
        return err_set(err, ERR_REFUSED, "an entry without a name");
    if (tree_name(given, name, err) < 0)
        return err_number(err);
    if (!name[0]) /* the root itself, which keeps its mode */
        return archive_entry_filetype(e) == S_IFDIR
                   ? 0
                   : err_set(err, ERR_REFUSED, "the root of the image is no folder");
    int dir = tree_parent(&u->tree, name, &leaf, err);
    if (dir < 0)
        return err_wrap(err, "%s", quote(&q, name));
    int r = u->tree.marks && text_begins(leaf, LAYER_WHITEOUT)
                ? whiteout(u, dir, leaf, err)
                : make_entry(u, a, e, name, dir, leaf, err);
    return r < 0 ? err_wrap(err, "%s", quote(&q, name)) : 0;
}

/* ---- the stream ---- */

static int open_plain(struct archive *a, int fd, struct err *err)
{
    struct archive_entry *e;
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_format_raw(a);
    archive_read_support_format_empty(a);
    if (archive_read_open_fd(a, fd, CHUNK) != ARCHIVE_OK)
        return broken(a, "the stream", err);
    int r = archive_read_next_header(a, &e);
    return r == ARCHIVE_OK || r == ARCHIVE_EOF ? 0 : broken(a, "the stream", err);
}

/* How it is packed follows from its bytes, whatever somebody says (IM-21). */
static int check_plain(const struct unpack *u, struct archive *a, struct err *err)
{
    return !u->plain || archive_filter_code(a, 0) == ARCHIVE_FILTER_NONE
               ? 0
               : err_set(err, ERR_REFUSED,
                         "it is packed: it is not the layer that the config names");
}

static int open_tar(struct archive *a, struct source *s, struct err *err)
{
    archive_read_support_format_tar(a);
    archive_read_support_format_empty(a);
    if (archive_read_open(a, s, NULL, read_plain, NULL) != ARCHIVE_OK)
        return broken(a, "it is no tar archive", err);
    return 0;
}

static int read_entries(struct unpack *u, struct archive *tar, struct source *s, struct err *err)
{
    struct archive_entry *e;
    for (;;) {
        int r = archive_read_next_header(tar, &e);
        if (r == ARCHIVE_EOF)
            return 0;
        if (s->too_much)
            return too_large(u, err);
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            return broken(tar, "the archive", err);
        if (entry(u, tar, e, err) < 0)
            return s->too_much ? too_large(u, err) : err_number(err);
    }
}

/* What stands behind the end of the archive belongs to its digest. */
static int drain(struct unpack *u, struct source *s, struct err *err)
{
    ssize_t n;
    const void *ignored;
    while ((n = next_piece(s, &ignored)) > 0)
        if (s->too_much)
            return too_large(u, err);
    return n < 0 ? broken(s->plain, "the stream", err) : 0;
}

static int unpack_from(struct unpack *u, struct source *s, int fd, struct err *err)
{
    cleanup_archive struct archive *plain = archive_read_new();
    cleanup_archive struct archive *tar = archive_read_new();
    if (!plain || !tar)
        return err_memory(err);
    s->plain = plain;
    if (open_plain(plain, fd, err) < 0 || check_plain(u, plain, err) < 0 ||
        open_tar(tar, s, err) < 0 || read_entries(u, tar, s, err) < 0)
        return s->too_much ? too_large(u, err) : err_number(err);
    return drain(u, s, err);
}

int unpack_stream(struct unpack *u, int fd, struct err *err)
{
    uint8_t digest[SHA256_SIZE];
    static struct source s;
    s.left = u->limits.bytes;
    s.too_much = false;
    hasher_start(&s.hasher, u->unhashed);
    int r = unpack_from(u, &s, fd, err);
    hasher_finish(&s.hasher, digest);
    if (r < 0 || u->unhashed)
        return r;
    memcpy(u->counts.diff_id, "sha256:", 8);
    hex_encode(digest, sizeof digest, u->counts.diff_id + 7);
    return 0;
}
