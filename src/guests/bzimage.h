/* A Linux image for x86-64 as distributions pack it (bzImage): a header that says how it wants to
 * be loaded, and a program that unpacks the kernel by itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BZIMAGE_HEAD   1024u  /* of the file: all that is looked at */
#define BZIMAGE_HEADER 0x1f1u /* where the header begins, here and in what the kernel gets */

struct bzimage {
    size_t header_len;     /* from BZIMAGE_HEADER on */
    uint64_t payload;      /* where in the file the kernel's own part begins */
    uint64_t entry;        /* from the payload's start: where a processor in 64-bit mode begins */
    uint64_t at;           /* where in memory it wants to lie */
    uint64_t room;         /* how much memory it needs there, to unpack itself */
    uint64_t initrd_limit; /* the last address that an initramfs may touch */
    uint32_t command_line; /* the most that it takes */
};

/* head: the first bytes of a file, at most BZIMAGE_HEAD of them are looked at. False: why_not. */
bool bzimage_parse(const void *head, size_t len, struct bzimage *ret, char why_not[static 128]);
