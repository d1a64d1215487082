/* RV-5: an apply that was killed leaves, in the folder of the review,
 *   staging   the name of its staging folder, before that is made
 *   journal   what it was about to do: undone
 *   done      the same, when all of it was done: only the staging folder is left to be removed
 * and in the project the staging folder. Whoever opens the review next finishes it. */
#include "base/cleanup.h"
#include "filesystem/review.h"
#include "filesystem/review_journal.h"
#include "os/remove.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define JOURNAL_MAX (256u << 20)

bool review_is_empty(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    bool empty = list != NULL;
    for (struct dirent *e; empty && (e = readdir(list));)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (list)
        closedir(list);
    else if (fd >= 0)
        close(fd);
    return empty;
}

static int open_staging(const struct review *r, const char *name)
{
    struct stat sb;
    int fd = openat(r->project, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &sb) < 0 || sb.st_uid != geteuid() || (sb.st_mode & 077))) {
        close(fd);
        return -1;
    }
    return fd;
}

int review_clean(struct review *r, const char *staging)
{
    cleanup_fd int fd = open_staging(r, staging);
    if (fd < 0)
        return 0;
    remove_contents(fd);
    review_step();
    return unlinkat(r->project, staging, AT_REMOVEDIR);
}

static char *read_journal(int dir, const char *name, size_t *len)
{
    struct stat sb;
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0 || sb.st_size > JOURNAL_MAX)
        return NULL;
    char *text = malloc((size_t)sb.st_size + 1);
    for (*len = 0; text && *len < (size_t)sb.st_size;) {
        ssize_t n = read(fd, text + *len, (size_t)sb.st_size - *len);
        if (n <= 0)
            break;
        *len += (size_t)n;
    }
    return text;
}

static int undo_all(struct review *r, const struct review_journal *j, struct err *err)
{
    bool kept = false;
    cleanup_fd int staging = open_staging(r, j->staging);
    if (staging < 0)
        return 0;
    review_undo(r, staging, j, j->count, &kept);
    if (!kept)
        return 0;
    err_set(err, ERR_REFUSED,
            "an interrupted apply could not be undone completely: the project was changed since");
    return err_hint(err, "%s/%s holds the files that were there before; remove it when done",
                    r->meta.source, j->staging);
}

/* 0: there was none. */
static int finish(struct review *r, const char *name, bool done, struct err *err)
{
    size_t len = 0;
    struct review_journal j = {0};
    cleanup_free char *text = read_journal(r->dir, name, &len);
    if (!text)
        return 0;
    int result = review_journal_parse(text, len, &j, err);
    if (result >= 0 && !done)
        result = undo_all(r, &j, err);
    if (result >= 0)
        review_clean(r, j.staging);
    /* What could not be put back is told once; it will not get better by itself. */
    review_step();
    unlinkat(r->dir, name, 0);
    review_step();
    unlinkat(r->dir, "staging", 0);
    review_journal_done(&j);
    return result < 0 ? result : 1;
}

int review_recover(struct review *r, struct err *err)
{
    int result = finish(r, "done", true, err);
    if (result == 0)
        result = finish(r, "journal", false, err);
    return result == 0 ? finish(r, "staging", true, err) : result;
}
