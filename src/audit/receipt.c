/* Writing the proof of a receipt. Pure. */
#include "audit/receipt.h"

#include "base/cleanup.h"
#include "base/hex.h"

#include <string.h>

static void copy(struct json_writer *w, const char *name, const struct json *from)
{
    const struct json *j = json_get(from, name);
    if (!j)
        return;
    jw_key(w, name);
    jw_json(w, j);
}

/* The record of a receipt repeats its verdict, so that the chain alone tells how the run ended. */
int receipt_detail(const struct receipt *r, struct buf *out, struct err *err)
{
    const struct json *verdict = json_get(r->tree, "verdict");
    cleanup_buf struct buf digest;
    struct json_writer w;
    buf_init(&digest, 80);
    buf_str(&digest, "sha256:");
    hex_write(&digest, r->digest, 32);
    jw_init(&w, out, false);
    jw_object_begin(&w);
    copy(&w, "denial_kinds", verdict);
    copy(&w, "exit_code", verdict);
    copy(&w, "level", r->tree);
    copy(&w, "limit_hit", verdict);
    copy(&w, "policy_hash", r->tree);
    jw_kv_string(&w, "receipt", buf_text(&digest));
    copy(&w, "signal", verdict);
    copy(&w, "tier", r->tree);
    jw_object_end(&w);
    return out->failed ? err_set(err, ERR_LIMIT, "the receipt's record is too long") : 0;
}

static void add_hex(struct buf *out, const char *before, const uint8_t *data, size_t bytes)
{
    buf_str(out, before);
    hex_write(out, data, bytes);
    buf_chr(out, '"');
}

void receipt_proof_write(const struct receipt_proof *p, struct buf *out)
{
    buf_fmt(out, "{\"algorithm\":\"ed25519\",\"checkpoint\":%s", p->checkpoint);
    add_hex(out, ",\"key\":\"sha256:", p->key, 32);
    add_hex(out, ",\"previous\":\"", p->previous, 32);
    buf_fmt(out, ",\"record\":%s", p->record);
    add_hex(out, ",\"value\":\"", p->value, CHAIN_SIGNATURE);
    buf_chr(out, '}');
}

/* The body stands as it was hashed, up to its last brace. */
void receipt_write_signed(struct buf *out, const char *body, size_t len, const char *signature,
                          const char *why_not)
{
    struct json_writer w;
    buf_add(out, body, len ? len - 1 : 0);
    if (signature) {
        buf_fmt(out, ",\"signature\":%s,\"signed\":true}", signature);
        return;
    }
    buf_str(out, ",\"signed\":false,\"why_not_signed\":");
    jw_init(&w, out, false);
    jw_bytes(&w, why_not, strlen(why_not));
    buf_chr(out, '}');
}
