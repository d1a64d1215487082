/* brig image build. */
#include "images/build/build.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "cli/image/image.h"
#include "cli/path.h"
#include "cli/policy_options.h"
#include "cli/term.h"
#include "cli/verdict.h"
#include "os/fd.h"
#include "os/keep.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS_MAX 128

enum build_option_id {
    OPT_BUILD_TAG = OPT_PACKAGES + 1,
    OPT_BUILD_FILE,
    OPT_BUILD_ARG,
    OPT_BUILD_TARGET,
    OPT_BUILD_NO_CACHE,
    OPT_BUILD_QUIET,
};

/* clang-format off */
static const struct opt build_items[] = {
    {OPT_BUILD_TAG, 't', "tag", OPT_VALUE, "NAME", NULL, NULL, "Building",
     "the name that the image shall have"},
    {OPT_BUILD_FILE, 'f', "file", OPT_VALUE, "FILE", NULL, NULL, "Building",
     "the Dockerfile; default: DIR/Dockerfile"},
    {OPT_BUILD_ARG, 0, "build-arg", OPT_LIST, "NAME=VALUE", NULL, NULL, "Building",
     "the value of an ARG; repeatable. It is no place for secrets: each command can write it down"},
    {OPT_BUILD_TARGET, 0, "target", OPT_VALUE, "STAGE", NULL, NULL, "Building",
     "build up to this stage, and no further"},
    {OPT_BUILD_NO_CACHE, 0, "no-cache", OPT_FLAG, NULL, NULL, NULL, "Building",
     "run every RUN, also one that an earlier build did on the same files by the same rules"},
    IMAGE_LIMIT_OPTIONS,
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
    {OPT_BUILD_QUIET, 'q', "quiet", OPT_FLAG, NULL, NULL, NULL, "Output",
     "say nothing about steps and notes, and leave the output of commands out"},
};
/* clang-format on */
static const struct opt_table build_table = {
    .items = build_items, .count = ARRAY_LEN(build_items), .next = &build_option_table};

struct build_options {
    struct policy_options policy;
    const char *tag, *file, *target, *folder;
    const char *args[ARGS_MAX];
    size_t arg_count;
    uint64_t max_bytes, max_entries;
    bool json, quiet, no_cache;
};

static int take_arg(struct build_options *o, const char *value, struct err *err)
{
    if (!strchr(value, '=') || value[0] == '=')
        return err_set(err, ERR_USAGE, "--build-arg: expected NAME=VALUE");
    if (o->arg_count == ARGS_MAX)
        return err_set(err, ERR_USAGE, "more than %d of --build-arg", ARGS_MAX);
    o->args[o->arg_count++] = value;
    return 0;
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct build_options *o = ctx;
    if (!opt && o->folder)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    if (!opt) {
        o->folder = value;
        return 0;
    }
    int r = policy_options_take(&o->policy, opt, value, err);
    if (r)
        return r < 0 ? r : 0;
    switch (opt->id) {
    case OPT_BUILD_TAG:
        o->tag = value;
        return 0;
    case OPT_BUILD_FILE:
        o->file = value;
        return 0;
    case OPT_BUILD_TARGET:
        o->target = value;
        return 0;
    case OPT_BUILD_ARG:
        return take_arg(o, value, err);
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_BUILD_QUIET:
        o->quiet = true;
        return 0;
    case OPT_BUILD_NO_CACHE:
        o->no_cache = true;
        return 0;
    case OPT_MAX_SIZE:
        return num_parse_size(value, &o->max_bytes, err) < 0 ? err_wrap(err, "--max-size") : 0;
    default:
        return num_parse_count(value, &o->max_entries, err) < 0 ? err_wrap(err, "--max-entries")
                                                                : 0;
    }
}

/* ---- what is told ---- */

static void tell_step(void *ctx, unsigned at, unsigned of, const char *text)
{
    const struct build_options *o = ctx;
    cleanup_buf struct buf line;
    buf_init(&line, 1u << 20);
    if (o->quiet)
        return;
    buf_fmt(&line, "STEP %u/%u: ", at, of);
    term_clean(&line, text);
    buf_chr(&line, '\n');
    (void)term_write(STDERR_FILENO, buf_text(&line), line.len);
}

static void tell_note(void *ctx, unsigned line, const char *text)
{
    const struct build_options *o = ctx;
    if (!o->quiet)
        term_say("line %u: %s", line, text);
}

static void tell_run(void *ctx, const struct policy *policy, const struct run_result *result)
{
    const struct build_options *o = ctx;
    if (!o->quiet)
        verdict_say(policy, result, false);
}

static int tell_built(const struct build_options *o, const struct load_result *r, struct err *err)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    char size[24];
    buf_init(&out, 1u << 16);
    if (!o->json) {
        image_size_text(r->facts.bytes, size);
        buf_fmt(&out, "%s  %s  %s\n", r->name.name, r->name.manifest, size);
        return term_print(&out, "the image", err);
    }
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "name", r->name.name);
    jw_kv_string(&w, "manifest", r->name.manifest);
    jw_kv_string(&w, "before", r->before[0] ? r->before : NULL);
    jw_kv_uint(&w, "bytes", r->facts.bytes);
    jw_kv_uint(&w, "files", r->facts.files);
    jw_kv_uint(&w, "left_out", r->facts.left_out);
    jw_object_end(&w);
    buf_chr(&out, '\n');
    return term_print(&out, "the image", err);
}

/* ---- what is read ---- */

static int read_text(int fd, const char *what, struct buf *ret, struct err *err)
{
    char chunk[16384];
    struct stat sb;
    ssize_t n;
    if (fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode))
        return err_set(err, ERR_REFUSED, "%s is no plain file", what);
    while (!ret->failed && (n = read(fd, chunk, sizeof chunk)) != 0)
        if (n > 0)
            buf_add(ret, chunk, (size_t)n);
        else if (errno != EINTR)
            return err_sys(err, "read %s", what);
    return ret->failed ? err_set(err, ERR_LIMIT, "%s is larger than 1 MiB", what) : 0;
}

/* IM-15: the context is perhaps somebody else's, and so are links in it. */
static int open_in_context(int context, const char *name)
{
    return sys_openat2(context, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0,
                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static int open_path(const char *path, int flags, struct err *err)
{
    struct reached at;
    if (path_reach(path, "cannot build from", &at, err) < 0)
        return err_number(err);
    int fd = reach_reopen(&at, flags | O_RDONLY | O_NONBLOCK | O_NOCTTY);
    reach_close(&at);
    errno = fd < 0 ? -fd : 0;
    return fd < 0 ? err_sys(err, "cannot build from %.200s", path) : fd;
}

/* FS-5: what is brig's own becomes no part of an image, as it enters no sandbox. */
static int open_context(const char *folder, struct err *err)
{
    char link[64], path[PATH_MAX], place[PATH_MAX];
    cleanup_fd int fd = open_path(folder, O_DIRECTORY, err);
    if (fd < 0)
        return fd;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0)
        return err_sys(err, "find the path of %.200s", folder);
    path[n] = '\0';
    if (!keep_holds(path, place))
        return fd_steal(&fd);
    err_set(
        err, ERR_REFUSED,
        "cannot build from %.200s: %.200s holds keys and records of brig, and is part of no image",
        folder, place);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "put the Dockerfile and what it copies into a folder of their own");
}

static int read_dockerfile(const struct build_options *o, int context, struct buf *ret,
                           struct err *err)
{
    cleanup_fd int fd =
        o->file ? open_path(o->file, 0, err) : open_in_context(context, "Dockerfile");
    if (fd < 0 && o->file)
        return fd;
    if (fd < 0) {
        bool link = errno == ELOOP;
        err_set(err, ERR_REFUSED,
                link ? "the Dockerfile of %.200s is a link" : "there is no Dockerfile in %.200s",
                o->folder);
        return err_hint(err, "name one: -f FILE");
    }
    return read_text(fd, "the Dockerfile", ret, err);
}

static int read_ignore(int context, struct ignore *ret, struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, DOCKERFILE_MAX);
    cleanup_fd int fd = open_in_context(context, ".dockerignore");
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_sys(err, "open .dockerignore");
    if (read_text(fd, ".dockerignore", &text, err) < 0)
        return err_number(err);
    return ignore_parse(buf_text(&text), text.len, ret, err);
}

/* ---- the verb ---- */

static int make_policy(void *ctx, struct policy *ret, struct err *err)
{
    const struct build_options *o = ctx;
    return policy_options_build(&o->policy, ret, err);
}

static int build_in(struct build_options *o, int context, const struct ignore *ignore,
                    struct err *err)
{
    struct load_result made;
    cleanup_buf struct buf text;
    cleanup_fd int nothing = o->quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    buf_init(&text, DOCKERFILE_MAX);
    if (read_dockerfile(o, context, &text, err) < 0)
        return err_number(err);
    const struct build_request request = {.context = context,
                                          .dockerfile = buf_text(&text),
                                          .dockerfile_len = text.len,
                                          .ignore = ignore,
                                          .name = o->tag,
                                          .target = o->target,
                                          .args = o->args,
                                          .arg_count = o->arg_count,
                                          .max_bytes = o->max_bytes,
                                          .max_entries = o->max_entries,
                                          .no_cache = o->no_cache,
                                          .policy = make_policy,
                                          .step = tell_step,
                                          .note = tell_note,
                                          .ran = tell_run,
                                          .ctx = o,
                                          .out_fd = o->quiet ? nothing : STDERR_FILENO};
    if (build_image(&request, &made, err) < 0)
        return err_number(err);
    return tell_built(o, &made, err);
}

static int build(struct build_options *o, struct err *err)
{
    struct policy policy;
    struct ignore ignore = {.patterns = {.count = 0}};
    if (!o->folder || !o->tag) {
        err_set(err, ERR_USAGE,
                o->folder ? "the name of the image is missing: -t NAME"
                          : "the folder with the context is missing");
        return err_hint(err, "for example: brig image build -t team/tool .");
    }
    /* What is wrong with the options is said before anything is made. */
    int r = policy_options_build(&o->policy, &policy, err);
    policy_done(&policy);
    if (r < 0)
        return r;
    cleanup_fd int context = open_context(o->folder, err);
    if (context < 0)
        return context;
    r = read_ignore(context, &ignore, err);
    if (r >= 0)
        r = build_in(o, context, &ignore, err);
    ignore_done(&ignore);
    return r;
}

static int build_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct build_options o = {.max_bytes = LOAD_MAX_BYTES, .max_entries = LOAD_MAX_ENTRIES};
    int r = policy_options_init(&o.policy, argc, &err);
    if (r >= 0)
        r = verb_parse_all(verb, argc, argv, take, &o, &err);
    bool done = r > 0;
    if (r == 0)
        r = build(&o, &err);
    policy_options_done(&o.policy);
    if (done)
        return 0;
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : r;
}

const struct verb verb_image_build = {
    .name = "image build",
    .summary = "build an image as a Dockerfile says",
    .usage = "image build [-f FILE] -t NAME [OPTIONS] DIR",
    .about = "Each RUN is a run in a sandbox: no network but what --allow names, no secret, the\n"
             "limits of the options (without any: 2G of memory, 1G of disk, 15 minutes). What\n"
             "it changed becomes a layer. COPY and ADD read only what lies in DIR.\n"
             "Known: FROM (an image that was loaded, a stage, scratch), RUN, COPY, ADD (files\n"
             "and tar archives), ENV, ARG, WORKDIR, USER, ENTRYPOINT, CMD, SHELL, LABEL;\n"
             "EXPOSE, VOLUME and STOPSIGNAL are kept and mean nothing here.\n"
             "A RUN that an earlier build did on the same files, with the same variables and by\n"
             "the same rules, is not run again: the layer that it made is used (--no-cache).",
    .examples = "brig image build -t team/tool .\n"
                "brig image build -t team/app --allow @pypi --build-arg VERSION=2 .",
    .statuses = "0    built\n"
                "125  a step failed or was refused; nothing of the image is left",
    .options = &build_table,
    .main = build_main,
};
