/* From a reference to an image that can be run: name, pin, manifest, config and root, each checked
 * against the one before. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "images/store.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PASSWD_MAX (1u << 20)
#define UID_MAX    65533 /* as kernel.uid has it */

static int no_such(const char *name, struct err *err)
{
    err_set(err, ERR_REFUSED, "there is no image %s", name);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "`brig image list` has their names; brig image load FILE.tar %s makes one",
                    name);
}

static int find_name(const struct store *s, const struct reference *ref, struct image_name *ret,
                     struct err *err)
{
    int found = name_read(s, ref->name, ret, err);
    if (found <= 0)
        return found < 0 ? found : no_such(ref->name, err);
    if (!ref->digest[0] || strcmp(ref->digest, ret->manifest) == 0)
        return 0;
    err_set(err, ERR_REFUSED, "the image %s is %s now, and not what it is pinned to", ref->name,
            ret->manifest);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err,
                    "somebody moved the name; load the image that was meant, or change the pin");
}

int image_documents(const struct store *s, struct image *i, struct err *err)
{
    cleanup_buf struct buf manifest, config;
    buf_init(&manifest, IMAGE_DOCUMENT_MAX);
    buf_init(&config, IMAGE_DOCUMENT_MAX);
    if (store_blob(s, i->name.manifest, &manifest, err) < 0 ||
        manifest_parse(buf_text(&manifest), manifest.len, &i->manifest, err) < 0 ||
        store_blob(s, i->manifest.config.digest, &config, err) < 0 ||
        config_parse(buf_text(&config), config.len, &i->config, err) < 0)
        return err_number(err);
    if (i->config.diff_count != i->manifest.layer_count)
        return err_set(err, ERR_REFUSED, "its config names other layers than its manifest");
    image_chain(&i->manifest, &i->config, i->chain);
    return 0;
}

/* One that was unpacked before roots had their names of blobs is still what it was; but nothing
 * new is made of it. */
static int hold_root(const struct store *s, struct image *i, struct err *err)
{
    i->root_fd = root_hold(s, i->chain);
    if (i->root_fd < 0) {
        i->before = true;
        image_chain_before(&i->config, i->chain);
        i->root_fd = root_hold(s, i->chain);
    }
    if (i->root_fd < 0)
        return err_set(err, ERR_REFUSED, "its root is missing");
    snprintf(i->root, sizeof i->root, "%.*s/roots/%s/tree", PATH_MAX - 100, s->path, i->chain);
    return root_facts_read(i->root_fd, &i->facts, err);
}

static int open_named(const struct store *s, struct image *i, struct err *err)
{
    if (image_documents(s, i, err) >= 0 && hold_root(s, i, err) >= 0)
        return 0;
    err_wrap(err, "the image %s cannot be used", i->name.name);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err->hint[0] ? err_number(err)
                        : err_hint(err, "`brig image verify` says more; load it again");
}

int image_open_in(const struct store *s, const char *reference, struct image *ret, struct err *err)
{
    struct reference ref;
    *ret = (struct image)IMAGE_INIT;
    if (reference_parse(reference, &ref, err) < 0)
        return err_number(err);
    if (s->fd < 0)
        return no_such(ref.name, err);
    cleanup_fd int lock = store_lock(s, false, err);
    if (lock < 0)
        return lock;
    int r = find_name(s, &ref, &ret->name, err);
    if (r >= 0)
        r = open_named(s, ret, err);
    if (r < 0)
        image_done(ret);
    return r;
}

int image_open(const char *reference, struct image *ret, struct err *err)
{
    cleanup_store struct store s = STORE_INIT;
    *ret = (struct image)IMAGE_INIT;
    if (store_open(&s, false, err) < 0)
        return err_number(err);
    return image_open_in(&s, reference, ret, err);
}

void image_done(struct image *image)
{
    config_done(&image->config);
    if (image->root_fd >= 0)
        close(image->root_fd);
    *image = (struct image)IMAGE_INIT;
}

/* ---- the user ---- */

static int cannot_be(const char *user, const char *why, struct err *err)
{
    struct quoted q;
    err_set(err, ERR_UNSUPPORTED, "the image wants to run as the user %s: %s", quote(&q, user),
            why);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "choose the user id inside: --uid 0, --uid 1000");
}

/* The image's own file: through no link that leads out of it. */
static int read_passwd(const struct image *image, struct buf *ret)
{
    char chunk[8192];
    ssize_t n;
    struct stat sb;
    cleanup_fd int tree = openat(image->root_fd, "tree", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd = tree < 0
                            ? -1
                            : sys_openat2(tree, "etc/passwd", O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0,
                                          RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (fd < 0 || fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode))
        return -ENOENT;
    while ((n = read(fd, chunk, sizeof chunk)) > 0 && !ret->failed)
        buf_add(ret, chunk, (size_t)n);
    return n < 0 || ret->failed ? -EIO : 0;
}

static bool uid_in_line(const char *line, size_t len, const char *user, uint64_t *ret)
{
    char text[256], *at = text, *fields[4];
    struct err ignored = ERR_INIT;
    if (len >= sizeof text)
        return false;
    memcpy(text, line, len);
    text[len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!(fields[i] = strsep(&at, ":")))
            return false;
    return strcmp(fields[0], user) == 0 && num_parse_uint(fields[2], ret, &ignored) >= 0;
}

static bool uid_of_name(const struct image *image, const char *user, uint64_t *ret)
{
    cleanup_buf struct buf text;
    buf_init(&text, PASSWD_MAX);
    if (read_passwd(image, &text) < 0)
        return false;
    for (const char *at = buf_text(&text); *at;) {
        size_t len = strcspn(at, "\n");
        if (uid_in_line(at, len, user, ret))
            return true;
        at += len + (at[len] == '\n');
    }
    return false;
}

/* There is only one user inside: a group with another number could not be shown. */
int image_user(const struct image *image, uint64_t *uid, struct err *err)
{
    const char *text = image->config.user ? image->config.user : "0";
    char user[128], *group;
    uint64_t gid;
    struct err ignored = ERR_INIT;
    if (snprintf(user, sizeof user, "%s", text) >= (int)sizeof user)
        return cannot_be(text, "its name is too long", err);
    if ((group = strchr(user, ':')))
        *group++ = '\0';
    bool number = user[0] >= '0' && user[0] <= '9';
    if (strcmp(user, "root") == 0)
        *uid = 0;
    else if (number ? num_parse_uint(user, uid, &ignored) < 0 : !uid_of_name(image, user, uid))
        return cannot_be(text, "its /etc/passwd does not know it", err);
    if (*uid > UID_MAX)
        return cannot_be(text, "its id is too large to be mapped", err);
    if (!group || strcmp(group, user) == 0 || (*uid == 0 && strcmp(group, "root") == 0))
        return 0;
    if (num_parse_uint(group, &gid, &ignored) < 0 || gid != *uid)
        return cannot_be(text, "inside, the group has the number of the user", err);
    return 0;
}
