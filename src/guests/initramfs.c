/* The first file system of a guest: init, the modules, a few empty folders; an archive that the
 * kernel unpacks (cpio, "newc"). Made anew for each machine: what it is made of is small. */
#include "guests/internal.h"

#include "base/cleanup.h"
#include "os/fd.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INITRAMFS_MAX (64u << 20)

static void pad(struct buf *b)
{
    while (b->len % 4 && !b->failed)
        buf_chr(b, '\0');
}

/* One entry; of a device `minor` of the kernel's memory devices where mode says so. */
static void entry(struct buf *b, const char *name, unsigned mode, unsigned minor, const void *data,
                  size_t len)
{
    static unsigned number;
    bool device = (mode & S_IFMT) == S_IFCHR;
    buf_fmt(b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", number++ & 0xffff,
            mode, 0, 0, 1, 0, (unsigned)len, 0, 0, device ? 1 : 0, minor,
            (unsigned)strlen(name) + 1, 0);
    buf_add(b, name, strlen(name) + 1);
    pad(b);
    if (len > 0)
        buf_add(b, data, len);
    pad(b);
}

static void write_archive(struct buf *b, const void *init, size_t init_len,
                          const struct modules *modules)
{
    char name[32];
    entry(b, "dev", S_IFDIR | 0755, 0, NULL, 0);
    entry(b, "dev/null", S_IFCHR | 0666, 3, NULL, 0);
    entry(b, "modules", S_IFDIR | 0700, 0, NULL, 0);
    entry(b, "init", S_IFREG | 0700, 0, init, init_len);
    for (unsigned i = 0; i < modules->count; i++) {
        snprintf(name, sizeof name, "modules/%02u.ko", i);
        entry(b, name, S_IFREG | 0600, 0, modules->files[i].data, modules->files[i].len);
    }
    entry(b, "TRAILER!!!", 0, 0, NULL, 0);
}

static int make_initramfs(const struct guest_kernel *k, const void *init, size_t init_len,
                          struct guest_files *ret, struct err *err)
{
    struct modules modules;
    cleanup_buf struct buf archive;
    buf_init(&archive, INITRAMFS_MAX);
    if (modules_read(k, &modules, err) < 0)
        return err_number(err);
    write_archive(&archive, init, init_len, &modules);
    modules_done(&modules);
    if (archive.failed)
        return err_memory(err);
    sha256_hex(archive.data, archive.len, ret->initramfs_hash);
    ret->initramfs = memfd_sealed("brig-initramfs", archive.data, archive.len, false, err);
    return ret->initramfs < 0 ? err_number(err) : 0;
}

int guests_open(const struct guest_kernel *k, const void *init, size_t init_len,
                struct guest_files *ret, struct err *err)
{
    char head[IMAGE_HEAD], why_not[128];
    ret->initramfs = -1;
    ret->kernel = kernel_image_open(k->image, ret->kernel_hash, err);
    if (ret->kernel < 0)
        return err_number(err);
    ssize_t n = pread(ret->kernel, head, sizeof head, 0);
    if (n < 0 || !kernel_image_usable(head, (size_t)n, why_not))
        return err_set(err, ERR_UNSUPPORTED, "the kernel %s cannot be a guest's: %s", k->release,
                       n < 0 ? "it cannot be read" : why_not);
    return make_initramfs(k, init, init_len, ret, err);
}
