/* brig proxy: brig-proxy alone, for tools that run outside of a sandbox. The same rules, secrets
 * and records; but nothing here keeps a program from going around it. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/path.h"
#include "cli/policy_options.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "os/sys.h"
#include "sandbox/egress.h"
#include "trust/stores.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum proxy_option_id {
    OPT_LISTEN = 1,
    OPT_CA,
    OPT_NO_AUTH,
    OPT_JSON,
};

#define LISTENING  "Listening"
#define BUNDLE_MAX ((size_t)16 * 1024 * 1024)

/* clang-format off */
static const struct opt proxy_items[] = {
    {OPT_LISTEN, 0, "listen", OPT_VALUE, "ADDRESS:PORT", NULL, NULL, LISTENING,
     "where to listen; default: 127.0.0.1 on a free port"},
    {OPT_NO_AUTH, 0, "no-auth", OPT_FLAG, NULL, NULL, NULL, LISTENING,
     "ask clients for no password: everybody who can connect may use the rules and the secrets"},
    {OPT_CA, 0, "ca", OPT_VALUE, "FILE", NULL, NULL, LISTENING,
     "write the certificates that clients must trust to FILE, and leave it there"},
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object for the start and one for each request"},
};
/* clang-format on */
static const struct opt_table proxy_table = {
    .items = proxy_items, .count = ARRAY_LEN(proxy_items), .next = &egress_option_table};

struct proxy_options {
    struct policy_options policy;
    const char *listen;
    const char *ca;
    bool no_auth, json;
};

/* One run of the proxy. */
struct session {
    const struct proxy_options *options;
    const struct policy *policy;
    char *const *command; /* NULL: none */
    char token[33];
    char ca_path[256];
    bool ca_is_ours; /* to be removed */
    pid_t child;
    struct err *err;
    bool failed;
};

static void proxy_options_done(struct proxy_options *o)
{
    policy_options_done(&o->policy);
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct proxy_options *o = ctx;
    if (!opt) {
        err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
        return err_hint(err, "a command comes after --: brig proxy … -- %.60s", value);
    }
    int r = policy_options_take(&o->policy, opt, value, err);
    if (r)
        return r < 0 ? r : 0;
    switch (opt->id) {
    case OPT_LISTEN:
        o->listen = value;
        break;
    case OPT_CA:
        o->ca = value;
        break;
    case OPT_NO_AUTH:
        o->no_auth = true;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    default:
        return err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name);
    }
    return 0;
}

static int make_token(char out[static 33], struct err *err)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_sys(err, "getrandom");
    hex_encode(bytes, sizeof bytes, out);
    return 0;
}

/* ---- what clients must trust ---- */

static int open_ca(struct session *s)
{
    if (s->options->ca) {
        char name[NAME_MAX + 1];
        snprintf(s->ca_path, sizeof s->ca_path, "%s", s->options->ca);
        cleanup_fd int dir = path_folder(s->ca_path, "--ca", name, s->err);
        if (dir < 0)
            return dir;
        int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
        return fd < 0 ? err_sys(s->err, "write the certificates to %.200s", s->ca_path) : fd;
    }
    const char *dir = getenv("XDG_RUNTIME_DIR");
    snprintf(s->ca_path, sizeof s->ca_path, "%s/brig-ca-XXXXXX",
             dir && dir[0] == '/' && strlen(dir) < 200 ? dir : "/tmp");
    s->ca_is_ours = true;
    int fd = mkostemp(s->ca_path, O_CLOEXEC);
    return fd < 0 ? err_sys(s->err, "write the certificates to %.200s", s->ca_path) : fd;
}

/* The host's certificates and the authority's in one file: some hosts are intercepted, some not. */
static int write_ca(struct session *s, const char *pem)
{
    cleanup_buf struct buf bundle;
    buf_init(&bundle, BUNDLE_MAX);
    int r = trust_build(pem, &bundle, NULL, s->err);
    if (r < 0)
        return r;
    cleanup_fd int fd = open_ca(s);
    if (fd < 0)
        return fd;
    if (term_write(fd, buf_text(&bundle), bundle.len) < 0)
        return err_sys(s->err, "write the certificates to %.200s", s->ca_path);
    return 0;
}

/* ---- the environment of clients ---- */

typedef void set_fn(void *ctx, const char *name, const char *value);

static void each_variable(const struct session *s, uint16_t port, set_fn *set, void *ctx)
{
    static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"};
    const char *colon = strrchr(s->options->listen, ':');
    char url[400];
    snprintf(url, sizeof url, "http://%s%s%s%.*s:%u",
             s->options->no_auth ? "" : "brig:", s->options->no_auth ? "" : s->token,
             s->options->no_auth ? "" : "@", (int)(colon ? colon - s->options->listen : 0),
             s->options->listen, port);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        set(ctx, names[i], url);
    if (s->ca_path[0])
        trust_environment(set, ctx, s->ca_path, s->ca_path, NULL);
    for (size_t i = 0; i < s->policy->egress.secret_count; i++)
        set(ctx, s->policy->egress.secrets[i].name, s->policy->egress.secrets[i].placeholder);
}

static void set_in_child(void *ctx, const char *name, const char *value)
{
    (void)ctx;
    setenv(name, value, 1);
}

static void quoted_value(struct buf *out, const char *value)
{
    buf_chr(out, '\'');
    for (; *value; value++) {
        if (*value == '\'')
            buf_str(out, "'\\''");
        else
            buf_chr(out, *value);
    }
    buf_chr(out, '\'');
}

static void set_in_text(void *ctx, const char *name, const char *value)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.:@[]-";
    struct buf *out = ctx;
    buf_fmt(out, "export %s=", name);
    if (value[strspn(value, plain)] == '\0')
        buf_str(out, value);
    else
        quoted_value(out, value);
    buf_chr(out, '\n');
}

static void set_in_json(void *ctx, const char *name, const char *value)
{
    jw_kv_string(ctx, name, value);
}

static int announce(const struct session *s, uint16_t port)
{
    cleanup_buf struct buf out;
    buf_init(&out, 65536);
    if (s->options->json) {
        struct json_writer w;
        jw_init(&w, &out, false);
        jw_object_begin(&w);
        jw_kv_uint(&w, "port", port);
        jw_kv_string(&w, "ca", s->ca_path[0] ? s->ca_path : NULL);
        jw_key(&w, "environment");
        jw_object_begin(&w);
        each_variable(s, port, set_in_json, &w);
        jw_object_end(&w);
        jw_object_end(&w);
        buf_chr(&out, '\n');
    } else if (!s->command) {
        each_variable(s, port, set_in_text, &out);
    }
    if (term_write(STDOUT_FILENO, buf_text(&out), out.len) < 0)
        return err_sys(s->err, "write the variables");
    return 0;
}

/* ---- a command ---- */

/* The command gets placeholders; the values would else be next to them. */
static void forget_sources(const struct egress *e)
{
    for (size_t i = 0; i < e->secret_count; i++) {
        if (text_begins(e->secrets[i].source, "env:"))
            unsetenv(e->secrets[i].source + 4);
    }
}

static void exec_child(const struct session *s, uint16_t port)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    forget_sources(&s->policy->egress);
    each_variable(s, port, set_in_child, NULL);
    execvp(s->command[0], s->command);
    term_say("%s: %s", s->command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static int start_child(struct session *s, uint16_t port)
{
    s->child = fork();
    if (s->child == 0)
        exec_child(s, port);
    int pidfd = s->child < 0 ? -1 : sys_pidfd_open(s->child);
    if (pidfd < 0)
        err_sys(s->err, "start %.60s", s->command[0]);
    return pidfd;
}

/* The status that a shell would have: 128 and the signal. */
static int child_status(const struct session *s)
{
    int status = 0;
    pid_t got;
    kill(s->child, SIGTERM); /* no harm where it has ended: nobody has waited for it yet */
    do {
        got = waitpid(s->child, &status, 0);
    } while (got < 0 && errno == EINTR);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- serving ---- */

/* A descriptor that can be read is the end of it: that of a finished child, or one that is at its
 * end because nothing could be started. */
static int give_up(struct session *s)
{
    s->failed = true;
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int ready(void *ctx, uint16_t port, const char *ca_pem)
{
    struct session *s = ctx;
    if ((ca_pem && write_ca(s, ca_pem) < 0) || announce(s, port) < 0)
        return give_up(s);
    if (!s->command)
        return -1;
    int pidfd = start_child(s, port);
    return pidfd < 0 ? give_up(s) : pidfd;
}

static void event_text(const struct json *e)
{
    const struct json *port = json_get(e, "port");
    if (strcmp(json_shown(e, "verdict"), "allowed") == 0)
        return;
    term_say("%s: %s%s%s://%s:%d: %s%s%s", json_shown(e, "verdict"), json_shown(e, "method"),
             json_shown(e, "method")[0] ? " " : "", json_shown(e, "scheme"), json_shown(e, "host"),
             port && json_type(port) == JSON_INT ? (int)json_int(port) : 0,
             json_shown(e, "note")[0] ? json_shown(e, "note") : json_shown(e, "text"),
             json_shown(e, "hint")[0] ? "; " : "", json_shown(e, "hint"));
}

/* What the proxy says is hostile input: read, cleaned, written anew. */
static void event(void *ctx, const char *json, size_t len)
{
    const struct session *s = ctx;
    struct json *e = NULL;
    if (json_parse(json, len, &json_default_limits, &e, NULL) == 0 && json_type(e) == JSON_OBJECT) {
        if (s->options->json) {
            cleanup_buf struct buf out;
            struct json_writer w;
            buf_init(&out, 65536);
            jw_init(&w, &out, false);
            jw_json(&w, e);
            buf_chr(&out, '\n');
            (void)term_write(STDOUT_FILENO, buf_text(&out), out.len);
        } else {
            event_text(e);
        }
    }
    json_free(e);
}

/* Negative, or the exit status. */
static int serve(struct session *s)
{
    cleanup_buf struct buf summary;
    buf_init(&summary, (size_t)1024 * 1024);
    struct proxy_request request = {
        .policy = s->policy,
        .listen = s->options->listen,
        .token = s->options->no_auth ? NULL : s->token,
        .ready = ready,
        .event = event,
        .ctx = s,
    };
    struct err err = ERR_INIT;
    int r = sandbox_proxy_serve(&request, &summary, &err);
    int status = s->child > 0 ? child_status(s) : 0;
    if (s->ca_is_ours)
        unlink(s->ca_path);
    if (s->failed)
        return err_number(s->err);
    if (r < 0)
        *s->err = err;
    return r < 0 ? r : status;
}

static int check(const struct proxy_options *o, const struct policy *p, struct err *err)
{
    if (p->egress.rule_count == 0) {
        err_set(err, ERR_USAGE, "nothing is allowed: the proxy would refuse every request");
        return err_hint(err, "give --allow HOST, --secret NAME=SOURCE@ORIGIN, or --policy FILE");
    }
    if (o->ca && !egress_needs_ca(&p->egress)) {
        err_set(err, ERR_USAGE,
                "--ca: no rule makes the proxy look into TLS, so there is no certificate");
        return err_hint(err, "leave it out");
    }
    return 0;
}

static int build_and_serve(const struct proxy_options *o, char *const *command, struct err *err)
{
    struct policy policy;
    struct session s = {
        .options = o, .policy = &policy, .command = command[0] ? command : NULL, .err = err};
    int r = policy_options_build(&o->policy, &policy, err);
    if (r >= 0)
        r = check(o, &policy, err);
    /* `brig proxy` belongs to no run, so there is nobody to ask. */
    policy.egress.asks = false;
    if (r >= 0)
        r = make_token(s.token, err);
    if (r >= 0)
        r = egress_make_placeholders(&policy.egress, err);
    if (r >= 0) {
        policy_options_notes(&o->policy, &policy, "");
        r = serve(&s);
    }
    policy_done(&policy);
    return r;
}

static int proxy_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(proxy_options_done))) struct proxy_options o = {.listen = "127.0.0.1:0"};
    int rest = 0;
    int r = policy_options_init(&o.policy, argc, &err);
    if (r >= 0)
        r = verb_parse(verb, argc, argv, take, &o, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0)
        r = build_and_serve(&o, argv + rest, &err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : r;
}

const struct verb verb_proxy = {
    .name = "proxy",
    .summary = "run the proxy alone, for tools outside of a sandbox",
    .usage = "proxy [OPTIONS]\n"
             "proxy [OPTIONS] -- COMMAND [ARGUMENT…]",
    .about = "Prints the variables that tools need, then serves until ^C. Rules, secrets and\n"
             "denials are those of `brig run`. With COMMAND: runs it with these variables and\n"
             "ends with it.\n"
             "\n"
             "This is no sandbox: COMMAND runs as you, and a program that ignores the\n"
             "variables is not held. What must be held belongs into `brig run`.",
    .examples = "# in one shell\n"
                "brig proxy --allow api.github.com --listen 127.0.0.1:3128\n"
                "# one command, with a token that it never sees\n"
                "brig proxy --secret 'TOKEN=env:TOKEN@https://api.github.com' -- \\\n"
                "    curl https://api.github.com/user",
    .statuses = "0    ended by ^C, or the command's own status\n"
                "125  the options are wrong, or the proxy could not be started",
    .options = &proxy_table,
    .runs = true,
    .main = proxy_main,
};
