/* brig create: a sandbox of the daemon's. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "cli/client/boxes.h"
#include "cli/term.h"
#include "os/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    OPT_TEMPLATE = 1,
    OPT_TIMEOUT,
    OPT_VARIABLE,
    OPT_METADATA,
    OPT_ALLOW_OUT,
    OPT_DENY_OUT,
    OPT_AUTO_PAUSE,
    OPT_PROJECT,
    OPT_POLICY,
};

static const struct opt create_items[] = {
    {.id = OPT_TEMPLATE,
     .brief = 'T',
     .name = "template",
     .kind = OPT_VALUE,
     .value = "NAME",
     .group = "Sandbox",
     .help = "what it is made from; default base"},
    {.id = OPT_TIMEOUT,
     .name = "timeout",
     .kind = OPT_VALUE,
     .value = "TIME",
     .group = "Sandbox",
     .help = "how long it lives; default 5m"},
    {.id = OPT_AUTO_PAUSE,
     .name = "auto-pause",
     .group = "Sandbox",
     .help = "at the end of its time it is paused, not ended"},
    {.id = OPT_VARIABLE,
     .brief = 'e',
     .name = "env",
     .kind = OPT_LIST,
     .value = "KEY=VALUE",
     .group = "Sandbox",
     .help = "a variable for everything that is started in it"},
    {.id = OPT_METADATA,
     .name = "metadata",
     .kind = OPT_LIST,
     .value = "KEY=VALUE",
     .group = "Sandbox",
     .help = "a label"},
    {.id = OPT_ALLOW_OUT,
     .name = "allow",
     .kind = OPT_LIST,
     .value = "HOST[:PORT]",
     .group = "Sandbox",
     .help = "may be reached; beyond the template's rules with an operator's key only"},
    {.id = OPT_DENY_OUT,
     .name = "block",
     .kind = OPT_LIST,
     .value = "HOST",
     .group = "Sandbox",
     .help = "may not be reached, whatever else is said"},
    {.id = OPT_PROJECT,
     .name = "project",
     .kind = OPT_VALUE,
     .value = "NAME",
     .group = "Sandbox",
     .help = "work on a view of this folder, which `brig serve --project` offers"},
    {.id = OPT_POLICY,
     .name = "policy",
     .kind = OPT_VALUE,
     .value = "FILE",
     .group = "Sandbox",
     .help = "make the template's policy stricter; what would widen it is refused"},
    {.id = BOXES_JSON, .name = "json", .group = "Output", .help = "print JSON"},
};
static const struct opt_table create_table = {
    .items = create_items, .count = ARRAY_LEN(create_items), .next = &client_option_table};

#define PAIRS_MAX  128
#define POLICY_MAX (64u * 1024) /* the daemon takes less, and says so */

struct create {
    struct boxes boxes;
    const char *template, *project, *policy;
    struct buf policy_text;
    uint64_t timeout_ms;
    bool auto_pause;
    struct pairs {
        const char *items[PAIRS_MAX];
        unsigned count;
    } env, metadata, allow, deny;
};

static int add(struct pairs *p, const char *value, bool pair, struct err *err)
{
    const char *equals = strchr(value, '=');
    if (pair && (!equals || equals == value))
        return err_set(err, ERR_USAGE, "'%.60s' is not KEY=VALUE", value);
    if (p->count == PAIRS_MAX)
        return err_set(err, ERR_USAGE, "more than %d of one kind", PAIRS_MAX);
    p->items[p->count++] = value;
    return 1;
}

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct create *c = ctx;
    switch (opt ? opt->id : 0) {
    case OPT_TEMPLATE:
        c->template = value;
        return 1;
    case OPT_PROJECT:
        c->project = value;
        return 1;
    case OPT_POLICY:
        c->policy = value;
        return 1;
    case OPT_TIMEOUT:
        return num_parse_duration(value, &c->timeout_ms, err) < 0 ? err_number(err) : 1;
    case OPT_AUTO_PAUSE:
        c->auto_pause = true;
        return 1;
    case OPT_VARIABLE:
        return add(&c->env, value, true, err);
    case OPT_METADATA:
        return add(&c->metadata, value, true, err);
    case OPT_ALLOW_OUT:
        return add(&c->allow, value, false, err);
    case OPT_DENY_OUT:
        return add(&c->deny, value, false, err);
    default:
        return 0;
    }
}

static void write_pairs(struct json_writer *w, const char *name, const struct pairs *p)
{
    if (p->count == 0)
        return;
    jw_key(w, name);
    jw_object_begin(w);
    for (unsigned i = 0; i < p->count; i++) {
        char key[256];
        size_t len = strcspn(p->items[i], "=");
        snprintf(key, sizeof key, "%.*s", (int)(len < 255 ? len : 255), p->items[i]);
        jw_kv_string(w, key, p->items[i] + len + 1);
    }
    jw_object_end(w);
}

static void write_list(struct json_writer *w, const char *name, const struct pairs *p)
{
    jw_key(w, name);
    jw_array_begin(w);
    for (unsigned i = 0; i < p->count; i++)
        jw_string(w, p->items[i]);
    jw_array_end(w);
}

static void write_request(const struct create *c, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "templateID", c->template ? c->template : "base");
    jw_kv_uint(&w, "timeout", c->timeout_ms ? (c->timeout_ms + 999) / 1000 : 300);
    if (c->auto_pause)
        jw_kv_bool(&w, "autoPause", true);
    if (c->project)
        jw_kv_string(&w, "project", c->project);
    if (c->policy) {
        jw_key(&w, "policy");
        jw_bytes(&w, buf_text(&c->policy_text), c->policy_text.len);
    }
    write_pairs(&w, "envVars", &c->env);
    write_pairs(&w, "metadata", &c->metadata);
    if (c->allow.count || c->deny.count) {
        jw_key(&w, "network");
        jw_object_begin(&w);
        write_list(&w, "allowOut", &c->allow);
        write_list(&w, "denyOut", &c->deny);
        jw_object_end(&w);
    }
    jw_object_end(&w);
}

static int read_policy(const char *file, struct buf *text, struct err *err)
{
    char chunk[8192];
    ssize_t n;
    cleanup_fd int fd = trusted_open(AT_FDCWD, file, "the policy", TRUSTED_FILE, err);
    if (fd < 0)
        return fd;
    buf_init(text, POLICY_MAX);
    while ((n = read(fd, chunk, sizeof chunk)) != 0 && !text->failed) {
        if (n > 0)
            buf_add(text, chunk, (size_t)n);
        else if (errno != EINTR)
            return err_sys(err, "%s: cannot read the policy", file);
    }
    return text->failed ? err_set(err, ERR_POLICY, "%s: larger than 64 KiB", file) : 0;
}

/* What other clients take as their first word. */
static int unexpected(const char *word, struct err *err)
{
    struct quoted q;
    err_set(err, ERR_USAGE, "unexpected argument %s", quote(&q, word));
    return err_hint(
        err, "a template is named by --template: brig create --template NAME; what is run in the "
             "sandbox comes later: brig exec ID -- COMMAND");
}

static int run(struct boxes *b, struct err *err)
{
    struct create *c = b->ctx;
    cleanup_json struct json *made = NULL;
    cleanup_buf struct buf body = {0};
    if (b->count)
        return unexpected(b->words[0], err);
    if (c->policy && read_policy(c->policy, &c->policy_text, err) < 0)
        return err_number(err);
    buf_init(&body, 1u << 20);
    write_request(c, &body);
    struct ask ask = {
        .method = "POST", .path = "/sandboxes", .body = buf_text(&body), .body_len = body.len};
    if (client_json(&b->client, &ask, &made, err) < 0)
        return err_number(err);
    if (b->json)
        return boxes_print_json(made, err);
    const char *id = json_text(made, "sandboxID");
    if (!id || !client_id_good(id))
        return err_set(err, ERR_PROTOCOL, "the daemon's answer names no sandbox");
    cleanup_buf struct buf out = {0};
    buf_init(&out, 128);
    buf_fmt(&out, "%s\n", id);
    return term_print(&out, "the id", err);
}

static int create_main(const struct verb *verb, int argc, char *const argv[])
{
    struct create c = {.boxes = {.own = own}};
    c.boxes.ctx = &c;
    int status = boxes_main(&c.boxes, verb, argc, argv, run);
    buf_done(&c.policy_text);
    return status;
}

const struct verb verb_create = {
    .name = "create",
    .summary = "a sandbox of the daemon's; prints its id",
    .usage = "create [--template NAME] [--timeout TIME] [-e KEY=VALUE…] [--allow HOST…] [--json]",
    .about = "The sandbox lives until its time is over, `brig rm`, or the end of the daemon.\n"
             "Where the pool has one waiting it is handed over in about a millisecond; its\n"
             "walls are checked again before anything of yours runs in it.",
    .examples = "id=$(brig create --template python --timeout 10m)\n"
                "brig exec $id -- python3 -c 'print(6*7)'\n"
                "brig rm $id",
    .statuses = "0    the id was printed\n125  there is no daemon, or it refused",
    .options = &create_table,
    .main = create_main,
};
