/* Writes a flattened device tree: what a kernel on arm64 is told about its machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FDT_STRUCT_MAX  8192
#define FDT_STRINGS_MAX 1024

struct fdt {
    uint8_t structure[FDT_STRUCT_MAX];
    size_t len;
    char strings[FDT_STRINGS_MAX];
    size_t strings_len;
    bool failed;
};

void fdt_begin(struct fdt *f, const char *node);
void fdt_end(struct fdt *f);
void fdt_bytes(struct fdt *f, const char *name, const void *value, size_t len);
void fdt_text(struct fdt *f, const char *name, const char *value);
void fdt_flag(struct fdt *f, const char *name);
void fdt_cells(struct fdt *f, const char *name, const uint32_t *cells, size_t count);
void fdt_pair(struct fdt *f, const char *name, uint64_t value); /* of two cells */
/* The finished tree; its length, or 0 if there was no room. */
size_t fdt_finish(struct fdt *f, uint8_t *to, size_t room);
#define FDT_CELLS(f, name, ...)                                                                    \
    fdt_cells((f), (name), (const uint32_t[]){__VA_ARGS__},                                        \
              sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
