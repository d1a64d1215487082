/* Layers of RUN instructions that were done before, so that the next build need not do them again:
 *
 *   images/steps/KEY-LAYER   the layer, an archive; KEY is the hash of all that the command was
 *                            given, LAYER the hash of the archive, or "none" where nothing changed
 *
 * IM-17  Nothing is taken for done unless all that it was given is the same: the base and each
 *        layer on it, command, variables, user, folder, and every rule of the policy. What is used
 *        again must hash to its name and is unpacked as any other layer is. */
#include "images/build/build.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_LEN   64
#define NAME_LEN  (KEY_LEN + 1 + KEY_LEN)
#define STEPS_MAX 4096 /* names that are looked at */

/* ---- the key ---- */

/* What lies in a folder of the host's is not looked at: whoever is given one is run each time. */
bool step_can_be_kept(const struct policy *p)
{
    return !p->grant_count && !p->project;
}

/* With its length and byte by byte: no two lists of parts are one text, and what is no UTF-8 is not
 * taken for something else that is none. */
static void add_part(struct sha256 *sha, const char *part)
{
    uint64_t len = part ? strlen(part) : UINT64_MAX;
    sha256_add(sha, &len, sizeof len);
    if (part)
        sha256_add(sha, part, strlen(part));
}

static void add_count(struct sha256 *sha, uint64_t count)
{
    sha256_add(sha, &count, sizeof count);
}

/* Everything as it is handed to the run; the version, because another one may do it in another way.
 */
int step_key(const struct derived *d, const struct policy *p, const struct words *argv,
             const struct words *left_out, char ret[static STEP_KEY_SIZE], struct err *err)
{
    char hash[72];
    uint8_t sum[SHA256_SIZE];
    struct sha256 sha;
    if (policy_hash(p, hash) < 0)
        return err_memory(err);
    sha256_init(&sha);
    add_part(&sha, BRIG_VERSION);
    add_part(&sha, "layers by blobs"); /* what a base from before was, nobody knows */
    add_part(&sha, hash);
    add_part(&sha, d->base.root_fd >= 0 ? d->base.name.manifest : NULL);
    add_count(&sha, d->added_count);
    for (unsigned i = 0; i < d->added_count; i++)
        add_part(&sha, d->added[i].digest);
    add_count(&sha, argv->count);
    for (size_t i = 0; i < argv->count; i++)
        add_part(&sha, argv->items[i]);
    add_count(&sha, left_out->count);
    for (size_t i = 0; i < left_out->count; i++)
        add_part(&sha, left_out->items[i]);
    add_count(&sha, p->env_count);
    for (size_t i = 0; i < p->env_count; i++) {
        add_part(&sha, p->env[i].name);
        add_part(&sha, p->env[i].value);
    }
    sha256_finish(&sha, sum);
    hex_encode(sum, sizeof sum, ret);
    return 0;
}

/* ---- the folder ---- */

static int open_steps(const struct store *s, bool make)
{
    if (make && mkdirat(s->fd, "steps", 0700) < 0 && errno != EEXIST)
        return -1;
    return openat(s->fd, "steps", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool find_name(int steps, const char *key, char ret[static NAME_LEN + 1])
{
    bool found = false;
    DIR *list = folder_open(steps, ".");
    for (struct dirent *e; list && !found && (e = readdir(list));)
        if (strncmp(e->d_name, key, KEY_LEN) == 0 && e->d_name[KEY_LEN] == '-') {
            found = true;
            snprintf(ret, NAME_LEN + 1, "%s", e->d_name);
        }
    if (list)
        closedir(list);
    return found;
}

static int hash_of(int fd, char ret[static SHA256_HEX_SIZE])
{
    uint8_t sum[SHA256_SIZE];
    struct sha256 sha;
    cleanup_free char *chunk = malloc(1u << 18);
    ssize_t n = chunk ? 0 : -1;
    sha256_init(&sha);
    for (off_t at = 0; chunk && (n = pread(fd, chunk, 1u << 18, at)) > 0; at += n)
        sha256_add(&sha, chunk, (size_t)n);
    sha256_finish(&sha, sum);
    hex_encode(sum, sizeof sum, ret);
    return n < 0 ? -1 : 0;
}

/* One that is damaged goes: the step is done again. */
int step_find(const struct store *s, const char *key, struct step_found *ret)
{
    char name[NAME_LEN + 1], hash[SHA256_HEX_SIZE];
    struct stat sb;
    *ret = (struct step_found){.fd = -1};
    cleanup_fd int steps = open_steps(s, false);
    if (steps < 0 || !find_name(steps, key, name))
        return 0;
    const char *layer = name + KEY_LEN + 1;
    if (strcmp(layer, "none") == 0)
        return 1;
    cleanup_fd int fd = openat(steps, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode) || hash_of(fd, hash) < 0 ||
        strcmp(hash, layer) != 0) {
        unlinkat(steps, name, 0);
        return 0;
    }
    (void)futimens(fd, NULL); /* the ones that were not used for longest go first */
    snprintf(ret->digest, sizeof ret->digest, "sha256:%s", hash);
    ret->size = (uint64_t)sb.st_size;
    ret->fd = fd_steal(&fd);
    return 1;
}

/* Another name of the file that was written, complete and flushed (IM-7). It is only a help: where
 * there is no room for it, the next build does the step again. */
void step_keep(const struct store *s, const char *key, int dir, const char *file,
               const char *digest)
{
    char name[NAME_LEN + 1], other[NAME_LEN + 1];
    cleanup_fd int steps = open_steps(s, true);
    if (steps < 0)
        return;
    if (find_name(steps, key, other))
        unlinkat(steps, other, 0);
    snprintf(name, sizeof name, "%s-%s", key, digest ? digest + strlen("sha256:") : "none");
    cleanup_fd int fd = digest ? openat(dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
                               : openat(steps, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || !digest || fsync(fd) < 0)
        return;
    (void)!linkat(dir, file, steps, name, 0);
}

/* ---- room ---- */

struct kept {
    char name[NAME_LEN + 1];
    struct timespec used;
    uint64_t size;
};

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct kept *)a)->used,
                          *y = &((const struct kept *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? 1 : -1;
    return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

static size_t list_steps(int steps, struct kept *ret)
{
    size_t count = 0;
    struct stat sb;
    DIR *list = folder_open(steps, ".");
    for (struct dirent *e; list && count < STEPS_MAX && (e = readdir(list));) {
        if (e->d_name[0] == '.' || strlen(e->d_name) > NAME_LEN ||
            fstatat(steps, e->d_name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        ret[count].used = sb.st_mtim;
        ret[count].size = (uint64_t)sb.st_size;
        snprintf(ret[count++].name, sizeof ret[0].name, "%s", e->d_name);
    }
    if (list)
        closedir(list);
    return count;
}

unsigned steps_trim(const struct store *s, uint64_t max_bytes, unsigned max_count, uint64_t *bytes)
{
    unsigned removed = 0;
    uint64_t sum = 0;
    cleanup_fd int steps = s->fd >= 0 ? open_steps(s, false) : -1;
    cleanup_free struct kept *all = steps >= 0 ? calloc(STEPS_MAX, sizeof *all) : NULL;
    if (!all)
        return 0;
    size_t count = list_steps(steps, all);
    qsort(all, count, sizeof *all, by_use);
    for (size_t i = 0; i < count; i++) {
        sum += all[i].size;
        if ((sum <= max_bytes && i < max_count) || unlinkat(steps, all[i].name, 0) < 0)
            continue;
        sum -= all[i].size;
        *bytes += all[i].size;
        removed++;
    }
    return removed;
}
