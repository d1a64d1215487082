/* The flattened device tree's format: a header, an empty list of reserved memory, the structure as
 * words, the names of properties. All numbers are big-endian. */
#include "engines/vm/arm64/fdt.h"

#include <endian.h>
#include <string.h>

enum { BEGIN_NODE = 1, END_NODE = 2, PROPERTY = 3, END = 9 };
#define MAGIC    0xd00dfeedu
#define RESERVED 16u /* bytes of the empty list */

static void raw(struct fdt *f, const void *data, size_t len)
{
    size_t padded = (len + 3) & ~(size_t)3;
    if (padded > sizeof f->structure - f->len) {
        f->failed = true;
        return;
    }
    memset(f->structure + f->len, 0, padded);
    memcpy(f->structure + f->len, data, len);
    f->len += padded;
}

static void word(struct fdt *f, uint32_t value)
{
    uint32_t big = htobe32(value);
    raw(f, &big, sizeof big);
}

static uint32_t name_offset(struct fdt *f, const char *name)
{
    size_t len = strlen(name) + 1;
    for (size_t at = 0; at < f->strings_len; at += strlen(f->strings + at) + 1)
        if (strcmp(f->strings + at, name) == 0)
            return (uint32_t)at;
    if (len > sizeof f->strings - f->strings_len) {
        f->failed = true;
        return 0;
    }
    memcpy(f->strings + f->strings_len, name, len);
    f->strings_len += len;
    return (uint32_t)(f->strings_len - len);
}

void fdt_begin(struct fdt *f, const char *node)
{
    word(f, BEGIN_NODE);
    raw(f, node, strlen(node) + 1);
}

void fdt_end(struct fdt *f)
{
    word(f, END_NODE);
}

void fdt_bytes(struct fdt *f, const char *name, const void *value, size_t len)
{
    word(f, PROPERTY);
    word(f, (uint32_t)len);
    word(f, name_offset(f, name));
    if (len > 0)
        raw(f, value, len);
}

void fdt_text(struct fdt *f, const char *name, const char *value)
{
    fdt_bytes(f, name, value, strlen(value) + 1);
}

void fdt_flag(struct fdt *f, const char *name)
{
    fdt_bytes(f, name, NULL, 0);
}

void fdt_cells(struct fdt *f, const char *name, const uint32_t *cells, size_t count)
{
    word(f, PROPERTY);
    word(f, (uint32_t)(count * sizeof *cells));
    word(f, name_offset(f, name));
    for (size_t i = 0; i < count; i++)
        word(f, cells[i]);
}

void fdt_pair(struct fdt *f, const char *name, uint64_t value)
{
    FDT_CELLS(f, name, (uint32_t)(value >> 32), (uint32_t)value);
}

size_t fdt_finish(struct fdt *f, uint8_t *to, size_t room)
{
    word(f, END);
    uint32_t head = 40 + RESERVED, total = (uint32_t)(head + f->len + f->strings_len);
    const uint32_t header[10] = {MAGIC, total, head, (uint32_t)(head + f->len), 40,
                                 17,    16,    0,    (uint32_t)f->strings_len,  (uint32_t)f->len};
    if (f->failed || total > room)
        return 0;
    for (size_t i = 0; i < 10; i++) {
        uint32_t big = htobe32(header[i]);
        memcpy(to + 4 * i, &big, sizeof big);
    }
    memset(to + 40, 0, RESERVED);
    memcpy(to + head, f->structure, f->len);
    memcpy(to + head + f->len, f->strings, f->strings_len);
    return total;
}
