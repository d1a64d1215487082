/* Reading a receipt, and holding it against its proof. Pure. */
#include "audit/receipt.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct json_limits limits = {
    .max_bytes = RECEIPT_MAX, .max_depth = 16, .max_nodes = 65536};

#define HASH_PREFIX "sha256:"

void receipt_init(struct receipt *r)
{
    *r = (struct receipt){.is_signed = false};
    buf_init(&r->body, RECEIPT_MAX);
    buf_init(&r->record, RECORD_MAX);
    buf_init(&r->checkpoint, CHAIN_CHECKPOINT_MAX);
}

void receipt_done(struct receipt *r)
{
    json_free(r->tree);
    buf_done(&r->body);
    buf_done(&r->record);
    buf_done(&r->checkpoint);
    r->tree = NULL;
}

static bool read_hash(const struct json *j, uint8_t ret[32])
{
    const char *text = json_string(j);
    size_t head = sizeof HASH_PREFIX - 1;
    return text && strncmp(text, HASH_PREFIX, head) == 0 && hex_decode(text + head, ret, 32);
}

/* ---- the body ---- */

/* A fraction has more than one way to be written. */
static bool has_real(const struct json *j)
{
    enum json_type type = json_type(j);
    for (size_t i = 0; i < json_count(j); i++) {
        if (has_real(type == JSON_ARRAY ? json_at(j, i) : json_value_at(j, i)))
            return true;
    }
    return type == JSON_REAL;
}

static int check_body(const struct json *j, struct err *err)
{
    static const struct {
        const char *name;
        enum json_type type;
    } needed[] = {
        {"boundaries", JSON_OBJECT},
        {"brig_version", JSON_STRING},
        {"decisions", JSON_OBJECT},
        {"finished", JSON_STRING},
        {"level", JSON_STRING},
        {"policy_hash", JSON_STRING},
        {"sandbox_id", JSON_STRING},
        {"states_usec", JSON_OBJECT},
        {"tier", JSON_STRING},
        {"usage", JSON_OBJECT},
        {"verdict", JSON_OBJECT},
        {"version", JSON_INT},
        {"weaker_than_level", JSON_ARRAY},
    };
    uint8_t hash[32];
    if (json_type(j) != JSON_OBJECT)
        return err_set(err, ERR_PROTOCOL, "a receipt is an object");
    if (json_number(j, "version") != RECEIPT_VERSION)
        return err_set(err, ERR_PROTOCOL, "it is not a receipt of version %d", RECEIPT_VERSION);
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        const struct json *member = json_get(j, needed[i].name);
        if (!member || json_type(member) != needed[i].type)
            return err_set(err, ERR_PROTOCOL, "a receipt has a member %s, %s", needed[i].name,
                           json_type_name(needed[i].type));
    }
    if (!run_id_valid(json_text(j, "sandbox_id")) || !read_hash(json_get(j, "policy_hash"), hash))
        return err_set(err, ERR_PROTOCOL, "its sandbox_id or its policy_hash is malformed");
    if (has_real(j))
        return err_set(err, ERR_PROTOCOL, "a receipt has whole numbers only");
    return 0;
}

static bool is_body(const char *key)
{
    return strcmp(key, "signature") != 0 && strcmp(key, "signed") != 0 &&
           strcmp(key, "why_not_signed") != 0;
}

static int take_body(struct receipt *r, struct err *err)
{
    struct json_writer w;
    json_keep(r->tree, is_body);
    if (check_body(r->tree, err) < 0)
        return err_number(err);
    jw_init(&w, &r->body, false);
    jw_json_sorted(&w, r->tree);
    if (r->body.failed)
        return err_set(err, ERR_LIMIT, "the receipt is too long");
    chain_digest(r->body.data, r->body.len, r->digest);
    return 0;
}

static int read_tree(const char *text, size_t len, struct receipt *ret, struct err *err)
{
    if (json_parse(text, len, &limits, &ret->tree, err) < 0)
        return err_number(err);
    if (json_type(ret->tree) != JSON_OBJECT)
        return err_set(err, ERR_PROTOCOL, "a receipt is an object");
    return 0;
}

int receipt_body_read(const char *text, size_t len, struct receipt *ret, struct err *err)
{
    struct err none = ERR_INIT;
    err = err ? err : &none;
    return read_tree(text, len, ret, err) < 0 ? err_number(err) : take_body(ret, err);
}

/* ---- the signature ---- */

static bool write_line(const struct json *j, struct buf *out)
{
    struct json_writer w;
    if (json_type(j) != JSON_OBJECT || has_real(j))
        return false;
    jw_init(&w, out, false);
    jw_json_sorted(&w, j);
    return !out->failed;
}

static int take_signature(struct receipt *r, const struct json *s, struct err *err)
{
    const char *algorithm = json_text(s, "algorithm");
    bool good = json_type(s) == JSON_OBJECT && json_count(s) == 6 && algorithm &&
                strcmp(algorithm, "ed25519") == 0 && read_hash(json_get(s, "key"), r->key) &&
                hex_decode(json_text(s, "previous"), r->previous, 32) &&
                hex_decode(json_text(s, "value"), r->value, CHAIN_SIGNATURE) &&
                write_line(json_get(s, "record"), &r->record) &&
                write_line(json_get(s, "checkpoint"), &r->checkpoint);
    r->is_signed = good;
    return good ? 0 : err_set(err, ERR_PROTOCOL, "its signature is malformed");
}

static int take_proof(struct receipt *r, struct err *err)
{
    const struct json *is_signed = json_get(r->tree, "signed");
    const struct json *signature = json_get(r->tree, "signature");
    const struct json *why = json_get(r->tree, "why_not_signed");
    if (json_type(is_signed) != JSON_BOOL || json_bool(is_signed) != (signature != NULL) ||
        json_bool(is_signed) != (why == NULL) || (why && !json_string(why)))
        return err_set(err, ERR_PROTOCOL,
                       "it does not say whether it is signed, or contradicts "
                       "itself");
    if (signature)
        return take_signature(r, signature, err);
    snprintf(r->why_not, sizeof r->why_not, "%s", json_string(why));
    return 0;
}

int receipt_parse(const char *text, size_t len, struct receipt *ret, struct err *err)
{
    struct err none = ERR_INIT;
    err = err ? err : &none;
    if (read_tree(text, len, ret, err) < 0 || take_proof(ret, err) < 0)
        return err_number(err);
    return take_body(ret, err);
}

/* ---- check ---- */

static bool is_its_box(const struct record *r, const char *id)
{
    if (!r->box)
        return false;
    if (strcmp(r->kind, RECEIPT_RUN) == 0)
        return strcmp(r->box, id) == 0;
    return strcmp(r->kind, RECEIPT_BOX) == 0 && strcmp(r->box, id + 5) == 0;
}

int receipt_is_of(const struct record *record, const struct receipt *r, struct err *err)
{
    return is_its_box(record, json_text(r->tree, "sandbox_id"))
               ? 0
               : err_set(err, ERR_ATTEST, "the record is not one of this receipt");
}

/* The record that is shown is about this body. */
static int check_record(const struct receipt *r, uint64_t *ret_seq, struct err *err)
{
    struct record record;
    struct json *tree = NULL;
    uint8_t digest[32];
    if (record_parse(r->record.data, r->record.len, &tree, &record, err) < 0)
        return err_wrap(err, "the record of the receipt");
    const struct json *hash = json_get(json_get(tree, "detail"), "receipt");
    bool good = read_hash(hash, digest) && memcmp(digest, r->digest, 32) == 0;
    if (!good)
        err_set(err, ERR_ATTEST, "the receipt was changed: it is not what its record stands for");
    else
        good = receipt_is_of(&record, r, err) >= 0;
    *ret_seq = record.seq;
    json_free(tree);
    return good ? 0 : err_number(err);
}

int receipt_check(const struct receipt *r, const uint8_t key[32], chain_verify_fn *verify,
                  void *ctx, struct err *err)
{
    struct checkpoint c;
    uint8_t hash[32];
    uint64_t seq = 0;
    struct err none = ERR_INIT;
    err = err ? err : &none;
    if (!r->is_signed)
        return err_set(err, ERR_ATTEST, "it is not signed: %s", r->why_not);
    if (memcmp(r->key, key, 32) != 0) {
        err_set(err, ERR_ATTEST, "it names another key than the one that was given");
        return err_hint(err, "it was signed by another installation, or changed");
    }
    if (check_record(r, &seq, err) < 0)
        return err_number(err);
    if (checkpoint_parse(r->checkpoint.data, r->checkpoint.len, &c, err) < 0)
        return err_number(err);
    chain_next(r->previous, r->record.data, r->record.len, hash);
    if (c.seq != seq || memcmp(hash, c.hash, 32) != 0)
        return err_set(err, ERR_ATTEST, "its place in the chain was changed");
    if (!verify(ctx, r->checkpoint.data, r->checkpoint.len, r->value))
        return err_set(err, ERR_ATTEST, "its signature is not good");
    return 0;
}
