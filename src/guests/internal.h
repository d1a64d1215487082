/* What the files of this room share. */
#pragma once

#include "guests/guests.h"

#include "base/buf.h"

#define MODULES_MAX 16
#define IMAGE_MAX   (256u << 20)
#define MODULE_MAX  (16u << 20)
#define IMAGE_HEAD  1024u /* of an image: what says whether it is a kernel that can be booted */

/* modules.c: the modules that init loads, in order, each a block of bytes. */
struct modules {
    struct buf files[MODULES_MAX];
    unsigned count;
};
int modules_read(const struct guest_kernel *k, struct modules *ret, struct err *err);
void modules_done(struct modules *m);
/* Without reading them: are they available? False: why_not says what is missing. */
bool modules_there(const char *folder, bool kept, char why_not[static 128]);

/* image.c */
int kernel_image_read(const char *path, struct buf *ret, struct err *err);
/* Open for reading, with its hash. A file that was hashed before and has not changed since (its
 * change time and inode say so) is not read again. */
int kernel_image_open(const char *path, char hash[static SHA256_HEX_SIZE], struct err *err);
/* Is it a kernel that this machine's monitor boots? False: why_not. */
bool kernel_image_usable(const void *data, size_t len, char why_not[static 128]);
int file_whole(int dir, const char *path, size_t max, struct buf *ret, struct err *err);

/* keep.c: those in the state folder; -1: there is none yet. */
#define KERNELS "kernels"
int kept_folder(bool make, struct err *err);
void kept_list(struct guest_kernels *ret);
/* The id that was chosen, or empty. */
void kept_used(char id[static GUEST_ID_SIZE]);
