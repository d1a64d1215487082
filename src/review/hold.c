/* RV-7: the code may go on writing while somebody looks, through a mapped page without leaving a
 * trace in times or sizes. So everything of the layer is read once, into a file without a name in
 * the review's own folder, where the code cannot write; what is compared, marked, shown and summed
 * up in the digest is that copy. What is applied must have the hash of it (apply.c). */
#include "base/cleanup.h"
#include "os/fd.h"
#include "os/sys.h"
#include "review/review.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK 65536
static const char unreadable[] = "it cannot be read";
static const char too_much[] =
    "with what comes before it, it is more than the run's limit for the disk";

static int open_held(const struct review *r)
{
    int fd = openat(r->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    /* Not every file system supports O_TMPFILE. */
    return fd >= 0 ? fd : memfd_create("brig-held", MFD_CLOEXEC);
}

static int keep(struct review *r, const void *bytes, size_t len)
{
    if (r->held < 0)
        r->held = open_held(r);
    if (r->held < 0)
        return -errno;
    for (size_t done = 0; done < len;) {
        ssize_t n =
            pwrite(r->held, (const char *)bytes + done, len - done, (off_t)(r->held_len + done));
        if (n <= 0)
            return n < 0 ? -errno : -ENOSPC;
        done += (size_t)n;
    }
    r->held_len += len;
    return 0;
}

/* Holes take nothing of the disk inside, but would here, and time; so do names of one file. */
static bool fits(const struct review *r, const struct review_change *c)
{
    return r->taken <= r->meta.limit && c->new.size <= r->meta.limit - r->taken;
}

/* As much as there was when it was listed: a file may grow as fast as it is read. */
static int hold_file(struct review *r, struct review_change *c)
{
    static char block[BLOCK];
    bool whole = c->new.size <= REVIEW_TEXT_MAX;
    struct sha256 h;
    uint64_t total = 0;
    errno = 0; /* stays so if it is another file now */
    cleanup_fd int fd = review_open_file(r->layer, c->path, &c->new, NULL);
    if (fd < 0)
        return errno ? -errno : -EACCES;
    sha256_init(&h);
    while (total < c->new.size) {
        size_t want = c->new.size - total < BLOCK ? (size_t)(c->new.size - total) : BLOCK;
        ssize_t n = read(fd, block, want);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        sha256_add(&h, block, (size_t)n);
        total += (uint64_t)n;
        int kept = whole ? keep(r, block, (size_t)n) : 0;
        if (kept < 0)
            return kept;
    }
    c->new.size = total;
    r->taken += total;
    sha256_finish(&h, c->digest);
    return 0;
}

static int hold_link(struct review *r, struct review_change *c)
{
    char target[REVIEW_PATH_MAX + 1];
    int n = review_read_link(r->layer, c->path, target);
    if (n < 0)
        return n;
    c->new.size = (uint64_t)n;
    review_hash(target, (size_t)n, c->digest);
    return keep(r, target, (size_t)n);
}

/* The file is not as it was, or the code keeps us out. All else would show a change as one that is
 * left out only because something failed here. */
static bool is_the_files_own(int why)
{
    return why == EACCES || why == EPERM || why == EXDEV || why == ENAMETOOLONG || why == EINVAL ||
           why == ENXIO || path_is_absent(why);
}

int review_hold(struct review *r, struct review_change *c, struct err *err)
{
    int result = 0;
    c->held_at = r->held_len;
    if (S_ISREG(c->new.mode) && !c->refused && !fits(r, c))
        c->refused = too_much;
    if (c->refused)
        return 0;
    if (S_ISREG(c->new.mode))
        result = hold_file(r, c);
    else if (S_ISLNK(c->new.mode))
        result = hold_link(r, c);
    if (result < 0 && !is_the_files_own(-result)) {
        errno = -result;
        return err_sys(err, "copy %s out of reach of the code", c->path);
    }
    if (result < 0) {
        c->refused = unreadable;
        r->held_len = c->held_at;
    }
    return 0;
}

void review_let_go(struct review *r, const struct review_change *c)
{
    r->held_len = c->held_at;
    if (S_ISREG(c->new.mode))
        r->taken -= c->new.size;
}

int review_held(const struct review *r, const struct review_change *c, char *out, size_t size)
{
    size_t done = 0;
    if (c->refused || c->new.size > size || c->new.size > REVIEW_TEXT_MAX)
        return -EFBIG;
    while (done < c->new.size) {
        ssize_t n =
            pread(r->held, out + done, (size_t)c->new.size - done, (off_t)(c->held_at + done));
        if (n <= 0)
            return -EIO;
        done += (size_t)n;
    }
    return (int)done;
}

void review_hash(const void *bytes, size_t len, uint8_t out[static SHA256_SIZE])
{
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, bytes, len);
    sha256_finish(&h, out);
}

int review_hash_file(int fd, uint8_t out[static SHA256_SIZE])
{
    static char block[BLOCK];
    struct sha256 h;
    ssize_t n;
    sha256_init(&h);
    while ((n = read(fd, block, sizeof block)) > 0)
        sha256_add(&h, block, (size_t)n);
    sha256_finish(&h, out);
    return n < 0 ? -errno : 0;
}
