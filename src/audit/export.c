/* Writing an export, from one snapshot of the database. */
#include "audit/export.h"
#include "audit/ask.h"
#include "base/hex.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <string.h>

#define FLUSH_AT (256u * 1024)

struct export
{
    struct ask *ask;
    const char *box;
    struct head head;
    uint64_t head_seq;    /* 0: none */
    uint64_t first, last; /* what is exported */
    uint64_t next_check;  /* number of the next checkpoint; 0: none */
    uint64_t records, checkpoints, at;
    uint8_t hash[32];
};

/* ---- the range ---- */

static int note_first(void *ctx, uint64_t seq, const char *line, size_t len, const uint8_t hash[32],
                      struct err *err)
{
    *(uint64_t *)ctx = seq;
    return 1;
}

static int note_checkpoint(void *ctx, uint64_t seq, const char *line, size_t len,
                           const uint8_t signature[CHAIN_SIGNATURE], struct err *err)
{
    *(uint64_t *)ctx = seq;
    return 1;
}

/* From the first record that was asked for to the checkpoint that covers the last one. */
static int find_range(struct export *e, const char *since, struct err *err)
{
    struct store *s = e->ask->store;
    struct store_filter any = {.limit = 1, .last = true};
    struct store_filter f = {.box = e->box, .since = since, .limit = 1};
    uint64_t end = 0;
    if (store_find(s, &f, note_first, &e->first, err) < 0 ||
        store_find(s, &any, note_first, &end, err) < 0)
        return err_number(err);
    if (!e->first && (e->box || since))
        return err_set(err, ERR_NOT_FOUND, "there is no such record");
    e->first = e->first ? e->first : 1;
    e->last = end;
    f.last = true;
    if (!e->box)
        return 0;
    uint64_t mine = 0, covered = 0;
    if (store_find(s, &f, note_first, &mine, err) < 0 ||
        store_checkpoints(s, mine, 1, note_checkpoint, &covered, err) < 0)
        return err_number(err);
    if (!covered && e->head_seq >= mine)
        covered = e->head_seq;
    if (covered && covered < e->last)
        e->last = covered;
    return 0;
}

/* ---- lines ---- */

static bool is_wanted(const struct export *e, const char *line, size_t len)
{
    struct record r;
    struct json *tree = NULL;
    if (!e->box)
        return true;
    /* What cannot be read is shown as it is. */
    bool wanted =
        record_parse(line, len, &tree, &r, NULL) < 0 || (r.box && strcmp(r.box, e->box) == 0);
    json_free(tree);
    return wanted;
}

static int write_checkpoint(void *ctx, uint64_t seq, const char *line, size_t len,
                            const uint8_t signature[CHAIN_SIGNATURE], struct err *err)
{
    struct export *e = ctx;
    e->next_check = seq;
    if (seq != e->at)
        return 1;
    export_write_checkpoint(&e->ask->out, line, len, signature);
    e->checkpoints++;
    e->next_check = 0;
    return 1;
}

static int add_checkpoint(struct export *e, struct err *err)
{
    uint64_t before = e->checkpoints;
    if (e->next_check == e->at &&
        store_checkpoints(e->ask->store, e->at, 1, write_checkpoint, e, err) < 0)
        return err_number(err);
    if (e->checkpoints != before) {
        /* Where the next one will be; UINT64_MAX: there is none. */
        e->next_check = UINT64_MAX;
        return store_checkpoints(e->ask->store, e->at + 1, 1, note_checkpoint, &e->next_check, err);
    }
    if (e->at == e->head_seq) {
        export_write_checkpoint(&e->ask->out, e->head.line, e->head.len, e->head.signature);
        e->checkpoints++;
    }
    return 0;
}

static int write_row(void *ctx, uint64_t seq, const char *line, size_t len, const uint8_t hash[32],
                     struct err *err)
{
    struct export *e = ctx;
    struct buf *out = &e->ask->out;
    if (is_wanted(e, line, len)) {
        export_write_record(out, line, len, hash);
    } else {
        uint8_t digest[32];
        chain_digest(line, len, digest);
        buf_str(out, "{\"digest\":\"");
        hex_write(out, digest, 32);
        buf_str(out, "\"}\n");
    }
    e->records++;
    e->at = seq;
    memcpy(e->hash, hash, 32);
    if (add_checkpoint(e, err) < 0)
        return err_number(err);
    return out->len > FLUSH_AT ? ask_flush(e->ask, err) : 0;
}

static int write_all(struct export *e, struct err *err)
{
    struct buf *out = &e->ask->out;
    if (store_hash_of(e->ask->store, e->first - 1, e->hash, err) < 0)
        return err_number(err);
    buf_fmt(out, "{\"brig_audit\":1,\"first\":%" PRIu64 ",\"previous\":\"", e->first);
    hex_write(out, e->hash, 32);
    buf_str(out, "\"}\n");
    e->next_check = UINT64_MAX;
    if (store_checkpoints(e->ask->store, e->first, 1, note_checkpoint, &e->next_check, err) < 0)
        return err_number(err);
    struct store_filter f = {.after = e->first - 1, .limit = e->last - e->first + 1};
    if (e->last >= e->first && store_find(e->ask->store, &f, write_row, e, err) < 0)
        return err_number(err);
    buf_fmt(out, "{\"end\":{\"checkpoints\":%" PRIu64 ",\"hash\":\"", e->checkpoints);
    hex_write(out, e->hash, 32);
    buf_fmt(out, "\",\"last\":%" PRIu64 ",\"records\":%" PRIu64 "}}\n", e->records ? e->at : 0,
            e->records);
    return ask_flush(e->ask, err);
}

int ask_export(struct ask *a, struct err *err)
{
    char since[RECORD_TIME_SIZE];
    struct checkpoint c;
    struct export e = {.ask = a, .box = ask_text(a, "box")};
    /* Before the snapshot: it never runs ahead of the records. */
    int there = head_read(a->folder, &e.head, err);
    if (there < 0)
        return there;
    if (there && checkpoint_parse(e.head.line, e.head.len, &c, NULL) >= 0)
        e.head_seq = c.seq;
    if (store_snapshot(a->store, true, err) < 0 || find_range(&e, ask_since(a, since), err) < 0)
        return err_number(err);
    return write_all(&e, err);
}
