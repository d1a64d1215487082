/* Audit records, summaries and verdicts as text for people. */
#include "cli/evidence/audit_text.h"

#include "base/text.h"
#include "cli/term.h"

#include <inttypes.h>
#include <string.h>

#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define DIM    "\033[2m"
#define BOLD   "\033[1m"
#define PLAIN  "\033[0m"

static void paint(struct buf *out, bool colour, const char *code)
{
    buf_str(out, colour ? code : "");
}

static const char *colour_of(const char *kind)
{
    size_t len = strlen(kind);
    if (text_begins(kind, "denial") || strcmp(kind, "daemon.crashed") == 0 ||
        strcmp(kind, "audit.resumed") == 0)
        return RED;
    if (len > 8 && strcmp(kind + len - 8, ".refused") == 0)
        return YELLOW;
    return text_begins(kind, "key.") ? BOLD : "";
}

static void value_text(const struct json *j, struct buf *out)
{
    struct buf raw;
    struct json_writer w;
    const char *text = json_string(j);
    buf_init(&raw, (size_t)64 * 1024);
    if (text && text[0] && !strpbrk(text, " =\"")) {
        buf_str(&raw, text);
    } else {
        jw_init(&w, &raw, false);
        jw_json(&w, j);
    }
    term_clean(out, buf_text(&raw));
    buf_done(&raw);
}

static void detail_text(const struct json *detail, struct buf *out)
{
    for (size_t i = 0; detail && i < json_count(detail); i++) {
        buf_chr(out, ' ');
        term_clean(out, json_key_at(detail, i));
        buf_chr(out, '=');
        value_text(json_value_at(detail, i), out);
    }
}

void audit_line(const struct json *record, bool colour, struct buf *out)
{
    const char *time = json_shown(record, "time"), *kind = json_shown(record, "kind");
    const char *box = json_shown(record, "box"), *key = json_shown(record, "key");
    buf_fmt(out, "%6" PRId64 "  ", json_number(record, "seq"));
    paint(out, colour, DIM);
    /* To the millisecond is enough for a look. */
    buf_fmt(out, "%.10s %.12s", time, strlen(time) > 11 ? time + 11 : "");
    paint(out, colour, PLAIN);
    buf_fmt(out, "  %-11s ", json_shown(record, "boundary"));
    paint(out, colour, colour_of(kind));
    buf_fmt(out, "%-16s", kind);
    paint(out, colour, PLAIN);
    if (box[0])
        buf_fmt(out, " box=%s", box);
    if (key[0])
        buf_fmt(out, " key=%s", key);
    detail_text(json_get(record, "detail"), out);
    buf_chr(out, '\n');
}

void audit_whole(const struct json *record, const char *hash, bool colour, struct buf *out)
{
    struct json_writer w;
    struct buf raw;
    buf_init(&raw, (size_t)256 * 1024);
    jw_init(&w, &raw, true);
    jw_json(&w, record);
    buf_add(out, buf_text(&raw), raw.len);
    buf_done(&raw);
    paint(out, colour, DIM);
    buf_fmt(out, "\nhash %s\n", hash);
    paint(out, colour, PLAIN);
}

static void title(struct buf *out, bool colour, const char *text)
{
    buf_chr(out, '\n');
    paint(out, colour, BOLD);
    buf_str(out, text);
    paint(out, colour, PLAIN);
    buf_chr(out, '\n');
}

static void counts(const struct json *summary, const char *name, const char *heading, bool colour,
                   struct buf *out)
{
    const struct json *table = json_get(summary, name);
    if (!table || json_count(table) == 0)
        return;
    title(out, colour, heading);
    for (size_t i = 0; i < json_count(table); i++) {
        const struct json *n = json_value_at(table, i);
        buf_fmt(out, "%10" PRId64 "  ", json_type(n) == JSON_INT ? json_int(n) : 0);
        term_clean(out, json_key_at(table, i));
        buf_chr(out, '\n');
    }
}

static void denials(const struct json *summary, bool colour, struct buf *out)
{
    const struct json *list = json_get(summary, "denials");
    if (!list || json_count(list) == 0)
        return;
    title(out, colour, "Most refused");
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *d = json_at(list, i);
        buf_fmt(out, "%10" PRId64 "  %s: ", json_number(d, "count"), json_shown(d, "boundary"));
        term_clean(out, json_shown(d, "what"));
        if (json_number(d, "boxes") > 1)
            buf_fmt(out, " (%" PRId64 " sandboxes)", json_number(d, "boxes"));
        buf_chr(out, '\n');
    }
}

void audit_summary(const struct json *summary, bool colour, struct buf *out)
{
    buf_fmt(out, "%" PRId64 " records of %" PRId64 " sandboxes", json_number(summary, "records"),
            json_number(summary, "boxes"));
    if (json_shown(summary, "first")[0])
        buf_fmt(out, ", from %.19s to %.19s UTC", json_shown(summary, "first"),
                json_shown(summary, "last"));
    buf_fmt(out, "\n%" PRId64 " times something was refused\n", json_number(summary, "refused"));
    counts(summary, "by_boundary", "By boundary", colour, out);
    counts(summary, "by_kind", "By kind", colour, out);
    counts(summary, "by_template", "Sandboxes by template", colour, out);
    denials(summary, colour, out);
}

static void good_text(const struct json *r, struct buf *out)
{
    int64_t last = json_number(r, "last"), signed_to = json_number(r, "signed_to");
    int64_t withheld = json_number(r, "withheld");
    buf_fmt(out, "%" PRId64 " records", json_number(r, "records"));
    if (json_number(r, "first") > 1)
        buf_fmt(out, " (%" PRId64 " to %" PRId64 ")", json_number(r, "first"), last);
    buf_fmt(out, ", %" PRId64 " checkpoints", json_number(r, "checkpoints"));
    if (withheld)
        buf_fmt(out, ", %" PRId64 " left out", withheld);
    buf_chr(out, '\n');
    if (signed_to)
        buf_fmt(out, "signed up to record %" PRId64 ", %.19s UTC\n", signed_to,
                json_shown(r, "signed_at"));
    if (last > signed_to)
        buf_fmt(out, "not yet signed: %" PRId64 " records after it\n", last - signed_to);
    if (json_shown(r, "hash")[0])
        buf_fmt(out, "to find a rollback later, keep: --expect %" PRId64 ":%s\n", last,
                json_shown(r, "hash"));
}

void audit_verdict(const struct json *result, bool colour, struct buf *out)
{
    const struct json *j = json_get(result, "good");
    bool good = j && json_type(j) == JSON_BOOL && json_bool(j);
    paint(out, colour, good ? GREEN : RED);
    buf_str(out, good ? "good" : "NOT GOOD");
    paint(out, colour, PLAIN);
    buf_str(out, ": ");
    if (good) {
        good_text(result, out);
        return;
    }
    term_clean(out, json_shown(result, "why"));
    buf_chr(out, '\n');
}
