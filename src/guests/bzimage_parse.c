/* Reads the header of a bzImage. The file is the operator's, but what it says about addresses is
 * used to lay out memory: each number is checked before anybody uses it. */
#include "guests/bzimage.h"

#include <stdio.h>
#include <string.h>

enum {
    AT_SECTORS = 0x1f1,
    AT_BOOT_FLAG = 0x1fe,
    AT_JUMP = 0x201, /* the header ends as many bytes after AT_MAGIC */
    AT_MAGIC = 0x202,
    AT_VERSION = 0x206,
    AT_LOAD_FLAGS = 0x211,
    AT_INITRD_MAX = 0x22c,
    AT_ALIGNMENT = 0x230,
    AT_LOAD_FLAGS_64 = 0x236,
    AT_COMMAND_LINE_MAX = 0x238,
    AT_PREFERRED = 0x258,
    AT_ROOM = 0x260,
    AT_END = 0x264,
};

#define MAGIC         0x53726448u /* "HdrS" */
#define VERSION_LEAST 0x20cu      /* 2.12: the first that tells of an entry in 64-bit mode */
#define LOADED_HIGH   1u
#define HAS_ENTRY_64  1u
#define ENTRY_64      0x200u
#define SECTOR        512u
#define LOWEST        (1ull << 20)
#define HIGHEST       (1ull << 30) /* what the page tables of the start reach */

static uint64_t number(const uint8_t *head, size_t at, size_t width)
{
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;)
        value = value << 8 | head[at + i];
    return value;
}

static bool refuse(char why_not[static 128], const char *why)
{
    snprintf(why_not, 128, "%s", why);
    return false;
}

static bool check_kind(const uint8_t *head, size_t len, char why_not[static 128])
{
    if (len >= 4 && memcmp(head,
                           "\x7f"
                           "ELF",
                           4) == 0)
        return refuse(why_not, "it is unpacked already (vmlinux); add the vmlinuz of its package");
    if (len < AT_END || number(head, AT_BOOT_FLAG, 2) != 0xaa55 ||
        number(head, AT_MAGIC, 4) != MAGIC)
        return refuse(why_not, "it is no x86-64 bzImage");
    if (number(head, AT_VERSION, 2) < VERSION_LEAST ||
        !(number(head, AT_LOAD_FLAGS_64, 2) & HAS_ENTRY_64) ||
        !(number(head, AT_LOAD_FLAGS, 1) & LOADED_HIGH))
        return refuse(why_not, "it is too old, or made for 32-bit processors");
    return true;
}

/* A kernel that can be moved lies where it prefers all the same: it knows best. */
static bool check_place(const struct bzimage *b, uint64_t alignment, char why_not[static 128])
{
    bool power = alignment >= 4096 && (alignment & (alignment - 1)) == 0;
    if (!power || b->at % alignment || b->at < LOWEST || b->at >= HIGHEST || b->room == 0 ||
        b->room > HIGHEST - b->at)
        return refuse(why_not, "its header asks for memory where there is none");
    return true;
}

bool bzimage_parse(const void *data, size_t len, struct bzimage *ret, char why_not[static 128])
{
    const uint8_t *head = data;
    if (len > BZIMAGE_HEAD)
        len = BZIMAGE_HEAD;
    if (!check_kind(head, len, why_not))
        return false;
    uint64_t sectors = number(head, AT_SECTORS, 1);
    size_t end = AT_MAGIC + (size_t)number(head, AT_JUMP, 1);
    if (end < AT_END || end > len)
        return refuse(why_not, "its header has a wrong length");
    *ret = (struct bzimage){
        .header_len = end - BZIMAGE_HEADER,
        .payload = ((sectors ? sectors : 4) + 1) * SECTOR,
        .entry = ENTRY_64,
        .at = number(head, AT_PREFERRED, 8),
        .room = number(head, AT_ROOM, 4),
        .initrd_limit = number(head, AT_INITRD_MAX, 4),
        .command_line = (uint32_t)number(head, AT_COMMAND_LINE_MAX, 4),
    };
    return check_place(ret, number(head, AT_ALIGNMENT, 4), why_not);
}
