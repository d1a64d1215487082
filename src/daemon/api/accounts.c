/* GET /accounts: what each key makes the daemon hold. A key sees its own, an operator all. */
#include "daemon/api/call.h"

struct rows {
    struct json_writer w;
    const struct key *asks;
};

static void write_row(void *ctx, const struct account *a)
{
    struct rows *r = ctx;
    if (a->key != r->asks && !r->asks->operator_key)
        return;
    jw_object_begin(&r->w);
    jw_kv_string(&r->w, "key", a->key->id);
    jw_kv_string(&r->w, "name", a->key->name);
    for (unsigned i = 0; i < ACCOUNT_KINDS; i++) {
        jw_kv_object(&r->w, account_kind_name((enum account_kind)i));
        jw_kv_uint(&r->w, "used", a->used[i]);
        jw_kv_uint(&r->w, "limit", account_most(a, (enum account_kind)i));
        jw_kv_uint(&r->w, "peak", a->peak[i]);
        jw_kv_uint(&r->w, "refused", a->refused[i]);
        jw_object_end(&r->w);
    }
    jw_object_end(&r->w);
}

void accounts_get(struct call *call)
{
    struct buf out cleanup_buf = {0};
    struct rows r = {.asks = call->key};
    call_buf(call, &out, 8u << 20);
    jw_init(&r.w, &out, false);
    jw_array_begin(&r.w);
    accounts_each(core_accounts(call->core), write_row, &r);
    jw_array_end(&r.w);
    call_reply(call, 200, &out);
}
