/* brig receipt: look at a receipt, and verify it with nothing but the public key. The signature is
 * checked by brig-daemon (cli/backend.h), which has Ed25519; no daemon needs to run. */
#include "base/cleanup.h"
#include "cli/backend.h"
#include "cli/client/client.h"
#include "cli/evidence/receipt_text.h"
#include "cli/path.h"
#include "cli/state.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "os/fd.h"
#include "os/runstate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)2 << 20)

enum { OPT_KEY = 1, OPT_RUNS, OPT_DAEMON, OPT_JSON };

struct receipt_options {
    struct client client;
    const char *key, *operand;
    bool json, from_daemon;
};

/* ---- options ---- */

static const struct opt json_items[] = {
    {.id = OPT_JSON, .name = "json", .group = "Output", .help = "print JSON"},
};

static const struct opt_table show_table = {
    .items = json_items, .count = ARRAY_LEN(json_items), .next = &client_option_table};

static const struct opt verify_items[] = {
    {.id = OPT_KEY,
     .name = "key",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "What",
     .help = "the key to verify with: a copy of signing.pub; default: this installation's"},
};
static const struct opt_table verify_table = {
    .items = verify_items, .count = ARRAY_LEN(verify_items), .next = &show_table};

static const struct opt key_items[] = {
    {.id = OPT_DAEMON,
     .name = "daemon",
     .group = "Where",
     .help = "the key of brig serve's state folder, not that of brig run"},
};
static const struct opt_table key_table = {
    .items = key_items, .count = ARRAY_LEN(key_items), .next = &show_table};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct receipt_options *o = ctx;
    if (!opt && o->operand)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    if (!opt)
        o->operand = value;
    else if (opt->id == OPT_KEY)
        o->key = value;
    else if (opt->id == OPT_DAEMON)
        o->from_daemon = true;
    else if (opt->id == OPT_JSON)
        o->json = true;
    else
        (void)client_take(&o->client, opt, value);
    return 0;
}

/* ---- where it is ---- */

static int read_all(int fd, const char *path, struct buf *ret, struct err *err)
{
    char part[65536];
    for (;;) {
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "read %s", path);
        if (n == 0)
            return 0;
        buf_add(ret, part, (size_t)n);
        if (ret->failed)
            return err_set(err, ERR_USAGE, "%s is too large to be a receipt", path);
    }
}

static int read_file(const char *path, struct buf *ret, struct err *err)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "stdin", ret, err);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? err_sys(err, "open %s", path) : read_all(fd, path, ret, err);
}

static int keep_line(void *ctx, const char *line, size_t len, struct err *err)
{
    struct buf *out = ctx;
    buf_add(out, line, len);
    return out->failed ? err_set(err, ERR_LIMIT, "the answer is too long") : 0;
}

/* Negative, or its exit status; the only line of its answer in ret. */
static int ask_backend(struct json_writer *w, struct buf *ret, struct err *err)
{
    struct backend_reader reader = {.line = keep_line, .ctx = ret};
    buf_init(&reader.end, 4096);
    if (backend_end(w, err) < 0)
        return err_number(err);
    int r = backend_run(buf_text(w->out), &reader, err);
    buf_done(&reader.end);
    return r;
}

static int runs_folder(struct buf *ret, struct err *err)
{
    return runstate_path("receipts", ret)
               ? 0
               : err_set(err, ERR_USAGE, "there is no folder of receipts: HOME is not set");
}

static int find_box(struct client *c, const char *id, struct buf *ret, struct err *err)
{
    char path[128];
    struct ask ask = {.method = "GET", .path = path};
    snprintf(path, sizeof path, "/sandboxes/%s/receipt", id);
    return client_open(c, err) < 0 ? err_number(err) : client_text(c, &ask, ret, err);
}

/* A file, or the id of a sandbox of the daemon. */
static int load(struct receipt_options *o, struct buf *ret, struct err *err)
{
    const char *what = o->operand;
    if (!what)
        return err_set(err, ERR_USAGE, "which receipt? a file, - for stdin, or a sandbox's id");
    if (strcmp(what, "-") == 0 || access(what, F_OK) == 0)
        return read_file(what, ret, err);
    if (strlen(what) == 20 && client_id_good(what))
        return find_box(&o->client, what, ret, err);
    return read_file(what, ret, err);
}

/* ---- show ---- */

static int show(struct receipt_options *o, struct err *err)
{
    static const struct json_limits limits = {
        .max_bytes = FILE_MAX, .max_depth = 32, .max_nodes = 131072};
    cleanup_buf struct buf text, out;
    cleanup_json struct json *j = NULL;
    buf_init(&text, FILE_MAX);
    buf_init(&out, 4 * FILE_MAX);
    if (load(o, &text, err) < 0)
        return err_number(err);
    if (json_parse(buf_text(&text), text.len, &limits, &j, err) < 0)
        return err_wrap(err, "that is no receipt");
    /* The object of `brig run --json` has one. */
    const struct json *inner = json_get(j, "receipt");
    const struct json *receipt = json_type(inner) == JSON_OBJECT ? inner : j;
    if (!json_text(receipt, "sandbox_id"))
        return err_set(err, ERR_USAGE, "that is no receipt: it has no sandbox_id");
    if (o->json) {
        struct json_writer w;
        jw_init(&w, &out, false);
        jw_json(&w, receipt);
        buf_chr(&out, '\n');
    } else {
        receipt_text(receipt, term_colour(STDOUT_FILENO), &out);
    }
    return term_print(&out, "the receipt", err);
}

/* ---- verify ---- */

static int add_path(struct json_writer *w, const char *name, const char *path, struct err *err)
{
    cleanup_buf struct buf full;
    buf_init(&full, 8192);
    if (path_resolve(path, &full, err) < 0)
        return err_number(err);
    jw_kv_string(w, name, buf_text(&full));
    return 0;
}

/* Whose keys to look at where none was named: those of runs, those of the daemon. */
static int add_folders(struct json_writer *w, const struct receipt_options *o, struct err *err)
{
    cleanup_buf struct buf runs, serve;
    buf_init(&runs, 4096);
    buf_init(&serve, 4096);
    jw_key(w, "folders");
    jw_array_begin(w);
    if (runstate_path("receipts", &runs))
        jw_string(w, buf_text(&runs));
    if (state_folder(o->client.state, &serve, err) >= 0)
        jw_string(w, buf_text(&serve));
    jw_array_end(w);
    *err = (struct err)ERR_INIT;
    return 0;
}

static int ask_verify(const struct receipt_options *o, int file, struct buf *answer,
                      struct err *err)
{
    cleanup_buf struct buf request;
    struct json_writer w;
    char path[64];
    buf_init(&request, 32768);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (backend_begin(&w, &request, "receipt.verify", "/", err) < 0)
        return err_number(err);
    jw_kv_string(&w, "file", path);
    if ((o->key ? add_path(&w, "public_key", o->key, err) : add_folders(&w, o, err)) < 0)
        return err_number(err);
    return ask_backend(&w, answer, err);
}

static int verify(struct receipt_options *o, struct err *err)
{
    cleanup_buf struct buf text, answer, out;
    cleanup_json struct json *j = NULL;
    buf_init(&text, FILE_MAX);
    buf_init(&answer, 65536);
    buf_init(&out, 65536);
    if (load(o, &text, err) < 0)
        return err_number(err);
    cleanup_fd int file = memfd_sealed("brig-receipt", buf_text(&text), text.len, false, err);
    if (file < 0)
        return err_number(err);
    if (fd_set_cloexec(file, false) < 0)
        return err_sys(err, "hand the receipt on");
    int r = ask_verify(o, file, &answer, err);
    if (r < 0)
        return r;
    if (json_parse(buf_text(&answer), answer.len, &json_default_limits, &j, err) < 0)
        return err_wrap(err, "the answer of brig-daemon");
    if (o->json)
        buf_fmt(&out, "%s\n", buf_text(&answer));
    else
        receipt_verdict(j, term_colour(STDOUT_FILENO), &out);
    return term_print(&out, "the receipt", err) < 0 ? err_number(err) : r;
}

/* ---- key ---- */

static int show_key(struct receipt_options *o, struct err *err)
{
    cleanup_buf struct buf request, folder, answer;
    cleanup_json struct json *j = NULL;
    struct json_writer w;
    buf_init(&request, 16384);
    buf_init(&folder, 4096);
    buf_init(&answer, 65536);
    if (o->operand)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", o->operand);
    bool daemon = o->from_daemon || o->client.state;
    int r = daemon ? state_folder(o->client.state, &folder, err) : runs_folder(&folder, err);
    if (r < 0 || backend_begin(&w, &request, "receipt.key", buf_text(&folder), err) < 0 ||
        ask_backend(&w, &answer, err) < 0)
        return err_number(err);
    if (json_parse(buf_text(&answer), answer.len, &json_default_limits, &j, err) < 0)
        return err_wrap(err, "the answer of brig-daemon");
    buf_chr(&answer, '\n');
    const char *pem = json_text(j, "pem");
    cleanup_buf struct buf out;
    buf_init(&out, 65536);
    buf_str(&out, o->json ? buf_text(&answer) : pem);
    return term_print(&out, "the receipt", err);
}

/* ---- verbs ---- */

static int receipt_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct receipt_options o = {.json = false};
    const char *word = verb_word(verb);
    int r = verb_parse_all(verb, argc, argv, take, &o, &err);
    if (r > 0)
        return 0;
    if (r >= 0)
        r = strcmp(word, "show") == 0     ? show(&o, &err)
            : strcmp(word, "verify") == 0 ? verify(&o, &err)
                                          : show_key(&o, &err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : r;
}

static const struct verb verb_show = {
    .name = "receipt show",
    .summary = "a receipt in words",
    .usage = "receipt show FILE|ID [--json]",
    .about = "FILE is what `brig run --receipt FILE` wrote, or the object of `brig run --json`;\n"
             "- is stdin. ID is that of a sandbox of the daemon, also after its end, as long as\n"
             "the daemon keeps it. Shows what the receipt says; whether that is true\n"
             "is the question of `brig receipt verify`.",
    .examples = "brig run --receipt r.json -- make test\n"
                "brig receipt show r.json\n"
                "brig run --json -- true | brig receipt show -",
    .statuses = "0    printed\n125  there is none, or it cannot be read",
    .options = &show_table,
    .main = receipt_main,
};
static const struct verb verb_verify = {
    .name = "receipt verify",
    .summary = "is it what was signed? with the public key alone",
    .usage = "receipt verify FILE|ID [--key FILE] [--json]",
    .about = "Every value of a receipt is covered by a hash that stands in the audit chain, and\n"
             "its place there is signed with the installation's Ed25519 key. Works offline and\n"
             "on any machine; blanks and the order of members do not matter, everything else\n"
             "does. Without --key it is this installation's key that must have signed it.",
    .examples = "brig receipt verify r.json\n"
                "# on another machine, with a copy of the public key\n"
                "brig receipt verify r.json --key signing.pub",
    .statuses = "0    good\n"
                "1    it was changed, or another key signed it, or none\n"
                "125  it, or the key, cannot be read",
    .options = &verify_table,
    .main = receipt_main,
};
static const struct verb verb_key = {
    .name = "receipt key",
    .summary = "the public key that verifies this installation's receipts",
    .usage = "receipt key [--daemon] [--json]",
    .about = "PEM, to be kept where receipts will be verified. --daemon: that of `brig serve`.",
    .examples = "brig receipt key > signing.pub",
    .statuses = "0    printed\n125  there is none yet: the first receipt makes it",
    .options = &key_table,
    .main = receipt_main,
};

static const struct verb *const children[] = {&verb_show, &verb_verify, &verb_key, NULL};

const struct verb verb_receipt = {
    .name = "receipt",
    .summary = "signed evidence of a run: look, verify",
    .usage = "receipt show|verify|key [OPTIONS]",
    .about = "A receipt says what was in force, what went in and came out, what was refused,\n"
             "what was used and how it ended. It is signed with the installation's key and\n"
             "has its place in the audit chain.",
    .examples = "brig run --receipt r.json -- make test\n"
                "brig receipt verify r.json",
    .children = children,
};
