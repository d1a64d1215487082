/* brig serve: sandboxes as a service. This process has the templates and starts the wardens; what
 * talks to clients is brig-daemon. */
#include "cli/serve/serve.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "cli/path.h"
#include "cli/project.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "http/url.h"
#include "sandbox/sandbox.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum serve_option_id {
    OPT_LISTEN = 1,
    OPT_SOCKET,
    OPT_STATE,
    OPT_KEY_FILE,
    OPT_TEMPLATE,
    OPT_TEMPLATES,
    OPT_PROJECT,
    OPT_DOMAIN,
    OPT_TLS,
    OPT_MAX_SANDBOXES,
    OPT_FOREGROUND,
    OPT_EPHEMERAL,
    OPT_DAEMON,
};

#define LISTENING   "Listening"
#define MAKING      "Sandboxes"
#define FOLDERS_MAX 32

/* clang-format off */
static const struct opt serve_items[] = {
    {OPT_LISTEN, 0, "listen", OPT_VALUE, "ADDRESS:PORT", NULL, NULL, LISTENING,
     "where to listen; default: 127.0.0.1 on a free port"},
    {OPT_SOCKET, 0, "socket", OPT_VALUE, "PATH", NULL, NULL, LISTENING,
     "the UNIX socket; default: brig/brig.sock in the folder of the user's runtime files"},
    {OPT_DOMAIN, 0, "domain", OPT_VALUE, "NAME[:PORT]", NULL, NULL, LISTENING,
     "ports of sandboxes are called PORT-ID.NAME, the API api.NAME; default: as the client calls it"},
    {OPT_TLS, 0, "tls", OPT_VALUE, "CERT,KEY", NULL, NULL, LISTENING,
     "speak TLS on the port, with this certificate (and its chain) and its key, both PEM; SIGHUP "
     "reads them again"},
    {OPT_KEY_FILE, 0, "key-file", OPT_VALUE, "FILE", NULL, NULL, LISTENING,
     "the operator's API key; made if it is not there; default: key in the state folder"},
    {OPT_STATE, 0, "state", OPT_VALUE, "DIR", NULL, NULL, MAKING,
     "where records, keys and templates are kept"},
    {OPT_TEMPLATE, 0, "template", OPT_LIST, "NAME=DIR", NULL, NULL, MAKING,
     "a template that has this folder as its root"},
    {OPT_TEMPLATES, 0, "templates", OPT_VALUE, "DIR", NULL, NULL, MAKING,
     "templates, one file NAME.yaml or NAME.json each; default: templates in the state folder"},
    {OPT_PROJECT, 0, "project", OPT_LIST, "DIR", NULL, NULL, MAKING,
     "offer a folder: a sandbox that asks for it works on a copy-on-write view of it; what it "
     "changes waits for a review; repeatable"},
    {OPT_MAX_SANDBOXES, 0, "max-sandboxes", OPT_VALUE, "N", NULL, NULL, MAKING,
     "at most so many at one time, those that wait in pools included"},
    {OPT_EPHEMERAL, 0, "ephemeral", OPT_FLAG, NULL, NULL, NULL, MAKING,
     "remove the state folder, with everything in it, at the end"},
    {OPT_FOREGROUND, 0, "foreground", OPT_FLAG, NULL, NULL, NULL, "Output",
     "say on stderr what happens, for a person to read"},
    {OPT_DAEMON, 0, "daemon", OPT_VALUE, "PROGRAM", NULL, NULL, "Other",
     "run this in place of brig-daemon (for tests)"},
};
/* clang-format on */
static const struct opt_table serve_table = {
    .items = serve_items, .count = ARRAY_LEN(serve_items), .next = &common_options};

struct serve {
    const char *listen, *socket, *state_path, *key_file, *templates, *daemon;
    const char *folders[FOLDERS_MAX];
    unsigned folder_count;
    bool foreground, ephemeral, started;
    char certificate[PATH_MAX], certificate_key[PATH_MAX];
    struct serve_state state;
    struct serve_sockets sockets;
    struct launcher_config config;
};

static int take_count(const char *text, unsigned *ret, struct err *err)
{
    uint64_t n = 0;
    if (num_parse_uint(text, &n, NULL) < 0 || n == 0 || n > 4096)
        return err_set(err, ERR_USAGE, "--max-sandboxes %.20s: expected a number from 1 to 4096",
                       text);
    *ret = (unsigned)n;
    return 0;
}

static int take_project(struct serve *s, const char *value, struct err *err)
{
    cleanup_buf struct buf path, same;
    buf_init(&path, PATH_MAX);
    buf_init(&same, PATH_MAX);
    if (s->config.project_count == LAUNCHER_PROJECTS_MAX)
        return err_set(err, ERR_USAGE, "more than %d projects", LAUNCHER_PROJECTS_MAX);
    if (strchr(value, ':'))
        return err_set(err, ERR_USAGE, "--project: a path with a colon cannot be offered");
    if (project_review(value, &path, &same, err) < 0)
        return err_number(err);
    char *copy = strdup(buf_text(&path));
    if (!copy)
        return err_memory(err);
    s->config.projects[s->config.project_count++] = copy;
    return 0;
}

static int take_domain(struct serve *s, const char *value, struct err *err)
{
    struct host host;
    uint16_t port;
    if (host_header_parse(value, strlen(value), &host, &port, NULL) < 0 || host.kind != HOST_NAME ||
        strcmp(host.text, "localhost") == 0) {
        err_set(err, ERR_USAGE, "--domain %.80s: expected a name, such as sandboxes.example.org",
                value);
        return err_hint(err, "every name below it must lead to this daemon");
    }
    s->config.domain = value;
    return 0;
}

/* Split at the comma: a path with one in it cannot be named. */
static int take_tls(struct serve *s, const char *value, struct err *err)
{
    const char *comma = strchr(value, ',');
    size_t len = comma ? (size_t)(comma - value) : 0;
    if (!len || !comma[1] || strchr(comma + 1, ',') || len >= sizeof s->certificate ||
        strlen(comma + 1) >= sizeof s->certificate_key) {
        err_set(err, ERR_USAGE, "--tls %.80s: expected CERT,KEY", value);
        return err_hint(err, "two files in PEM form, with one comma between their paths");
    }
    snprintf(s->certificate, sizeof s->certificate, "%.*s", (int)len, value);
    snprintf(s->certificate_key, sizeof s->certificate_key, "%s", comma + 1);
    s->config.certificate = s->certificate;
    s->config.certificate_key = s->certificate_key;
    return 0;
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct serve *s = ctx;
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    switch (opt->id) {
    case OPT_LISTEN:
        s->listen = value;
        break;
    case OPT_SOCKET:
        s->socket = value;
        break;
    case OPT_STATE:
        s->state_path = value;
        break;
    case OPT_KEY_FILE:
        s->key_file = value;
        break;
    case OPT_TEMPLATES:
        s->templates = value;
        break;
    case OPT_DOMAIN:
        return take_domain(s, value, err);
    case OPT_TLS:
        return take_tls(s, value, err);
    case OPT_PROJECT:
        return take_project(s, value, err);
    case OPT_MAX_SANDBOXES:
        return take_count(value, &s->config.max_boxes, err);
    case OPT_DAEMON:
        s->daemon = value;
        break;
    case OPT_FOREGROUND:
        s->foreground = true;
        break;
    case OPT_EPHEMERAL:
        s->ephemeral = true;
        break;
    case OPT_TEMPLATE:
        if (s->folder_count == FOLDERS_MAX || !strchr(value, '='))
            return err_set(err, ERR_USAGE, "--template %.60s: expected NAME=DIR", value);
        s->folders[s->folder_count++] = value;
        break;
    default:
        return err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name);
    }
    return 0;
}

/* ---- templates ---- */

static int add_folder(struct templates *t, const char *spec, struct err *err)
{
    char name[TEMPLATE_NAME_MAX + 1];
    cleanup_buf struct buf folder;
    size_t len = strcspn(spec, "=");
    buf_init(&folder, PATH_MAX);
    if (len >= sizeof name)
        return err_set(err, ERR_USAGE, "--template %.60s…: too long a name", spec);
    snprintf(name, sizeof name, "%.*s", (int)len, spec);
    if (path_resolve(spec + len + 1, &folder, err) < 0)
        return err_number(err);
    return templates_add_folder(t, name, buf_text(&folder), err);
}

static int load(void *ctx, struct templates *t, struct err *err)
{
    struct serve *s = ctx;
    int r = templates_init(t, err);
    if (r >= 0)
        r = s->templates ? templates_load(t, AT_FDCWD, s->templates, err)
                         : templates_load(t, s->state.fd, "templates", err);
    for (unsigned i = 0; r >= 0 && i < s->folder_count; i++)
        r = add_folder(t, s->folders[i], err);
    return r;
}

/* ---- what is said ---- */

static void say(void *ctx, const char *text)
{
    const struct serve *s = ctx;
    if (s->foreground)
        term_say("%s", text);
}

static void warn(void *ctx, const char *text)
{
    (void)ctx;
    term_say("%s", text);
}

static void say_line(const struct serve *s)
{
    cleanup_buf struct buf line;
    buf_init(&line, 4096);
    buf_str(&line, "brig serve: ready on");
    for (unsigned i = 0; i < s->config.listener_count; i++)
        buf_fmt(&line, "%s %s", i ? " and" : "", s->config.listeners[i].address);
    buf_fmt(&line, ", key in %s\n", s->state.key_path);
    (void)term_write(STDOUT_FILENO, buf_text(&line), line.len);
}

static bool has_tcp(const struct serve *s)
{
    for (unsigned i = 0; i < s->config.listener_count; i++)
        if (strcmp(s->config.listeners[i].kind, "tcp") == 0)
            return true;
    return false;
}

/* To a person, who would otherwise take it for a fault of the sandbox. */
static void say_port_names(const struct serve *s)
{
    if (!isatty(STDERR_FILENO) || s->config.domain || !has_tcp(s) || host_finds_port_names())
        return;
    term_say("getHost(PORT) is PORT-ID.localhost, which Node.js and Python do not find on this "
             "machine: apt-get install libnss-myhostname (Debian, Ubuntu), or see docs/serve.md, "
             "Ports");
}

static void on_ready(void *ctx)
{
    struct serve *s = ctx;
    struct err err = ERR_INIT;
    if (serve_address_write(&s->state, &s->config, &err) < 0)
        term_say("%s", err.message);
    /* Shown once, and only to a person. */
    if (s->state.key_is_new && isatty(STDERR_FILENO))
        term_say("the operator's API key, shown this once: %s", s->state.key);
    explicit_bzero(s->state.key, sizeof s->state.key);
    say_port_names(s);
    say_line(s);
    serve_notify("READY=1");
}

/* ---- the verb ---- */

/* The daemon has no weaker tier to fall back to. */
static int check_host(struct err *err)
{
    struct host_report host;
    sandbox_host_report(&host);
    const struct host_tier *container = host_tier_of(&host, TIER_CONTAINER);
    if (container->available)
        return 0;
    err_set(err, ERR_UNSUPPORTED, "brig serve needs the container tier: %s", container->why);
    return err_hint(err, "%s", container->how);
}

static int serve(struct serve *s, struct err *err)
{
    if (check_host(err) < 0 || serve_state_open(&s->state, s->state_path, err) < 0 ||
        serve_key(&s->state, s->key_file, &s->config, err) < 0 ||
        serve_listen(&s->sockets, &s->state, s->listen, s->socket, &s->config, err) < 0)
        return err_number(err);
    s->config.program = s->daemon;
    s->config.state = s->state.path;
    s->config.state_fd = s->state.fd;
    s->config.load = load;
    s->config.ready = on_ready;
    s->config.say = say;
    s->config.warn = warn;
    /* The state folder is never granted to a sandbox, wherever it lies. */
    if (s->config.certificate_key)
        serve_keep(s->config.certificate_key);
    s->config.ctx = s;
    return launcher_run(&s->config, &s->started, err);
}

static int serve_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct serve s = {.state = {.fd = -1, .lock_fd = -1}};
    int rest = 0;
    int r = verb_parse(verb, argc, argv, take, &s, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && rest < argc)
        r = err_set(&err, ERR_USAGE, "unexpected argument '%.60s'", argv[rest]);
    if (r >= 0)
        r = serve(&s, &err);
    serve_notify("STOPPING=1");
    serve_address_remove(&s.state);
    serve_sockets_done(&s.sockets, &s.config);
    if (s.ephemeral)
        serve_state_remove(&s.state);
    serve_state_done(&s.state);
    for (unsigned i = 0; i < s.config.project_count; i++)
        free(s.config.projects[i]);
    if (r >= 0)
        return 0;
    int status = verb_fail(verb, &err, false);
    return s.started && err.code == ERR_SYSTEM ? 1 : status;
}

const struct verb verb_serve = {
    .name = "serve",
    .summary = "sandboxes as a service, behind the API that agents use",
    .usage = "serve [OPTIONS]",
    .about = "Serves an HTTP API on a UNIX socket and on a port of loopback. Sandboxes are made\n"
             "from templates, wait in a pool, and end with their time, with their owner's word\n"
             "or with this process. Needs no root.",
    .examples = "# everything by default; the API key is made and shown once\n"
                "brig serve\n"
                "# for scripts: a known port, folder and key file\n"
                "brig serve --listen 127.0.0.1:8080 --state DIR --key-file FILE\n"
                "# a folder as the root of sandboxes\n"
                "brig serve --template alpine=/srv/alpine\n"
                "# the addresses that E2B's clients use by themselves: https://api.NAME, "
                "https://PORT-ID.NAME\n"
                "brig serve --listen 0.0.0.0:443 --domain sandboxes.example.org --tls "
                "cert.pem,key.pem",
    .statuses = "0    it was told to end, and everything ended in order\n"
                "1    brig-daemon died; all sandboxes were ended\n"
                "125  it could not start",
    .options = &serve_table,
    .main = serve_main,
};
