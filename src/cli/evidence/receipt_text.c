/* A receipt, and the verdict of its verification, as text for people. */
#include "cli/evidence/receipt_text.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "cli/client/client.h"
#include "cli/term.h"

#include <inttypes.h>
#include <string.h>

#define RED   "\033[31m"
#define GREEN "\033[32m"
#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

static void paint(struct buf *out, bool colour, const char *code, const char *text)
{
    buf_fmt(out, "%s%s%s", colour ? code : "", text, colour ? PLAIN : "");
}

static void value(const struct json *j, struct buf *out)
{
    cleanup_buf struct buf raw;
    struct json_writer w;
    const char *text = json_string(j);
    buf_init(&raw, (size_t)1 << 20);
    if (!text) {
        jw_init(&w, &raw, false);
        jw_json(&w, j);
    }
    term_clean(out, text ? text : buf_text(&raw));
}

static void row(struct buf *out, const char *name, const struct json *j)
{
    if (!j || json_type(j) == JSON_NULL)
        return;
    buf_fmt(out, "  %-18s ", name);
    value(j, out);
    buf_chr(out, '\n');
}

/* "1234 bytes, sha256:…" */
static void stream(struct buf *out, const char *name, const struct json *j)
{
    if (!j)
        return;
    buf_fmt(out, "  %-18s %" PRId64 " bytes, ", name, member_int(j, "bytes", 0));
    value(json_get(j, "hash"), out);
    buf_chr(out, '\n');
}

static void verdict(const struct json *j, struct buf *out)
{
    const struct json *v = json_get(j, "verdict"), *limit = json_get(v, "limit_hit");
    const struct json *why = json_get(v, "ended_because");
    buf_fmt(out, "  %-18s ", "verdict");
    if (json_type(json_get(v, "exit_code")) == JSON_INT)
        buf_fmt(out, "exit status %" PRId64, member_int(v, "exit_code", 0));
    else if (json_type(json_get(v, "signal")) == JSON_INT)
        buf_fmt(out, "signal %" PRId64, member_int(v, "signal", 0));
    else
        buf_str(out, "ended");
    if (json_string(limit)) {
        buf_str(out, ", limit ");
        term_clean(out, json_string(limit));
    }
    if (json_string(why)) {
        buf_str(out, ", ended because ");
        term_clean(out, json_string(why));
    }
    buf_chr(out, '\n');
}

static void usage(const struct json *j, struct buf *out)
{
    const struct json *u = json_get(j, "usage");
    buf_fmt(out, "  %-18s %.1f ms CPU, %" PRId64 " KiB memory at most\n", "used",
            (double)member_int(u, "cpu_usec", 0) / 1000.0,
            member_int(u, "memory_peak_bytes", 0) / 1024);
}

static void boundaries(const struct json *j, bool colour, struct buf *out)
{
    const struct json *all = json_get(j, "boundaries");
    for (size_t i = 0; i < json_count(all); i++) {
        const struct json *facts = json_value_at(all, i);
        paint(out, colour, BOLD, json_key_at(all, i));
        buf_str(out, ", as attested before the code ran\n");
        for (size_t f = 0; f < json_count(facts); f++)
            row(out, json_key_at(facts, f), json_value_at(facts, f));
    }
}

static void denials(const struct json *j, bool colour, struct buf *out)
{
    const struct json *list = json_get(json_get(j, "decisions"), "denials");
    if (json_count(list))
        paint(out, colour, BOLD, "refused\n");
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *d = json_at(list, i);
        buf_str(out, "  ");
        term_clean(out, json_text(d, "boundary"));
        buf_str(out, ": ");
        term_clean(out, json_text(d, "what"));
        buf_fmt(out, " (%" PRId64 "): ", member_int(d, "count", 0));
        term_clean(out, json_text(d, "rule"));
        buf_chr(out, '\n');
    }
}

static void signature(const struct json *j, bool colour, struct buf *out)
{
    const struct json *s = json_get(j, "signature");
    if (!s) {
        paint(out, colour, RED, "NOT SIGNED");
        buf_str(out, ": ");
        term_clean(out, json_text(j, "why_not_signed"));
        buf_chr(out, '\n');
        return;
    }
    const struct json *record = json_get(s, "record");
    buf_fmt(out, "signed as record %" PRId64 " of its chain, ", member_int(record, "seq", 0));
    term_clean(out, json_text(record, "time"));
    buf_str(out, "\n  by ");
    term_clean(out, json_text(s, "key"));
    buf_str(out, "\n  not verified here: see `brig receipt verify`\n");
}

void receipt_text(const struct json *j, bool colour, struct buf *out)
{
    const struct json *in = json_get(j, "inputs"), *outputs = json_get(j, "outputs");
    paint(out, colour, BOLD, "receipt of ");
    term_clean(out, json_text(j, "sandbox_id"));
    buf_chr(out, '\n');
    row(out, "started", json_get(j, "started"));
    row(out, "finished", json_get(j, "finished"));
    row(out, "brig", json_get(j, "brig_version"));
    row(out, "level", json_get(j, "level"));
    row(out, "tier", json_get(j, "tier"));
    row(out, "policy", json_get(j, "policy_hash"));
    for (size_t i = 0; i < json_count(json_get(j, "weaker_than_level")); i++)
        row(out, "weaker", json_at(json_get(j, "weaker_than_level"), i));
    verdict(j, out);
    usage(j, out);
    row(out, "command", json_get(in, "command"));
    stream(out, "code", json_get(in, "code"));
    stream(out, "stdin", json_get(in, "stdin"));
    stream(out, "stdout", json_get(outputs, "stdout"));
    stream(out, "stderr", json_get(outputs, "stderr"));
    boundaries(j, colour, out);
    denials(j, colour, out);
    signature(j, colour, out);
}

void receipt_verdict(const struct json *r, bool colour, struct buf *out)
{
    bool good = json_flag(r, "good");
    paint(out, colour, good ? GREEN : RED, good ? "good" : "NOT GOOD");
    buf_str(out, ": ");
    if (!good) {
        term_clean(out, json_text(r, "why"));
        buf_chr(out, '\n');
        return;
    }
    buf_str(out, "receipt of ");
    term_clean(out, json_text(r, "sandbox_id"));
    buf_fmt(out, ", record %" PRId64 " of the chain of ", member_int(r, "seq", 0));
    term_clean(out, json_text(r, "key"));
    buf_fmt(out, "\nthe chain must lead there: brig audit verify%s --expect %" PRId64 ":",
            json_flag(r, "run") ? " --runs" : "", member_int(r, "seq", 0));
    term_clean(out, json_text(r, "hash"));
    buf_chr(out, '\n');
}
