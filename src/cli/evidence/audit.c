/* brig audit: what happened, as the daemon's recorder wrote it down. The database is read by
 * brig-daemon (cli/backend.h), beside a running daemon or without one. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/wall.h"
#include "cli/backend.h"
#include "cli/evidence/audit_text.h"
#include "cli/path.h"
#include "cli/state.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "os/runstate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OUTPUT_MAX ((size_t)16 * 1024 * 1024)
#define FLUSH_AT   ((size_t)256 * 1024)

enum {
    OPT_FOLLOW = 1,
    OPT_LINES,
    OPT_BOX,
    OPT_KEY,
    OPT_KIND,
    OPT_BOUNDARY,
    OPT_SINCE,
    OPT_OUTPUT,
    OPT_EXPORT,
    OPT_PUBLIC_KEY,
    OPT_EXPECT,
    OPT_RUNS,
};

struct audit_options {
    struct backend_options backend;
    bool follow, runs;
    const char *box, *key, *kind, *boundary, *output, *export, *public_key, *expect;
    const char *seq; /* show's operand */
    uint64_t lines, since_ms;
};

/* ---- options ---- */

/* The chain of `brig run` lies in a folder of its own. */
#define RUNS_ITEM                                                                                  \
    {                                                                                              \
        .id = OPT_RUNS, .name = "runs", .group = "Where",                                          \
        .help = "the receipts of brig run, not the daemon's records"                               \
    }

#define SINCE_ITEM                                                                                 \
    {                                                                                              \
        .id = OPT_SINCE, .name = "since", .kind = OPT_VALUE, .value = "AGO", .group = "Which",     \
        .help = "only the last 30s, 5m, 1h, …"                                                   \
    }
#define BOX_ITEM                                                                                   \
    {                                                                                              \
        .id = OPT_BOX, .name = "box", .kind = OPT_VALUE, .value = "ID", .group = "Which",          \
        .help = "only records of this sandbox"                                                     \
    }

static const struct opt tail_items[] = {
    {.id = OPT_FOLLOW,
     .brief = 'f',
     .name = "follow",
     .group = "Which",
     .help = "go on: print each new record as it is written"},
    {.id = OPT_LINES,
     .brief = 'n',
     .name = "lines",
     .kind = OPT_VALUE,
     .value = "N",
     .group = "Which",
     .help = "how many of the last ones (default 20)"},
    BOX_ITEM,
    {.id = OPT_KEY,
     .name = "key",
     .kind = OPT_VALUE,
     .value = "ID",
     .group = "Which",
     .help = "only records of this API key"},
    {.id = OPT_KIND,
     .name = "kind",
     .kind = OPT_VALUE,
     .value = "KIND",
     .group = "Which",
     .help = "only this kind: denial, box.*, …"},
    {.id = OPT_BOUNDARY,
     .name = "boundary",
     .kind = OPT_VALUE,
     .value = "NAME",
     .group = "Which",
     .help = "kernel, filesystem, network, credentials, lifecycle, api, audit"},
    SINCE_ITEM,
    RUNS_ITEM,
};
static const struct opt_table tail_table = {
    .items = tail_items, .count = ARRAY_LEN(tail_items), .next = &backend_option_table};

static const struct opt show_items[] = {RUNS_ITEM};
static const struct opt_table show_table = {
    .items = show_items, .count = ARRAY_LEN(show_items), .next = &backend_option_table};

static const struct opt summary_items[] = {SINCE_ITEM};
static const struct opt_table summary_table = {
    .items = summary_items, .count = ARRAY_LEN(summary_items), .next = &backend_option_table};

static const struct opt verify_items[] = {
    {.id = OPT_EXPORT,
     .name = "export",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "What",
     .help = "verify an export instead of the database"},
    {.id = OPT_PUBLIC_KEY,
     .name = "public-key",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "What",
     .help = "the key to verify with: a copy of signing.pub"},
    {.id = OPT_EXPECT,
     .name = "expect",
     .kind = OPT_VALUE,
     .value = "SEQ:HASH",
     .group = "What",
     .help = "a place that an earlier verify printed, or that a receipt names"},
    RUNS_ITEM,
};
static const struct opt_table verify_table = {
    .items = verify_items, .count = ARRAY_LEN(verify_items), .next = &backend_option_table};

static const struct opt export_items[] = {
    {.id = OPT_OUTPUT,
     .brief = 'o',
     .name = "output",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Output",
     .help = "into this file, which must not exist yet"},
    BOX_ITEM,
    SINCE_ITEM,
    RUNS_ITEM,
};
static const struct opt_table export_table = {
    .items = export_items, .count = ARRAY_LEN(export_items), .next = &backend_state_table};

static int take_option(struct audit_options *o, int id, const char *value, struct err *err)
{
    switch (id) {
    case OPT_RUNS:
        o->runs = true;
        return 0;
    case OPT_FOLLOW:
        o->follow = true;
        return 0;
    case OPT_LINES:
        return num_parse_count(value, &o->lines, err) < 0 ? err_wrap(err, "--lines") : 0;
    case OPT_SINCE:
        return num_parse_duration(value, &o->since_ms, err) < 0 ? err_wrap(err, "--since") : 0;
    default:
        break;
    }
    const char **places[] = {
        [OPT_BOX] = &o->box,
        [OPT_KEY] = &o->key,
        [OPT_KIND] = &o->kind,
        [OPT_BOUNDARY] = &o->boundary,
        [OPT_OUTPUT] = &o->output,
        [OPT_EXPORT] = &o->export,
        [OPT_PUBLIC_KEY] = &o->public_key,
        [OPT_EXPECT] = &o->expect,
    };
    if (!value[0])
        return err_set(err, ERR_USAGE, "an option's value is empty");
    *places[id] = value;
    return 0;
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct audit_options *o = ctx;
    int r = opt ? backend_take(&o->backend, opt, value, err) : 0;
    if (r)
        return r < 0 ? r : 0;
    if (opt)
        return take_option(o, opt->id, value, err);
    return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
}

static int take_seq(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct audit_options *o = ctx;
    if (opt || o->seq)
        return take(ctx, opt, value, err);
    o->seq = value;
    return 0;
}

/* ---- request ---- */

static void add_text(struct json_writer *w, const char *name, const char *text)
{
    if (text)
        jw_kv_string(w, name, text);
}

static int add_path(struct json_writer *w, const char *name, const char *path, struct err *err)
{
    cleanup_buf struct buf full;
    buf_init(&full, 8192);
    if (!path)
        return 0;
    if (path_resolve(path, &full, err) < 0)
        return err_number(err);
    jw_kv_string(w, name, buf_text(&full));
    return 0;
}

static int write_request(const struct audit_options *o, const char *verb, struct buf *out,
                         struct err *err)
{
    struct json_writer w;
    uint64_t seq = 0;
    cleanup_buf struct buf runs;
    buf_init(&runs, 4096);
    if (o->runs && !runstate_path("receipts", &runs))
        return err_set(err, ERR_USAGE, "there is no folder of receipts: HOME is not set");
    if (backend_begin(&w, out, verb, o->runs ? buf_text(&runs) : o->backend.state, err) < 0)
        return err_number(err);
    add_text(&w, "box", o->box);
    add_text(&w, "key", o->key);
    add_text(&w, "kind", o->kind);
    add_text(&w, "boundary", o->boundary);
    add_text(&w, "expect", o->expect);
    jw_kv_bool(&w, "follow", o->follow);
    jw_kv_bool(&w, "runs", o->runs);
    if (o->lines)
        jw_kv_uint(&w, "lines", o->lines);
    if (o->since_ms) {
        uint64_t now = (uint64_t)wall_us(),
                 ago = o->since_ms <= now / 1000 ? o->since_ms * 1000 : now;
        jw_kv_uint(&w, "since_us", now > ago ? now - ago : 1);
    }
    if (o->seq && num_parse_uint(o->seq, &seq, err) < 0)
        return err_number(err);
    if (o->seq)
        jw_kv_uint(&w, "seq", seq);
    if (add_path(&w, "export", o->export, err) < 0 ||
        add_path(&w, "public_key", o->public_key, err) < 0)
        return err_number(err);
    return backend_end(&w, err);
}

/* ---- answer ---- */

struct output {
    const struct audit_options *options;
    int fd;
    bool colour;
    struct buf out;
    void (*print)(const struct json *line, bool colour, struct buf *out); /* NULL: as it is */
};

static int flush(void *ctx, struct err *err)
{
    struct output *o = ctx;
    if (o->out.failed)
        return err_set(err, ERR_LIMIT, "the answer is too long to print");
    if (term_write(o->fd, buf_text(&o->out), o->out.len) < 0)
        return err_sys(err, "write");
    buf_reset(&o->out);
    return 0;
}

static int print_line(void *ctx, const char *line, size_t len, struct err *err)
{
    struct output *o = ctx;
    struct json *j = NULL;
    if (!o->print) {
        buf_add(&o->out, line, len);
        buf_chr(&o->out, '\n');
    } else {
        if (json_parse(line, len, &json_default_limits, &j, err) < 0)
            return err_wrap(err, "the answer of brig-daemon");
        if (json_type(j) == JSON_OBJECT)
            o->print(j, o->colour, &o->out);
        json_free(j);
    }
    return o->out.len > FLUSH_AT ? flush(o, err) : 0;
}

static const struct json *record_of(const struct json *line)
{
    const struct json *record = json_get(line, "record");
    return record && json_type(record) == JSON_OBJECT ? record : NULL;
}

static void tail_text(const struct json *line, bool colour, struct buf *out)
{
    if (record_of(line))
        audit_line(record_of(line), colour, out);
}

static void show_text(const struct json *line, bool colour, struct buf *out)
{
    const struct json *hash = json_get(line, "hash");
    if (record_of(line) && hash && json_string(hash))
        audit_whole(record_of(line), json_string(hash), colour, out);
}

static int answer(const struct audit_options *o, const char *verb, struct output *out,
                  struct err *err)
{
    cleanup_buf struct buf request;
    struct backend_reader reader = {.line = print_line, .pause = flush, .ctx = out};
    buf_init(&request, (size_t)64 * 1024);
    buf_init(&reader.end, 4096);
    if (write_request(o, verb, &request, err) < 0)
        return err_number(err);
    int r = backend_run(buf_text(&request), &reader, err);
    if (r >= 0 && flush(out, err) < 0)
        r = err_number(err);
    if (r >= 0 && strcmp(verb, "export") == 0 && reader.end.len) {
        /* In an export the last line is a part of the file. */
        buf_chr(&reader.end, '\n');
        if (term_write(out->fd, reader.end.data, reader.end.len) < 0)
            r = err_sys(err, "write");
    }
    buf_done(&reader.end);
    return r;
}

static int print_answer(const struct audit_options *o, const char *verb,
                        void (*print)(const struct json *, bool, struct buf *), struct err *err)
{
    struct output out = {.options = o,
                         .fd = STDOUT_FILENO,
                         .colour = term_colour(STDOUT_FILENO),
                         .print = o->backend.json ? NULL : print};
    buf_init(&out.out, OUTPUT_MAX);
    int r = answer(o, verb, &out, err);
    buf_done(&out.out);
    return r;
}

/* ---- verify ---- */

static bool is_there(const char *folder)
{
    cleanup_buf struct buf path;
    buf_init(&path, 4200);
    buf_fmt(&path, "%s/audit/head", folder);
    /* A log that may not be read is not skipped silently. */
    return access(buf_text(&path), F_OK) == 0 || errno == EACCES;
}

static void runs_verdict(const struct json *result, bool colour, struct buf *out)
{
    buf_str(out, "receipts of brig run: ");
    audit_verdict(result, colour, out);
}

static void daemon_verdict(const struct json *result, bool colour, struct buf *out)
{
    buf_str(out, "records of brig serve: ");
    audit_verdict(result, colour, out);
}

/* If no chain is named, verify all that exist. */
static int verify_all(const struct audit_options *o, struct err *err)
{
    cleanup_buf struct buf serve, runs;
    struct audit_options other = *o;
    buf_init(&serve, 4096);
    buf_init(&runs, 4096);
    bool named = o->backend.state || o->runs || o->export || o->expect;
    if (named || !runstate_path("receipts", &runs) || !is_there(buf_text(&runs)))
        return print_answer(o, "verify", audit_verdict, err);
    other.runs = true;
    if (state_folder(NULL, &serve, err) < 0 || !is_there(buf_text(&serve)))
        return print_answer(&other, "verify", runs_verdict, err);
    int first = print_answer(o, "verify", daemon_verdict, err);
    if (first < 0)
        return first;
    int second = print_answer(&other, "verify", runs_verdict, err);
    return second < 0 ? second : first > second ? first : second;
}

/* ---- export ---- */

static int export_to_file(const struct audit_options *o, struct err *err)
{
    struct output out = {.options = o};
    char name[NAME_MAX + 1];
    cleanup_fd int dir = path_folder(o->output, "--output", name, err);
    if (dir < 0)
        return dir;
    out.fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
    if (out.fd < 0 && errno == EEXIST) {
        err_set(err, ERR_REFUSED, "%s is there already", o->output);
        return err_hint(err, "an export replaces no file: choose another name");
    }
    if (out.fd < 0)
        return err_sys(err, "make %s", o->output);
    buf_init(&out.out, OUTPUT_MAX);
    int r = answer(o, "export", &out, err);
    if (r >= 0 && fsync(out.fd) < 0 && errno != EINVAL)
        r = err_sys(err, "write %s", o->output);
    buf_done(&out.out);
    close(out.fd);
    /* Half of one would only be found out later. */
    if (r < 0)
        unlinkat(dir, name, 0);
    return r;
}

/* ---- verbs ---- */

static int audit_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct audit_options o = {.follow = false};
    const char *word = verb_word(verb);
    bool show = strcmp(word, "show") == 0;
    int r = verb_parse_all(verb, argc, argv, show ? take_seq : take, &o, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && show && !o.seq)
        r = err_set(&err, ERR_USAGE, "which record? `brig audit tail` shows their numbers");
    if (r >= 0) {
        r = strcmp(word, "tail") == 0      ? print_answer(&o, word, tail_text, &err)
            : show                         ? print_answer(&o, word, show_text, &err)
            : strcmp(word, "summary") == 0 ? print_answer(&o, word, audit_summary, &err)
            : strcmp(word, "verify") == 0  ? verify_all(&o, &err)
            : o.output                     ? export_to_file(&o, &err)
                                           : print_answer(&o, word, NULL, &err);
    }
    return r < 0 ? verb_fail(verb, &err, o.backend.json || verb_wants_json(argc, argv)) : r;
}

#define STATUS_125 "125  there is no log, or it cannot be read"

static const struct verb verb_tail = {
    .name = "audit tail",
    .summary = "the last records, and with -f each new one",
    .usage = "audit tail [-f] [-n N] [--box ID] [--kind KIND] [--since AGO] [--json]",
    .about = "One line per record: number, time (UTC), boundary, kind, sandbox, API key,\n"
             "and what belongs to it. --json prints records as they stand in the log,\n"
             "with their hashes.",
    .examples = "brig audit tail -f\n"
                "# what was refused in the last hour\n"
                "brig audit tail -n 100 --kind 'denial*' --since 1h\n"
                "brig audit tail --box 4f1d2c8a9b0e7d6c5a43 --json",
    .statuses = "0    printed\n" STATUS_125,
    .options = &tail_table,
    .main = audit_main,
};
static const struct verb verb_show = {
    .name = "audit show",
    .summary = "one record in full, with its hash",
    .usage = "audit show SEQ [--json]",
    .about = "SEQ is the number that `brig audit tail` shows in front.",
    .examples = "brig audit show 17",
    .statuses = "0    printed\n" STATUS_125,
    .options = &show_table,
    .main = audit_main,
};
static const struct verb verb_summary = {
    .name = "audit summary",
    .summary = "how much of what happened",
    .usage = "audit summary [--since AGO] [--json]",
    .about = "Records by boundary and by kind, sandboxes by template, how often something\n"
             "was refused, and what was refused most.",
    .examples = "brig audit summary --since 1h",
    .statuses = "0    printed\n" STATUS_125,
    .options = &summary_table,
    .main = audit_main,
};
static const struct verb verb_verify = {
    .name = "audit verify",
    .summary = "follow the chain and say where it was touched",
    .usage = "audit verify [--public-key FILE] [--expect SEQ:HASH] [--json]\n"
             "audit verify --export FILE --public-key FILE [--json]",
    .about = "Each record's hash covers the one before it, and checkpoints are signed: a\n"
             "record that was changed, removed, inserted or moved, and an end that was cut\n"
             "off, are found and named. Without --state or --runs both chains are looked at:\n"
             "the daemon's records and the receipts of `brig run`.\n"
             "\n"
             "Who holds the signing key can make a new chain: keep exports, or the place\n"
             "that verify prints, on another machine and give it with --expect.",
    .examples = "brig audit verify\n"
                "# an export, on another machine\n"
                "brig audit verify --export audit.jsonl --public-key signing.pub",
    .statuses = "0    good\n"
                "1    it was tampered with; where is printed\n" STATUS_125,
    .options = &verify_table,
    .main = audit_main,
};
static const struct verb verb_export = {
    .name = "audit export",
    .summary = "records as JSON lines, verifiable with the public key alone",
    .usage = "audit export [--box ID] [--since AGO] [-o FILE]",
    .about = "With --box, records of other sandboxes are left out and stand as digests, so\n"
             "that the chain can still be followed.",
    .examples = "brig audit export -o audit.jsonl\n"
                "brig audit export --box 4f1d2c8a9b0e7d6c5a43 | jq .record",
    .statuses = "0    written\n" STATUS_125,
    .options = &export_table,
    .main = audit_main,
};

static const struct verb *const children[] = {&verb_tail,   &verb_show,   &verb_summary,
                                              &verb_verify, &verb_export, NULL};

const struct verb verb_audit = {
    .name = "audit",
    .summary = "what the daemon wrote down: look, verify, export",
    .usage = "audit tail|show|summary|verify|export [OPTIONS]",
    .about = "Everything that `brig serve` does and refuses is a record in a chain that shows\n"
             "if anything was changed. Works beside a running daemon and without one.",
    .examples = "brig audit tail -f\n"
                "brig audit verify",
    .children = children,
};
