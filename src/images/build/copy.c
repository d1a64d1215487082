/* COPY, ADD and WORKDIR: what comes in from the folder, from another stage or from an image. */
#include "images/build/builder.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_archive(int fd)
{
    unsigned char head[512];
    ssize_t n = pread(fd, head, sizeof head, 0);
    return n >= 4 &&
           ((head[0] == 0x1f && head[1] == 0x8b) || memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ||
            (n == sizeof head && memcmp(head + 257, "ustar", 5) == 0));
}

/* An archive is unpacked in the sandbox first; what came of it is copied as a folder would be. 0:
 * it is none. */
static int add_archive(struct building *b, struct copying *c, const char *source, const char *dest,
                       struct err *err)
{
    struct derived *d = builder_now(b);
    struct unpacked got;
    char folder[PATH_MAX];
    cleanup_fd int fd = context_open_file(c, source);
    if (fd < 0 || !is_archive(fd))
        return 0;
    snprintf(folder, sizeof folder, "%.*s/added%u", PATH_MAX - 40, d->scratch.path, b->archives++);
    const char *leaf = strrchr(folder, '/') + 1;
    if (mkdirat(d->scratch.fd, leaf, 0755) < 0)
        return err_sys(err, "make room for an archive");
    if (unpack_run(fd, UNPACK_ARCHIVE, folder, d->empty, c->left_bytes, c->left_entries, &got,
                   err) < 0)
        return err_number(err);
    d->sum.left_out += got.left_out;
    cleanup_fd int files = openat(d->scratch.fd, leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files < 0)
        return err_sys(err, "open what was unpacked");
    struct copying all = *c;
    all.ignore = NULL;
    int r = context_copy_all(&all, files, dest, err);
    c->left_bytes = all.left_bytes;
    c->left_entries = all.left_entries;
    return r < 0 ? r : 1;
}

static int copy_each(struct building *b, const struct instruction *i, struct copying *c,
                     struct words *words, const char *dest, struct err *err)
{
    struct quoted q;
    for (size_t n = 0; i->op == DOCKER_ADD && n < words->count; n++) {
        if (strstr(words->items[n], "://") || text_begins(words->items[n], "git@")) {
            err_set(err, ERR_UNSUPPORTED, "ADD of %s: only files of the context are added",
                    quote(&q, words->items[n]));
            return err_hint(err, "fetch it by a RUN, with --allow for its host");
        }
        int r = add_archive(b, c, words->items[n], dest, err);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        free(words->items[n]);
        memmove(&words->items[n], &words->items[n + 1],
                (words->count - n) * sizeof words->items[0]);
        words->count--;
        n--;
    }
    return words->count ? context_copy(c, words, dest, err) : 0;
}

/* "--from": another stage, or an image that was loaded. */
int builder_open_from(void *ctx, const char *from, struct image *image, struct err *err)
{
    struct building *b = ctx;
    const struct stage *s = builder_stage(b, from);
    if (s == b->stages[b->count - 1])
        return err_set(err, ERR_USAGE, "--from names this stage itself");
    if (!s && image_open(from, image, err) < 0)
        return err_wrap(err, "--from=%s", from);
    int fd = openat(s ? s->image.root.fd : image->root_fd, "tree",
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open the files of %s", from) : fd;
}

static int read_mode(const char *text, long *ret, struct err *err)
{
    *ret = -1;
    if (!text)
        return 0;
    size_t len = strlen(text);
    if (!len || len > 4 || strspn(text, "01234567") != len)
        return err_set(err, ERR_USAGE, "--chmod: expected an octal number such as 755");
    *ret = strtol(text, NULL, 8) & 0777;
    return 0;
}

static int copy_words(struct building *b, const struct instruction *i, struct copying *c,
                      struct words *words, struct err *err)
{
    char dest[PATH_MAX];
    struct tar t;
    struct derived *d = builder_now(b);
    if (words->count < 2)
        return err_set(err, ERR_USAGE, "expected SOURCE… DEST");
    const char *folder = d->edit.folder ? d->edit.folder : "/";
    if (context_place(folder, words->items[words->count - 1], dest, err) < 0)
        return err_number(err);
    free(words->items[--words->count]);
    words->items[words->count] = NULL;
    cleanup_fd int tree = openat(d->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open the files of the image");
    c->tree = tree;
    if (derive_open(d, &t, err) < 0)
        return err_number(err);
    c->tar = &t;
    int r = derive_put(d, &t, copy_each(b, i, c, words, dest, err), i->text, err);
    c->tar = NULL;
    return r;
}

int builder_copy(struct building *b, const struct instruction *i, struct err *err)
{
    static const char *const copy[] = {"from", "chmod", NULL}, *const add[] = {"chmod", NULL};
    static const char *const idle[] = {"chown", "link", NULL};
    const struct build_request *r = b->request;
    const char *from = instruction_flag(i, "from");
    cleanup_image struct image image = IMAGE_INIT;
    struct words words = {.count = 0};
    struct copying c = {.from = r->context,
                        .ignore = r->ignore,
                        .is_image = from != NULL,
                        .left_bytes = r->max_bytes,
                        .left_entries = r->max_entries,
                        .of = from ? "the image" : "the context"};
    if (builder_check_flags(b, i, i->op == DOCKER_COPY ? copy : add, idle, err) < 0 ||
        read_mode(instruction_flag(i, "chmod"), &c.mode, err) < 0)
        return err_number(err);
    cleanup_fd int other = from ? builder_open_from(b, from, &image, err) : -1;
    if (from && other < 0)
        return other;
    if (from) {
        c.from = other;
        c.ignore = NULL;
    }
    int result = builder_expand(b, i, &words, err);
    if (result >= 0)
        result = copy_words(b, i, &c, &words, err);
    words_done(&words);
    return result;
}

/* The folder is made, as others do. */
int builder_workdir(struct building *b, const struct instruction *i, struct err *err)
{
    struct derived *d = builder_now(b);
    struct tar t;
    cleanup_fd int tree = openat(d->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open the files of the image");
    if (context_has_folder(tree, d->edit.folder))
        return derive_note(d, i->text, false, err);
    if (derive_open(d, &t, err) < 0)
        return err_number(err);
    return derive_put(d, &t, tar_folder(&t, d->edit.folder + 1, 0755, 0, err), i->text, err);
}
