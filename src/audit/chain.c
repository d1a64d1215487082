/* Checks a chain of records row by row: hashes, numbers, checkpoints and their signatures. Names
 * the first row that was changed, inserted or removed. */
#include "audit/chain.h"

#include "base/cleanup.h"
#include "base/hex.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct signature {
    struct checkpoint at;
    bool given, valid, readable;
};

struct row {
    bool used;
    uint64_t place, number; /* number: what the line itself says; 0: it cannot be read */
    bool stopped;           /* the daemon's last word */
    uint8_t hash[32];
    size_t len;
    char line[RECORD_MAX];
    struct signature sign;
};

/* A row is judged only when the next one is known: from one side alone, a row that was inserted
 * looks the same as one that was changed. */
struct chain_check {
    uint64_t seq; /* of the last good one */
    uint8_t hash[32];
    bool stopped;
    uint64_t first;
    uint64_t signed_to;
    bool signed_known; /* signed_to is a checkpoint, not only a beginning in the middle */
    bool signed_stopped;
    char signed_at[RECORD_TIME_SIZE];
    uint64_t records, checkpoints, withheld;
    struct signature head;
    struct row rows[2];
    unsigned held;
    chain_verify_fn *verify;
    void *ctx;
    bool failed;
    uint64_t bad_seq;
    char why[160];
};

int chain_check_new(struct chain_check **ret, uint64_t first_seq, const uint8_t previous[32],
                    chain_verify_fn *verify, void *ctx, struct err *err)
{
    struct chain_check *c = calloc(1, sizeof *c);
    if (!c)
        return err_memory(err);
    c->first = first_seq;
    c->seq = first_seq - 1;
    c->signed_to = c->seq;
    c->signed_known = first_seq == 1;
    if (previous)
        memcpy(c->hash, previous, 32);
    c->verify = verify;
    c->ctx = ctx;
    *ret = c;
    return 0;
}

void chain_check_free(struct chain_check *c)
{
    free(c);
}

uint64_t chain_check_seq(const struct chain_check *c)
{
    return c->seq;
}

bool chain_check_failed(const struct chain_check *c)
{
    return c->failed;
}

void chain_check_bad(struct chain_check *c, uint64_t seq, const char *fmt, ...)
{
    if (c->failed)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, ap);
    va_end(ap);
    c->failed = true;
    c->bad_seq = seq;
}

/* ---- checkpoints ---- */

void checkpoint_write(const struct checkpoint *c, struct buf *out)
{
    buf_str(out, "{\"hash\":\"");
    hex_write(out, c->hash, 32);
    buf_fmt(out, "\",\"seq\":%" PRIu64 ",\"time\":\"%s\"}", c->seq, c->time);
}

int checkpoint_parse(const char *line, size_t len, struct checkpoint *ret, struct err *err)
{
    static const struct json_limits limits = {
        .max_bytes = CHAIN_CHECKPOINT_MAX, .max_depth = 2, .max_nodes = 8};
    struct json *tree = NULL;
    int r = json_parse(line, len, &limits, &tree, err);
    if (r < 0)
        return err_wrap(err, "a checkpoint");
    const struct json *hash = json_get(tree, "hash"), *seq = json_get(tree, "seq");
    const struct json *time = json_get(tree, "time");
    bool good = json_type(tree) == JSON_OBJECT && json_count(tree) == 3 && hash && seq && time &&
                hex_decode(json_string(hash), ret->hash, 32) && json_type(seq) == JSON_INT &&
                json_int(seq) >= 0 && json_string(time) &&
                strlen(json_string(time)) == sizeof ret->time - 1;
    if (good) {
        ret->seq = (uint64_t)json_int(seq);
        memcpy(ret->time, json_string(time), sizeof ret->time);
    }
    json_free(tree);
    return good ? 0 : err_set(err, ERR_PROTOCOL, "a checkpoint is malformed");
}

static void read_signature(struct chain_check *c, struct signature *s, const char *line, size_t len,
                           const uint8_t signature[CHAIN_SIGNATURE])
{
    s->given = true;
    s->readable = checkpoint_parse(line, len, &s->at, NULL) == 0;
    s->valid = s->readable && c->verify(c->ctx, line, len, signature);
}

void chain_check_head(struct chain_check *c, const char *line, size_t len,
                      const uint8_t signature[CHAIN_SIGNATURE])
{
    read_signature(c, &c->head, line, len, signature);
    if (!c->head.valid)
        chain_check_bad(c, c->head.readable ? c->head.at.seq : 0,
                        "the file of the newest checkpoint is not signed by this key");
}

/* The chain itself was good up to here. */
static void judge_signature(struct chain_check *c, const struct signature *s, const char *what)
{
    if (!s->valid)
        chain_check_bad(c, c->seq, "%s record %" PRIu64 " is not signed by this key", what, c->seq);
    else if (s->at.seq != c->seq)
        chain_check_bad(c, c->seq, "the checkpoint of record %" PRIu64 " stands at record %" PRIu64,
                        s->at.seq, c->seq);
    else if (memcmp(s->at.hash, c->hash, 32) != 0)
        chain_check_bad(c, c->signed_to + 1,
                        "records %" PRIu64 " to %" PRIu64
                        " were rewritten: they do not lead to the signed checkpoint",
                        c->signed_to + 1, c->seq);
    if (c->failed)
        return;
    c->signed_to = c->seq;
    c->signed_known = true;
    c->signed_stopped = c->stopped;
    memcpy(c->signed_at, s->at.time, sizeof c->signed_at);
}

/* ---- rows ---- */

static bool follows(const uint8_t previous[32], const struct row *r)
{
    uint8_t hash[32];
    chain_next(previous, r->line, r->len, hash);
    return memcmp(hash, r->hash, 32) == 0;
}

static void name_change(struct chain_check *c, const struct row *next)
{
    uint64_t due = c->seq + 1;
    if (next && next->number == due)
        chain_check_bad(c, due, "a record was inserted before record %" PRIu64, due);
    else if (due == c->first)
        chain_check_bad(c, due, "record %" PRIu64 " was changed", due);
    else
        chain_check_bad(
            c, due, "record %" PRIu64 " was changed, or record %" PRIu64 " together with its hash",
            due, c->seq);
}

static void name_break(struct chain_check *c, const struct row *row, const struct row *next)
{
    uint64_t due = c->seq + 1;
    if (row->number == 0)
        chain_check_bad(c, due, "record %" PRIu64 " was changed: it cannot be read", due);
    else if (row->number == due && follows(c->hash, row))
        chain_check_bad(c, due, "record %" PRIu64 " was moved: it is filed as %" PRIu64, due,
                        row->place);
    else if (row->number == due)
        name_change(c, next);
    else if (row->number < due)
        chain_check_bad(c, due,
                        "a record was inserted: after record %" PRIu64 " stands number %" PRIu64
                        " again",
                        c->seq, row->number);
    else if (next && (next->number == due || next->number == due + 1))
        chain_check_bad(c, due,
                        "the order was changed: record %" PRIu64
                        " stands in the place of record %" PRIu64,
                        row->number, due);
    else if (row->number == due + 1)
        chain_check_bad(c, due, "record %" PRIu64 " is missing", due);
    else
        chain_check_bad(c, due, "records %" PRIu64 " to %" PRIu64 " are missing", due,
                        row->number - 1);
}

static void step(struct chain_check *c, const uint8_t hash[32], bool stopped)
{
    c->seq++;
    memcpy(c->hash, hash, 32);
    c->stopped = stopped;
    c->records++;
    if (c->signed_known && c->seq - c->signed_to > RECORD_CHECK_EVERY)
        chain_check_bad(c, c->seq - 1, "the checkpoint of record %" PRIu64 " is missing",
                        c->seq - 1);
}

/* Called once the record that the head names was reached. */
static void judge_head(struct chain_check *c)
{
    if (c->head.valid && c->head.at.seq == c->seq && c->signed_to != c->seq)
        judge_signature(c, &c->head, "the file of the newest checkpoint of");
}

static void judge(struct chain_check *c, const struct row *row, const struct row *next)
{
    if (c->failed)
        return;
    if (row->number != c->seq + 1 || row->place != row->number || !follows(c->hash, row)) {
        name_break(c, row, next);
        return;
    }
    step(c, row->hash, row->stopped);
    if (row->sign.given && !c->failed) {
        c->checkpoints++;
        judge_signature(c, &row->sign, "the checkpoint of");
    }
    if (!c->failed)
        judge_head(c);
}

static void fill(struct row *r, uint64_t place, const char *line, size_t len,
                 const uint8_t hash[32])
{
    struct record record;
    struct json *tree = NULL;
    *r = (struct row){.used = true, .place = place};
    memcpy(r->hash, hash, 32);
    if (len > sizeof r->line || record_parse(line, len, &tree, &record, NULL) < 0)
        return;
    memcpy(r->line, line, len);
    r->len = len;
    r->number = record.seq;
    r->stopped = strcmp(record.kind, "daemon.stopped") == 0;
    json_free(tree);
}

static void judge_held(struct chain_check *c, const struct row *next)
{
    struct row *held = &c->rows[c->held];
    if (held->used)
        judge(c, held, next);
    held->used = false;
}

bool chain_check_row(struct chain_check *c, uint64_t place, const char *line, size_t len,
                     const uint8_t hash[32])
{
    if (c->failed)
        return false;
    struct row *next = &c->rows[1 - c->held];
    fill(next, place, line, len, hash);
    judge_held(c, next);
    c->held = 1 - c->held;
    return !c->failed;
}

bool chain_check_filed(struct chain_check *c, const char *line, size_t len, const uint8_t hash[32])
{
    if (!chain_check_row(c, 0, line, len, hash))
        return false;
    struct row *held = &c->rows[c->held];
    held->place = held->number;
    return true;
}

bool chain_check_withheld(struct chain_check *c, const uint8_t digest[32])
{
    uint8_t hash[32];
    judge_held(c, NULL);
    if (c->failed)
        return false;
    chain_add(c->hash, digest, hash);
    step(c, hash, false);
    c->withheld++;
    if (!c->failed)
        judge_head(c);
    return !c->failed;
}

bool chain_check_signed(struct chain_check *c, const char *line, size_t len,
                        const uint8_t signature[CHAIN_SIGNATURE])
{
    struct signature s = {.given = false};
    struct row *held = &c->rows[c->held];
    if (c->failed)
        return false;
    if (held->used) {
        read_signature(c, &held->sign, line, len, signature);
        return true;
    }
    /* After a withheld record there is no row waiting to be judged. */
    read_signature(c, &s, line, len, signature);
    c->checkpoints++;
    judge_signature(c, &s, "the checkpoint of");
    return !c->failed;
}

/* ---- end ---- */

static void judge_end(struct chain_check *c, uint64_t after_end)
{
    uint64_t claimed = c->head.valid && c->head.at.seq > after_end ? c->head.at.seq : after_end;
    if (claimed > c->seq)
        chain_check_bad(c, c->seq + 1,
                        "the end is cut off: records %" PRIu64 " to %" PRIu64 " are missing",
                        c->seq + 1, claimed);
    else if (c->signed_stopped && c->seq > c->signed_to)
        chain_check_bad(c, c->signed_to + 1,
                        "records %" PRIu64 " to %" PRIu64
                        " were inserted after the daemon had stopped",
                        c->signed_to + 1, c->seq);
}

void chain_check_end(struct chain_check *c, uint64_t after_end, struct verify_result *ret)
{
    judge_held(c, NULL);
    if (!c->failed)
        judge_end(c, after_end);
    *ret = (struct verify_result){.good = !c->failed,
                                  .records = c->records,
                                  .checkpoints = c->checkpoints,
                                  .seq = c->failed ? c->bad_seq : 0,
                                  .first = c->records ? c->first : 0,
                                  .last = c->records ? c->seq : 0,
                                  .signed_to = c->signed_known ? c->signed_to : 0,
                                  .withheld = c->withheld};
    memcpy(ret->hash, c->hash, 32);
    memcpy(ret->why, c->why, sizeof ret->why);
    memcpy(ret->signed_at, c->signed_at, sizeof ret->signed_at);
}
