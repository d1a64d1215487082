/* Pulls an image with skopeo, which knows registries, their tokens, mirrors and credential helpers,
 * into a folder, and loads that.
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

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A tag and a digest together are too much for it; the digest says more. */
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

/* What is gone again was there under another name, or is of no use any more. */
static int measure_file(int dir, const char *name, struct came *came, struct err *err)
{
    struct stat sb;
    came->files++;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        came->bytes += (uint64_t)sb.st_size;
    else if (!path_is_absent(errno))
        return err_sys(err, "look at what came");
    return 0;
}

/* It lies in one folder, without any below it. What cannot be measured is over the limit as far as
 * anybody knows. */
static int measure(int tmp, struct came *came, struct err *err)
{
    struct dirent *e;
    DIR *dir = folder_open(tmp, "pulled");
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

static int check_size(const struct load_request *load, int tmp, struct err *err)
{
    struct came came = {0};
    if (measure(tmp, &came, err) < 0)
        return err_number(err);
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
};

static int look(void *ctx, struct err *err)
{
    const struct coming *c = ctx;
    return check_size(c->load, c->tmp, err);
}

static int run_skopeo(const struct pull_request *request, const struct reference *ref,
                      const struct scratch *t, const char *folder, struct err *err)
{
    const struct load_request *load = &request->load;
    char source[REFERENCE_SIZE + DIGEST_SIZE + 16], target[PATH_MAX + 8];
    int status;
    source_text(ref, source, sizeof source);
    snprintf(target, sizeof target, "dir:%s", folder);
    char *argv[] = {"skopeo",
                    "copy",
                    "--quiet",
                    "--override-os=linux",
                    request->plain_http ? "--src-tls-verify=false" : "--src-tls-verify=true",
                    "--",
                    source,
                    target,
                    NULL};
    struct coming coming = {.load = load, .tmp = t->fd};
    const struct skopeo_run run = {
        .argv = argv, .max_file = load->max_bytes, .look = look, .ctx = &coming};
    if (skopeo_run(&run, &status, err) < 0)
        return err_number(err);
    if (status == 0)
        return check_size(load, t->fd, err);
    err_set(err, ERR_REFUSED, "skopeo could not pull %s", ref->name);
    /* The file that became too large is gone by now. */
    return err_hint(err, "what it said is above; a login is made with: skopeo login REGISTRY; what "
                         "is too large may be pulled with --max-size");
}

static int pull_into(const struct pull_request *request, const struct reference *ref,
                     struct scratch *t, struct err *err)
{
    char folder[PATH_MAX];
    struct load_request load = request->load;
    snprintf(folder, sizeof folder, "%.*s/pulled", PATH_MAX - 10, t->path);
    if (load.step)
        load.step(load.ctx, "pull", 0, 0);
    if (run_skopeo(request, ref, t, folder, err) < 0)
        return err_number(err);
    cleanup_fd int source =
        openat(t->fd, "pulled", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
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
        r = pull_into(request, &ref, &scratch, err);
    scratch_done(&store, &scratch);
    return r;
}
