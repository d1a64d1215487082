/* API keys. Only hashes are kept; a key is shown once, when it is made. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_PROJECTS_MAX 16

struct key {
    char id[16]; /* "k_" and 10 random characters: for people, the audit and ownership */
    char name[64];
    uint8_t hash[32];  /* SHA-256 of the key */
    bool operator_key; /* may see and end everything, ask for hosts beyond the template's, apply
                          what was changed in a project, read audit and metrics */
    int64_t created_ms, revoked_ms;   /* 0: not revoked */
    unsigned max_boxes;               /* 0: only the daemon's own limit */
    char *projects[KEY_PROJECTS_MAX]; /* that its sandboxes may work on views of */
    unsigned project_count;
};

struct keys;
int keys_new(struct keys **ret, struct err *err);
void keys_free(struct keys *k);
/* As it is kept: {"name","hash":hex,"operator","created_ms","revoked_ms","max_boxes","projects":[]}
 */
int keys_restore(struct keys *k, const char *id, const char *json, size_t len, struct err *err);
/* In constant time over all keys; NULL: none, or revoked. */
const struct key *keys_check(const struct keys *k, const char *text, size_t len);
const struct key *keys_find(const struct keys *k, const char *id);
/* RV-8: a project is shown to the keys that it is bound to, and to the operator. */
bool key_has_project(const struct key *key, const char *path);
