/* Kernels for virtual machines: a distribution's, as packaged. Found in /boot with their modules in
 * /lib/modules, or kept in the state folder (`brig kernel add`).
 *
 * A kernel is named by its content: its id is the beginning of its SHA-256. */
#pragma once

#include "base/err.h"
#include "base/sha256.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define GUESTS_MAX    32
#define GUEST_ID_SIZE 13 /* with the final NUL */
#define GUEST_RELEASE 64

struct guest_kernel {
    char id[GUEST_ID_SIZE];
    char hash[SHA256_HEX_SIZE];
    char release[GUEST_RELEASE]; /* "6.1.0-30-cloud-arm64" */
    char image[PATH_MAX];        /* the file */
    char modules[PATH_MAX];      /* the folder: as in /lib/modules, or the numbered files of ours */
    bool kept;                   /* in the state folder */
    bool used;                   /* the one that machines boot */
    char why_not[128];           /* empty, or why it cannot be booted */
};

struct guest_kernels {
    struct guest_kernel list[GUESTS_MAX];
    unsigned count;
};

/* All that there are; `use` is marked: the one that was chosen, else the newest that can be
 * booted. */
int guests_list(struct guest_kernels *ret, struct err *err);
/* The one to boot. ERR_UNSUPPORTED, with what would help, if there is none. */
int guests_choose(struct guest_kernel *ret, struct err *err);

/* Copies kernel and modules into the state folder. modules NULL: those of /lib/modules/RELEASE. */
int guests_add(const char *image, const char *modules, struct guest_kernel *ret, struct err *err);
/* From now on this one; an id, or the beginning of one. */
int guests_use(const char *id, struct guest_kernel *ret, struct err *err);
int guests_remove(const char *id, struct guest_kernel *ret, struct err *err);

/* Of its file, as it is now. */
int guests_hash(const struct guest_kernel *k, char hash[static SHA256_HEX_SIZE], struct err *err);

/* What a machine boots: the kernel's file, open for reading, and a sealed initramfs. */
struct guest_files {
    int kernel, initramfs;
    char kernel_hash[SHA256_HEX_SIZE], initramfs_hash[SHA256_HEX_SIZE];
};
/* init: the program of the initramfs. */
int guests_open(const struct guest_kernel *k, const void *init, size_t init_len,
                struct guest_files *ret, struct err *err);
