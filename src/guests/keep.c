/* Kernels in the state folder: kernels/ID/ with the image, its release and the modules that init
 * loads, numbered; kernels/used names the one that was chosen. */
#include "guests/internal.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/runstate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int kept_folder(bool make, struct err *err)
{
    int fd = runstate_open(KERNELS, make);
    if (fd >= 0)
        return fd;
    err_sys(err, "open the state folder for kernels");
    return err_hint(err, "set HOME or XDG_STATE_HOME to a folder of your own");
}

static bool is_id(const char *name)
{
    return strlen(name) == GUEST_ID_SIZE - 1 && strspn(name, "0123456789abcdef") == strlen(name);
}

static void fill(struct guest_kernel *k, int folder, const char *root, const char *id)
{
    char path[48];
    memset(k, 0, sizeof *k);
    k->kept = true;
    snprintf(k->id, sizeof k->id, "%.12s", id);
    snprintf(path, sizeof path, "%.12s/release", id);
    if (file_read(folder, path, k->release, sizeof k->release) < 0)
        snprintf(k->release, sizeof k->release, "unknown");
    snprintf(k->image, sizeof k->image, "%.4000s/%.12s/image", root, id);
    snprintf(k->modules, sizeof k->modules, "%.4000s/%.12s", root, id);
}

void kept_list(struct guest_kernels *ret)
{
    struct err err = ERR_INIT;
    cleanup_buf struct buf root;
    struct dirent *e;
    buf_init(&root, PATH_MAX);
    cleanup_fd int folder = kept_folder(false, &err);
    if (folder < 0 || !runstate_path(KERNELS, &root))
        return;
    DIR *dir = folder_open(folder, ".");
    while (dir && (e = readdir(dir)) && ret->count < GUESTS_MAX)
        if (is_id(e->d_name))
            fill(&ret->list[ret->count++], folder, buf_text(&root), e->d_name);
    if (dir)
        closedir(dir);
}

void kept_used(char id[static GUEST_ID_SIZE])
{
    struct err err = ERR_INIT;
    cleanup_fd int folder = kept_folder(false, &err);
    id[0] = '\0';
    if (folder >= 0 && (file_read(folder, "used", id, GUEST_ID_SIZE) < 0 || !is_id(id)))
        id[0] = '\0';
}

static int write_file(int dir, const char *name, const void *data, size_t len, struct err *err)
{
    cleanup_fd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "make %s", name);
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, (const char *)data + done, len - done);
        if (n <= 0)
            return err_sys(err, "write %s", name);
        done += (size_t)n;
    }
    return fsync(fd) < 0 ? err_sys(err, "write %s", name) : 0;
}

static int write_all(int dir, const struct guest_kernel *k, const struct buf *image,
                     const struct modules *modules, struct err *err)
{
    char name[16];
    if (write_file(dir, "image", image->data, image->len, err) < 0 ||
        write_file(dir, "release", k->release, strlen(k->release), err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < modules->count; i++) {
        snprintf(name, sizeof name, "%02u.ko", i);
        if (write_file(dir, name, modules->files[i].data, modules->files[i].len, err) < 0)
            return err_number(err);
    }
    return 0;
}

static void drop(int folder, const char *name)
{
    cleanup_fd int old = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (old >= 0)
        remove_folder(folder, name, old);
}

/* Under another name until it is whole. */
static int store(int folder, const struct guest_kernel *k, const struct buf *image,
                 const struct modules *modules, struct err *err)
{
    char temporary[32];
    snprintf(temporary, sizeof temporary, ".new-%d", (int)getpid());
    drop(folder, temporary);
    if (mkdirat(folder, temporary, 0700) < 0)
        return err_sys(err, "make a folder for the kernel");
    cleanup_fd int dir = openat(folder, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result =
        dir < 0 ? err_sys(err, "open the kernel's folder") : write_all(dir, k, image, modules, err);
    if (result >= 0)
        drop(folder, k->id);
    if (result >= 0 && renameat(folder, temporary, folder, k->id) < 0)
        result = err_sys(err, "keep the kernel");
    if (result < 0)
        drop(folder, temporary);
    return result;
}

static void name_release(struct guest_kernel *k, const char *image)
{
    const char *slash = strrchr(image, '/'), *name = slash ? slash + 1 : image;
    if (text_begins(name, "vmlinuz-"))
        name += 8;
    snprintf(k->release, sizeof k->release, "%.63s", name);
}

int guests_add(const char *path, const char *modules, struct guest_kernel *ret, struct err *err)
{
    cleanup_buf struct buf image;
    struct modules files;
    char why_not[128];
    buf_init(&image, 0);
    memset(ret, 0, sizeof *ret);
    name_release(ret, path);
    snprintf(ret->image, sizeof ret->image, "%.4095s", path);
    if (modules)
        snprintf(ret->modules, sizeof ret->modules, "%.4095s", modules);
    else
        snprintf(ret->modules, sizeof ret->modules, "/lib/modules/%s", ret->release);
    if (kernel_image_read(path, &image, err) < 0)
        return err_number(err);
    if (!kernel_image_usable(image.data, image.len, why_not))
        return err_set(err, ERR_UNSUPPORTED, "%s cannot be a guest's kernel: %s", path, why_not);
    sha256_hex(image.data, image.len, ret->hash);
    snprintf(ret->id, sizeof ret->id, "%s", ret->hash);
    if (modules_read(ret, &files, err) < 0)
        return err_hint(err, "--modules names the folder that has kernel/ and modules.builtin, as "
                             "/lib/modules/RELEASE does");
    cleanup_fd int folder = kept_folder(true, err);
    int result = folder < 0 ? folder : store(folder, ret, &image, &files, err);
    modules_done(&files);
    ret->kept = true;
    return result;
}

/* The one kernel whose id begins so. */
static int find(const char *id, struct guest_kernel *ret, struct err *err)
{
    struct guest_kernels *all = calloc(1, sizeof *all);
    unsigned found = 0;
    if (!all)
        return err_memory(err);
    guests_list(all, err);
    for (unsigned i = 0; i < all->count; i++)
        if (id[0] && text_begins(all->list[i].id, id)) {
            /* The same kernel may be found and kept. */
            if (found == 0 || strcmp(all->list[i].id, ret->id) != 0)
                found++;
            if (found == 1 && (!ret->kept || all->list[i].kept))
                *ret = all->list[i];
        }
    free(all);
    if (found == 1)
        return 0;
    err_set(err, ERR_NOT_FOUND,
            found == 0 ? "there is no kernel %.40s" : "%.40s names several kernels", id);
    err->code = ERR_USAGE;
    return err_hint(err, "`brig kernel list` shows them");
}

int guests_use(const char *id, struct guest_kernel *ret, struct err *err)
{
    memset(ret, 0, sizeof *ret);
    if (find(id, ret, err) < 0)
        return err_number(err);
    if (ret->why_not[0])
        return err_set(err, ERR_UNSUPPORTED, "the kernel %s cannot be booted: %s", ret->release,
                       ret->why_not);
    if (!ret->kept) {
        struct guest_kernel found = *ret;
        if (guests_add(found.image, found.modules, ret, err) < 0)
            return err_number(err);
    }
    cleanup_fd int folder = kept_folder(true, err);
    return folder < 0 ? folder : write_file(folder, "used", ret->id, strlen(ret->id), err);
}

int guests_remove(const char *id, struct guest_kernel *ret, struct err *err)
{
    char used[GUEST_ID_SIZE];
    memset(ret, 0, sizeof *ret);
    if (find(id, ret, err) < 0)
        return err_number(err);
    if (!ret->kept) {
        err_set(err, ERR_REFUSED, "%s is not brig's: it lies in /boot", ret->release);
        return err_hint(err, "the distribution's package manager removes it");
    }
    cleanup_fd int folder = kept_folder(false, err);
    if (folder < 0)
        return folder;
    drop(folder, ret->id);
    kept_used(used);
    if (strcmp(used, ret->id) == 0)
        unlinkat(folder, "used", 0);
    return 0;
}
