/* API keys as the daemon keeps them: rows of its database, read and written by brig-daemon. */
#pragma once

#include "base/err.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>

#define KEY_NAME_MAX    63
#define KEY_EFFECT_SIZE 16
#define KEY_PROJECTS    16
#define KEY_PATH_SIZE   512

struct key_row {
    char id[32];
    char name[KEY_NAME_MAX + 1];
    char hash[SHA256_HEX_SIZE];
    bool operator_key;
    int64_t created_ms, revoked_ms, max_boxes;
    char projects[KEY_PROJECTS][KEY_PATH_SIZE]; /* that it may have a view of */
    unsigned project_count;
};

/* state: as --state gave it, or NULL. Negative: stop with this error. */
typedef int key_row_fn(void *ctx, const struct key_row *row, struct err *err);
int key_each(const char *state, key_row_fn *fn, void *ctx, struct err *err);
/* ret_effect: "now", "next start", or "unknown" when a running daemon did not answer. */
int key_put(const char *state, const struct key_row *row, char ret_effect[static KEY_EFFECT_SIZE],
            struct err *err);
