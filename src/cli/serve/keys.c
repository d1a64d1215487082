/* brig keys: who may use the daemon's API. A key is made here, shown once, and kept as a hash; the
 * row is written by brig-daemon (cli/backend.h), and the running daemon takes it up at once. */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/num.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/wall.h"
#include "cli/backend.h"
#include "cli/path.h"
#include "cli/serve/keys_rows.h"
#include "cli/state.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "os/trusted.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define ID_SIZE    13
#define OUTPUT_MAX ((size_t)4 * 1024 * 1024)

enum { OPT_OPERATOR = 1, OPT_MAX, OPT_PROJECT, OPT_KEY_FILE, OPT_ALL };

struct keys_options {
    struct backend_options backend;
    bool operator_key, all;
    const char *name;     /* the operand */
    const char *key_file; /* the key is in it already; NULL: one is made */
    uint64_t max_boxes;
    const char *projects[KEY_PROJECTS];
    unsigned project_count;
};

static const struct opt add_items[] = {
    {.id = OPT_OPERATOR,
     .name = "operator",
     .group = "What it may do",
     .help = "everything: all sandboxes and projects, applying changes, hosts beyond the "
             "template's, audit"},
    {.id = OPT_MAX,
     .name = "max-sandboxes",
     .kind = OPT_VALUE,
     .value = "N",
     .group = "What it may do",
     .help = "at most so many sandboxes at a time"},
    {.id = OPT_PROJECT,
     .name = "project",
     .kind = OPT_LIST,
     .value = "DIR",
     .group = "What it may do",
     .help =
         "its sandboxes may work on a view of this folder, which `brig serve --project` offers; "
         "repeatable"},
    {.id = OPT_KEY_FILE,
     .name = "key-file",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Which key",
     .help = "the key that this file holds, instead of a new one; yours alone (mode 0600)"},
};
static const struct opt_table add_table = {
    .items = add_items, .count = ARRAY_LEN(add_items), .next = &backend_option_table};

static const struct opt list_items[] = {
    {.id = OPT_ALL, .name = "all", .group = "Output", .help = "revoked ones as well"},
};
static const struct opt_table list_table = {
    .items = list_items, .count = ARRAY_LEN(list_items), .next = &backend_option_table};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct keys_options *o = ctx;
    if (!opt && o->name)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    int r = opt ? backend_take(&o->backend, opt, value, err) : 0;
    if (r)
        return r < 0 ? r : 0;
    if (!opt)
        o->name = value;
    else if (opt->id == OPT_OPERATOR)
        o->operator_key = true;
    else if (opt->id == OPT_ALL)
        o->all = true;
    else if (opt->id == OPT_KEY_FILE)
        o->key_file = value;
    else if (opt->id == OPT_PROJECT && o->project_count == KEY_PROJECTS)
        return err_set(err, ERR_USAGE, "more than %d projects", KEY_PROJECTS);
    else if (opt->id == OPT_PROJECT)
        o->projects[o->project_count++] = value;
    else if (opt->id == OPT_MAX && num_parse_count(value, &o->max_boxes, err) < 0)
        return err_wrap(err, "--max-sandboxes");
    return 0;
}

static void effect_text(const char *effect, const char *done)
{
    if (strcmp(effect, "now") == 0)
        term_say("%s: in force now", done);
    else if (strcmp(effect, "next start") == 0)
        term_say("%s: in force when brig serve starts", done);
    else
        term_say("%s, but the running daemon did not answer: restart it", done);
}

/* ---- add ---- */

static int make_id(char ret[static ID_SIZE], struct err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    uint8_t bytes[10];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_sys(err, "random id");
    memcpy(ret, "k_", 2);
    for (size_t i = 0; i < sizeof bytes; i++)
        ret[2 + i] = letters[bytes[i] & 31];
    ret[12] = '\0';
    return 0;
}

static int check_name(const char *name, struct err *err)
{
    if (!name)
        return err_set(err, ERR_USAGE, "a key needs a name: who is it for?");
    size_t len = strlen(name);
    if (len == 0 || len > KEY_NAME_MAX || name[0] == '-' ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-") != len)
        return err_set(err, ERR_USAGE,
                       "a name is at most %d letters, digits and . _ - @, and no blank",
                       KEY_NAME_MAX);
    return 0;
}

static int print_new(const struct keys_options *o, const struct key_row *row, const char *key,
                     const char *effect, struct err *err)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, 4096);
    if (o->backend.json) {
        jw_init(&w, &out, false);
        jw_object_begin(&w);
        jw_kv_string(&w, "id", row->id);
        if (!o->key_file)
            jw_kv_string(&w, "key", key);
        jw_kv_string(&w, "name", row->name);
        jw_kv_bool(&w, "operator", row->operator_key);
        jw_kv_string(&w, "effect", effect);
        jw_object_end(&w);
        buf_chr(&out, '\n');
    } else if (!o->key_file) {
        buf_fmt(&out, "%s\n", key);
    }
    int r = out.len ? term_write(STDOUT_FILENO, buf_text(&out), out.len) : 0;
    if (out.len)
        explicit_bzero(out.data, out.len);
    return r < 0 ? err_sys(err, "write the key") : 0;
}

/* By the path that `brig serve --project` has, whether it is there or not. */
static int bind_projects(const struct keys_options *o, struct key_row *row, struct err *err)
{
    for (unsigned i = 0; i < o->project_count; i++) {
        cleanup_buf struct buf path;
        buf_init(&path, KEY_PATH_SIZE - 1);
        if (path_resolve(o->projects[i], &path, err) < 0)
            return err_wrap(err, "--project");
        if (!text_is_utf8(buf_text(&path)))
            return err_set(err, ERR_USAGE, "--project: the path is not UTF-8");
        snprintf(row->projects[row->project_count++], KEY_PATH_SIZE, "%s", buf_text(&path));
    }
    return 0;
}

/* Two rows with one hash would be one key with two sets of rights. */
static int refuse_known(void *ctx, const struct key_row *row, struct err *err)
{
    if (strcmp(row->hash, ctx) != 0)
        return 0;
    err_set(err, ERR_USAGE, "this key is there already: %s (%.60s)%s", row->id, row->name,
            row->revoked_ms ? ", and revoked" : "");
    return err_hint(err, "leave --key-file away, and a new one is made");
}

static int bring_key(const struct keys_options *o, char ret[static API_KEY_SIZE], struct err *err)
{
    char hash[SHA256_HEX_SIZE];
    cleanup_fd int fd = trusted_open(AT_FDCWD, o->key_file, "the key file", TRUSTED_PRIVATE, err);
    if (fd < 0 || api_key_read(fd, o->key_file, ret, err) < 0)
        return err_number(err);
    sha256_hex(ret, strlen(ret), hash);
    return key_each(o->backend.state, refuse_known, hash, err);
}

static int count_good(void *ctx, const struct key_row *row, struct err *err)
{
    size_t *good = ctx;
    (void)err;
    *good += !row->revoked_ms;
    return 0;
}

static int check_room(const char *state, struct err *err)
{
    size_t good = 0;
    if (key_each(state, count_good, &good, err) < 0)
        return err_number(err);
    if (good < API_KEYS_MAX)
        return 0;
    err_set(err, ERR_LIMIT, "there are %zu keys, and no more can be good at the same time", good);
    return err_hint(err, "revoke those that nobody uses: brig keys list, brig keys revoke");
}

/* Its hash alone leaves this process; the key itself is printed here and nowhere kept. */
static int add(const struct keys_options *o, struct err *err)
{
    char key[API_KEY_SIZE], effect[KEY_EFFECT_SIZE], done[160];
    struct key_row row = {.operator_key = o->operator_key,
                          .created_ms = wall_ms(),
                          .max_boxes = (int64_t)o->max_boxes};
    if (check_name(o->name, err) < 0 || bind_projects(o, &row, err) < 0 ||
        check_room(o->backend.state, err) < 0 || make_id(row.id, err) < 0 ||
        (o->key_file ? bring_key(o, key, err) : api_key_make(key, err)) < 0)
        return err_number(err);
    snprintf(row.name, sizeof row.name, "%s", o->name);
    sha256_hex(key, strlen(key), row.hash);
    int r = key_put(o->backend.state, &row, effect, err);
    if (r >= 0)
        r = print_new(o, &row, key, effect, err);
    explicit_bzero(key, sizeof key);
    if (r >= 0 && !o->backend.json) {
        snprintf(done, sizeof done, "key %s (%s) was %s", row.id, row.name,
                 o->key_file ? "taken from its file" : "made and is not shown again");
        effect_text(effect, done);
    }
    return r < 0 ? r : 0;
}

/* ---- list ---- */

struct list {
    const struct keys_options *options;
    struct buf out;
    struct json_writer w;
    size_t count, hidden;
};

static void day(int64_t ms, char out[static 20])
{
    struct tm tm = {0};
    gmtime_r(&(time_t){ms / 1000}, &tm);
    if (!ms || !strftime(out, 20, "%Y-%m-%d %H:%M", &tm))
        snprintf(out, 20, "-");
}

static int list_row(void *ctx, const struct key_row *row, struct err *err)
{
    struct list *l = ctx;
    char created[20], revoked[20];
    if (row->revoked_ms && !l->options->all && !l->options->backend.json) {
        l->hidden++;
        return 0;
    }
    l->count++;
    if (l->options->backend.json) {
        jw_object_begin(&l->w);
        jw_kv_string(&l->w, "id", row->id);
        jw_kv_string(&l->w, "name", row->name);
        jw_kv_bool(&l->w, "operator", row->operator_key);
        jw_kv_int(&l->w, "created_ms", row->created_ms);
        jw_kv_int(&l->w, "revoked_ms", row->revoked_ms);
        jw_kv_int(&l->w, "max_boxes", row->max_boxes);
        jw_key(&l->w, "projects");
        jw_array_begin(&l->w);
        for (unsigned i = 0; i < row->project_count; i++)
            jw_string(&l->w, row->projects[i]);
        jw_array_end(&l->w);
        jw_object_end(&l->w);
        return 0;
    }
    day(row->created_ms, created);
    day(row->revoked_ms, revoked);
    if (l->count == 1)
        buf_fmt(&l->out, "%-13s %-24s %-9s %-17s %s\n", "ID", "NAME", "MAY", "MADE (UTC)", "");
    buf_fmt(&l->out, "%-13s ", row->id);
    cleanup_buf struct buf name;
    buf_init(&name, 256);
    term_clean(&name, row->name);
    buf_fmt(&l->out, "%-24s %-9s %-17s", buf_text(&name), row->operator_key ? "all" : "own",
            created);
    if (row->max_boxes)
        buf_fmt(&l->out, " at most %" PRId64 " sandboxes", row->max_boxes);
    for (unsigned i = 0; i < row->project_count; i++) {
        buf_str(&l->out, i ? ", " : " on ");
        term_clean(&l->out, row->projects[i]);
    }
    if (row->revoked_ms)
        buf_fmt(&l->out, " revoked %s", revoked);
    buf_chr(&l->out, '\n');
    return 0;
}

static int list(const struct keys_options *o, struct err *err)
{
    struct list l = {.options = o};
    buf_init(&l.out, OUTPUT_MAX);
    jw_init(&l.w, &l.out, false);
    if (o->backend.json) {
        jw_object_begin(&l.w);
        jw_key(&l.w, "keys");
        jw_array_begin(&l.w);
    }
    int r = key_each(o->backend.state, list_row, &l, err);
    if (r >= 0 && o->backend.json) {
        jw_array_end(&l.w);
        jw_object_end(&l.w);
        buf_chr(&l.out, '\n');
    }
    if (r >= 0 && !o->backend.json && l.count == 0)
        buf_str(&l.out, "no key but the operator's own (the file `key` of the state folder)\n");
    if (r >= 0 && l.hidden)
        buf_fmt(&l.out, "%zu revoked; --all shows them\n", l.hidden);
    if (r >= 0)
        r = term_print(&l.out, "the list", err);
    buf_done(&l.out);
    return r < 0 ? r : 0;
}

/* ---- revoke ---- */

struct find {
    const char *name;
    struct key_row row;
    size_t by_id, by_name;
};

static int find_row(void *ctx, const struct key_row *row, struct err *err)
{
    struct find *f = ctx;
    if (strcmp(row->id, f->name) == 0) {
        f->by_id++;
        f->row = *row;
    } else if (strcmp(row->name, f->name) == 0 && !row->revoked_ms) {
        f->by_name++;
        if (!f->by_id)
            f->row = *row;
    }
    return 0;
}

static int find_one(const struct keys_options *o, struct find *f, struct err *err)
{
    if (!o->name)
        return err_set(err, ERR_USAGE, "which key? `brig keys list` shows them");
    if (key_each(o->backend.state, find_row, f, err) < 0)
        return err_number(err);
    if (!f->by_id && f->by_name > 1) {
        err_set(err, ERR_USAGE, "%zu keys have the name %.60s", f->by_name, o->name);
        return err_hint(err, "name it by its id: brig keys list");
    }
    if (!f->by_id && !f->by_name) {
        err_set(err, ERR_USAGE, "there is no key %.60s", o->name);
        return err_hint(err, "`brig keys list` shows them; the operator's own key is the file "
                             "`key` of the state folder");
    }
    if (f->row.revoked_ms)
        return err_set(err, ERR_USAGE, "key %s was revoked before", f->row.id);
    return 0;
}

static int revoke_key(const struct keys_options *o, struct err *err)
{
    struct find f = {.name = o->name};
    char effect[KEY_EFFECT_SIZE], done[160];
    cleanup_buf struct buf out;
    buf_init(&out, 1024);
    if (find_one(o, &f, err) < 0)
        return err_number(err);
    f.row.revoked_ms = wall_ms();
    if (key_put(o->backend.state, &f.row, effect, err) < 0)
        return err_number(err);
    snprintf(done, sizeof done, "key %s (%.60s) is revoked", f.row.id, f.row.name);
    if (!o->backend.json) {
        effect_text(effect, done);
        return 0;
    }
    buf_fmt(&out, "%s\n", JSON_SMALL(JSON_TEXT("id", f.row.id), JSON_TEXT("effect", effect)));
    return term_print(&out, "the answer", err);
}

/* ---- verbs ---- */

static int keys_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct keys_options o = {.all = false};
    const char *word = verb_word(verb);
    int r = verb_parse_all(verb, argc, argv, take, &o, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && o.name && strcmp(word, "list") == 0)
        r = err_set(&err, ERR_USAGE, "unexpected argument '%.60s'", o.name);
    if (r >= 0)
        r = strcmp(word, "add") == 0    ? add(&o, &err)
            : strcmp(word, "list") == 0 ? list(&o, &err)
                                        : revoke_key(&o, &err);
    return r < 0 ? verb_fail(verb, &err, o.backend.json || verb_wants_json(argc, argv)) : 0;
}

#define STATUS_125 "125  there is no such key, or no state"

static const struct verb verb_add = {
    .name = "keys add",
    .summary = "make an API key and show it once",
    .usage = "keys add NAME [--operator] [--max-sandboxes N] [OPTIONS]",
    .about = "The key goes to stdout, everything else to stderr. Only its hash is kept. A key\n"
             "sees and ends its own sandboxes and no others, and works on views of the\n"
             "projects that are bound to it; what it changes there an operator's key applies.\n"
             "With --operator it may do everything. A running daemon takes it up at once.\n"
             "A key is e2b_ and 40 hexadecimal digits, the form that every E2B client accepts;\n"
             "--key-file takes one with 32 to 96 digits that was made elsewhere.",
    .examples = "brig keys add ci --max-sandboxes 8\n"
                "brig keys add agent --project /srv/app\n"
                "export E2B_API_KEY=$(brig keys add agent)",
    .statuses = "0    made\n125  it could not be made",
    .options = &add_table,
    .main = keys_main,
};
static const struct verb verb_list = {
    .name = "keys list",
    .summary = "which keys there are",
    .usage = "keys list [--all] [--json]",
    .about = "Ids, names, what they may do, when they were made. Never the keys themselves:\n"
             "they are not kept.",
    .examples = "brig keys list --all",
    .statuses = "0    printed\n" STATUS_125,
    .options = &list_table,
    .main = keys_main,
};
static const struct verb verb_revoke = {
    .name = "keys revoke",
    .summary = "a key is good for nothing from now on",
    .usage = "keys revoke ID|NAME [--json]",
    .about = "Requests with it are refused at once. Its sandboxes live on until their time is\n"
             "over; an operator can end them before.",
    .examples = "brig keys revoke ci",
    .statuses = "0    revoked\n" STATUS_125,
    .options = &backend_option_table,
    .main = keys_main,
};

static const struct verb *const children[] = {&verb_add, &verb_list, &verb_revoke, NULL};

const struct verb verb_keys = {
    .name = "keys",
    .summary = "who may use the daemon's API",
    .usage = "keys add|list|revoke [OPTIONS]",
    .about = "The first key, an operator's, is made by `brig serve`: the file `key` of its\n"
             "state folder. What is done here is an audit record, like everything else.",
    .examples = "brig keys add ci\n"
                "brig keys revoke ci",
    .children = children,
};
