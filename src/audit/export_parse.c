/* Exports of the audit log (audit/export.h): writes their lines, and reads and checks lines that
 * somebody else may have written. */
#include "audit/export.h"

#include "base/cleanup.h"
#include "base/hex.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

void export_write_record(struct buf *out, const char *line, size_t len, const uint8_t hash[32])
{
    buf_str(out, "{\"hash\":\"");
    hex_write(out, hash, 32);
    buf_str(out, "\",\"record\":");
    buf_add(out, line, len);
    buf_str(out, "}\n");
}

void export_write_checkpoint(struct buf *out, const char *line, size_t len,
                             const uint8_t signature[CHAIN_SIGNATURE])
{
    buf_str(out, "{\"checkpoint\":");
    buf_add(out, line, len);
    buf_str(out, ",\"signature\":\"");
    hex_write(out, signature, CHAIN_SIGNATURE);
    buf_str(out, "\"}\n");
}

/* ---- reading ---- */

struct cursor {
    const char *p, *end;
    bool good;
};

static void expect(struct cursor *c, const char *text)
{
    size_t len = strlen(text);
    c->good = c->good && (size_t)(c->end - c->p) >= len && memcmp(c->p, text, len) == 0;
    if (c->good)
        c->p += len;
}

static void take_hex(struct cursor *c, uint8_t *ret, size_t bytes)
{
    char digits[2 * CHAIN_SIGNATURE + 1];
    size_t len = 2 * bytes;
    if (!c->good || (size_t)(c->end - c->p) < len) {
        c->good = false;
        return;
    }
    memcpy(digits, c->p, len);
    digits[len] = '\0';
    c->good = hex_decode(digits, ret, bytes);
    c->p += len;
}

/* At most 18 digits, no leading zero. */
static void take_number(struct cursor *c, uint64_t *ret)
{
    uint64_t n = 0;
    const char *start = c->p;
    while (c->good && c->p < c->end && *c->p >= '0' && *c->p <= '9' && c->p - start < 19)
        n = n * 10 + (uint64_t)(*c->p++ - '0');
    size_t len = (size_t)(c->p - start);
    c->good = c->good && len > 0 && len < 19 && (len == 1 || *start != '0');
    *ret = n;
}

static void read_begin(struct cursor *c, struct export_line *ret)
{
    expect(c, "{\"brig_audit\":1,\"first\":");
    take_number(c, &ret->first);
    expect(c, ",\"previous\":\"");
    take_hex(c, ret->hash, 32);
    expect(c, "\"}");
    c->good = c->good && ret->first > 0;
}

static void read_record(struct cursor *c, struct export_line *ret)
{
    expect(c, "{\"hash\":\"");
    take_hex(c, ret->hash, 32);
    expect(c, "\",\"record\":");
    if (!c->good || c->end - c->p < 3) {
        c->good = false;
        return;
    }
    ret->text = c->p;
    ret->len = (size_t)(c->end - c->p) - 1;
    c->p += ret->len;
    expect(c, "}");
}

static void read_checkpoint(struct cursor *c, struct export_line *ret)
{
    static const char between[] = ",\"signature\":\"";
    size_t after = sizeof between - 1 + (size_t)2 * CHAIN_SIGNATURE + 2;
    expect(c, "{\"checkpoint\":");
    if (!c->good || (size_t)(c->end - c->p) < after) {
        c->good = false;
        return;
    }
    ret->text = c->p;
    ret->len = (size_t)(c->end - c->p) - after;
    c->p += ret->len;
    expect(c, between);
    take_hex(c, ret->signature, CHAIN_SIGNATURE);
    expect(c, "\"}");
}

static void read_digest(struct cursor *c, struct export_line *ret)
{
    expect(c, "{\"digest\":\"");
    take_hex(c, ret->hash, 32);
    expect(c, "\"}");
}

static void read_end(struct cursor *c, struct export_line *ret)
{
    expect(c, "{\"end\":{\"checkpoints\":");
    take_number(c, &ret->checkpoints);
    expect(c, ",\"hash\":\"");
    take_hex(c, ret->hash, 32);
    expect(c, "\",\"last\":");
    take_number(c, &ret->last);
    expect(c, ",\"records\":");
    take_number(c, &ret->records);
    expect(c, "}}");
}

int export_parse(const char *text, size_t len, struct export_line *ret, struct err *err)
{
    static void (*const readers[])(struct cursor *, struct export_line *) = {
        [EXPORT_BEGIN] = read_begin,   [EXPORT_RECORD] = read_record,
        [EXPORT_DIGEST] = read_digest, [EXPORT_CHECKPOINT] = read_checkpoint,
        [EXPORT_END] = read_end,
    };
    static const char first[] = {'b', 'h', 'd', 'c', 'e'};
    const char *which = len > 2 && len <= EXPORT_LINE_MAX ? memchr(first, text[2], 5) : NULL;
    struct cursor c = {.p = text, .end = text + len, .good = which != NULL};
    *ret = (struct export_line){.kind = which ? (enum export_kind)(which - first) : EXPORT_BEGIN};
    if (which)
        readers[ret->kind](&c, ret);
    if (!c.good || c.p != c.end)
        return err_set(err, ERR_PROTOCOL, "a line of the export is malformed");
    return 0;
}

/* ---- all lines ---- */

struct export_check {
    struct chain_check *chain;
    chain_verify_fn *verify;
    void *ctx;
    uint64_t lines;
    struct export_line end;
    bool ended;
    char bad[160]; /* before there is a chain */
};

int export_check_new(struct export_check **ret, chain_verify_fn *verify, void *ctx, struct err *err)
{
    struct export_check *c = calloc(1, sizeof *c);
    if (!c)
        return err_memory(err);
    c->verify = verify;
    c->ctx = ctx;
    *ret = c;
    return 0;
}

static void bad(struct export_check *c, const char *what)
{
    if (c->chain)
        chain_check_bad(c->chain, chain_check_seq(c->chain) + 1, "line %" PRIu64 " %s", c->lines,
                        what);
    else if (!c->bad[0])
        memcpy(c->bad, what, strlen(what) + 1);
}

static void begin(struct export_check *c, const struct export_line *l)
{
    if (chain_check_new(&c->chain, l->first, l->hash, c->verify, c->ctx, NULL) < 0)
        bad(c, ERR_MEMORY_TEXT);
}

void export_check_line(struct export_check *c, const char *text, size_t len)
{
    struct export_line l;
    c->lines++;
    if (c->bad[0] || (c->chain && chain_check_failed(c->chain)))
        return;
    if (export_parse(text, len, &l, NULL) < 0) {
        bad(c, c->chain ? "is malformed" : "this is no export of brig audit");
        return;
    }
    if (!c->chain || l.kind == EXPORT_BEGIN || c->ended) {
        if (!c->chain && l.kind == EXPORT_BEGIN)
            begin(c, &l);
        else
            bad(c, c->ended ? "stands after the last" : "is not where it belongs");
    } else if (l.kind == EXPORT_RECORD) {
        /* An export has no row numbers of its own: a record's number is its place in the file. */
        (void)chain_check_filed(c->chain, l.text, l.len, l.hash);
    } else if (l.kind == EXPORT_DIGEST) {
        (void)chain_check_withheld(c->chain, l.hash);
    } else if (l.kind == EXPORT_CHECKPOINT) {
        (void)chain_check_signed(c->chain, l.text, l.len, l.signature);
    } else {
        c->ended = true;
        c->end = l;
    }
}

static void judge_end(struct export_check *c, struct verify_result *ret)
{
    if (!ret->good)
        return;
    const char *why = !c->ended ? "the end is cut off: the export has no last line"
                      : c->end.records != ret->records || c->end.last != ret->last ||
                              c->end.checkpoints != ret->checkpoints ||
                              memcmp(c->end.hash, ret->hash, 32) != 0
                          ? "the end is cut off or changed: the last line tells of other records"
                      : ret->records && !ret->signed_to ? "nothing in it is signed"
                                                        : NULL;
    if (!why)
        return;
    ret->good = false;
    ret->seq = ret->last + 1;
    memcpy(ret->why, why, strlen(why) + 1);
}

void export_check_end(struct export_check *c, struct verify_result *ret)
{
    *ret = (struct verify_result){.good = false};
    if (c->chain) {
        chain_check_end(c->chain, 0, ret);
        judge_end(c, ret);
    } else {
        const char *why = c->bad[0] ? c->bad : "the file is empty";
        memcpy(ret->why, why, strlen(why) + 1);
    }
    chain_check_free(c->chain);
    free(c);
}
