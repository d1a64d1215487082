/* Looking at the chain of runs: a file in the form of an export, see audit/runs.h. */
#include "audit/ask.h"
#include "audit/export.h"
#include "audit/runs.h"
#include "base/hex.h"

#include "base/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_AT (64u * 1024)

typedef int line_fn(void *ctx, const char *line, size_t len, struct err *err);

/* Calls `fn` for every line. The last one may be unfinished; `fn` then sees a line that is no
 * record. */
static int each_line(const struct runs_view *v, line_fn *fn, void *ctx, struct err *err)
{
    size_t room = 4 * EXPORT_LINE_MAX, have = 0;
    off_t at = 0;
    int r = 0;
    cleanup_free char *text = malloc(room);
    if (!text)
        return err_memory(err);
    while (r == 0 && (at < v->size || have)) {
        size_t want = room - have;
        want = (off_t)want > v->size - at ? (size_t)(v->size - at) : want;
        ssize_t n = want ? pread(v->fd, text + have, want, at) : 0;
        if (n < 0)
            return err_sys(err, "read " RUNS_FILE);
        at += n;
        have += (size_t)n;
        char *newline = memchr(text, '\n', have);
        size_t len = newline ? (size_t)(newline - text) : have;
        if (!newline && n > 0 && have < room)
            continue;
        for (; r == 0 && newline; newline = memchr(text, '\n', have)) {
            len = (size_t)(newline - text);
            r = fn(ctx, text, len, err);
            have -= len + 1;
            memmove(text, newline + 1, have);
        }
        if (r == 0 && n == 0 && have) {
            r = fn(ctx, text, have, err);
            have = 0;
        }
    }
    return r < 0 ? r : 0;
}

/* ---- verify ---- */

struct verify {
    struct chain_check *chain;
    uint64_t lines, expect;
    uint8_t expected[32];
    bool met;    /* the expected place */
    bool record; /* whose checkpoint must follow */
};

static int verify_line(void *ctx, const char *line, size_t len, struct err *err)
{
    struct verify *v = ctx;
    struct export_line e;
    bool first = v->lines++ == 0;
    bool readable = export_parse(line, len, &e, NULL) >= 0;
    if (readable && first && e.kind == EXPORT_BEGIN && e.first == 1)
        return 0;
    if (readable && !first && e.kind == EXPORT_RECORD && !v->record) {
        v->record = true;
        /* The hash covers the number. */
        v->met |= v->expect && memcmp(e.hash, v->expected, 32) == 0;
        return chain_check_filed(v->chain, e.text, e.len, e.hash) ? 0 : 1;
    }
    if (readable && !first && e.kind == EXPORT_CHECKPOINT && v->record) {
        v->record = false;
        return chain_check_signed(v->chain, e.text, e.len, e.signature) ? 0 : 1;
    }
    chain_check_bad(v->chain, chain_check_seq(v->chain) + 1,
                    "line %" PRIu64 " of the chain of runs was changed: it cannot be read, or does "
                    "not belong there",
                    v->lines);
    return 1;
}

static void judge_end(struct verify *v, struct verify_result *result)
{
    if (!result->good)
        return;
    if (v->record || v->lines == 0)
        snprintf(result->why, sizeof result->why,
                 "the end is cut off: the last record is not "
                 "signed");
    else if (v->expect && !v->met)
        snprintf(result->why, sizeof result->why,
                 v->expect > result->last
                     ? "the end is cut off: record %" PRIu64 " was there and is missing"
                     : "record %" PRIu64 " is not the one that was expected: the log was rewritten",
                 v->expect);
    else
        return;
    result->good = false;
    result->seq = v->expect ? v->expect : result->last;
}

static int verify_file(struct ask *a, const struct runs_view *view, struct verify *v,
                       struct verify_result *ret, struct err *err)
{
    const char *expect = ask_text(a, "expect");
    char *colon = NULL;
    if (expect) {
        errno = 0;
        v->expect = strtoull(expect, &colon, 10);
        if (errno || *colon != ':' || !v->expect || !hex_decode(colon + 1, v->expected, 32))
            return err_set(err, ERR_USAGE, "what is expected is SEQ:HASH, as verify prints it");
    }
    if (!a->verifier && verifier_open(&a->verifier, a->folder, err) < 0)
        return err_number(err);
    if (chain_check_new(&v->chain, 1, NULL, verifier_check, a->verifier, err) < 0)
        return err_number(err);
    if (view->has_head)
        chain_check_head(v->chain, view->head.line, view->head.len, view->head.signature);
    else if (view->size > 128)
        chain_check_bad(v->chain, 0, "the file of the newest checkpoint is missing");
    int r = each_line(view, verify_line, v, err);
    chain_check_end(v->chain, 0, ret);
    chain_check_free(v->chain);
    judge_end(v, ret);
    return r;
}

static int runs_verify(struct ask *a, const struct runs_view *view, struct err *err)
{
    struct verify_result result = {.good = false};
    struct verify v = {.lines = 0};
    if (verify_file(a, view, &v, &result, err) < 0)
        return err_number(err);
    return ask_print_verdict(a, &result, err);
}

/* ---- tail, show ---- */

struct pick {
    struct ask *ask;
    uint64_t seq;   /* show */
    uint64_t skip;  /* of those that fit, so many come first */
    uint64_t found; /* that fit */
    bool count_only;
};

static bool fits(const struct pick *p, const struct record *r, const struct json *tree)
{
    char room[RECORD_TIME_SIZE];
    const char *box = ask_text(p->ask, "box"), *kind = ask_text(p->ask, "kind");
    const char *since = ask_since(p->ask, room), *time = json_text(tree, "time");
    size_t len = kind ? strlen(kind) : 0;
    if (p->seq)
        return r->seq == p->seq;
    if (since && strcmp(time, since) < 0)
        return false;
    if (kind && (kind[len - 1] == '*' ? strncmp(r->kind, kind, len - 1) : strcmp(r->kind, kind)))
        return false;
    return !box || (r->box && strcmp(r->box, box) == 0);
}

static int pick_line(void *ctx, const char *line, size_t len, struct err *err)
{
    struct pick *p = ctx;
    struct export_line e;
    struct record r;
    struct json *tree = NULL;
    if (export_parse(line, len, &e, NULL) < 0 || e.kind != EXPORT_RECORD ||
        record_parse(e.text, e.len, &tree, &r, NULL) < 0)
        return 0;
    if (fits(p, &r, tree) && p->found++ >= p->skip && !p->count_only)
        export_write_record(&p->ask->out, e.text, e.len, e.hash);
    json_free(tree);
    return p->ask->out.len > FLUSH_AT ? ask_flush(p->ask, err) : 0;
}

static int print_end(struct ask *a, uint64_t records, struct err *err)
{
    return ask_end(a, JSON_SMALL(JSON_NUMBER("records", records)), err);
}

static int runs_tail(struct ask *a, const struct runs_view *view, struct err *err)
{
    struct pick p = {.ask = a, .count_only = true};
    uint64_t lines = ask_number(a, "lines", 20);
    if (ask_flag(a, "follow"))
        return err_set(err, ERR_UNSUPPORTED, "the chain of runs cannot be followed with -f");
    if (each_line(view, pick_line, &p, err) < 0)
        return err_number(err);
    p = (struct pick){.ask = a, .skip = p.found > lines ? p.found - lines : 0};
    if (each_line(view, pick_line, &p, err) < 0)
        return err_number(err);
    return print_end(a, p.found - p.skip, err);
}

static int runs_show(struct ask *a, const struct runs_view *view, struct err *err)
{
    struct pick p = {.ask = a, .seq = ask_number(a, "seq", 0)};
    if (!p.seq)
        return err_set(err, ERR_USAGE, "records are counted from 1");
    if (each_line(view, pick_line, &p, err) < 0)
        return err_number(err);
    return p.found ? print_end(a, p.found, err)
                   : err_set(err, ERR_NOT_FOUND, "there is no record %" PRIu64, p.seq);
}

/* ---- export ---- */

struct copy {
    struct ask *ask;
    uint64_t records, checkpoints, last;
    uint8_t hash[32];
};

static int copy_line(void *ctx, const char *line, size_t len, struct err *err)
{
    struct copy *c = ctx;
    struct export_line e;
    struct checkpoint at;
    if (export_parse(line, len, &e, NULL) < 0)
        return err_set(err, ERR_ATTEST, "the chain of runs cannot be read: see brig audit verify");
    c->records += e.kind == EXPORT_RECORD;
    if (e.kind == EXPORT_RECORD)
        memcpy(c->hash, e.hash, 32);
    if (e.kind == EXPORT_CHECKPOINT && checkpoint_parse(e.text, e.len, &at, NULL) >= 0) {
        c->checkpoints++;
        c->last = at.seq;
    }
    buf_add(&c->ask->out, line, len);
    buf_chr(&c->ask->out, '\n');
    return c->ask->out.len > FLUSH_AT ? ask_flush(c->ask, err) : 0;
}

static int runs_export(struct ask *a, const struct runs_view *view, struct err *err)
{
    struct copy c = {.ask = a};
    if (ask_text(a, "box") || ask_number(a, "since_us", 0))
        return err_set(err, ERR_UNSUPPORTED, "the chain of runs is exported as a whole");
    if (each_line(view, copy_line, &c, err) < 0)
        return err_number(err);
    buf_fmt(&a->out, "{\"end\":{\"checkpoints\":%" PRIu64 ",\"hash\":\"", c.checkpoints);
    hex_write(&a->out, c.hash, 32);
    buf_fmt(&a->out, "\",\"last\":%" PRIu64 ",\"records\":%" PRIu64 "}}\n", c.last, c.records);
    return ask_flush(a, err);
}

int ask_runs(struct ask *a, struct err *err)
{
    static const struct {
        const char *verb;
        int (*fn)(struct ask *a, const struct runs_view *view, struct err *err);
    } verbs[] = {
        {"verify", runs_verify}, {"tail", runs_tail}, {"show", runs_show}, {"export", runs_export}};
    struct runs_view view;
    if (runs_look(a->folder, &view, err) < 0)
        return err_number(err);
    if (view.fd < 0) {
        err_set(err, ERR_NOT_FOUND, "there is no receipt of a run yet");
        return err_hint(err, "`brig run --receipt FILE` makes one");
    }
    int r = -ERR_USAGE;
    err_set(err, ERR_USAGE, "the chain of runs answers verify, tail, show and export");
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(a->verb, verbs[i].verb) == 0) {
            *err = (struct err)ERR_INIT;
            r = verbs[i].fn(a, &view, err);
        }
    }
    close(view.fd);
    return r;
}
