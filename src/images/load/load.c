/* Loads each image of a source: each layer that is not there yet is unpacked alone, the files of
 * all of them get their names in a folder of tmp, and this becomes a root when all layers were what
 * the config says; then documents and name follow. */
#include "images/load/load.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "images/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct loading {
    const struct load_request *request;
    struct store *store;
    struct scratch *scratch; /* of this load: "empty", "archive" */
    int source;
    unsigned images;
    uint64_t left_bytes, left_entries; /* for all images of the source together */
};

static void step(const struct loading *l, const char *what, unsigned layer, unsigned layers)
{
    if (l->request->step)
        l->request->step(l->request->ctx, what, layer, layers);
}

/* ---- layers ---- */

/* Reads what brig-unpack left unread, since it had found the end of the archive or given up; at
 * most the size that was said, since a file that grows has no end. */
static int hash_rest(int fd, uint64_t size, struct stream_hash *given, struct err *err)
{
    cleanup_free char *chunk = malloc(256u << 10);
    ssize_t n;
    if (!chunk)
        return err_memory(err);
    while (given->bytes <= size && (n = pread(fd, chunk, 256u << 10, (off_t)given->bytes)) != 0)
        if (n > 0)
            stream_hash_add(given, chunk, (size_t)n);
        else if (errno != EINTR)
            return err_sys(err, "read a layer");
    return 0;
}

/* IM-8, IM-21: what was unpacked came out of the blob of that name. The bytes were hashed on their
 * way: a source that is changed meanwhile has changed what is compared here. */
static int check_blob(const struct layer_request *q, struct stream_hash *given, struct err *err)
{
    uint8_t sum[SHA256_SIZE];
    char text[SHA256_HEX_SIZE];
    if (hash_rest(q->source, q->size, given, err) < 0)
        return err_number(err);
    if (given->bytes != q->size)
        return err_set(err, ERR_REFUSED, "it has another size than was said");
    sha256_finish(&given->sha, sum);
    hex_encode(sum, sizeof sum, text);
    return strcmp(text, q->name.blob + strlen("sha256:")) == 0
               ? 0
               : err_set(err, ERR_REFUSED, "it has another digest than was said");
}

/* A blob that is not what its name says is told as that, whatever brig-unpack found in it. Where
 * the blob is the plain layer itself, brig has computed the digest, not brig-unpack. */
static int unpack_checked(const struct layer_request *q, const char *folder, struct unpacked *got,
                          struct err *err)
{
    struct err why = ERR_INIT;
    bool plain = strcmp(q->name.blob, q->name.diff_id) == 0;
    int r = unpack_run(q->source, plain ? UNPACK_PLAIN : UNPACK_LAYER, folder, q->empty,
                       q->max_bytes, q->max_entries, got, &why);
    if ((r >= 0 || why.code == ERR_REFUSED) && check_blob(q, &got->given, err) < 0)
        return err_number(err);
    if (r < 0)
        *err = why;
    else if (plain)
        snprintf(got->diff_id, sizeof got->diff_id, "%s", q->name.blob);
    return r;
}

static uint64_t at_most(uint64_t n, uint64_t most)
{
    return n < most ? n : most;
}

static int make_folder(const struct scratch *t, const char *name, char path[static PATH_MAX],
                       struct err *err)
{
    if (mkdirat(t->fd, name, 0755) < 0)
        return err_sys(err, "make a folder for the image");
    if (snprintf(path, PATH_MAX, "%s/%s", t->path, name) >= PATH_MAX)
        return err_set(err, ERR_LIMIT, "the path of the state folder is too long for images");
    return 0;
}

int load_layer(const struct layer_request *q, struct held_layers *h, struct err *err)
{
    char folder[PATH_MAX];
    struct scratch t = SCRATCH_INIT;
    struct unpacked got;
    struct root_facts facts = {.bytes = 0};
    if (scratch_make(q->store, &t, err) < 0)
        return err_number(err);
    int r = make_folder(&t, "tree", folder, err);
    if (r >= 0)
        r = unpack_checked(q, folder, &got, err);
    cleanup_fd int tree = r < 0 ? -1 : openat(t.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r >= 0)
        r = tree < 0 ? err_sys(err, "open the unpacked layer")
                     : tree_digest(tree, q->known, &facts, err);
    if (r >= 0) {
        facts.left_out = got.left_out;
        facts.packed = q->size;
        snprintf(facts.diff_id, sizeof facts.diff_id, "%s", got.diff_id);
        r = layers_put(q->store, h, &q->name, &t, &facts, err);
    }
    scratch_done(q->store, &t);
    return r;
}

static struct layer_name name_of(const struct load_image *image, unsigned n)
{
    return (struct layer_name){.blob = image->layers[n].at.digest,
                               .diff_id = image->config.diff_ids[n]};
}

/* Before it is read: most of what is wrong is cut off. */
static int check_size(int fd, const struct load_layer *layer, struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "look at a layer");
    return (uint64_t)sb.st_size == layer->at.size
               ? 0
               : err_set(err, ERR_REFUSED, "it has another size than was said");
}

static int unpack_layer(const struct loading *l, const struct load_image *image, unsigned n,
                        const struct root_facts *sum, struct held_layers *h,
                        struct tree_known *known, struct err *err)
{
    char empty[PATH_MAX];
    const struct load_layer *layer = &image->layers[n];
    snprintf(empty, sizeof empty, "%.*s/empty", PATH_MAX - 10, l->scratch->path);
    cleanup_fd int fd = source_open(l->source, layer->file, err);
    if (fd < 0)
        return fd;
    if (check_size(fd, layer, err) < 0)
        return err_number(err);
    step(l, "unpack", n + 1, image->parsed.layer_count);
    const struct layer_request q = {.store = l->store,
                                    .name = name_of(image, n),
                                    .source = fd,
                                    .size = layer->at.size,
                                    .empty = empty,
                                    .max_bytes = l->left_bytes - sum->bytes,
                                    .max_entries = l->left_entries - sum->files,
                                    .known = known};
    return load_layer(&q, h, err);
}

/* A layer that is in the store already counts for the limits of an image as well. */
static int count_layer(const struct loading *l, const struct held_layer *layer,
                       struct root_facts *sum, struct err *err)
{
    if (layer->facts.bytes > l->left_bytes - sum->bytes) {
        err_set(err, ERR_LIMIT, "it has more than the %" PRIu64 " bytes that are left for it",
                l->left_bytes - sum->bytes);
        return err_hint(err, "if it is meant to be that large: --max-size");
    }
    sum->bytes += layer->facts.bytes;
    sum->files += at_most(layer->facts.files, l->left_entries - sum->files);
    sum->left_out += layer->facts.left_out;
    return 0;
}

static int get_layer(const struct loading *l, const struct load_image *image, unsigned n,
                     struct root_facts *sum, struct held_layers *h, struct tree_known *known,
                     struct err *err)
{
    cleanup_fd int making = -1; /* until it is unpacked */
    const struct layer_name name = name_of(image, n);
    int r = layers_take(l->store, h, &name, &making, err);
    if (r == 0)
        r = unpack_layer(l, image, n, sum, h, known, err);
    return r < 0 ? r : count_layer(l, &h->items[n], sum, err);
}

/* All of it is on the disk before it has a name. */
static int settle_root(const struct scratch *t, struct tree_known *known, struct root_facts *facts,
                       struct err *err)
{
    uint64_t left_out = facts->left_out;
    cleanup_fd int tree = openat(t->fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open the unpacked image");
    if (tree_digest(tree, known, facts, err) < 0)
        return err_number(err);
    facts->left_out = left_out;
    facts->shared = true;
    if (root_facts_write(t->fd, facts, err) < 0)
        return err_number(err);
    return syncfs(t->fd) == 0 ? 0 : err_sys(err, "flush the unpacked image");
}

int load_lay(const struct held_layer *layer, const struct scratch *root, struct merge_room *room,
             struct err *err)
{
    cleanup_fd int from =
        openat(layer->fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_fd int to = openat(root->fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || to < 0)
        return err_sys(err, "open the unpacked image");
    return merge_layer(from, to, room, err);
}

static int build_root(const struct loading *l, const struct load_image *image, struct scratch *t,
                      struct held_layers *h, struct root_facts *facts, struct err *err)
{
    char tree[PATH_MAX];
    struct root_facts sum = {.bytes = 0};
    struct merge_room room = {.entries = l->left_entries, .bytes = l->left_bytes};
    __attribute__((cleanup(tree_known_free))) struct tree_known *known = tree_known_new();
    if (make_folder(t, "tree", tree, err) < 0)
        return err_number(err);
    for (unsigned n = 0; n < image->parsed.layer_count; n++)
        if (get_layer(l, image, n, &sum, h, known, err) < 0 ||
            load_lay(&h->items[n], t, &room, err) < 0)
            return err_wrap(err, "layer %u of %u", n + 1, image->parsed.layer_count);
    *facts = sum;
    step(l, "check", 0, 0);
    return settle_root(t, known, facts, err);
}

/* ---- names ---- */

static void time_now(char ret[static 24])
{
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(ret, 24, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int choose_name(const struct loading *l, const struct load_image *image,
                       char ret[static REFERENCE_SIZE], struct err *err)
{
    struct reference ref;
    if (!l->request->name && image->name[0]) {
        snprintf(ret, REFERENCE_SIZE, "%s", image->name);
        return 0;
    }
    if (!l->request->name) {
        err_set(err, ERR_USAGE, "the image has no name of its own");
        return err_hint(err, "give it one: brig image load SOURCE NAME");
    }
    if (reference_parse(l->request->name, &ref, err) < 0)
        return err_number(err);
    if (ref.digest[0] && strcmp(ref.digest, image->digest) != 0)
        return err_set(err, ERR_REFUSED, "the image is %s, and not what its name is pinned to",
                       image->digest);
    snprintf(ret, REFERENCE_SIZE, "%s", ref.name);
    return 0;
}

/* A name that the archive brings does not take the place of another image by itself. */
static int check_move(const struct loading *l, struct load_result *r, struct err *err)
{
    struct image_name old;
    struct err ignored = ERR_INIT;
    int found = name_read(l->store, r->name.name, &old, &ignored);
    if (found <= 0 || strcmp(old.manifest, r->name.manifest) == 0)
        return 0;
    snprintf(r->before, sizeof r->before, "%s", old.manifest);
    if (l->request->name || l->request->replace)
        return 0;
    err_set(err, ERR_REFUSED, "the image calls itself %s, which is another image here (%s)",
            old.name, old.manifest);
    return err_hint(err, "say so: --replace, or give it a name of your own");
}

static int put_documents(const struct loading *l, const struct load_image *image, struct err *err)
{
    if (store_write(l->store, "blobs", image->parsed.config.digest + 7,
                    buf_text(&image->config_text), image->config_text.len, err) < 0)
        return err_number(err);
    return store_write(l->store, "blobs", image->digest + 7, buf_text(&image->manifest),
                       image->manifest.len, err);
}

/* `t` becomes the root, unless somebody else was faster. 0: there is no root and no `t`. */
static int put_root(const struct loading *l, struct scratch *t, const char *chain,
                    struct root_facts *facts, struct err *err)
{
    cleanup_fd int root = root_hold(l->store, chain);
    if (root >= 0)
        return root_facts_read(root, facts, err) < 0 ? err_number(err) : 1;
    if (t->fd < 0)
        return 0;
    cleanup_fd int tmp = openat(l->store->fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int roots = openat(l->store->fd, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tmp < 0 || roots < 0 || renameat(tmp, t->name, roots, chain) < 0 || fsync(roots) < 0)
        return err_sys(err, "give the unpacked image its name");
    close(t->fd);
    t->fd = -1;
    return 1;
}

/* IM-7, IM-9: with the store locked, so that nobody removes the root before it has a name. 0: the
 * root that was there has been removed meanwhile. */
static int commit(const struct loading *l, const struct load_image *image, struct scratch *t,
                  const struct held_layers *h, const char *chain, struct load_result *r,
                  struct err *err)
{
    cleanup_fd int lock = store_lock(l->store, true, err);
    if (lock < 0)
        return lock;
    if (check_move(l, r, err) < 0)
        return err_number(err);
    int put = put_root(l, t, chain, &r->facts, err);
    if (put <= 0 || (h && layers_settle(h, err) < 0))
        return put <= 0 ? put : err_number(err);
    if (put_documents(l, image, err) < 0 || name_write(l->store, &r->name, err) < 0)
        return err_number(err);
    return 1;
}

/* An archive of a few kilobytes may hold hundreds of images: the limits are those of all of them.
 */
static void count_root(struct loading *l, const struct root_facts *made)
{
    l->left_bytes -= at_most(made->bytes, l->left_bytes);
    l->left_entries -= at_most(made->files, l->left_entries);
}

static int make_and_commit(struct loading *l, const struct load_image *image, const char *chain,
                           struct load_result *r, struct err *err)
{
    struct scratch t = SCRATCH_INIT;
    cleanup_free struct held_layers *h = calloc(1, sizeof *h);
    r->known = false;
    if (!h || scratch_make(l->store, &t, err) < 0)
        return h ? err_number(err) : err_memory(err);
    int result = build_root(l, image, &t, h, &r->facts, err);
    if (result >= 0) {
        count_root(l, &r->facts);
        result = commit(l, image, &t, h, chain, r, err);
    }
    scratch_done(l->store, &t);
    layers_done(l->store, h);
    return result;
}

int load_put(struct store *store, struct load_image *image, const char *name, struct scratch *t,
             const struct held_layers *h, struct load_result *r, struct err *err)
{
    const struct load_request request = {.name = name};
    struct loading l = {.request = &request, .store = store};
    char chain[65];
    image_chain(&image->parsed, &image->config, chain);
    if (choose_name(&l, image, r->name.name, err) < 0)
        return err_number(err);
    snprintf(r->name.manifest, sizeof r->name.manifest, "%s", image->digest);
    time_now(r->name.loaded);
    if (settle_root(t, NULL, &r->facts, err) < 0)
        return err_number(err);
    return commit(&l, image, t, h, chain, r, err) < 0 ? err_number(err) : 0;
}

static int count_one(void *ctx, struct load_image *image, struct err *err)
{
    struct loading *l = ctx;
    (void)image;
    if (l->images++ == 0)
        return 0;
    err_set(err, ERR_REFUSED, "there is more than one image in it, but one name for them");
    return err_hint(err, "leave the name out: each is loaded under its own");
}

static int load_one(void *ctx, struct load_image *image, struct err *err)
{
    struct loading *l = ctx;
    struct load_result r = {.known = true};
    struct scratch none = SCRATCH_INIT;
    char chain[65];
    image_chain(&image->parsed, &image->config, chain);
    if (choose_name(l, image, r.name.name, err) < 0)
        return err_number(err);
    snprintf(r.name.manifest, sizeof r.name.manifest, "%s", image->digest);
    time_now(r.name.loaded);
    int done = commit(l, image, &none, NULL, chain, &r, err);
    if (done == 0)
        done = make_and_commit(l, image, chain, &r, err);
    if (done < 0)
        return err_number(err);
    if (l->request->loaded)
        l->request->loaded(l->request->ctx, &r);
    return 0;
}

/* ---- the source ---- */

static int unpack_archive(struct loading *l, int fd, struct err *err)
{
    char folder[PATH_MAX], empty[PATH_MAX];
    struct unpacked got;
    snprintf(empty, sizeof empty, "%.*s/empty", PATH_MAX - 10, l->scratch->path);
    if (make_folder(l->scratch, "archive", folder, err) < 0)
        return err_number(err);
    step(l, "read", 0, 0);
    if (unpack_run(fd, UNPACK_ARCHIVE, folder, empty, l->request->max_bytes,
                   l->request->max_entries, &got, err) < 0)
        return err_number(err);
    l->source = openat(l->scratch->fd, "archive", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l->source < 0 ? err_sys(err, "open the archive") : 0;
}

static int open_source(struct loading *l, struct err *err)
{
    struct stat sb;
    if (fstat(l->request->source, &sb) < 0)
        return err_sys(err, "look at the source");
    if (!S_ISDIR(sb.st_mode))
        return unpack_archive(l, l->request->source, err);
    l->source = openat(l->request->source, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l->source < 0 ? err_sys(err, "open the layout") : 0;
}

/* First removes what loads left that were killed: it may be large. */
int load_sweep(const struct store *s, struct err *err)
{
    cleanup_fd int lock = store_lock(s, true, err);
    if (lock < 0)
        return lock;
    scratch_sweep(s);
    layers_sweep(s);
    return 0;
}

static int load_into(struct loading *l, struct err *err)
{
    char empty[PATH_MAX];
    if (load_sweep(l->store, err) < 0 || scratch_make(l->store, l->scratch, err) < 0 ||
        make_folder(l->scratch, "empty", empty, err) < 0 || open_source(l, err) < 0)
        return err_number(err);
    /* Before anything is made of the first of them. */
    if (l->request->name && source_each(l->source, count_one, l, err) < 0)
        return err_number(err);
    return source_each(l->source, load_one, l, err);
}

int load_image(const struct load_request *request, struct err *err)
{
    struct reference ref;
    cleanup_store struct store store = STORE_INIT;
    struct scratch scratch = SCRATCH_INIT;
    struct loading l = {.request = request,
                        .store = &store,
                        .scratch = &scratch,
                        .source = -1,
                        .left_bytes = request->max_bytes,
                        .left_entries = request->max_entries};
    if (request->name && reference_parse(request->name, &ref, err) < 0)
        return err_number(err);
    if (store_open(&store, true, err) < 0)
        return err_number(err);
    int r = load_into(&l, err);
    if (l.source >= 0)
        close(l.source);
    scratch_done(&store, &scratch);
    return r;
}
