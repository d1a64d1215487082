/* The record of a run's network as text for people. */
#include "cli/evidence/net_text.h"

#include "cli/term.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#define WHAT_WIDTH_MAX 48

const char *net_state(const struct json *record)
{
    int64_t pid = json_number(record, "supervisor");
    if (strcmp(json_shown(record, "state"), "running") != 0)
        return "ended";
    return pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH ? "gone" : "running";
}

static void bytes(struct buf *out, int64_t n)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)n / 1024;
    size_t unit = 0;
    if (n < 1024) {
        buf_fmt(out, "%" PRId64 " B", n);
        return;
    }
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    buf_fmt(out, "%.1f %s", value, units[unit]);
}

static void title(struct buf *out, bool colour, const char *text)
{
    buf_fmt(out, colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", text);
}

static void label(struct buf *out, const char *text)
{
    buf_fmt(out, "%-10s ", text);
}

/* Cleaned, and filled up with blanks to a column. */
static void column(struct buf *out, const char *text, size_t width)
{
    size_t columns = 0;
    for (const char *p = text; *p; p++)
        columns += ((unsigned char)*p & 0xc0) != 0x80;
    term_clean(out, text);
    for (; columns < width; columns++)
        buf_chr(out, ' ');
}

static size_t widest_key(const struct json *table)
{
    size_t width = 0;
    for (size_t i = 0; i < json_count(table); i++) {
        size_t len = strlen(json_key_at(table, i));
        width = len > width && len <= WHAT_WIDTH_MAX ? len : width;
    }
    return width;
}

/* A short table in one line: "GET 10  POST 1". */
static void in_line(struct buf *out, const char *name, const struct json *table)
{
    if (!table || json_count(table) == 0)
        return;
    label(out, name);
    for (size_t i = 0; i < json_count(table); i++) {
        buf_str(out, i ? "  " : "");
        term_clean(out, json_key_at(table, i));
        buf_fmt(out, " %" PRId64, json_number(table, json_key_at(table, i)));
    }
    buf_chr(out, '\n');
}

static void hosts(struct buf *out, bool colour, const struct json *table)
{
    if (!table || json_count(table) == 0)
        return;
    size_t width = widest_key(table);
    title(out, colour, "By host");
    for (size_t i = 0; i < json_count(table); i++) {
        buf_str(out, "  ");
        column(out, json_key_at(table, i), width);
        buf_fmt(out, "  %6" PRId64 "\n", json_number(table, json_key_at(table, i)));
    }
}

static void denied(struct buf *out, bool colour, const struct json *list)
{
    if (!list || json_count(list) == 0)
        return;
    title(out, colour, "Denied");
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *d = json_at(list, i);
        int64_t count = json_number(d, "count");
        buf_str(out, colour ? "  \033[31m" : "  ");
        term_clean(out, json_shown(d, "what"));
        buf_str(out, colour ? "\033[0m" : "");
        if (count > 1)
            buf_fmt(out, " (%" PRId64 " times)", count);
        if (json_shown(d, "text")[0] || json_shown(d, "reason")[0]) {
            buf_str(out, ": ");
            term_clean(out,
                       json_shown(d, "text")[0] ? json_shown(d, "text") : json_shown(d, "reason"));
        }
        buf_chr(out, '\n');
        if (json_shown(d, "hint")[0]) {
            buf_str(out, "      ");
            term_clean(out, json_shown(d, "hint"));
            buf_chr(out, '\n');
        }
    }
}

static void request_text(const struct json *e, char *out, size_t size)
{
    const char *host = json_shown(e, "host");
    const char *scheme = json_shown(e, "scheme");
    const char *method = json_shown(e, "method");
    bool v6 = strchr(host, ':') != NULL;
    char port[16] = "";
    if (strcmp(json_shown(e, "entry"), "dns") == 0) {
        snprintf(out, size, "dns %s", host);
        return;
    }
    if (json_number(e, "port"))
        snprintf(port, sizeof port, ":%" PRId64, json_number(e, "port"));
    snprintf(out, size, "%s%s%s%s%s%s%s%s%s", method, method[0] ? " " : "", scheme,
             scheme[0] ? "://" : "", v6 ? "[" : "", host, v6 ? "]" : "", port,
             json_shown(e, "path"));
}

static void request(struct buf *out, bool colour, const struct json *e, size_t width)
{
    char what[1024];
    const char *verdict = json_shown(e, "verdict");
    bool good = strcmp(verdict, "allowed") == 0;
    request_text(e, what, sizeof what);
    buf_fmt(out, "  %9.3f s  %s", (double)json_number(e, "time_ms") / 1000,
            !colour ? ""
            : good  ? "\033[32m"
                    : "\033[31m");
    column(out, verdict, 7);
    buf_str(out, colour ? "\033[0m  " : "  ");
    column(out, what, width);
    if (json_number(e, "status"))
        buf_fmt(out, "  %" PRId64, json_number(e, "status"));
    if (json_number(e, "up") || json_number(e, "down")) {
        buf_str(out, "  ");
        bytes(out, json_number(e, "up"));
        buf_str(out, " up, ");
        bytes(out, json_number(e, "down"));
        buf_str(out, " down");
    }
    const char *why = json_shown(e, "note")[0] ? json_shown(e, "note") : json_shown(e, "text");
    if (why[0]) {
        buf_str(out, "  ");
        term_clean(out, why);
    }
    buf_chr(out, '\n');
}

static void recent(struct buf *out, bool colour, const struct json *list)
{
    size_t width = 0;
    char what[1024];
    if (!list || json_count(list) == 0)
        return;
    for (size_t i = 0; i < json_count(list); i++) {
        request_text(json_at(list, i), what, sizeof what);
        size_t len = strlen(what);
        width = len > width && len <= WHAT_WIDTH_MAX ? len : width;
    }
    title(out, colour, "Recent");
    for (size_t i = 0; i < json_count(list); i++)
        request(out, colour, json_at(list, i), width);
}

static void rules(struct buf *out, const struct json *list)
{
    for (size_t i = 0; list && i < json_count(list); i++) {
        const char *text = json_string(json_at(list, i));
        label(out, i ? "" : "rules");
        term_clean(out, text ? text : "");
        buf_chr(out, '\n');
    }
    if (!list || json_count(list) == 0) {
        label(out, "rules");
        buf_str(out, "none: nothing is allowed\n");
    }
}

static void totals(struct buf *out, const struct json *n)
{
    label(out, "requests");
    buf_fmt(out, "%" PRId64 ": %" PRId64 " allowed, %" PRId64 " denied, %" PRId64 " failed\n",
            json_number(n, "total"), json_number(n, "allowed"), json_number(n, "denied"),
            json_number(n, "errors"));
    label(out, "bytes");
    bytes(out, json_number(n, "bytes_up"));
    buf_str(out, " sent, ");
    bytes(out, json_number(n, "bytes_down"));
    buf_str(out, " received\n");
    if (json_number(n, "lost")) {
        label(out, "lost");
        buf_fmt(out, "%" PRId64 " events could not be recorded\n", json_number(n, "lost"));
    }
}

void net_text(const struct json *record, bool colour, struct buf *out)
{
    const struct json *n = json_get(record, "network");
    label(out, "sandbox");
    term_clean(out, json_shown(record, "sandbox_id"));
    buf_fmt(out, ", %s, started ", net_state(record));
    term_clean(out, json_shown(record, "started"));
    buf_chr(out, '\n');
    rules(out, json_get(record, "rules"));
    if (!n)
        return;
    totals(out, n);
    in_line(out, "by method", json_get(n, "by_method"));
    in_line(out, "by status", json_get(n, "by_status"));
    hosts(out, colour, json_get(n, "by_host"));
    denied(out, colour, json_get(n, "denied_list"));
    recent(out, colour, json_get(n, "recent"));
}

void net_line(const char *id, const struct json *record, struct buf *out)
{
    const struct json *n = json_get(record, "network");
    column(out, id, 24);
    buf_fmt(out, "%-8s ", net_state(record));
    column(out, json_shown(record, "started"), 21);
    buf_fmt(out, "%6" PRId64 " requests, %" PRId64 " denied", json_number(n, "total"),
            json_number(n, "denied"));
    buf_chr(out, '\n');
}
