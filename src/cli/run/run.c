/* brig run: one command, or a piece of code, behind all five boundaries. */
#include "approvals/approval.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "base/text.h"
#include "cli/path.h"
#include "cli/policy_options.h"
#include "cli/project.h"
#include "cli/receipt_file.h"
#include "cli/run/lang.h"
#include "cli/run/learn.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "cli/verdict.h"
#include "images/build/build.h"
#include "sandbox/image.h"
#include "sandbox/module.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum run_option_id {
    OPT_LANG = 1,
    OPT_JSON,
    OPT_PRETTY,
    OPT_TTY,
    OPT_PROJECT,
    OPT_REVIEW,
    OPT_PLAN,
    OPT_ASK_TIMEOUT,
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_RECEIPT,
    OPT_LEARN,
    OPT_FORCE,
    OPT_ENTRYPOINT,
    OPT_COMMIT,
    OPT_CHANGE,
};

#define RUN_CHANGES_MAX 64

#define RUNNING "Running"
#define OUTPUT  "Output"

/* clang-format off */
static const struct opt run_items[] = {
    {OPT_LANG, 0, "lang", OPT_VALUE, "LANG", lang_words, NULL, RUNNING,
     "run code, from FILE or from stdin (-), in this language: python, bash, sh, node, perl, ruby, "
     "lua, php, tcl, r, julia or deno; with --tier wasm: javascript or python, as a module"},
    {OPT_TTY, 't', "tty", OPT_FLAG, NULL, NULL, NULL, RUNNING,
     "give the program a private terminal (for shells and editors)"},
    {OPT_PROJECT, 0, "project", OPT_VALUE, "DIR", NULL, NULL, RUNNING,
     "level medium: the folder that the program may change; default: the current folder"},
    {OPT_REVIEW, 0, "review", OPT_VALUE, "DIR[:DEST]", NULL, NULL, RUNNING,
     "let the program change a copy-on-write view of this folder; what it changed waits for brig "
     "diff, apply and discard"},
    {OPT_ENTRYPOINT, 0, "entrypoint", OPT_VALUE, "PROGRAM", NULL, NULL, RUNNING,
     "with --image: start this program, and not the image's own entry point"},
    {OPT_COMMIT, 0, "commit", OPT_VALUE, "NAME", NULL, NULL, RUNNING,
     "with --image: the root is writable, and if the command ends with status 0 what it changed becomes a new layer, and the image NAME"},
    {OPT_CHANGE, 0, "change", OPT_LIST, "INSTRUCTION", NULL, NULL, RUNNING,
     "with --commit: what the new image says about itself, as in a Dockerfile: 'ENV A=b', 'WORKDIR /app', 'USER app', 'CMD [\"run\"]', ENTRYPOINT, LABEL; repeatable"},
    {OPT_PLAN, 0, "plan", OPT_FLAG, NULL, NULL, NULL, RUNNING,
     "print what would be set up, step by step, and run nothing"},
    {OPT_LEARN, 0, "learn", OPT_MAYBE, "FILE", NULL, LEARN_FILE, RUNNING,
     "write a policy that would allow what is refused in this run to FILE (" LEARN_FILE "; - for "
     "stdout)"},
    {OPT_FORCE, 0, "force", OPT_FLAG, NULL, NULL, NULL, RUNNING,
     "let --learn replace a file that is there"},
    {OPT_ASK_TIMEOUT, 0, "ask-timeout", OPT_VALUE, "TIME", NULL, NULL, RUNNING,
     "how long a person may take to answer where the policy asks one; then it is denied; default: 60s"},
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "print one JSON object with output, verdict, denials and receipt"},
    {OPT_PRETTY, 0, "pretty", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "the same, indented"},
    {OPT_RECEIPT, 0, "receipt", OPT_VALUE, "FILE", NULL, NULL, OUTPUT,
     "write the signed receipt to FILE; what cannot be signed is not run"},
    {OPT_QUIET, 'q', "quiet", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "say nothing about limits, denials and weaker settings after the run"},
    {OPT_VERBOSE, 'v', "verbose", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "also say what was used: level, tier, time, memory"},
};
/* clang-format on */
static const struct opt_table run_table = {
    .items = run_items, .count = ARRAY_LEN(run_items), .next = &policy_option_table};

struct run_options {
    struct policy_options policy;
    const char *lang;
    const char *code; /* --lang's operand: a file, or "-" */
    char *module;     /* that runs the language, on a tier that runs modules */
    const char *project, *review;
    const char *receipt; /* where to */
    const char *entrypoint;
    const char *commit;
    const char *changes[RUN_CHANGES_MAX];
    size_t change_count;
    struct learn_options learn;
    struct learn *learned;   /* from a command that could not be executed */
    uint64_t ask_timeout_ms; /* 0: the usual */
    bool tty, plan, json, pretty, quiet, verbose;
};

static void run_options_done(struct run_options *o)
{
    policy_options_done(&o->policy);
    free(o->learn.cwd);
    free(o->module);
    learn_free(o->learned);
}

static int take_operand(struct run_options *o, const char *word, struct err *err)
{
    if (!o->lang)
        return OPTIONS_STOP;
    if (!o->code) {
        o->code = word;
        return 0;
    }
    err_set(err, ERR_USAGE, "unexpected argument '%.60s' after the code %.60s", word, o->code);
    return err_hint(err, "arguments for the program come after --");
}

static int take_ask_timeout(struct run_options *o, const char *value, struct err *err)
{
    if (num_parse_duration(value, &o->ask_timeout_ms, err) < 0)
        return err_wrap(err, "--ask-timeout");
    if (o->ask_timeout_ms == 0 || o->ask_timeout_ms > APPROVAL_TIMEOUT_MAX_MS)
        return err_set(err, ERR_USAGE, "--ask-timeout: expected more than 0 and at most 24h");
    return 0;
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct run_options *o = ctx;
    if (!opt)
        return take_operand(o, value, err);
    int r = policy_options_take(&o->policy, opt, value, err);
    if (r)
        return r < 0 ? r : 0;
    switch (opt->id) {
    case OPT_LANG:
        o->lang = value;
        break;
    case OPT_PROJECT:
        o->project = value;
        break;
    case OPT_RECEIPT:
        o->receipt = value;
        break;
    case OPT_REVIEW:
        o->review = value;
        break;
    case OPT_ENTRYPOINT:
        o->entrypoint = value;
        break;
    case OPT_COMMIT:
        o->commit = value;
        break;
    case OPT_CHANGE:
        if (o->change_count == RUN_CHANGES_MAX)
            return err_set(err, ERR_USAGE, "more than %d of --change", RUN_CHANGES_MAX);
        o->changes[o->change_count++] = value;
        break;
    case OPT_ASK_TIMEOUT:
        return take_ask_timeout(o, value, err);
    case OPT_TTY:
        o->tty = true;
        break;
    case OPT_PLAN:
        o->plan = true;
        break;
    case OPT_LEARN:
        o->learn.on = true;
        o->learn.file = value == opt->means ? NULL : value;
        break;
    case OPT_FORCE:
        o->learn.force = true;
        break;
    case OPT_PRETTY:
        o->pretty = true;
        /* fall through */
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_QUIET:
        o->quiet = true;
        break;
    case OPT_VERBOSE:
        o->verbose = true;
        break;
    default:
        return err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name);
    }
    return 0;
}

static int contradiction(struct err *err, const char *a, const char *b, const char *why)
{
    return err_set(err, ERR_USAGE, "%s and %s contradict each other: %s", a, b, why);
}

static int check_contradictions(const struct run_options *o, char *const *command, struct err *err)
{
    if (o->json && o->tty)
        return contradiction(err, "--json", "--tty", "a terminal's output is not captured");
    if (o->lang && o->tty)
        return contradiction(err, "--lang", "--tty", "the code comes through stdin");
    if (o->receipt && !o->receipt[0])
        return err_set(err, ERR_USAGE, "--receipt: the name of a file is missing");
    if (o->review && o->project)
        return contradiction(err, "--review", "--project", "the one takes the place of the other");
    if (o->learn.on && o->plan)
        return contradiction(err, "--learn", "--plan", "nothing is run, so nothing is learned");
    if (o->change_count && !o->commit)
        return err_set(err, ERR_USAGE, "--change is for --commit");
    if (o->learn.force && !o->learn.on)
        return err_set(err, ERR_USAGE, "--force is for --learn");
    if (o->quiet && o->verbose)
        return contradiction(err, "--quiet", "--verbose", "choose one");
    if (o->lang && !o->code && command[0]) {
        contradiction(err, "--lang", "a command", "the language decides what is run");
        return err_hint(err,
                        "if '%.60s' is an argument for the code: brig run --lang %s - -- %.60s …",
                        command[0], o->lang, command[0]);
    }
    if (!o->lang && command[0] && !command[0][0])
        return err_set(err, ERR_USAGE, "the command is empty");
    return 0;
}

/* An image may have one of its own. */
static int check_command(const struct run_options *o, const struct policy *policy,
                         char *const *command, struct err *err)
{
    bool image = reference_of_root(policy->root);
    if (o->entrypoint && !image)
        return err_set(err, ERR_USAGE, "--entrypoint is for --image");
    if (o->commit && !image) {
        err_set(err, ERR_USAGE, "--commit is for --image");
        return err_hint(err, "an image of what this host has: brig image from-host NAME");
    }
    if (o->entrypoint && o->lang)
        return contradiction(err, "--lang", "--entrypoint", "the language decides what is run");
    if (o->lang || command[0] || image)
        return 0;
    err_set(err, ERR_USAGE, "no command given");
    return err_hint(err, "for example: brig run -- python3 -c 'print(6*7)'");
}

/* FS-7: what is read goes inside, so a link that a sandbox may have made is not followed. The names
 * of descriptors, such as <(…) of a shell, are links of the kernel's. */
static int open_code_file(const char *file, struct err *err)
{
    static const char what[] = "cannot read the code from";
    struct reached at;
    if (text_begins(file, "/dev/fd/") || strcmp(file, "/dev/stdin") == 0) {
        int given = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        return given < 0 ? err_sys(err, "%s %s", what, file) : given;
    }
    if (path_reach(file, what, &at, err) < 0)
        return err_number(err);
    int fd = reach_reopen(&at, O_RDONLY | O_NOCTTY);
    reach_close(&at);
    errno = fd < 0 ? -fd : 0;
    return fd < 0 ? err_sys(err, "%s %s", what, file) : fd;
}

/* A file, or a FIFO. */
static int open_code(const char *file, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = open_code_file(file, err);
    if (fd < 0 && err->code == ERR_REFUSED)
        return fd;
    if (fd < 0) {
        err->code = ERR_USAGE;
        return err_hint(err, "after --lang comes a file of code, or - for stdin");
    }
    if (fstat(fd, &st) < 0)
        return err_sys(err, "look at %s", file);
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return err_set(err, ERR_USAGE, "%s is not a file of code", file);
    return fd_steal(&fd);
}

/* The argv that runs the code, and where its text comes from. */
static int use_language(const struct run_options *o, const char *root, char *const *arguments,
                        char ***ret_argv, int *ret_fd, struct err *err)
{
    const struct lang *lang = o->module ? lang_of_module(o->lang) : lang_find(o->lang);
    const char *program;
    if (!lang)
        return err_set(err, ERR_INTERNAL, "language %s is not in the table", o->lang);
    int r = 0;
    if (o->module)
        program = lang->name;
    else
        r = lang_program(lang, root, &program, err);
    if (r < 0)
        return r;
    if (o->code && strcmp(o->code, "-") != 0) {
        *ret_fd = open_code(o->code, err);
        if (*ret_fd < 0)
            return *ret_fd;
    }
    *ret_argv = lang_argv(lang, program, arguments);
    return *ret_argv ? 0 : err_sys(err, "allocate");
}

static int print_plan(const struct run_request *request, struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, 4 * 1024 * 1024);
    int r = sandbox_plan_text(request, &text, err);
    if (r < 0)
        return r;
    if (text.failed)
        return err_set(err, ERR_LIMIT, "the plan is too long to print");
    if (term_write(STDOUT_FILENO, buf_text(&text), text.len) < 0)
        return err_sys(err, "write the plan");
    return 0;
}

/* Output may be as large as the policy's limit for it, and each byte may take six as \u00XX. */
static int print_json(const struct run_result *result, bool pretty, struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, (size_t)6 * (result->out.len + result->errout.len) + result->receipt.len +
                        (size_t)1024 * 1024);
    run_result_json(result, &text, pretty);
    if (text.len == 0 || buf_text(&text)[text.len - 1] != '\n')
        buf_chr(&text, '\n');
    if (text.failed)
        return err_set(err, ERR_LIMIT, "the result is too large to print");
    if (term_write(STDOUT_FILENO, buf_text(&text), text.len) < 0)
        return err_sys(err, "write the result");
    return 0;
}

/* In the object of --json stands everything; that something is weaker than the level asks for is
 * told to the person as well. */
static int tell(const struct run_options *o, const struct policy *policy,
                const struct run_result *result, struct err *err)
{
    if (!o->json && !o->quiet)
        verdict_say(policy, result, o->verbose);
    else if (!o->quiet)
        verdict_notices(result);
    return o->json ? print_json(result, o->pretty, err) : 0;
}

/* Report how the run ended before anything about its receipt. */
static int keep_receipt(const struct run_options *o, struct receipt_file *file,
                        const struct run_result *result, struct err *err)
{
    if (!o->receipt)
        return 0;
    int r = result->is_signed ? 0 : -(*err = result->why_not_signed).code;
    if (r >= 0)
        r = receipt_file_write(file, &result->receipt, err);
    return r < 0
               ? err_wrap(err, "the command ran and ended with status %d, but there is no receipt",
                          result->exit_status)
               : 0;
}

/* A command that could not be executed is worth learning from, too. */
static int write_learned(const struct run_options *o, const struct run_request *request,
                         struct run_result *result, int r, struct err *err)
{
    struct err first = err ? *err : (struct err)ERR_INIT;
    if (!result->learned)
        return r;
    int written = learn_save(&o->learn, o->json, result->learned, request->policy, err);
    if (r < 0 && written >= 0 && err)
        *err = first;
    return written < 0 ? written : r;
}

/* Also with --quiet: nobody else will remove it. */
static int say_left(const struct run_result *result)
{
    if (!result->left.code)
        return result->exit_status;
    term_say("left behind: %s", result->left.message);
    if (result->left.hint[0])
        term_say("  hint: %s", result->left.hint);
    return err_exit_status(&result->left);
}

/* Also with --quiet, which leaves out the sentences about limits: why it ended, in a word. */
static void say_not_kept(const struct run_result *result, const char *name)
{
    const char *why = result->ended_because ? result->ended_because : result->limit_hit;
    const char *kind = !result->ended_because && result->limit_hit ? "limit " : "";
    term_say("not kept: the command ended with status %d%s%s%s%s, so there is no image %s",
             result->exit_status, why ? " (" : "", kind, why ? why : "", why ? ")" : "", name);
}

/* Only of a command that did what it should. */
static int commit(const struct run_options *o, const struct run_request *request,
                  const struct run_result *result, struct err *err)
{
    struct load_result made;
    char base[REFERENCE_SIZE + DIGEST_SIZE + 2];
    cleanup_buf struct buf text;
    buf_init(&text, 1u << 16);
    if (!o->commit)
        return 0;
    if (result->exit_status != 0) {
        say_not_kept(result, o->commit);
        return 0;
    }
    if (!result->changes)
        return err_set(err, ERR_SYSTEM, "what the command changed is not available");
    buf_str(&text, "brig run --");
    for (char *const *word = request->argv; *word; word++)
        buf_fmt(&text, " %s", *word);
    /* The name may lead elsewhere by now. */
    snprintf(base, sizeof base, "%s@%s", request->image->name.name, request->image->name.manifest);
    struct commit_request r = {.base = base,
                               .name = o->commit,
                               .changes = result->changes,
                               .edits = o->changes,
                               .edit_count = o->change_count,
                               .text = buf_text(&text)};
    if (commit_image(&r, &made, err) < 0)
        return err_wrap(err, "the command ran, but there is no image %s", o->commit);
    if (!o->quiet)
        term_say("kept as %s  %s", made.name.name, made.name.manifest);
    return 0;
}

static int run_and_tell(struct run_options *o, const struct run_request *request, struct err *err)
{
    struct run_result result;
    __attribute__((cleanup(receipt_file_done))) struct receipt_file file = RECEIPT_FILE_INIT;
    if (o->receipt && receipt_file_open(&file, o->receipt, err) < 0)
        return err_number(err);
    run_result_init(&result);
    int r = sandbox_run(request, &result, err);
    r = write_learned(o, request, &result, r, err);
    if (r >= 0)
        r = tell(o, request->policy, &result, err);
    if (r >= 0)
        r = commit(o, request, &result, err);
    if (r >= 0)
        r = keep_receipt(o, &file, &result, err);
    if (result.learned && result.learned->saved && !o->json && !o->quiet)
        learn_say(result.learned);
    int status = say_left(&result);
    if (r < 0) {
        o->learned = result.learned;
        result.learned = NULL;
    }
    run_result_done(&result);
    return r < 0 ? r : status;
}

/* What is run in an image: its entry point, then the caller's words, or else its own. */
static int use_image(const struct run_options *o, struct image *image, char *const *command,
                     char ***ret_argv, struct err *err)
{
    struct image_config *c = &image->config;
    if (o->entrypoint) {
        c->entrypoint[0] = o->entrypoint;
        c->entrypoint_count = 1;
        c->command_count = 0;
    }
    *ret_argv = sandbox_image_argv(image, command);
    if (!*ret_argv)
        return err_memory(err);
    if ((*ret_argv)[0] && (*ret_argv)[0][0])
        return 0;
    err_set(err, ERR_USAGE, "no command given, and the image has none of its own");
    return err_hint(err, "for example: brig run --image %s -- sh -c 'echo $PATH'",
                    image->name.name);
}

/* Negative, or the exit status. */
static int run_policy(struct run_options *o, const struct policy *policy, struct image *image,
                      char *const *command, struct err *err)
{
    cleanup_buf struct buf project, review, review_dest;
    cleanup_free char **lang_args = NULL;
    cleanup_fd int code_fd = -1;
    buf_init(&project, PATH_MAX);
    buf_init(&review, PATH_MAX);
    buf_init(&review_dest, PATH_MAX);
    int r = o->review ? project_review(o->review, &review, &review_dest, err)
                      : project_choose(policy, o->project, &project, err);
    bool in_image = image->root_fd >= 0;
    const char *root = in_image ? image->root : policy->root[0] == '/' ? policy->root : NULL;
    if (r >= 0 && o->lang)
        r = use_language(o, root, command, &lang_args, &code_fd, err);
    else if (r >= 0 && in_image)
        r = use_image(o, image, command, &lang_args, err);
    if (r < 0)
        return r;
    struct run_request request = {
        .policy = policy,
        .image = in_image ? image : NULL,
        .argv = lang_args ? lang_args : command,
        .module = o->module,
        .project = project.len ? buf_text(&project) : NULL,
        .review = review.len ? buf_text(&review) : NULL,
        .review_dest = buf_text(&review_dest),
        .stdin_fd = code_fd >= 0 ? code_fd : STDIN_FILENO,
        .stdout_fd = o->json ? -1 : STDOUT_FILENO,
        .stderr_fd = o->json ? -1 : STDERR_FILENO,
        .tty = o->tty,
        .ask_timeout_ms = o->ask_timeout_ms,
        .held = verdict_held,
        .capture = o->json,
        .receipt = o->json || o->receipt,
        .sign = o->receipt ? RUN_SIGN_REQUIRED : RUN_SIGN_WISHED,
        .code = o->lang,
        .term = o->tty ? getenv("TERM") : NULL,
        .keep_changes = o->commit,
        .learn = o->learn.on,
        .learn_cwd = o->learn.cwd,
    };
    return o->plan ? print_plan(&request, err) : run_and_tell(o, &request, err);
}

/* Before anything is run: the name and the changes are good, and the root can be written. */
static int prepare_commit(const struct run_options *o, struct policy *policy, struct err *err)
{
    const struct origin origin = {.kind = ORIGIN_OPTION, .name = "--commit"};
    struct reference ref;
    struct edit edit = {.user = NULL};
    if (reference_parse(o->commit, &ref, err) < 0)
        return err_wrap(err, "--commit");
    if (ref.digest[0])
        return err_set(err, ERR_USAGE, "--commit: a new name has no @sha256:…");
    int r = 0;
    for (size_t i = 0; r >= 0 && i < o->change_count; i++)
        r = edit_change(&edit, o->changes[i], err);
    edit_done(&edit);
    if (r < 0 || policy_set(policy, FIELD_WRITABLE_ROOT, "true", &origin, err) < 0)
        return err_number(err);
    return policy_validate(policy, err);
}

/* The library of a module is shown as a grant is, at its own place, which the module is told. */
static int show_library(struct policy *policy, const struct module *m, struct err *err)
{
    const struct origin origin = {.kind = ORIGIN_OPTION, .name = "--lang"};
    cleanup_buf struct buf text;
    buf_init(&text, 2 * PATH_MAX);
    buf_fmt(&text, "%s/lib", m->home);
    if (policy_grant(policy, buf_text(&text), false, &origin, err) < 0)
        return err_wrap(err, "show the library of the module %s", m->path);
    buf_reset(&text);
    buf_fmt(&text, "PYTHONHOME=%s", m->home);
    if (policy_env(policy, buf_text(&text), &origin, err) < 0)
        return err_number(err);
    return policy_validate(policy, err);
}

/* Where what runs is a module, a language is one too. */
static int prepare_module(struct run_options *o, struct policy *policy, struct err *err)
{
    cleanup_free struct module *m = malloc(sizeof *m);
    const char *language = module_language(o->lang);
    if (!m)
        return err_memory(err);
    if (!language) {
        err_set(err, ERR_USAGE, "no module runs %.60s on tier %s", o->lang,
                tier_name(policy->tier));
        return err_hint(err, "--lang " MODULE_LANGUAGES
                             "; --tier container runs the interpreters of this system");
    }
    if (module_find(language, m, err) < 0)
        return err_number(err);
    o->module = strdup(m->path);
    if (!o->module)
        return err_memory(err);
    return m->home[0] ? show_library(policy, m, err) : 0;
}

static int run_options(struct run_options *o, char *const *command, struct err *err)
{
    int r = check_contradictions(o, command, err);
    if (r < 0)
        return r;
    if (o->tty && !isatty(STDIN_FILENO)) {
        err_set(err, ERR_USAGE, "--tty: stdin is not a terminal");
        return err_hint(err,
                        "without --tty the program reads from a pipe, which is what scripts want");
    }
    r = learn_check(&o->learn, o->json, err);
    if (r < 0)
        return r;
    struct policy policy;
    cleanup_image struct image image = IMAGE_INIT;
    r = policy_options_build(&o->policy, &policy, err);
    if (r >= 0 && o->commit)
        r = prepare_commit(o, &policy, err);
    if (r >= 0)
        r = check_command(o, &policy, command, err);
    if (r >= 0 && o->lang && tier_runs_modules(policy.tier))
        r = prepare_module(o, &policy, err);
    if (r >= 0)
        r = sandbox_image_open(&policy, &image, err);
    if (r >= 0)
        r = sandbox_image_apply(&policy, &image, err);
    if (r >= 0 && !o->quiet)
        policy_options_notes(&o->policy, &policy, o->review ? "" : o->project);
    if (r >= 0 && o->learn.on)
        learn_open_network(&o->learn, &policy);
    if (r >= 0)
        r = run_policy(o, &policy, &image, command, err);
    policy_done(&policy);
    return r;
}

static void add_learned(void *ctx, struct json_writer *w)
{
    jw_key(w, "learned");
    learn_write_json(ctx, w);
}

static int run_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(run_options_done))) struct run_options o = {0};
    int rest = 0;
    int r = policy_options_init(&o.policy, argc, &err);
    if (r >= 0)
        r = verb_parse(verb, argc, argv, take, &o, &rest, &err);
    if (r > 0)
        return 0;
    if (r < 0)
        return verb_fail(verb, &err, verb_wants_json(argc, argv));
    r = run_options(&o, argv + rest, &err);
    bool learned = o.learned && o.learned->policy.len;
    return r < 0 ? verb_fail_with(verb, &err, o.json, learned ? add_learned : NULL, o.learned) : r;
}

const struct verb verb_run = {
    .name = "run",
    .summary = "run a program, or code from stdin, in a sandbox",
    .usage = "run [OPTIONS] [--] COMMAND [ARGUMENT…]\n"
             "run [OPTIONS] --lang LANG [- | FILE] [-- ARGUMENT…]",
    .about = "The program sees a read-only system, a private workspace that disappears with\n"
             "it, an empty environment and no network but what --allow names. Its limits, and\n"
             "all else, follow from the threat level; a policy file and options change single\n"
             "values.",
    .examples = "# one command; level high is the default\n"
                "brig run -- python3 -c 'print(6*7)'\n"
                "# code from stdin, nothing touches the disk\n"
                "echo 'print(6*7)' | brig run --lang python -\n"
                "# limits, and the result for a program to read\n"
                "brig run --json -m 256M --timeout 30s -- ./configure\n"
                "# data in, results out\n"
                "brig run --ro data:/data --rw out:/out -- sort -o /out/s /data/list\n"
                "# one host, and nothing else; what was denied is told afterwards\n"
                "brig run --allow '*.pypi.org:443' -- pip download requests\n"
                "# a secret that the program can use but never sees\n"
                "brig run --secret 'TOKEN=env:TOKEN@https://api.github.com' -- ./agent\n"
                "# the same folder, but its changes wait for your word\n"
                "brig run --review . -- make test\n"
                "# a shell in the current project, which it may change\n"
                "brig run --level medium -t -- bash",
    .statuses = "N    the program's own status; 128+N when signal N ended it\n"
                "124  a time limit ended it\n"
                "125  brig refused or failed; the program was not run, or something of the run\n"
                "     could not be removed, which is said\n"
                "126  the program cannot be executed\n"
                "127  the program was not found in the sandbox",
    .options = &run_table,
    .runs = true,
    .main = run_main,
};
