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

/* Files that were read, all of one file system. */
struct tree_known {
    struct known_file *slots;
    size_t room, count;
    dev_t dev;
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
    if (*k)
        free((*k)->slots);
    free(*k);
    *k = NULL;
}

static struct known_file *slot_of(const struct tree_known *k, uint64_t ino)
{
    size_t at = (size_t)(ino * UINT64_C(0x9e3779b97f4a7c15)) & (k->room - 1);
    while (k->slots[at].ino && k->slots[at].ino != ino)
        at = (at + 1) & (k->room - 1);
    return &k->slots[at];
}

/* Without memory for it a file is read again. */
static bool known_grow(struct tree_known *k)
{
    struct tree_known wide = {.room = k->room ? 2 * k->room : 1024};
    if (wide.room > KNOWN_MAX || !(wide.slots = calloc(wide.room, sizeof *wide.slots)))
        return false;
    for (size_t i = 0; i < k->room; i++)
        if (k->slots[i].ino)
            *slot_of(&wide, k->slots[i].ino) = k->slots[i];
    free(k->slots);
    k->slots = wide.slots;
    k->room = wide.room;
    return true;
}

static bool known_get(const struct tree_known *k, const struct stat *sb,
                      uint8_t ret[static SHA256_SIZE])
{
    if (!k || !k->count || k->dev != sb->st_dev)
        return false;
    const struct known_file *slot = slot_of(k, sb->st_ino);
    if (slot->ino)
        memcpy(ret, slot->digest, SHA256_SIZE);
    return slot->ino;
}

static void known_put(struct tree_known *k, const struct stat *sb,
                      const uint8_t digest[static SHA256_SIZE])
{
    if (!k || (k->count && k->dev != sb->st_dev) ||
        (2 * (k->count + 1) > k->room && !known_grow(k)))
        return;
    struct known_file *slot = slot_of(k, sb->st_ino);
    k->dev = sb->st_dev;
    k->count += !slot->ino;
    slot->ino = sb->st_ino;
    memcpy(slot->digest, digest, SHA256_SIZE);
}

/* ---- one entry ---- */

static int hash_content(struct digest_walk *w, int dir, const char *name,
                        uint8_t ret[static SHA256_SIZE], struct err *err)
{
    ssize_t n;
    struct sha256 sha;
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "read a file of the image");
    sha256_init(&sha);
    while ((n = read(fd, w->chunk, CHUNK)) > 0)
        sha256_add(&sha, w->chunk, (size_t)n);
    sha256_finish(&sha, ret);
    return n < 0 ? err_sys(err, "read a file of the image") : 0;
}

static int add_content(struct digest_walk *w, int dir, const char *name, const struct stat *sb,
                       struct err *err)
{
    uint8_t digest[SHA256_SIZE];
    if (!known_get(w->known, sb, digest)) {
        if (hash_content(w, dir, name, digest, err) < 0)
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

struct names {
    char **items;
    size_t count, room;
};

static void names_done(struct names *n)
{
    while (n->count)
        free(n->items[--n->count]);
    free(n->items);
}

static int names_add(struct names *n, const char *name, struct err *err)
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

static int names_read(struct names *n, int dir, struct err *err)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
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
    __attribute__((cleanup(names_done))) struct names names = {.count = 0};
    char line[32];
    if (++w->depth > DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "the image has folders that lie too deep");
    if (names_read(&names, dir, err) < 0)
        return err_number(err);
    int len = snprintf(line, sizeof line, "%zu\n", names.count);
    add(w, line, (size_t)len);
    for (size_t i = 0; i < names.count; i++)
        if (add_entry(w, dir, names.items[i], err) < 0)
            return err_number(err);
    w->depth--;
    return 0;
}

int tree_digest(int dir, struct tree_known *known, struct root_facts *ret, struct err *err)
{
    uint8_t digest[SHA256_SIZE];
    struct digest_walk w = {.facts = ret, .known = known, .chunk = malloc(CHUNK)};
    *ret = (struct root_facts){.bytes = 0};
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
