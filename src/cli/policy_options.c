/* The table of options that shape a policy, and building the policy from level, file and
 * options. */
#include "cli/policy_options.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/path.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "os/trusted.h"
#include "policy/reference.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define POLICY_FILE_MAX (1024 * 1024)

#define KERNEL     "Kernel boundary"
#define FILESYSTEM "Filesystem boundary"
#define NETWORK    "Network boundary"
#define LIFECYCLE  "Limits (lifecycle boundary)"
#define CREDENTIAL "Credential boundary"
#define POLICY     "Policy"
#define TOOLS      "Tools of the server"

/* clang-format off */
static const struct opt level_items[] = {
    {OPT_LEVEL, 0, "level", OPT_VALUE, "LEVEL", "low medium high critical", NULL, POLICY,
     "how hostile the code is taken to be: low, medium, high (default) or critical"},
};
static const struct opt file_items[] = {
    {OPT_POLICY, 0, "policy", OPT_VALUE, "FILE", NULL, NULL, POLICY,
     "policy file (YAML or JSON), laid over the level; options are laid over it"},
};
static const struct opt inside_items[] = {
    {OPT_FIELD + FIELD_TIER, 0, "tier", OPT_VALUE, "TIER", "process wasm-process container wasm gvisor vm", NULL, KERNEL,
     "process, wasm-process, container, wasm, gvisor or vm, instead of what the level asks for"},
    {OPT_FIELD + FIELD_UID, 0, "uid", OPT_VALUE, "N", NULL, NULL, KERNEL,
     "user id inside the sandbox; 0 is root in name, with no right more"},
    {OPT_FIELD + FIELD_UNIX_SOCKETS, 0, "unix-sockets", OPT_VALUE, "WHEN", "off auto require", NULL, KERNEL,
     "unix sockets: off, auto (allowed unless host folders are granted) or require"},

    {OPT_RO, 0, "ro", OPT_LIST, "DIR[:DEST]", NULL, NULL, FILESYSTEM,
     "show a host folder or file, read-only, at DEST or at the same path; repeatable"},
    {OPT_RW, 0, "rw", OPT_LIST, "DIR[:DEST]", NULL, NULL, FILESYSTEM,
     "the same, writable; repeatable"},
    {OPT_FIELD + FIELD_SUBMOUNTS, 0, "submounts", OPT_FLAG, NULL, NULL, "true", FILESYSTEM,
     "what is mounted below a granted folder comes along; without it such a folder is refused"},
    {OPT_FIELD + FIELD_ROOT, 0, "root", OPT_VALUE, "DIR", NULL, NULL, FILESYSTEM,
     "use a folder as the root instead of a view of the host's system"},
    {OPT_IMAGE, 0, "image", OPT_VALUE, "NAME[@DIGEST]", NULL, NULL, FILESYSTEM,
     "use an image as the root (brig image list); its variables, user, folder and entry point count "
     "where nothing else is said"},
    {OPT_FIELD + FIELD_WRITABLE_ROOT, 0, "writable-root", OPT_FLAG, NULL, NULL, "true", FILESYSTEM,
     "the whole root can be changed, system folders too; what is written ends with the sandbox"},
    {OPT_FIELD + FIELD_CWD, 'C', "cwd", OPT_VALUE, "DIR", NULL, NULL, FILESYSTEM,
     "folder inside the sandbox that the program starts in"},
    {OPT_FIELD + FIELD_EXEC, 0, "noexec", OPT_FLAG, NULL, NULL, "false", FILESYSTEM,
     "files in writable places cannot be executed"},
    {OPT_FIELD + FIELD_WORKSPACE, 0, "no-workspace", OPT_FLAG, NULL, NULL, "false", FILESYSTEM,
     "no private workspace: nothing is writable but what --rw grants"},
    {OPT_FIELD + FIELD_PROC, 0, "proc", OPT_VALUE, "VIEW", "pid own system", NULL, FILESYSTEM,
     "/proc: pid (own tasks only), own (free, nproc and uptime show the sandbox) or system (the "
     "machine)"},
    {OPT_FIELD + FIELD_REPORT, 0, "report-files", OPT_FLAG, NULL, NULL, "true", FILESYSTEM,
     "list refused files by path among the denials; makes each open slower"},
};
static const struct opt rule_items[] = {
    {OPT_ALLOW, 0, "allow", OPT_LIST, "HOST[:PORT][=ADDRESS]", NULL, NULL, NETWORK,
     "let the program reach a host: api.github.com (http and https), '*.pypi.org:443', "
     "db.internal:5432=10.0.0.5, https://HOST/PATH, or a preset such as @pypi or @npm (brig policy "
     "presets); everything else stays closed; repeatable"},
    {OPT_BLOCK, 0, "block", OPT_LIST, "HOST", NULL, NULL, NETWORK,
     "keep a host closed, whatever the rules say; repeatable"},
    {OPT_FIELD + FIELD_UPLOAD, 0, "upload", OPT_VALUE, "SIZE", NULL, NULL, NETWORK,
     "bytes that may be sent in all: 10M"},
    {OPT_FIELD + FIELD_MAX_CONNECTIONS, 0, "max-connections", OPT_VALUE, "N", NULL, NULL, NETWORK,
     "connections to the outside at one time"},
    {OPT_FIELD + FIELD_REQUESTS, 0, "requests", OPT_VALUE, "N", NULL, NULL, NETWORK,
     "requests per minute"},
};
static const struct opt ask_items[] = {
    {OPT_ASK_EGRESS, 0, "ask-egress", OPT_FLAG, NULL, NULL, "true", NETWORK,
     "a connection to a host outside of the rules waits until a person allows or denies it"},
    {OPT_DANGEROUS, 0, "dangerous", OPT_VALUE, "RULE", "allow ask deny", NULL, POLICY,
     "commands of a dangerous shape (rm -rf /…, git push --force, curl | sh, …): allow, ask a "
     "person first, or deny; a guide on top of the walls"},
};
static const struct opt resolver_items[] = {
    {OPT_FIELD + FIELD_RESOLVER, 0, "resolver", OPT_VALUE, "ADDRESS[:PORT]", NULL, NULL, NETWORK,
     "who resolves the names, instead of the host's own resolver"},
};
static const struct opt secret_items[] = {
    {OPT_SECRET, 0, "secret", OPT_LIST, "NAME=SOURCE@ORIGIN", NULL, NULL, CREDENTIAL,
     "let requests to ORIGIN, such as https://api.github.com, use a secret that the program never "
     "sees; SOURCE is env:NAME, file:/PATH, 'cmd:PROGRAM ARG…' or vault:PATH#FIELD; inside, $NAME "
     "is a placeholder; repeatable"},
};
static const struct opt env_items[] = {
    {OPT_ENV, 'e', "env", OPT_LIST, "KEY[=VALUE]", NULL, NULL, CREDENTIAL,
     "set a variable in the otherwise empty environment; KEY alone copies yours; repeatable"},
};
static const struct opt limit_items[] = {
    {OPT_FIELD + FIELD_MEMORY, 'm', "memory", OPT_VALUE, "SIZE", NULL, NULL, LIFECYCLE,
     "memory, with all that the program writes to its workspace: 256M, 1G"},
    {OPT_FIELD + FIELD_CPUS, 0, "cpus", OPT_VALUE, "N", NULL, NULL, LIFECYCLE,
     "processors' worth of CPU: 1, 0.5"},
    {OPT_FIELD + FIELD_PIDS, 0, "pids", OPT_VALUE, "N", NULL, NULL, LIFECYCLE,
     "processes and threads at one time"},
    {OPT_FIELD + FIELD_TIMEOUT, 0, "timeout", OPT_VALUE, "TIME", NULL, NULL, LIFECYCLE,
     "wall-clock time: 500ms, 30s, 5m"},
    {OPT_FIELD + FIELD_CPU_TIME, 0, "cpu-time", OPT_VALUE, "TIME", NULL, NULL, LIFECYCLE,
     "CPU time, all processes together"},
    {OPT_FIELD + FIELD_DISK, 0, "disk", OPT_VALUE, "SIZE", NULL, NULL, LIFECYCLE,
     "bytes in the workspace and /tmp"},
    {OPT_FIELD + FIELD_INODES, 0, "inodes", OPT_VALUE, "N", NULL, NULL, LIFECYCLE,
     "files in the workspace and /tmp"},
    {OPT_FIELD + FIELD_OUTPUT, 0, "output", OPT_VALUE, "SIZE", NULL, NULL, LIFECYCLE,
     "output that is kept; what comes after is cut off"},
    {OPT_FIELD + FIELD_OPEN_FILES, 0, "open-files", OPT_VALUE, "N", NULL, NULL, LIFECYCLE,
     "open files of one process"},
    {OPT_FIELD + FIELD_SAMPLING, 0, "sampling", OPT_VALUE, "WHEN", "accept auto refuse", NULL, LIFECYCLE,
     "a limit that the kernel cannot keep here: accept that brig only looks and kills, auto (only "
     "for the level's own numbers) or refuse to start"},
};
static const struct opt tool_items[] = {
    {OPT_TOOL + TOOL_ALLOW, 0, "tool", OPT_LIST, "NAME[:ARG=PATTERN]", NULL, NULL, TOOLS,
     "let a tool of the server be called, and no tool that no option or rule names: 'read_*', "
     "'read_file:path=/data/**'; repeatable"},
    {OPT_TOOL + TOOL_ASK, 0, "ask-tool", OPT_LIST, "NAME[:ARG=PATTERN]", NULL, NULL, TOOLS,
     "the same, and a person is asked about each call (brig approvals); repeatable"},
    {OPT_TOOL + TOOL_DENY, 0, "deny-tool", OPT_LIST, "NAME[:ARG=PATTERN]", NULL, NULL, TOOLS,
     "never let a tool be called, whatever else is said; repeatable"},
};
/* clang-format on */

/* Verbs share the parts, each in a chain of its own. */
#define CHAIN(part, following)                                                                     \
    {                                                                                              \
        .items = part, .count = ARRAY_LEN(part), .next = following                                 \
    }

static const struct opt_table run_limits = CHAIN(limit_items, &common_options);
static const struct opt_table run_env = CHAIN(env_items, &run_limits);
static const struct opt_table run_secrets = CHAIN(secret_items, &run_env);
static const struct opt_table run_resolver = CHAIN(resolver_items, &run_secrets);
static const struct opt_table run_asks = CHAIN(ask_items, &run_resolver);
static const struct opt_table run_rules = CHAIN(rule_items, &run_asks);
static const struct opt_table run_inside = CHAIN(inside_items, &run_rules);
static const struct opt_table run_file = CHAIN(file_items, &run_inside);
const struct opt_table policy_option_table = CHAIN(level_items, &run_file);
const struct opt_table tool_option_table = CHAIN(tool_items, &policy_option_table);

static const struct opt_table rules_file = CHAIN(file_items, &common_options);
const struct opt_table rule_option_table = CHAIN(rule_items, &rules_file);

static const struct opt_table build_limits = CHAIN(limit_items, &common_options);
static const struct opt_table build_secrets = CHAIN(secret_items, &build_limits);
static const struct opt_table build_resolver = CHAIN(resolver_items, &build_secrets);
static const struct opt_table build_rules = CHAIN(rule_items, &build_resolver);
const struct opt_table build_option_table = CHAIN(file_items, &build_rules);

static const struct opt_table secrets_file = CHAIN(file_items, &common_options);
const struct opt_table secret_option_table = CHAIN(secret_items, &secrets_file);

static const struct opt_table proxy_secrets = CHAIN(secret_items, &secrets_file);
static const struct opt_table proxy_resolver = CHAIN(resolver_items, &proxy_secrets);
const struct opt_table egress_option_table = CHAIN(rule_items, &proxy_resolver);

int policy_options_init(struct policy_options *o, int argc, struct err *err)
{
    *o = (struct policy_options){.room = (size_t)argc + 1};
    o->uses = calloc(o->room, sizeof *o->uses);
    return o->uses ? 0 : err_memory(err);
}

void policy_options_done(struct policy_options *o)
{
    free(o->uses);
    *o = (struct policy_options){0};
}

int policy_options_take(struct policy_options *o, const struct opt *opt, const char *value,
                        struct err *err)
{
    if (opt->id < OPT_LEVEL)
        return 0;
    if (opt->id == OPT_LEVEL) {
        o->level = value;
    } else if (opt->id == OPT_POLICY) {
        o->file = value;
    } else if (o->count < o->room) {
        o->uses[o->count++] = (struct policy_use){opt, value};
    } else {
        /* Only flags bundled as -xxxx could outnumber the arguments, and flags have no need to be
         * repeated. */
        return err_set(err, ERR_USAGE, "too many options");
    }
    return 1;
}

static struct origin origin_of(const struct opt *opt)
{
    struct origin origin = {.kind = ORIGIN_OPTION};
    snprintf(origin.name, sizeof origin.name, "--%s", opt->name);
    return origin;
}

/* A host path as typed → absolute, and there. */
static int resolve_source(const char *option, const char *path, bool folder_only, struct buf *out,
                          struct err *err)
{
    struct stat st;
    struct reached at;
    if (path_resolve(path, out, err) < 0)
        return err_wrap(err, "--%s", option);
    int r = reach_open(buf_text(out), &at);
    if (r == -ELOOP && at.link[0]) {
        char what[32];
        snprintf(what, sizeof what, "--%s", option);
        reach_refused(&at, what, path, err);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    errno = -r;
    if (r < 0 || fstat(at.fd, &st) < 0) {
        err_sys(err, "--%s: %s", option, buf_text(out));
        err->code = ERR_USAGE;
        return err_hint(err, "give a %s that exists on this host",
                        folder_only ? "folder" : "folder or file");
    }
    reach_close(&at);
    if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !folder_only))
        return 0;
    return err_set(err, ERR_USAGE, "--%s: %s is not a %s", option, buf_text(out),
                   folder_only ? "folder" : "folder or file");
}

static int apply_grant(struct policy *p, const struct opt *opt, const char *value,
                       const struct origin *origin, struct err *err)
{
    cleanup_buf struct buf spec;
    char dir[PATH_MAX];
    size_t len = strcspn(value, ":");
    buf_init(&spec, 2 * PATH_MAX);
    if (len == 0 || len >= sizeof dir)
        return err_set(err, ERR_USAGE, "--%s: '%.60s' is not DIR or DIR:DEST", opt->name, value);
    memcpy(dir, value, len);
    dir[len] = '\0';
    int r = resolve_source(opt->name, dir, false, &spec, err);
    if (r < 0)
        return r;
    /* A colon in the path (of the current folder, say) would make the rest of it be taken for
     * DEST. */
    if (strchr(buf_text(&spec), ':'))
        return err_set(err, ERR_USAGE, "--%s: a path with a colon cannot be granted: %s", opt->name,
                       buf_text(&spec));
    buf_str(&spec, value + len);
    if (spec.failed)
        return err_set(err, ERR_USAGE, "--%s: path too long", opt->name);
    return policy_grant(p, buf_text(&spec), opt->id == OPT_RW, origin, err);
}

static int apply_env(struct policy *p, const char *value, const struct origin *origin,
                     struct err *err)
{
    if (strchr(value, '='))
        return policy_env(p, value, origin, err);
    const char *mine = getenv(value);
    if (!mine) {
        err_set(err, ERR_USAGE, "--env %.60s: not set in your environment", value);
        return err_hint(err, "give the value: -e %.60s=VALUE", value);
    }
    cleanup_buf struct buf spec;
    buf_init(&spec, 4 * 1024 * 1024);
    buf_str(&spec, value);
    buf_chr(&spec, '=');
    buf_str(&spec, mine);
    if (spec.failed)
        return err_set(err, ERR_USAGE, "--env %.60s: value too long", value);
    return policy_env(p, buf_text(&spec), origin, err);
}

static int apply_root(struct policy *p, const struct opt *opt, const char *value,
                      const struct origin *origin, struct err *err)
{
    cleanup_buf struct buf path;
    buf_init(&path, PATH_MAX);
    /* The word for the default; a folder of that name is ./host. */
    if (strcmp(value, "host") != 0) {
        int r = resolve_source(opt->name, value, true, &path, err);
        if (r < 0)
            return r;
        value = buf_text(&path);
    }
    return policy_set(p, FIELD_ROOT, value, origin, err);
}

static int apply_image(struct policy *p, const char *value, const struct origin *origin,
                       struct err *err)
{
    char root[sizeof IMAGE_ROOT + REFERENCE_MAX + DIGEST_SIZE];
    if (snprintf(root, sizeof root, IMAGE_ROOT "%s", value) >= (int)sizeof root)
        return err_set(err, ERR_USAGE, "--image: the name is too long");
    return policy_set(p, FIELD_ROOT, root, origin, err);
}

static int apply(struct policy *p, const struct policy_use *use, struct err *err)
{
    struct origin origin = origin_of(use->opt);
    switch (use->opt->id) {
    case OPT_RO:
    case OPT_RW:
        return apply_grant(p, use->opt, use->value, &origin, err);
    case OPT_ENV:
        return apply_env(p, use->value, &origin, err);
    case OPT_ALLOW:
        return policy_allow(p, use->value, &origin, err);
    case OPT_BLOCK:
        return policy_block(p, use->value, &origin, err);
    case OPT_ASK_EGRESS:
        return policy_ask(p, NULL, &origin, err);
    case OPT_DANGEROUS:
        return policy_dangerous(p, use->value, &origin, err);
    case OPT_SECRET:
        return policy_secret(p, use->value, &origin, err);
    case OPT_TOOL + TOOL_ALLOW:
    case OPT_TOOL + TOOL_ASK:
    case OPT_TOOL + TOOL_DENY:
        return policy_tool(p, (enum tool_verdict)(use->opt->id - OPT_TOOL), use->value, &origin,
                           err);
    case OPT_IMAGE:
        return apply_image(p, use->value, &origin, err);
    case OPT_FIELD + FIELD_ROOT:
        return apply_root(p, use->opt, use->value, &origin, err);
    default:
        return policy_set(p, (enum policy_field)(use->opt->id - OPT_FIELD), use->value, &origin,
                          err);
    }
}

static int read_policy(const char *file, struct buf *text, struct err *err)
{
    cleanup_fd int fd = trusted_open(AT_FDCWD, file, "the policy", TRUSTED_FILE, err);
    if (fd < 0 && err->code == ERR_SYSTEM && err->sys_errno == ENOENT && !err->hint[0])
        err_hint(err, "`brig init` writes one for the project in this folder, brig-policy.yaml");
    if (fd < 0)
        return fd;
    char chunk[8192];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) != 0 && !text->failed) {
        if (n > 0)
            buf_add(text, chunk, (size_t)n);
        else if (errno != EINTR)
            return err_sys(err, "%s: cannot read the policy", file);
    }
    if (text->failed)
        return err_set(err, ERR_POLICY, "%s: larger than 1 MiB", file);
    return 0;
}

/* Lay one policy file over p. */
static int policy_options_load(struct policy *p, const char *file, struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, POLICY_FILE_MAX);
    int r = read_policy(file, &text, err);
    return r < 0 ? r : policy_load(p, file, buf_text(&text), text.len, err);
}

int policy_options_build(const struct policy_options *o, struct policy *ret, struct err *err)
{
    enum level level = LEVEL_HIGH;
    *ret = (struct policy){0};
    int r = o->level ? level_parse(o->level, &level) : 0;
    if (r < 0 || policy_init(ret, level) < 0)
        return err_set(err, ERR_USAGE, "cannot set up level %s", o->level ? o->level : "high");
    /* Marked before the file is read: a level chosen on the command line wins over the file's. */
    if (o->level)
        ret->origin[FIELD_LEVEL] = (struct origin){.kind = ORIGIN_OPTION, .name = "--level"};
    if (o->file) {
        r = policy_options_load(ret, o->file, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < o->count; i++) {
        r = apply(ret, &o->uses[i], err);
        if (r < 0)
            return r;
    }
    return policy_validate(ret, err);
}

/* If the code can write the policy's folder, it can change what the next run is allowed to do. */
static void note_policy_place(const struct policy *p, const char *file, const char *project)
{
    cleanup_buf struct buf path, folder;
    struct err ignored = ERR_INIT;
    const char *place = NULL;
    buf_init(&path, PATH_MAX);
    buf_init(&folder, PATH_MAX);
    if (path_resolve(file, &path, &ignored) < 0)
        return;
    for (size_t i = 0; !place && i < p->grant_count; i++)
        if (p->grants[i].writable && path_within(buf_text(&path), p->grants[i].source))
            place = p->grants[i].source;
    bool granted = p->project && (!project || *project);
    if (!place && granted && path_resolve(project ? project : ".", &folder, &ignored) >= 0 &&
        path_within(buf_text(&path), buf_text(&folder)))
        place = buf_text(&folder);
    if (place)
        term_say("the program can write %s, in which the policy lies: the next run would obey what "
                 "it makes of it; keep the policy elsewhere",
                 place);
}

void policy_options_notes(const struct policy_options *o, const struct policy *p,
                          const char *project)
{
    for (size_t i = 0; i < p->egress.secret_count; i++) {
        const struct egress_secret *s = &p->egress.secrets[i];
        if (egress_secret_in_clear(&p->egress, s))
            term_say("the secret %s goes to http://%s:%u unencrypted", s->name, s->host.text,
                     s->port);
    }
    if (o->file)
        note_policy_place(p, o->file, project);
}
