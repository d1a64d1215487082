/* The five verbs of the filesystem boundary. */
#include "filesystem/filesystem.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <inttypes.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

void filesystem_init(struct filesystem *fs)
{
    memset(fs, 0, offsetof(struct filesystem, host));
    fs->host.view_count = 0;
    fs->host.archive[0] = '\0';
    fs->host.landlock_abi = 0;
    fs->private_fd = fs->reviews_fd = fs->review_fd = fs->root_fd = fs->changes_fd = -1;
    own_init(&fs->own);
}

/* On the process tier nothing translates owners: a root supervisor's sandbox has a uid that owns
 * nothing. Better to say so than to let the code fail at its first write. */
static int check_reach(const struct filesystem *fs, const struct pinned_grant *g, struct err *err)
{
    struct stat sb;
    if (fs->namespaced || !fs->privileged || !g->writable || fstat(g->fd, &sb) < 0 ||
        (sb.st_mode & S_IWOTH))
        return 0;
    err_set(
        err, ERR_UNSUPPORTED,
        "%s cannot be granted read-write: as root, the process tier runs the code as a uid that "
        "may not write there",
        g->source);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "use --tier container, or run brig as the owner of the folder");
}

static int pin(struct filesystem *fs, const char *source, const char *dest, bool writable,
               struct err *err)
{
    if (fs->grant_count == GRANTS_MAX) {
        err_set(err, ERR_LIMIT, "more than %d granted folders", GRANTS_MAX);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    if (strlen(dest) >= sizeof fs->mounts[0].dest) {
        err_set(err, ERR_LIMIT, "the place %.40s… inside the sandbox has more than %zu bytes", dest,
                sizeof fs->mounts[0].dest - 1);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    struct pinned_grant *g = &fs->grants[fs->grant_count];
    int result = grant_pin(g, source, dest, writable, err);
    if (result < 0)
        return result;
    fs->grant_count++;
    return check_reach(fs, g, err);
}

static int pin_review(struct filesystem *fs, const struct filesystem_request *r, struct err *err)
{
    char link[64], folder[sizeof fs->review_path];
    snprintf(link, sizeof link, "/proc/self/fd/%d", r->reviews_fd);
    ssize_t n = readlink(link, folder, sizeof folder - 1);
    if (n <= 0 || (size_t)n + strlen(r->id) + 8 >= sizeof folder)
        return err_set(err, ERR_LIMIT, "the path of the state folder is too long for a review");
    folder[n] = '\0';
    snprintf(fs->review_path, sizeof fs->review_path, "%s/%s", folder, r->id);
    snprintf(fs->review_tree, sizeof fs->review_tree, "%s/tree", fs->review_path);
    fs->reviews_fd = r->reviews_fd;
    fs->review_id = r->id;
    fs->command = r->command;
    bool privileged = fs->privileged;
    fs->privileged = false; /* the copy is made for the sandbox's uid */
    int result = pin(fs, r->review, r->review_dest, true, err);
    fs->privileged = privileged;
    if (result < 0)
        return err_wrap(err, "--review");
    struct pinned_grant *g = &fs->grants[fs->grant_count - 1];
    g->review = true;
    if (path_below(fs->review_path, g->source)) {
        err_set(err, ERR_REFUSED, "the state folder %s lies in the project itself", folder);
        err_at(err, BOUNDARY_FILESYSTEM);
        return err_hint(err, "set XDG_STATE_HOME to a folder outside of it");
    }
    return g->is_dir ? 0 : err_set(err, ERR_USAGE, "--review: %s is not a folder", g->source);
}

static int pin_output(struct filesystem *fs, const char *folder, struct err *err)
{
    if (!fs->namespaced)
        return err_set(err, ERR_UNSUPPORTED, "a folder to fill needs the container tier");
    return grant_pin_own(&fs->grants[fs->grant_count++], folder, WORKSPACE, err);
}

/* Outer folders first, so that a grant below another is mounted on top of it. */
static int by_dest(const void *a, const void *b)
{
    return strcmp(((const struct pinned_grant *)a)->dest, ((const struct pinned_grant *)b)->dest);
}

static int pin_all(struct filesystem *fs, const struct filesystem_request *r, struct err *err)
{
    const struct policy *p = fs->policy;
    const char *project = r->project, *tool = r->tool;
    if (r->review && pin_review(fs, r, err) < 0)
        return err_number(err);
    if (r->output && pin_output(fs, r->output, err) < 0)
        return err_number(err);
    if (tool && pin(fs, tool, fs->namespaced ? TOOL_PATH : tool, false, err) < 0)
        return err_number(err);
    if (r->module && pin(fs, r->module, fs->namespaced ? MODULE_PATH : r->module, false, err) < 0)
        return err_number(err);
    if (r->program &&
        pin(fs, r->program, fs->namespaced ? PROGRAM_PATH : r->program, false, err) < 0)
        return err_number(err);
    if (p->project && project && pin(fs, project, project, true, err) < 0)
        return err_wrap(err, "project folder");
    for (size_t i = 0; i < p->grant_count; i++)
        if (pin(fs, p->grants[i].source, p->grants[i].dest, p->grants[i].writable, err) < 0)
            return err_number(err);
    qsort(fs->grants, fs->grant_count, sizeof fs->grants[0], by_dest);
    return grants_check_mounts(fs, err);
}

static int name_private_dir(struct filesystem *fs, struct err *err)
{
    uint64_t name[2];
    if (getrandom(name, sizeof name, 0) != sizeof name)
        return err_sys(err, "random name");
    snprintf(fs->private_dir, sizeof fs->private_dir, "/tmp/brig-%016" PRIx64 "%08" PRIx64, name[0],
             name[1] & 0xffffffff);
    return 0;
}

static void choose_cwd(struct filesystem *fs, const char *project)
{
    const struct policy *p = fs->policy;
    const struct pinned_grant *review = review_grant(fs);
    if (p->cwd)
        fs->cwd = p->cwd;
    else if (review)
        fs->cwd = grant_place(fs, review);
    else if (p->project && project)
        fs->cwd = project;
    else if (fs->namespaced)
        fs->cwd = p->workspace ? WORKSPACE : "/";
    else
        fs->cwd = fs->private_dir[0] ? fs->private_dir : "/";
}

int filesystem_open(struct filesystem *fs, const struct filesystem_request *request,
                    struct err *err)
{
    fs->policy = request->policy;
    fs->namespaced = request->namespaced;
    fs->private_root = request->private_root;
    fs->privileged = request->privileged;
    fs->inside_uid = request->inside_uid;
    fs->root_beside = request->root_beside;
    fs->as_root = request->as_root;
    fs->as_root_len = request->as_root_len;
    fs->whole_proc = request->whole_proc;
    fs->keeps_changes = request->keeps_changes && fs->namespaced && fs->policy->writable_root;
    fs->user_kernel = request->user_kernel;
    fs->proc = fs->user_kernel ? PROC_OWN : fs->policy->proc;
    filesystem_probe(&fs->host);
    fs->own_root = request->root != NULL;
    fs->root = request->root                           ? request->root
               : strcmp(fs->policy->root, "host") != 0 ? fs->policy->root
                                                       : NULL;
    if (fs->root && image_probe(fs, err) < 0)
        return err_number(err);
    if (fs->namespaced && fs->policy->writable_root && fs->root_fd < 0 && filesystem_has_root(fs))
        filesystem_probe_packages(&fs->host);
    if (pin_all(fs, request, err) < 0)
        return err_number(err);
    if (!fs->namespaced && fs->policy->workspace && name_private_dir(fs, err) < 0)
        return err_number(err);
    choose_cwd(fs, request->project);
    return 0;
}

/* It came before the code ran. Still: it is walked later, and must be nothing that could make the
 * walker wait. */
int filesystem_changes_take(struct filesystem *fs, int *fd, struct err *err)
{
    struct statfs s;
    struct stat sb;
    if (!fs->keeps_changes || fs->changes_fd >= 0 || *fd < 0 || fstat(*fd, &sb) < 0 ||
        !S_ISDIR(sb.st_mode) || fstatfs(*fd, &s) < 0 || s.f_type != TMPFS_MAGIC)
        return err_set(err, ERR_PROTOCOL, "init sent a folder that nobody asked for");
    fs->changes_fd = fd_steal(fd);
    return 0;
}

int filesystem_plan(struct filesystem *fs, enum plan_stage stage, struct plan *plan,
                    struct err *err)
{
    switch (stage) {
    case STAGE_VIEW:
        return fs->namespaced ? container_plan(fs, plan, err) : 0;
    case STAGE_RESTRICT:
        return landlock_plan(fs, plan, err);
    case STAGE_CODE:
        plan_str(plan, OP_CWD, fs->cwd, NULL, 0);
        return 0;
    default:
        return 0;
    }
}

static int keep_tree(struct filesystem *fs, int tree, struct err *err)
{
    if (tree < 0)
        return tree;
    if (fs->tree_count == INIT_TREES_MAX) {
        close(tree);
        return err_set(err, ERR_LIMIT, "more than %d host folders", INIT_TREES_MAX);
    }
    fs->trees[fs->tree_count++] = tree;
    return 0;
}

/* The upper layer belongs to the project's owner, as what is made in the project would. */
static int keep_layers(struct filesystem *fs, const struct pinned_grant *g, uid_t uid, gid_t gid,
                       struct err *err)
{
    struct stat sb;
    char path[sizeof fs->review_path + 8];
    snprintf(path, sizeof path, "%s/layers", fs->review_path);
    if (fstat(g->fd, &sb) < 0)
        return err_sys(err, "look at %s", g->source);
    return keep_tree(fs, layer_tree(path, sb.st_uid, sb.st_gid, uid, gid, err), err);
}

/* In the same order as the plan counts them. */
static int open_trees(struct filesystem *fs, uid_t uid, gid_t gid, uid_t system, struct err *err)
{
    gid_t system_gid = fs->root_beside ? (gid_t)system : gid;
    cleanup_idmap struct idmap map = IDMAP_INIT;
    for (unsigned i = 0; fs->root && i < fs->host.view_count; i++)
        if (!fs->host.view[i].target[0] &&
            keep_tree(fs, image_tree(fs, &map, &fs->host.view[i], system, system_gid, err), err) <
                0)
            return err_number(err);
    for (unsigned i = 0; i < fs->grant_count; i++)
        if (keep_tree(fs, grant_tree(&fs->grants[i], fs->policy->submounts, uid, gid, err), err) <
                0 ||
            (fs->grants[i].review && keep_layers(fs, &fs->grants[i], uid, gid, err) < 0))
            return err_number(err);
    return 0;
}

bool filesystem_has_root(const struct filesystem *fs)
{
    return fs->inside_uid == 0 || fs->root_beside;
}

int filesystem_prepare(struct filesystem *fs, uid_t host_uid, gid_t host_gid, uid_t system,
                       struct err *err)
{
    if (fs->namespaced && fs->privileged && open_trees(fs, host_uid, host_gid, system, err) < 0)
        return err_at(err, BOUNDARY_FILESYSTEM);
    if (fs->private_dir[0] && private_dir_make(fs, host_uid, host_gid, err) < 0)
        return err_at(err, BOUNDARY_FILESYSTEM);
    return 0;
}

static bool in_view(const struct filesystem *fs, const char *path)
{
    for (unsigned i = 0; i < fs->host.view_count; i++)
        if (path_below(path, fs->host.view[i].path))
            return true;
    return false;
}

/* On another root than the host's, programs find the files by the environment alone. */
bool filesystem_cover(struct filesystem *fs, const char *shown, const char *dest)
{
    struct stat sb;
    if (!fs->namespaced || fs->root || !in_view(fs, dest) || fs->cover_count == COVERS_MAX ||
        lstat(dest, &sb) < 0 || !S_ISREG(sb.st_mode))
        return false;
    fs->covers[fs->cover_count++] = (struct cover){shown, dest};
    return true;
}

const char *filesystem_show(struct filesystem *fs, const char *name, const void *data, size_t len,
                            struct err *err)
{
    if (fs->shown_count == SHOWN_MAX || (!fs->namespaced && fs->private_fd < 0)) {
        err_set(err, ERR_UNSUPPORTED, "there is no place in the sandbox for the file %s", name);
        err_hint(err,
                 "give it a workspace (filesystem.workspace: true), or use the container tier");
        err_at(err, BOUNDARY_FILESYSTEM);
        return NULL;
    }
    struct shown_file *f = &fs->shown[fs->shown_count];
    *f = (struct shown_file){.data = data, .len = len};
    snprintf(f->path, sizeof f->path, "%s/%s", fs->namespaced ? SHOWN_DIR : fs->private_dir, name);
    if (!fs->namespaced && private_dir_write(fs, name, data, len, err) < 0)
        return NULL;
    fs->shown_count++;
    return f->path;
}

int filesystem_teardown(struct filesystem *fs, struct err *err)
{
    while (fs->tree_count)
        close(fs->trees[--fs->tree_count]);
    while (fs->grant_count)
        grant_unpin(&fs->grants[--fs->grant_count]);
    int result = private_dir_remove(fs, err);
    image_close(fs);
    own_done(&fs->own);
    if (fs->review_fd >= 0)
        close(fs->review_fd);
    fs->review_fd = -1;
    if (fs->changes_fd >= 0)
        close(fs->changes_fd);
    fs->changes_fd = -1;
    return result;
}
