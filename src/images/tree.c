/* One digest over a whole tree, in which each file stands for itself by the digest of what is in
 * it: so a file that layers and roots share is read once. What is in a tree came out of an image:
 * nothing is followed, nothing but plain files is opened. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "images/store.h"
#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 300
#define NAMES_MAX (4u << 20)
#define KNOWN_MAX (1u << 21)

struct known_file {
    uint64_t ino; /* 0: free */
    uint8_t digest[SHA256_SIZE];
};

struct known_table {
    struct known_file *slots;
    size_t room, count;
};

/* Files that were read, all of one file system: in two parts, which two threads may fill at once.
 */
#define PARTS 2
struct tree_known {
    struct known_table parts[PARTS];
    dev_t dev; /* 0: none yet */
};

struct digest_walk {
    struct sha256 sha;
    struct root_facts *facts;
    struct tree_known *known; /* or NULL */
    unsigned depth;
    char *chunk;
};
#define CHUNK (256u << 10)

static int walk_folder(struct digest_walk *w, int dir, struct err *err);

static void add(struct digest_walk *w, const void *data, size_t len)
{
    sha256_add(&w->sha, data, len);
}

/* ---- what was read ---- */

struct tree_known *tree_known_new(void)
{
    return calloc(1, sizeof(struct tree_known));
}

void tree_known_free(struct tree_known **k)
{
    for (unsigned i = 0; *k && i < PARTS; i++)
        free((*k)->parts[i].slots);
    free(*k);
    *k = NULL;
}

static uint64_t spread(uint64_t ino)
{
    return ino * UINT64_C(0x9e3779b97f4a7c15);
}

static unsigned part_of(uint64_t ino)
{
    return (unsigned)(spread(ino) >> 63);
}

static struct known_file *slot_of(const struct known_table *t, uint64_t ino)
{
    size_t at = (size_t)spread(ino) & (t->room - 1);
    while (t->slots[at].ino && t->slots[at].ino != ino)
        at = (at + 1) & (t->room - 1);
    return &t->slots[at];
}

/* Without memory for it a file is read again. */
static bool known_grow(struct known_table *t)
{
    struct known_table wide = {.room = t->room ? 2 * t->room : 1024, .count = t->count};
    if (wide.room > KNOWN_MAX || !(wide.slots = calloc(wide.room, sizeof *wide.slots)))
        return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->slots[i].ino)
            *slot_of(&wide, t->slots[i].ino) = t->slots[i];
    free(t->slots);
    *t = wide;
    return true;
}

static bool known_get(const struct tree_known *k, const struct stat *sb,
                      uint8_t ret[static SHA256_SIZE])
{
    const struct known_table *t = k ? &k->parts[part_of(sb->st_ino)] : NULL;
    if (!t || !t->count || k->dev != sb->st_dev)
        return false;
    const struct known_file *slot = slot_of(t, sb->st_ino);
    if (slot->ino)
        memcpy(ret, slot->digest, SHA256_SIZE);
    return slot->ino;
}

static void known_put(struct tree_known *k, const struct stat *sb,
                      const uint8_t digest[static SHA256_SIZE])
{
    struct known_table *t = k ? &k->parts[part_of(sb->st_ino)] : NULL;
    if (!t || k->dev != sb->st_dev || (2 * (t->count + 1) > t->room && !known_grow(t)))
        return;
    struct known_file *slot = slot_of(t, sb->st_ino);
    t->count += !slot->ino;
    slot->ino = sb->st_ino;
    memcpy(slot->digest, digest, SHA256_SIZE);
}

/* ---- one entry ---- */

static int hash_content(char *chunk, int dir, const char *name, uint8_t ret[static SHA256_SIZE],
                        struct err *err)
{
    ssize_t n;
    struct sha256 sha;
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "read a file of the image");
    sha256_init(&sha);
    while ((n = read(fd, chunk, CHUNK)) > 0)
        sha256_add(&sha, chunk, (size_t)n);
    sha256_finish(&sha, ret);
    return n < 0 ? err_sys(err, "read a file of the image") : 0;
}

static int add_content(struct digest_walk *w, int dir, const char *name, const struct stat *sb,
                       struct err *err)
{
    uint8_t digest[SHA256_SIZE];
    if (!known_get(w->known, sb, digest)) {
        if (hash_content(w->chunk, dir, name, digest, err) < 0)
            return err_number(err);
        known_put(w->known, sb, digest);
    }
    add(w, digest, sizeof digest);
    w->facts->bytes += (uint64_t)sb->st_size;
    return 0;
}

static int add_target(struct digest_walk *w, int dir, const char *name, struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    if (n < 0)
        return err_sys(err, "read a link of the image");
    add(w, target, (size_t)n);
    return 0;
}

static int add_entry(struct digest_walk *w, int dir, const char *name, struct err *err)
{
    struct stat sb;
    char line[64];
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "look at a file of the image");
    bool file = S_ISREG(sb.st_mode), link = S_ISLNK(sb.st_mode), folder = S_ISDIR(sb.st_mode);
    if (!file && !link && !folder)
        return err_set(err, ERR_REFUSED, "the image has a file that is none");
    /* Lengths first, so that no two trees are written alike. */
    int len = snprintf(line, sizeof line, "%c %o %zu %" PRIu64 "\n",
                       file   ? 'f'
                       : link ? 'l'
                              : 'd',
                       link ? 0 : (unsigned)sb.st_mode & 07777, strlen(name),
                       folder ? 0 : (uint64_t)sb.st_size);
    add(w, line, (size_t)len);
    add(w, name, strlen(name));
    w->facts->files++;
    if (file)
        return add_content(w, dir, name, &sb, err);
    if (link)
        return add_target(w, dir, name, err);
    cleanup_fd int inner = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0)
        return err_sys(err, "open a folder of the image");
    return walk_folder(w, inner, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void tree_names_done(struct tree_names *n)
{
    while (n->count)
        free(n->items[--n->count]);
    free(n->items);
    n->items = NULL;
}

static int names_add(struct tree_names *n, const char *name, struct err *err)
{
    if (n->count == NAMES_MAX)
        return err_set(err, ERR_LIMIT, "too many files in one folder");
    if (n->count == n->room) {
        size_t room = n->room ? 2 * n->room : 64;
        char **wide = realloc(n->items, room * sizeof *wide);
        if (!wide)
            return err_memory(err);
        n->items = wide;
        n->room = room;
    }
    n->items[n->count] = strdup(name);
    return n->items[n->count++] ? 0 : err_memory(err);
}

int tree_names_read(struct tree_names *n, int dir, struct err *err)
{
    DIR *list = folder_open(dir, ".");
    struct dirent *e;
    int r = 0, more = 0;
    if (!list)
        return err_sys(err, "list a folder of the image");
    while (r == 0 && (more = folder_next(list, &e)) > 0)
        r = names_add(n, e->d_name, err);
    if (r == 0 && more < 0)
        r = err_sys(err, "list a folder of the image");
    closedir(list);
    if (r == 0 && n->count)
        qsort(n->items, n->count, sizeof *n->items, by_name);
    return r;
}

static int walk_folder(struct digest_walk *w, int dir, struct err *err)
{
    __attribute__((cleanup(tree_names_done))) struct tree_names names = {.count = 0};
    char line[32];
    if (++w->depth > DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "the image has folders that lie too deep");
    if (tree_names_read(&names, dir, err) < 0)
        return err_number(err);
    int len = snprintf(line, sizeof line, "%zu\n", names.count);
    add(w, line, (size_t)len);
    for (size_t i = 0; i < names.count; i++)
        if (add_entry(w, dir, names.items[i], err) < 0)
            return err_number(err);
    w->depth--;
    return 0;
}

/* ---- reading it all, by two ---- */

/* One thread's part of the files of a tree. What cannot be read is left to the walk that tells. */
struct reading {
    struct tree_known *known;
    unsigned part, depth;
    int dir;
    char *chunk;
};

static void read_folder(struct reading *r, int dir);

static void read_entry(struct reading *r, int dir, const char *name)
{
    struct stat sb;
    uint8_t digest[SHA256_SIZE];
    struct err ignored = ERR_INIT;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISDIR(sb.st_mode)) {
        cleanup_fd int in = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (in >= 0)
            read_folder(r, in);
        return;
    }
    if (S_ISREG(sb.st_mode) && part_of(sb.st_ino) == r->part && !known_get(r->known, &sb, digest) &&
        hash_content(r->chunk, dir, name, digest, &ignored) >= 0)
        known_put(r->known, &sb, digest);
}

static void read_folder(struct reading *r, int dir)
{
    DIR *list = r->depth < DEPTH_MAX ? folder_open(dir, ".") : NULL;
    struct dirent *e;
    r->depth++;
    while (list && folder_next(list, &e) > 0)
        read_entry(r, dir, e->d_name);
    r->depth--;
    if (list)
        closedir(list);
}

static void *read_part(void *ctx)
{
    struct reading *r = ctx;
    r->chunk = malloc(CHUNK);
    if (r->chunk)
        read_folder(r, r->dir);
    free(r->chunk);
    return NULL;
}

/* Hashing is most of the work, and files are many. Without a thread it is done by the walk. */
static void read_by_two(struct tree_known *known, int dir)
{
    struct stat sb;
    pthread_t thread;
    pthread_attr_t attr;
    struct reading parts[PARTS] = {{.known = known, .part = 0, .dir = dir},
                                   {.known = known, .part = 1, .dir = dir}};
    if (!known || fstat(dir, &sb) < 0)
        return;
    if (!known->dev)
        known->dev = sb.st_dev;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || pthread_attr_init(&attr) != 0)
        return;
    pthread_attr_setstacksize(&attr, 1u << 20);
    bool started = pthread_create(&thread, &attr, read_part, &parts[1]) == 0;
    pthread_attr_destroy(&attr);
    if (!started)
        return;
    read_part(&parts[0]);
    pthread_join(thread, NULL);
}

int tree_digest(int dir, struct tree_known *known, struct root_facts *ret, struct err *err)
{
    uint8_t digest[SHA256_SIZE];
    struct digest_walk w = {.facts = ret, .known = known, .chunk = malloc(CHUNK)};
    *ret = (struct root_facts){.bytes = 0};
    read_by_two(known, dir);
    sha256_init(&w.sha);
    int r = w.chunk ? walk_folder(&w, dir, err) : err_memory(err);
    free(w.chunk);
    if (r < 0)
        return r;
    sha256_finish(&w.sha, digest);
    memcpy(ret->tree, "sha256:", 8);
    hex_encode(digest, sizeof digest, ret->tree + 7);
    return 0;
}
