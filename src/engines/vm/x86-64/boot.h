/* What a Linux kernel on x86-64 finds in memory when it starts. */
#pragma once

#include "base/err.h"
#include "engines/vm/memory.h"
#include "guests/bzimage.h"

/* Guest memory below the kernel, all of it in the first 640 KiB. */
#define BOOT_TABLES_AT 0x1000ull /* the descriptors of segments */
#define BOOT_PAGES_AT  0x2000ull /* three pages of page tables */
#define BOOT_PARAMS_AT 0x7000ull /* what the kernel is told (the "zero page") */
#define BOOT_LINE_AT   0x8000ull
#define BOOT_LINE_MAX  2048u
#define BOOT_SEED_AT   0x9000ull
#define BOOT_SEED      32u

#define BOOT_CODE 0x10u /* selectors */
#define BOOT_DATA 0x18u

#define BOOT_GAP_AT  0xd0000000ull  /* where memory makes room for devices */
#define BOOT_GAP_END 0x100000000ull /* and where it goes on */

struct boot {
    const uint8_t *head; /* of the kernel's file */
    struct bzimage image;
    uint64_t initramfs, initramfs_len;
    const char *line;
    uint8_t seed[BOOT_SEED];
};

/* Where an initramfs of this length goes: as high as the kernel takes it. 0: there is no room. */
uint64_t boot_initramfs_at(const struct guest_memory *m, const struct bzimage *image, uint64_t len);
/* Segments, page tables, parameters, command line and seed into the guest's memory. */
int boot_write(const struct guest_memory *m, const struct boot *b, struct err *err);
