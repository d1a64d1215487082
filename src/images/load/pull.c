/* Pulls an image with skopeo, which knows registries, their tokens, mirrors and credential helpers,
 * into a folder, and loads that. Where the store has layers, the folder is an OCI layout in which
 * each of them has a stand-in: skopeo looks whether a file of that name is there, and asks for none
 * of them. The stand-ins are gone before anything is loaded, and hash to no name besides.
 *
 * IM-11  skopeo is started with one fixed transport and a reference that has the strict spelling of
 *        IM-1; nothing else of its command line is anybody's choice. What it brings is as hostile
 * as any other source.
 *
 * IM-19  It knows no limit: what a registry sends may be more than it said, without end. So no file
 *        can be larger than all that the image may have, and all of them are measured while they
 *        come. */
#include "base/cleanup.h"
#include "images/load/load.h"
#include "images/load/skopeo.h"
#include "os/fd.h"
#include "os/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where skopeo puts what comes, below a scratch folder. */
#define BLOBS "layout/blobs/sha256"
static const char *const places[] = {"pulled", "layout", BLOBS};

/* skopeo takes a tag or a digest, not both; the digest says more. */
static void source_text(const struct reference *ref, char *ret, size_t size)
{
    const char *slash = strrchr(ref->name, '/');
    const char *tag = strrchr(slash ? slash : ref->name, ':');
    int bare = tag ? (int)(tag - ref->name) : (int)strlen(ref->name);
    if (ref->digest[0])
        snprintf(ret, size, "docker://%.*s@%s", bare, ref->name, ref->digest);
    else
        snprintf(ret, size, "docker://%s", ref->name);
}

/* ---- what comes ---- */

struct came {
    uint64_t bytes, files;
};

/* A file that is gone again was renamed, or is not needed any more. */
static int measure_file(int dir, const char *name, struct came *came, struct err *err)
{
    struct stat sb;
    came->files++;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        came->bytes += S_ISDIR(sb.st_mode) ? 0 : (uint64_t)sb.st_size;
    else if (!path_is_absent(errno))
        return err_sys(err, "look at what came");
    return 0;
}

/* What cannot be measured counts as over the limit. */
static int measure_folder(int tmp, const char *folder, struct came *came, struct err *err)
{
    struct dirent *e;
    DIR *dir = folder_open(tmp, folder);
    int result = 0, more = 0;
    if (!dir) /* or skopeo has not begun */
        return path_is_absent(errno) ? 0 : err_sys(err, "open what came");
    while (result >= 0 && (more = folder_next(dir, &e)) > 0)
        result = measure_file(dirfd(dir), e->d_name, came, err);
    if (result >= 0 && more < 0)
        result = err_sys(err, "list what came");
    closedir(dir);
    return result;
}

static int measure(int tmp, struct came *came, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (measure_folder(tmp, places[i], came, err) < 0)
            return err_number(err);
    return 0;
}

static int check_size(const struct load_request *load, int tmp, const struct came *before,
                      struct err *err)
{
    struct came came = {0};
    if (measure(tmp, &came, err) < 0)
        return err_number(err);
    came.bytes -= before->bytes < came.bytes ? before->bytes : came.bytes;
    came.files -= before->files < came.files ? before->files : came.files;
    if (came.bytes > load->max_bytes) {
        err_set(err, ERR_LIMIT, "more than the %" PRIu64 " bytes that it may have came",
                load->max_bytes);
        return err_hint(err, "--max-size changes that");
    }
    if (came.files <= load->max_entries)
        return 0;
    err_set(err, ERR_LIMIT, "more than the %" PRIu64 " files that it may have came",
            load->max_entries);
    return err_hint(err, "--max-entries changes that");
}

struct coming {
    const struct load_request *load;
    int tmp;
    struct came before; /* the stand-ins, which did not come */
};

static int look(void *ctx, struct err *err)
{
    const struct coming *c = ctx;
    return check_size(c->load, c->tmp, &c->before, err);
}

/* ---- what is there already ---- */

struct standins {
    int blobs;       /* the folder of the layout */
    char (*ids)[65]; /* what has one */
    size_t count, room;
    uint64_t bytes;
};

static void standins_done(struct standins *s)
{
    if (s->blobs >= 0)
        close(s->blobs);
    free(s->ids);
}

static int note_standin(struct standins *s, const char *id, struct err *err)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        void *wide = realloc(s->ids, room * sizeof *s->ids);
        if (!wide)
            return err_memory(err);
        s->ids = wide;
        s->room = room;
    }
    snprintf(s->ids[s->count++], sizeof *s->ids, "%s", id);
    return 0;
}

/* A file of that size, without a byte in it. */
static int make_standin(void *ctx, const char *id, uint64_t packed, struct err *err)
{
    struct standins *s = ctx;
    cleanup_fd int fd = openat(s->blobs, id, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)packed) < 0)
        return err_sys(err, "make a stand-in for a layer");
    s->bytes += packed;
    return note_standin(s, id, err);
}

static int make_standins(const struct store *store, const struct scratch *t, struct standins *s,
                         struct err *err)
{
    static const char *const folders[] = {"layout", "layout/blobs", BLOBS};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdirat(t->fd, folders[i], 0700) < 0)
            return err_sys(err, "make a folder for what is pulled");
    s->blobs = openat(t->fd, BLOBS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->blobs < 0)
        return err_sys(err, "open the folder for what is pulled");
    return layers_each(store, make_standin, s, err);
}

static int drop_standins(const struct standins *s, struct err *err)
{
    for (size_t i = 0; i < s->count; i++)
        if (unlinkat(s->blobs, s->ids[i], 0) < 0)
            return err_sys(err, "remove a stand-in for a layer");
    return 0;
}

/* ---- skopeo ---- */

/* As it is in the registry, or not at all. Signatures are looked at as skopeo's policy says; a
 * layout has no room to keep them. */
static const char *const as_it_is[] = {"--preserve-digests", "--remove-signatures", NULL};
static const char *const plainly[] = {NULL};

static int copy(const struct pull_request *request, const struct reference *ref,
                const char *const *more, const char *target, struct coming *coming, int *status,
                struct err *err)
{
    char source[REFERENCE_SIZE + DIGEST_SIZE + 16];
    const char *argv[16] = {"skopeo", "copy", "--quiet", "--override-os=linux",
                            request->plain_http ? "--src-tls-verify=false"
                                                : "--src-tls-verify=true"};
    size_t n = 5;
    source_text(ref, source, sizeof source);
    const struct skopeo_run run = {.argv = (char *const *)argv,
                                   .max_file = request->load.max_bytes,
                                   .quiet = more[0] != NULL,
                                   .look = look,
                                   .ctx = coming};
    while (*more)
        argv[n++] = *more++;
    argv[n++] = "--";
    argv[n++] = source;
    argv[n++] = target;
    if (skopeo_run(&run, status, err) < 0)
        return err_number(err);
    return *status == 0 ? look(coming, err) : 0;
}

static int remove_layout(const struct scratch *t, struct err *err)
{
    cleanup_fd int layout = openat(t->fd, "layout", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int left = layout < 0 ? -errno : remove_folder(t->fd, "layout", layout);
    errno = -left;
    return left < 0 ? err_sys(err, "remove a layout") : 0;
}

/* 1: the layout has what the store has not. 0: it does not go this way: there is nothing that could
 * be left out, or skopeo did not do it (an older one knows no --preserve-digests, and to some
 * registries and images there is another way alone); then all of it is fetched. */
static int pull_rest(const struct pull_request *request, const struct reference *ref,
                     const struct store *store, struct scratch *t, struct err *err)
{
    char target[PATH_MAX + 16];
    int status = 1;
    struct coming coming = {.load = &request->load, .tmp = t->fd};
    __attribute__((cleanup(standins_done))) struct standins s = {.blobs = -1};
    if (make_standins(store, t, &s, err) < 0)
        return err_number(err);
    coming.before = (struct came){.bytes = s.bytes, .files = s.count};
    snprintf(target, sizeof target, "oci:%.*s/layout", PATH_MAX - 10, t->path);
    /* In the name of a layout a colon begins a tag. */
    if (s.count && !strchr(t->path, ':') &&
        copy(request, ref, as_it_is, target, &coming, &status, err) < 0)
        return err_number(err);
    if (status == 0)
        return drop_standins(&s, err) < 0 ? err_number(err) : 1;
    return remove_layout(t, err);
}

static int pull_all(const struct pull_request *request, const struct reference *ref,
                    const struct scratch *t, struct err *err)
{
    char target[PATH_MAX + 16];
    int status;
    struct coming coming = {.load = &request->load, .tmp = t->fd};
    snprintf(target, sizeof target, "dir:%.*s/pulled", PATH_MAX - 10, t->path);
    if (copy(request, ref, plainly, target, &coming, &status, err) < 0)
        return err_number(err);
    if (status == 0)
        return 0;
    err_set(err, ERR_REFUSED, "skopeo could not pull %s", ref->name);
    /* The file that became too large is gone by now. */
    return err_hint(err, "what it said is above; a login is made with: skopeo login REGISTRY; what "
                         "is too large may be pulled with --max-size");
}

static int pull_into(const struct pull_request *request, const struct reference *ref,
                     const struct store *store, struct scratch *t, struct err *err)
{
    struct load_request load = request->load;
    if (load.step)
        load.step(load.ctx, "pull", 0, 0);
    /* Held until the image has its name: layers that are not fetched must still be there then. */
    cleanup_fd int stay = layers_stay(store, err);
    int rest = stay < 0 ? stay : pull_rest(request, ref, store, t, err);
    if (rest < 0 || (rest == 0 && pull_all(request, ref, t, err) < 0))
        return err_number(err);
    cleanup_fd int source =
        openat(t->fd, rest ? "layout" : "pulled", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (source < 0)
        return err_sys(err, "open what was pulled");
    load.source = source;
    load.name = ref->name;
    return load_image(&load, err);
}

int pull_image(const struct pull_request *request, struct err *err)
{
    struct reference ref;
    cleanup_store struct store store = STORE_INIT;
    struct scratch scratch = SCRATCH_INIT;
    if (reference_parse(request->reference, &ref, err) < 0 || store_open(&store, true, err) < 0)
        return err_number(err);
    int r = scratch_make(&store, &scratch, err);
    if (r >= 0)
        r = pull_into(request, &ref, &store, &scratch, err);
    scratch_done(&store, &scratch);
    return r;
}
