/* The kernels that there are, and the one that machines boot. */
#include "guests/internal.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define FOUND_IN   "/boot"
#define FOUND_NAME "vmlinuz-"

static void check(struct guest_kernel *k)
{
    struct err err = ERR_INIT;
    char head[IMAGE_HEAD];
    cleanup_fd int fd = kernel_image_open(k->image, k->hash, &err);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    if (n < 0) {
        snprintf(k->why_not, sizeof k->why_not, "%.127s",
                 fd < 0 ? err.message : "it cannot be read");
        return;
    }
    snprintf(k->id, sizeof k->id, "%.12s", k->hash);
    if (!kernel_image_usable(head, (size_t)n, k->why_not) ||
        !modules_there(k->modules, k->kept, k->why_not))
        return;
    k->why_not[0] = '\0';
}

static void find(struct guest_kernels *ret)
{
    DIR *dir = opendir(FOUND_IN);
    struct dirent *e;
    while (dir && (e = readdir(dir)) && ret->count < GUESTS_MAX) {
        const char *release = e->d_name + strlen(FOUND_NAME);
        if (!text_begins(e->d_name, FOUND_NAME) || strlen(release) >= GUEST_RELEASE)
            continue;
        struct guest_kernel *k = &ret->list[ret->count++];
        memset(k, 0, sizeof *k);
        snprintf(k->release, sizeof k->release, "%.63s", release);
        snprintf(k->image, sizeof k->image, FOUND_IN "/%.200s", e->d_name);
        snprintf(k->modules, sizeof k->modules, "/lib/modules/%.63s", release);
    }
    if (dir)
        closedir(dir);
}

/* A kernel that is kept was checked when it came; one that is found is looked at here. */
static bool bootable(struct guest_kernel *k)
{
    char why_not[128];
    if (k->why_not[0])
        return false;
    return k->kept || modules_there(k->modules, false, why_not);
}

static struct guest_kernel *pick(struct guest_kernels *all)
{
    char id[GUEST_ID_SIZE];
    struct guest_kernel *best = NULL;
    kept_used(id);
    for (unsigned i = 0; i < all->count; i++) {
        struct guest_kernel *k = &all->list[i];
        if (id[0] && k->kept && strcmp(k->id, id) == 0)
            return k;
        if (bootable(k) && (!best || strverscmp(k->release, best->release) > 0))
            best = k;
    }
    return best;
}

int guests_list(struct guest_kernels *ret, struct err *err)
{
    (void)err;
    ret->count = 0;
    kept_list(ret);
    find(ret);
    for (unsigned i = 0; i < ret->count; i++)
        check(&ret->list[i]);
    struct guest_kernel *used = pick(ret);
    if (used)
        used->used = true;
    return 0;
}

static int none(const struct guest_kernels *all, struct err *err)
{
    if (all->count == 0)
        err_set(err, ERR_UNSUPPORTED,
                "there is no kernel for a virtual machine in " FOUND_IN
                " or in brig's state folder");
    else
        err_set(err, ERR_UNSUPPORTED,
                "none of the %u kernels that there are can be booted in a virtual machine",
                all->count);
    return err_hint(err,
                    "apt-get install linux-image-cloud-%s, or brig kernel add VMLINUZ "
                    "--modules DIR; `brig kernel list` says what there is",
#if defined(__aarch64__)
                    "arm64"
#else
                    "amd64"
#endif
    );
}

int guests_choose(struct guest_kernel *ret, struct err *err)
{
    struct guest_kernels *all = calloc(1, sizeof *all);
    if (!all)
        return err_memory(err);
    kept_list(all);
    find(all);
    struct guest_kernel *k = pick(all);
    if (k)
        *ret = *k;
    int result = k ? 0 : none(all, err);
    free(all);
    return result;
}

int guests_hash(const struct guest_kernel *k, char hash[static SHA256_HEX_SIZE], struct err *err)
{
    cleanup_fd int fd = kernel_image_open(k->image, hash, err);
    return fd < 0 ? err_number(err) : 0;
}
