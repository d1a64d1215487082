/* API keys, as hashes. Every check hashes what was shown and compares it with all keys there are,
 * in full: how long it takes says nothing about any of them. */
#include "daemon/base/keys.h"

#include "base/api_key.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

#define KEY_TEXT_MAX 256 /* longer ones are none, and are not hashed */

struct keys {
    struct key **all; /* each in its own place: others hold on to them */
    size_t count, room;
};

int keys_new(struct keys **ret, struct err *err)
{
    *ret = calloc(1, sizeof **ret);
    return *ret ? 0 : err_memory(err);
}

static void drop_projects(struct key *key)
{
    while (key->project_count)
        free(key->projects[--key->project_count]);
}

void keys_free(struct keys *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->count; i++) {
        drop_projects(k->all[i]);
        free(k->all[i]);
    }
    free(k->all);
    free(k);
}

/* ---- restore ---- */

static int read_hash(const char *text, uint8_t out[static SHA256_SIZE], struct err *err)
{
    if (!text || strlen(text) != SHA256_HEX_SIZE - 1)
        return err_set(err, ERR_PROTOCOL, "a key without a hash");
    if (!hex_decode(text, out, SHA256_SIZE))
        return err_set(err, ERR_PROTOCOL, "the hash of a key is not hexadecimal");
    return 0;
}

static int read_number(const struct json *j, const char *name, int64_t *ret, struct err *err)
{
    const struct json *v = json_get(j, name);
    *ret = 0;
    if (!v || json_type(v) == JSON_NULL)
        return 0;
    if (json_type(v) != JSON_INT || json_int(v) < 0)
        return err_set(err, ERR_PROTOCOL, "%s of a key is no number", name);
    *ret = json_int(v);
    return 0;
}

static int copy_text(char *out, size_t size, const char *text, struct err *err)
{
    size_t len = text ? strlen(text) : 0;
    if (len >= size)
        return err_set(err, ERR_PROTOCOL, "a name of a key is too long");
    if (len)
        memcpy(out, text, len);
    out[len] = '\0';
    return 0;
}

static int read_projects(const struct json *j, struct key *ret, struct err *err)
{
    const struct json *list = json_get(j, "projects");
    if (!list || json_type(list) == JSON_NULL)
        return 0;
    if (json_type(list) != JSON_ARRAY || json_count(list) > KEY_PROJECTS_MAX)
        return err_set(err, ERR_PROTOCOL, "the projects of a key are no list, or too many");
    for (size_t i = 0; i < json_count(list); i++) {
        const char *path = json_string(json_at(list, i));
        char *copy = path && path[0] == '/' ? strdup(path) : NULL;
        if (!copy)
            return err_set(err, ERR_PROTOCOL, "a project of a key is no path");
        ret->projects[ret->project_count++] = copy;
    }
    return 0;
}

static int read_key(const struct json *j, const char *id, struct key *ret, struct err *err)
{
    const struct json *operator_key = json_get(j, "operator");
    int64_t most = 0;
    if (json_type(j) != JSON_OBJECT || !id[0])
        return err_set(err, ERR_PROTOCOL, "a key that is none");
    if (operator_key && json_type(operator_key) != JSON_BOOL)
        return err_set(err, ERR_PROTOCOL, "operator is true or false");
    if (copy_text(ret->id, sizeof ret->id, id, err) < 0 ||
        copy_text(ret->name, sizeof ret->name, json_text(j, "name"), err) < 0 ||
        read_hash(json_text(j, "hash"), ret->hash, err) < 0 ||
        read_number(j, "created_ms", &ret->created_ms, err) < 0 ||
        read_number(j, "revoked_ms", &ret->revoked_ms, err) < 0 ||
        read_number(j, "max_boxes", &most, err) < 0 || read_projects(j, ret, err) < 0)
        return err_number(err);
    ret->operator_key = operator_key && json_bool(operator_key);
    ret->max_boxes = most < UINT32_MAX ? (unsigned)most : UINT32_MAX;
    return 0;
}

static struct key *find(const struct keys *k, const char *id)
{
    for (size_t i = 0; i < k->count; i++)
        if (!strcmp(k->all[i]->id, id))
            return k->all[i];
    return NULL;
}

/* DM-9: revoked ones stay, since their ids are known for ever and others hold on to them, but a
 * daemon whose keys come and go does not end with the one that is too many. */
static size_t count_good(const struct keys *k)
{
    size_t good = 0;
    for (size_t i = 0; i < k->count; i++)
        good += !k->all[i]->revoked_ms;
    return good;
}

static struct key *add(struct keys *k)
{
    if (k->count == k->room) {
        size_t room = k->room ? 2 * k->room : 8;
        struct key **all = reallocarray(k->all, room, sizeof(*all));
        if (!all)
            return NULL;
        k->all = all;
        k->room = room;
    }
    struct key *key = calloc(1, sizeof *key);
    if (key)
        k->all[k->count++] = key;
    return key;
}

/* Of one that is there already the new words count (it was revoked, renamed). */
int keys_restore(struct keys *k, const char *id, const char *json, size_t len, struct err *err)
{
    struct json *tree = NULL;
    struct key read = {0};
    if (json_parse(json, len, NULL, &tree, err) < 0)
        return err_wrap(err, "a key");
    int r = read_key(tree, id, &read, err);
    json_free(tree);
    struct key *key = r < 0 ? NULL : find(k, id);
    if (r >= 0 && !key && (read.revoked_ms || count_good(k) < API_KEYS_MAX))
        key = add(k);
    if (!key) {
        drop_projects(&read);
        return r < 0 ? err_number(err) : err_set(err, ERR_LIMIT, "no room for another key");
    }
    drop_projects(key);
    *key = read;
    return 0;
}

/* ---- check ---- */

/* 1 where all bytes are equal, else 0, in the same time. */
static unsigned is_equal(const uint8_t *a, const uint8_t *b)
{
    volatile uint8_t differs = 0;
    for (size_t i = 0; i < SHA256_SIZE; i++)
        differs = (uint8_t)(differs | (a[i] ^ b[i]));
    return (unsigned)(((uint32_t)differs - 1) >> 31);
}

const struct key *keys_check(const struct keys *k, const char *text, size_t len)
{
    uint8_t hash[SHA256_SIZE];
    struct sha256 h;
    uintptr_t found = 0;
    if (len > KEY_TEXT_MAX)
        return NULL;
    sha256_init(&h);
    sha256_add(&h, text, len);
    sha256_finish(&h, hash);
    for (size_t i = 0; i < k->count; i++) {
        uintptr_t mask = (uintptr_t)0 - is_equal(hash, k->all[i]->hash);
        found = (found & ~mask) | ((uintptr_t)k->all[i] & mask);
    }
    explicit_bzero(hash, sizeof hash);
    explicit_bzero(&h, sizeof h);
    const struct key *key = (const struct key *)found;
    return key && !key->revoked_ms ? key : NULL;
}

const struct key *keys_find(const struct keys *k, const char *id)
{
    return find(k, id);
}

bool key_has_project(const struct key *key, const char *path)
{
    bool has = key && key->operator_key;
    for (unsigned i = 0; key && !has && i < key->project_count; i++)
        has = strcmp(key->projects[i], path) == 0;
    return has;
}
