/* Review mode, before the code runs: the folder of this review, with the layers of an overlay, or,
 * where nothing can be mounted, a copy of the project. And after it ran. */
#include "review/prepare.h"

#include "base/cleanup.h"
#include "os/remove.h"
#include "os/sys.h"
#include "review/copy.h"
#include "review/review.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

/* Somebody may look at it while the code runs, but not apply it. */
static int make_folder(struct filesystem *fs, struct err *err)
{
    if (mkdirat(fs->reviews_fd, fs->review_id, 0700) < 0)
        return err_sys(err, "make the folder of the review");
    fs->review_fd =
        openat(fs->reviews_fd, fs->review_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs->review_fd >= 0 && flock(fs->review_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    err_sys(err, "hold the folder of the review");
    /* Teardown works by descriptor, and there is none: remove the folder here. */
    if (fs->review_fd < 0 && remove_folder(fs->reviews_fd, fs->review_id, -1) < 0)
        err_wrap(err, "%s is left, remove it by hand", fs->review_path);
    return err_number(err);
}

void review_release(struct filesystem *fs)
{
    flock(fs->review_fd, LOCK_UN);
}

static void join_command(struct buf *out, char *const *argv)
{
    for (; argv && *argv; argv++) {
        if (out->len)
            buf_chr(out, ' ');
        buf_add(out, *argv, strnlen(*argv, 200));
    }
}

static int write_meta(struct filesystem *fs, const struct pinned_grant *g, const struct stat *sb,
                      const char *source, struct err *err)
{
    cleanup_buf struct buf text, command;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    buf_init(&text, 64 * 1024);
    buf_init(&command, 400);
    join_command(&command, fs->command);
    struct review_meta m = {.copy = !fs->namespaced,
                            .source = (char *)source,
                            .dest = (char *)grant_place(fs, g),
                            .command = (char *)buf_text(&command),
                            .dev = g->dev,
                            .ino = g->ino,
                            .uid = sb->st_uid,
                            .gid = sb->st_gid,
                            .started_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
                            .limit = fs->policy->disk};
    snprintf(m.id, sizeof m.id, "%s", fs->review_id);
    review_meta_write(&m, &text);
    cleanup_fd int fd =
        openat(fs->review_fd, "meta.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || text.failed || write(fd, text.data, text.len) != (ssize_t)text.len)
        return err_sys(err, "write the record of the review");
    return 0;
}

/* The upper folder stands for the project itself: its owner and mode are what the code sees. */
static int make_layers(struct filesystem *fs, const struct stat *sb, struct err *err)
{
    static const char *const names[] = {"layers", "layers/upper", "layers/work", "layers/lower"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (mkdirat(fs->review_fd, names[i], 0700) < 0)
            return err_sys(err, "make %s of the review", names[i]);
        if (fs->privileged && fchownat(fs->review_fd, names[i], sb->st_uid, sb->st_gid, 0) < 0)
            return err_sys(err, "own %s of the review", names[i]);
    }
    if (fchmodat(fs->review_fd, "layers/upper", sb->st_mode & 0777, 0) < 0)
        return err_sys(err, "set the mode of the layer");
    return 0;
}

static int source_path(int project, char out[static PATH_MAX], struct err *err)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", project);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n <= 0 || n >= PATH_MAX - 1)
        return err_sys(err, "find the path of the project");
    out[n] = '\0';
    return 0;
}

/* The uid of a sandbox that root makes must be able to walk to its copy: by names that nobody can
 * list. Landlock keeps it from everything else. */
static int let_through(const struct filesystem *fs, struct err *err)
{
    cleanup_fd int above = openat(fs->reviews_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0 || fchmod(above, 0711) < 0 || fchmod(fs->reviews_fd, 0711) < 0 ||
        fchmod(fs->review_fd, 0711) < 0)
        return err_sys(err, "open a way to the copy of the project");
    return 0;
}

static int make(struct filesystem *fs, uid_t uid, gid_t gid, struct err *err)
{
    const struct pinned_grant *g = review_grant(fs);
    char path[PATH_MAX];
    struct stat sb;
    cleanup_fd int project = openat(g->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (project < 0 || fstat(project, &sb) < 0)
        return err_sys(err, "open the project %s", g->source);
    if (source_path(project, path, err) < 0 || make_folder(fs, err) < 0 ||
        write_meta(fs, g, &sb, path, err) < 0)
        return err_number(err);
    if (fs->namespaced)
        return make_layers(fs, &sb, err);
    if (fs->privileged && let_through(fs, err) < 0)
        return err_number(err);
    struct review_copy copy = {
        .project = project, .dir = fs->review_fd, .own = fs->privileged, .uid = uid, .gid = gid};
    int r = review_copy(&copy, err);
    fs->review_base = (struct disk_base){copy.bytes, copy.inodes};
    return r;
}

int review_make(struct filesystem *fs, uid_t uid, gid_t gid, struct err *err)
{
    return make(fs, uid, gid, err) < 0 ? err_at(err, BOUNDARY_FILESYSTEM) : 0;
}

static bool copy_unchanged(const struct filesystem *fs)
{
    struct review r;
    review_init(&r);
    bool same = review_open(&r, fs->reviews_fd, fs->review_id, NULL) >= 0 &&
                review_walk(&r, NULL) >= 0 && r.count == 0;
    review_done(&r);
    return same;
}

int review_settle(struct filesystem *fs, bool failed, struct err *err)
{
    bool empty = failed || (fs->namespaced ? review_is_empty(fs->review_fd, "layers/upper")
                                           : copy_unchanged(fs));
    if (!fs->namespaced && fs->privileged)
        fchmod(fs->review_fd, 0700);
    if (!empty)
        return 1;
    int result = remove_folder(fs->reviews_fd, fs->review_id, fs->review_fd);
    if (result == 0)
        return 0;
    errno = -result;
    err_sys(err, "remove the folder of the review %s", fs->review_path);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "remove it by hand");
}
