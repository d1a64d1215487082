/* What the records say of an API key, held against its row. A record carries a digest of the whole
 * row, so that none of it can be changed behind the chain's back: not the hash, not the rights, not
 * the end of a key.
 *
 * AU-4  A key is what its newest record says: once made it can be revoked, and nothing else of it
 *       ever changes. It never comes back. */
#include "audit/store_internal.h"

#include "base/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Records that say what a key is; "key.refused" does not. They are read from the table itself, each
 * line of it: an index is no part of the chain, and one that leaves a line out would hide the end
 * of a key. The text that every one of them has is looked for first, which is quick. */
#define KEY_RECORDS                                                                                \
    "records NOT INDEXED WHERE instr(line, '\"kind\":\"key.') > 0"                                 \
    " AND kind IN ('key.added', 'key.changed', 'key.removed', 'key.revoked')"

/* What of a row counts here. */
struct rights {
    bool is_operator, revoked;
    char hash[SHA256_HEX_SIZE]; /* empty: none */
};

static void copy_hex(char out[static SHA256_HEX_SIZE], const char *text)
{
    size_t len = text ? strlen(text) : 0;
    if (len == SHA256_HEX_SIZE - 1)
        memcpy(out, text, len + 1);
}

bool key_is_revoked(const struct json *row)
{
    const struct json *when = json_get(row, "revoked_ms");
    return when && json_type(when) == JSON_INT && json_int(when) != 0;
}

static bool rights_read(const char *value, struct rights *ret)
{
    struct json *row = NULL;
    *ret = (struct rights){.is_operator = false};
    if (json_parse(value, strlen(value), &json_default_limits, &row, NULL) < 0)
        return false;
    bool object = json_type(row) == JSON_OBJECT;
    if (object) {
        ret->is_operator = json_flag(row, "operator");
        ret->revoked = key_is_revoked(row);
        copy_hex(ret->hash, json_text(row, "hash"));
    }
    json_free(row);
    return object;
}

void key_digest(const char *value, char ret[static SHA256_HEX_SIZE])
{
    sha256_hex(value, strlen(value), ret);
}

/* ---- the newest record ---- */

static void told_read(const char *line, struct key_told *ret)
{
    struct json *tree = NULL;
    struct record record;
    if (record_parse(line, strlen(line), &tree, &record, NULL) < 0)
        return;
    const struct json *detail = json_get(tree, "detail");
    ret->seq = record.seq;
    ret->removed = strcmp(record.kind, "key.removed") == 0;
    ret->revoked = strcmp(record.kind, "key.revoked") == 0;
    if (detail && json_type(detail) == JSON_OBJECT) {
        ret->is_operator = json_flag(detail, "operator");
        copy_hex(ret->hash, json_text(detail, "hash"));
        copy_hex(ret->row, json_text(detail, "row"));
    }
    json_free(tree);
}

int store_key_told(struct store *s, const char *key, struct key_told *ret, struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    *ret = (struct key_told){.seq = 0};
    if (store_prepare_one(s,
                          "SELECT line FROM " KEY_RECORDS " AND key = ?1 ORDER BY seq DESC LIMIT 1",
                          &stmt, err) < 0)
        return err_number(err);
    sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        told_read((const char *)sqlite3_column_text(stmt, 0), ret);
    return code == SQLITE_ROW || code == SQLITE_DONE ? 0 : store_fail(s, "read the records", err);
}

/* ---- a row against it ---- */

/* No verb changes a key but the one that ends it. Whatever else differs (rights, projects, how many
 * sandboxes) came another way, and so would what rows may come to hold later. */
bool key_may_follow(const struct key_told *told, const char *value)
{
    char digest[SHA256_HEX_SIZE];
    struct rights now;
    if (!told->seq || told->removed)
        return true;
    if (!rights_read(value, &now) || (told->hash[0] && strcmp(told->hash, now.hash) != 0))
        return false;
    key_digest(value, digest);
    return now.revoked || strcmp(told->row, digest) == 0;
}

static bool key_is_as_told(const struct key_told *told, const char *value)
{
    char digest[SHA256_HEX_SIZE];
    struct rights now;
    if (told->row[0]) {
        key_digest(value, digest);
        return strcmp(told->row, digest) == 0;
    }
    /* A brig that wrote no digests: what it did write. */
    return rights_read(value, &now) && now.revoked == told->revoked &&
           now.is_operator == told->is_operator;
}

static bool judge(const char *key, const char *value, bool told, const struct key_told *t,
                  char why[static KEY_WHY_SIZE])
{
    if (told && !t->seq)
        snprintf(why, KEY_WHY_SIZE, "API key %.40s is there and no record says who added it", key);
    else if (told && t->removed)
        snprintf(why, KEY_WHY_SIZE,
                 "API key %.40s is there and record %" PRIu64 " says it was removed", key, t->seq);
    else if (told && !key_is_as_told(t, value))
        snprintf(why, KEY_WHY_SIZE, "API key %.40s is not what record %" PRIu64 " says: %s", key,
                 t->seq, t->revoked ? "it was revoked" : "its row was changed");
    else if (!told && !key_may_follow(t, value))
        snprintf(why, KEY_WHY_SIZE,
                 "API key %.40s waits to be other than record %" PRIu64 " says: no verb does that",
                 key, t->seq);
    else
        return true;
    return false;
}

static int judge_rows(struct store *s, bool *ret_good, char why[static KEY_WHY_SIZE],
                      struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    int code = SQLITE_DONE;
    if (store_prepare_one(s,
                          "SELECT s.key, s.value, s.told, r.line FROM state s LEFT JOIN (SELECT"
                          " key AS name, max(seq) AS newest FROM " KEY_RECORDS
                          " GROUP BY key) k ON k.name = s.key LEFT JOIN records r ON r.seq ="
                          " k.newest WHERE s.tbl = 'keys' ORDER BY s.key",
                          &stmt, err) < 0)
        return err_number(err);
    while (*ret_good && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(stmt, 0);
        const char *value = (const char *)sqlite3_column_text(stmt, 1);
        const char *line = (const char *)sqlite3_column_text(stmt, 3);
        struct key_told t = {.seq = 0};
        if (line)
            told_read(line, &t);
        *ret_good =
            judge(key ? key : "", value ? value : "", sqlite3_column_int(stmt, 2) != 0, &t, why);
    }
    return !*ret_good || code == SQLITE_DONE ? 0 : store_fail(s, "read the keys", err);
}

/* A row that is gone can hide that there was a key. */
static int judge_missing(struct store *s, bool *ret_good, char why[static KEY_WHY_SIZE],
                         struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    if (store_prepare_one(
            s,
            "SELECT name FROM (SELECT key AS name, kind AS last, max(seq) FROM " KEY_RECORDS
            " GROUP BY key) WHERE last <> 'key.removed'"
            " AND name NOT IN (SELECT key FROM state WHERE tbl = 'keys') LIMIT 1",
            &stmt, err) < 0)
        return err_number(err);
    int code = sqlite3_step(stmt);
    if (code != SQLITE_ROW)
        return code == SQLITE_DONE ? 0 : store_fail(s, "read the keys", err);
    *ret_good = false;
    snprintf(why, KEY_WHY_SIZE, "API key %.40s is gone and no record says who removed it",
             (const char *)sqlite3_column_text(stmt, 0));
    return 0;
}

int store_keys_check(struct store *s, bool *ret_good, char why[static KEY_WHY_SIZE],
                     struct err *err)
{
    *ret_good = true;
    int r = judge_rows(s, ret_good, why, err);
    return r < 0 || !*ret_good ? r : judge_missing(s, ret_good, why, err);
}
