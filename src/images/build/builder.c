/* Builds an image as a Dockerfile says, stage by stage. Each RUN is a run of a sandbox whose root
 * is what was built so far, by the caller's rules; what it changed becomes a layer (IM-14).
 *
 * IM-16  A RUN has the walls, the limits and the network of the caller's options, whatever the file
 *        says. Arguments of a build are variables of its commands and nothing else: no value of one
 * is written to the image unless an instruction does so. */
#include "images/build/build.h"
#include "images/build/mounts.h"

#include "base/cleanup.h"
#include "base/quote.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAGES_MAX  16
#define CACHE_BYTES (4ull << 30)
#define CACHE_STEPS 256

struct stage {
    char *name; /* AS NAME, or NULL */
    struct derived image;
};

struct building {
    const struct build_request *request;
    struct dockerfile file;
    struct stage *stages[STAGES_MAX];
    unsigned count;
    struct words global; /* ARG before the first FROM: NAME=VALUE */
    struct words args;   /* of this stage */
    unsigned archives;   /* unpacked so far */
};

static struct derived *now(struct building *b)
{
    return &b->stages[b->count - 1]->image;
}

/* ---- variables ---- */

static const char *find_in(const struct words *list, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = list->count; i-- > 0;)
        if (strncmp(list->items[i], name, len) == 0 && list->items[i][len] == '=')
            return list->items[i] + len + 1;
    return NULL;
}

static const char *given_argument(const struct building *b, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = b->request->arg_count; i-- > 0;)
        if (strncmp(b->request->args[i], name, len) == 0 && b->request->args[i][len] == '=')
            return b->request->args[i] + len + 1;
    return NULL;
}

static const char *find_variable(void *ctx, const char *name)
{
    struct building *b = ctx;
    const char *value = b->count ? edit_variable(&now(b)->edit, name) : NULL;
    return value ? value : find_in(b->count ? &b->args : &b->global, name);
}

static const char *find_global(void *ctx, const char *name)
{
    return find_in(&((struct building *)ctx)->global, name);
}

static int take_argument(struct building *b, const char *name, const char *value, struct err *err)
{
    struct words *list = b->count ? &b->args : &b->global;
    const char *given = given_argument(b, name);
    if (!given && value[0] == '!')
        given = b->count ? find_in(&b->global, name) : NULL;
    if (given)
        return edit_set(list, name, given, err);
    if (value[0] == '!')
        return 0;
    cleanup_buf struct buf text;
    buf_init(&text, 1u << 20);
    if (docker_expand(value + 1, b->file.escape, find_variable, b, &text, err) < 0)
        return err_number(err);
    return edit_set(list, name, buf_text(&text), err);
}

static int do_arg(struct building *b, const struct instruction *i, struct err *err)
{
    for (size_t n = 0; n + 1 < i->args.count; n += 2)
        if (take_argument(b, i->args.items[n], i->args.items[n + 1], err) < 0)
            return err_number(err);
    return 0;
}

static int expand_words(struct building *b, const struct instruction *i, struct words *ret,
                        struct err *err)
{
    for (size_t n = 0; n < i->args.count; n++) {
        cleanup_buf struct buf text;
        buf_init(&text, 1u << 20);
        if (docker_expand(i->args.items[n], b->file.escape, find_variable, b, &text, err) < 0 ||
            words_add(ret, buf_text(&text), text.len, err) < 0)
            return err_number(err);
    }
    return 0;
}

/* Flags that are no help here are refused by their names (IM-13); some mean nothing here. */
static int check_flags(struct building *b, const struct instruction *i, const char *const *known,
                       const char *const *idle, struct err *err)
{
    struct quoted q;
    for (size_t n = 0; n < i->flags.count; n++) {
        const char *flag = i->flags.items[n] + 2;
        size_t len = strcspn(flag, "=");
        bool good = false;
        for (const char *const *k = known; *k && !good; k++)
            good = strlen(*k) == len && strncmp(*k, flag, len) == 0 && flag[len] == '=';
        for (const char *const *k = idle; *k && !good; k++)
            if ((good = strlen(*k) == len && strncmp(*k, flag, len) == 0) && b->request->note) {
                char text[120];
                snprintf(text, sizeof text, "--%s has no meaning here", *k);
                b->request->note(b->request->ctx, i->line, text);
            }
        if (!good)
            return err_set(err, ERR_USAGE, "%s is not known here", quote(&q, i->flags.items[n]));
    }
    return 0;
}

/* ---- FROM ---- */

static struct stage *find_stage(const struct building *b, const char *name)
{
    for (unsigned n = b->count; n-- > 0;) {
        char number[16];
        snprintf(number, sizeof number, "%u", n);
        if ((b->stages[n]->name && strcasecmp(b->stages[n]->name, name) == 0) ||
            strcmp(number, name) == 0)
            return b->stages[n];
    }
    return NULL;
}

/* What the base's maker wanted to be done now is nothing that the caller has read. */
static int check_base(const struct derived *d, struct err *err)
{
    const struct json *triggers = json_get(json_get(d->base.config.tree, "config"), "OnBuild");
    if (!triggers || json_type(triggers) != JSON_ARRAY || !json_count(triggers))
        return 0;
    err_set(err, ERR_UNSUPPORTED, "the base has instructions of its own (ONBUILD)");
    return err_hint(err, "write them into this file, and use a base without them");
}

/* The base's own files are there already: they go, and come back with the stage's. */
static int copy_stage_files(struct derived *d, const struct derived *from, struct err *err)
{
    if (renameat(d->root.fd, "tree", d->scratch.fd, "base") < 0 ||
        mkdirat(d->root.fd, "tree", 0755) < 0)
        return err_sys(err, "make room for the files of a stage");
    cleanup_fd int files = openat(from->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int to = openat(d->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files < 0 || to < 0)
        return err_sys(err, "open the files of a stage");
    return merge_root(files, to, &d->room, err);
}

/* They were there a moment ago: the other stage holds them. */
static int hold_layers(struct derived *d, const struct derived *from, struct err *err)
{
    for (unsigned i = 0; i < from->added_count; i++) {
        int making;
        const struct layer_name name = {.blob = from->added[i].digest,
                                        .diff_id = from->added[i].digest};
        int r = layers_take(&d->store, &d->held, &name, &making, err);
        if (making >= 0)
            close(making);
        if (r <= 0)
            return r < 0 ? r : err_set(err, ERR_INTERNAL, "a layer of a stage is gone");
    }
    return 0;
}

/* A stage that begins where another one ended. */
static int continue_stage(struct derived *d, const struct derived *from, struct err *err)
{
    if (edit_copy(&d->edit, &from->edit, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < from->step_count; i++)
        if (derive_note(d, from->steps[i].text, from->steps[i].layer, err) < 0)
            return err_number(err);
    memcpy(d->added, from->added, sizeof d->added);
    d->added_count = from->added_count;
    d->sum = from->sum;
    d->room = (struct merge_room){.entries = d->max_entries, .bytes = d->max_bytes};
    if (hold_layers(d, from, err) < 0)
        return err_number(err);
    return copy_stage_files(d, from, err);
}

static int derive_from(struct building *b, struct derived *d, const struct derived *from,
                       struct err *err)
{
    char pinned[REFERENCE_SIZE + DIGEST_SIZE + 2];
    const struct image_name *base = &from->base.name;
    snprintf(pinned, sizeof pinned, "%s@%s", base->name, base->manifest);
    if (derive_begin(d, from->base.root_fd < 0 ? NULL : pinned, b->request->max_bytes,
                     b->request->max_entries, err) < 0)
        return err_number(err);
    return continue_stage(d, from, err);
}

static int begin_stage(struct building *b, const char *base, const char *name, struct err *err)
{
    const struct stage *from = find_stage(b, base);
    const char *reference = strcmp(base, "scratch") == 0 ? NULL : base;
    struct stage *s = calloc(1, sizeof *s);
    if (!s)
        return err_memory(err);
    s->image.store.fd = s->image.base.root_fd = -1;
    b->stages[b->count++] = s;
    if (name && !(s->name = strdup(name)))
        return err_memory(err);
    if (from)
        return derive_from(b, &s->image, &from->image, err);
    if (derive_begin(&s->image, reference, b->request->max_bytes, b->request->max_entries, err) < 0)
        return err_number(err);
    return reference ? check_base(&s->image, err) : 0;
}

static int check_platform(const char *platform, struct err *err)
{
    struct quoted q;
    char ours[32];
    snprintf(ours, sizeof ours, "linux/%s", image_architecture());
    if (!platform || strncmp(platform, ours, strlen(ours)) == 0)
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "--platform=%s: this machine builds images for %s",
                   quote(&q, platform), ours);
}

static int do_from(struct building *b, const struct instruction *i, struct err *err)
{
    static const char *const known[] = {"platform", NULL}, *const none[] = {NULL};
    const struct words *args = &i->args;
    if (check_flags(b, i, known, none, err) < 0 ||
        check_platform(instruction_flag(i, "platform"), err) < 0)
        return err_number(err);
    bool named = args->count == 3 && strcasecmp(args->items[1], "as") == 0;
    if (args->count != 1 && !named)
        return err_set(err, ERR_USAGE, "expected FROM IMAGE or FROM IMAGE AS NAME");
    if (b->count == STAGES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d stages", STAGES_MAX);
    cleanup_buf struct buf base;
    buf_init(&base, 4096);
    if (docker_expand(args->items[0], b->file.escape, find_global, b, &base, err) < 0)
        return err_number(err);
    words_done(&b->args);
    return begin_stage(b, buf_text(&base), named ? args->items[2] : NULL, err);
}

/* ---- RUN ---- */

struct running {
    const struct instruction *i;
    const struct derived *given; /* what it sees */
    struct policy policy;
    struct words argv;
    struct run_mounts mounts;
};

static int run_argv(const struct derived *d, const struct instruction *i, struct words *ret,
                    struct err *err)
{
    const struct words *shell = &d->edit.shell;
    for (size_t n = 0; !i->exec && n < shell->count; n++)
        if (words_add(ret, shell->items[n], strlen(shell->items[n]), err) < 0)
            return err_number(err);
    if (!i->exec && !shell->count &&
        (words_add(ret, "/bin/sh", 7, err) < 0 || words_add(ret, "-c", 2, err) < 0))
        return err_number(err);
    for (size_t n = 0; n < i->args.count; n++)
        if (words_add(ret, i->args.items[n], strlen(i->args.items[n]), err) < 0)
            return err_number(err);
    return ret->count ? 0 : err_set(err, ERR_USAGE, "RUN of nothing");
}

static int add_variables(struct policy *p, const struct words *list, const struct words *over,
                         const struct origin *origin, struct err *err)
{
    char name[256];
    for (size_t i = 0; i < list->count; i++) {
        size_t len = strcspn(list->items[i], "=");
        if (len >= sizeof name)
            return err_set(err, ERR_LIMIT, "a variable with too long a name");
        memcpy(name, list->items[i], len);
        name[len] = '\0';
        if (over && find_in(over, name))
            continue;
        if (policy_env(p, list->items[i], origin, err) < 0)
            return err_number(err);
    }
    return 0;
}

/* A user by its name is looked up in what was built so far. */
static int set_user(struct policy *p, const struct derived *d, const struct origin *origin,
                    struct err *err)
{
    cleanup_free struct image *image = calloc(1, sizeof *image);
    char text[24];
    uint64_t uid;
    if (!image)
        return err_memory(err);
    image->root_fd = d->root.fd;
    image->config.user = d->edit.user;
    if (image_user(image, &uid, err) < 0)
        return err_number(err);
    snprintf(text, sizeof text, "%" PRIu64, uid);
    return policy_set(p, FIELD_UID, text, origin, err);
}

/* Installers need more than a snippet of code does; an option or a policy file says otherwise. They
 * are nobody's choice, so that where the kernel cannot keep one it is watched, as a level's is. */
static int set_limits(struct policy *p, struct err *err)
{
    const struct origin origin = {.kind = ORIGIN_LEVEL, .name = "brig image build"};
    static const struct {
        enum policy_field field;
        const char *value;
    } usual[] = {{FIELD_MEMORY, "2G"},   {FIELD_DISK, "1G"},  {FIELD_INODES, "400k"},
                 {FIELD_TIMEOUT, "15m"}, {FIELD_PIDS, "512"}, {FIELD_OUTPUT, "64M"}};
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (!policy_field_is_chosen(p, usual[i].field) &&
            policy_set(p, usual[i].field, usual[i].value, &origin, err) < 0)
            return err_number(err);
    return 0;
}

static int shape_policy(struct building *b, struct policy *p, struct err *err)
{
    const struct origin origin = {.kind = ORIGIN_OPTION, .name = "brig image build"};
    const struct derived *d = now(b);
    const char *folder = d->edit.folder ? d->edit.folder : "/";
    if (policy_set(p, FIELD_TIER, "container", &origin, err) < 0 ||
        policy_set(p, FIELD_WRITABLE_ROOT, "true", &origin, err) < 0 ||
        policy_set(p, FIELD_ROOT, "host", &origin, err) < 0 ||
        policy_set(p, FIELD_CWD, folder, &origin, err) < 0 || set_limits(p, err) < 0 ||
        set_user(p, d, &origin, err) < 0 ||
        add_variables(p, &b->args, &d->edit.env, &origin, err) < 0 ||
        add_variables(p, &d->edit.env, NULL, &origin, err) < 0)
        return err_number(err);
    return policy_validate(p, err);
}

static int keep_changes(struct derived *d, const struct running *run, const char *key,
                        const struct run_result *result, struct err *err)
{
    struct tar t;
    if (result->exit_status != 0) {
        err_set(err, ERR_REFUSED, "the command ended with status %d%s%s", result->exit_status,
                result->limit_hit ? ", limit: " : "", result->limit_hit ? result->limit_hit : "");
        return result->limit_hit ? err_hint(err, "raise it: --memory, --disk, --timeout, --pids")
                                 : err_number(err);
    }
    if (!result->changes)
        return err_set(err, ERR_SYSTEM, "what the command changed is not available");
    if (derive_open(d, &t, err) < 0)
        return err_number(err);
    uint64_t before = d->sum.left_out;
    int r = changes_write(result->changes, &run->mounts.left_out, &t, d->max_bytes, d->max_entries,
                          &d->sum.left_out, err);
    /* What an image cannot hold is told by each build: such a step is done each time. */
    return derive_put_step(d, &t, r, run->i->text, d->sum.left_out == before ? key : NULL, err);
}

static int run_command(struct building *b, const struct running *run, const char *key,
                       struct err *err)
{
    struct run_result result;
    const struct run_request request = {.policy = &run->policy,
                                        .argv = run->argv.items,
                                        .root = run->given->tree,
                                        .stdin_fd = -1,
                                        .stdout_fd = b->request->out_fd,
                                        .stderr_fd = b->request->out_fd,
                                        .keep_changes = true};
    run_result_init(&result);
    int r = sandbox_run(&request, &result, err);
    if (r >= 0 && b->request->ran)
        b->request->ran(b->request->ctx, &run->policy, &result);
    if (r >= 0 && result.left.code) {
        *err = result.left;
        r = err_number(err);
    }
    if (r >= 0)
        r = keep_changes(now(b), run, key, &result, err);
    run_result_done(&result);
    return r;
}

/* IM-17. 0: it was never done. */
static int run_from_cache(struct building *b, const struct instruction *i, const char *key,
                          struct err *err)
{
    struct step_found found;
    struct derived *d = now(b);
    if (b->request->no_cache || !step_find(&d->store, key, &found))
        return 0;
    if (b->request->note)
        b->request->note(b->request->ctx, i->line,
                         "done by an earlier build, used again (--no-cache does it anew)");
    int r = derive_put_found(d, &found, i->text, err);
    if (found.fd >= 0)
        close(found.fd);
    return r < 0 ? r : 1;
}

static int run_or_reuse(struct building *b, const struct running *run, struct err *err)
{
    char key[STEP_KEY_SIZE];
    if (!step_can_be_kept(&run->policy))
        return run_command(b, run, NULL, err);
    if (step_key(run->given, &run->policy, &run->argv, &run->mounts.left_out, key, err) < 0)
        return err_number(err);
    int r = run_from_cache(b, run->i, key, err);
    return r ? r : run_command(b, run, key, err);
}

static int open_from(void *ctx, const char *from, struct image *image, struct err *err);

/* Its root is a copy of the stage's, with what is mounted laid over it. */
static int run_with_mounts(struct building *b, struct running *run, struct err *err)
{
    const struct build_request *q = b->request;
    const struct mounts_source source = {.context = {.from = q->context,
                                                     .ignore = q->ignore,
                                                     .left_bytes = q->max_bytes,
                                                     .left_entries = q->max_entries,
                                                     .of = "the context"},
                                         .open_from = open_from,
                                         .ctx = b};
    struct derived *d = calloc(1, sizeof *d);
    if (!d)
        return err_memory(err);
    d->store.fd = d->base.root_fd = -1;
    int r = derive_from(b, d, now(b), err);
    if (r >= 0)
        r = mounts_lay(&run->mounts, d, &source, err);
    run->given = d;
    if (r >= 0)
        r = run_or_reuse(b, run, err);
    derive_done(d);
    free(d);
    return r;
}

static int read_mounts(struct building *b, const struct instruction *i, struct run_mounts *ret,
                       struct err *err)
{
    static const char *const known[] = {"mount", NULL}, *const none[] = {NULL};
    const char *folder = now(b)->edit.folder ? now(b)->edit.folder : "/";
    if (check_flags(b, i, known, none, err) < 0)
        return err_number(err);
    for (size_t n = 0; n < i->flags.count; n++) {
        cleanup_buf struct buf text;
        buf_init(&text, 4096);
        if (docker_expand(i->flags.items[n] + strlen("--mount="), b->file.escape, find_variable, b,
                          &text, err) < 0 ||
            mounts_add(ret, buf_text(&text), folder, err) < 0)
            return err_number(err);
    }
    return 0;
}

static int do_run_shaped(struct building *b, struct running *run, struct err *err)
{
    int r = b->request->policy(b->request->ctx, &run->policy, err);
    if (r >= 0)
        r = shape_policy(b, &run->policy, err);
    if (r >= 0)
        r = run->mounts.count ? run_with_mounts(b, run, err) : run_or_reuse(b, run, err);
    policy_done(&run->policy);
    return r;
}

static int do_run(struct building *b, const struct instruction *i, struct err *err)
{
    struct running run = {.i = i, .given = now(b)};
    int r = read_mounts(b, i, &run.mounts, err);
    if (r >= 0)
        r = run_argv(now(b), i, &run.argv, err);
    if (r >= 0)
        r = do_run_shaped(b, &run, err);
    words_done(&run.argv);
    mounts_done(&run.mounts);
    return r;
}

/* ---- COPY, ADD, WORKDIR ---- */

static bool is_archive(int fd)
{
    unsigned char head[512];
    ssize_t n = pread(fd, head, sizeof head, 0);
    return n >= 4 &&
           ((head[0] == 0x1f && head[1] == 0x8b) || memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ||
            (n == sizeof head && memcmp(head + 257, "ustar", 5) == 0));
}

/* An archive is unpacked in the sandbox first; what came of it is copied as a folder would be. 0:
 * it is none. */
static int add_archive(struct building *b, struct copying *c, const char *source, const char *dest,
                       struct err *err)
{
    struct derived *d = now(b);
    struct unpacked got;
    char folder[PATH_MAX];
    cleanup_fd int fd = context_open_file(c, source);
    if (fd < 0 || !is_archive(fd))
        return 0;
    snprintf(folder, sizeof folder, "%.*s/added%u", PATH_MAX - 40, d->scratch.path, b->archives++);
    const char *leaf = strrchr(folder, '/') + 1;
    if (mkdirat(d->scratch.fd, leaf, 0755) < 0)
        return err_sys(err, "make room for an archive");
    if (unpack_run(fd, UNPACK_ARCHIVE, folder, d->empty, c->left_bytes, c->left_entries, &got,
                   err) < 0)
        return err_number(err);
    d->sum.left_out += got.left_out;
    cleanup_fd int files = openat(d->scratch.fd, leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files < 0)
        return err_sys(err, "open what was unpacked");
    struct copying all = *c;
    all.ignore = NULL;
    int r = context_copy_all(&all, files, dest, err);
    c->left_bytes = all.left_bytes;
    c->left_entries = all.left_entries;
    return r < 0 ? r : 1;
}

static int copy_each(struct building *b, const struct instruction *i, struct copying *c,
                     struct words *words, const char *dest, struct err *err)
{
    struct quoted q;
    for (size_t n = 0; i->op == DOCKER_ADD && n < words->count; n++) {
        if (strstr(words->items[n], "://") || strncmp(words->items[n], "git@", 4) == 0) {
            err_set(err, ERR_UNSUPPORTED, "ADD of %s: only files of the context are added",
                    quote(&q, words->items[n]));
            return err_hint(err, "fetch it by a RUN, with --allow for its host");
        }
        int r = add_archive(b, c, words->items[n], dest, err);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        free(words->items[n]);
        memmove(&words->items[n], &words->items[n + 1],
                (words->count - n) * sizeof words->items[0]);
        words->count--;
        n--;
    }
    return words->count ? context_copy(c, words, dest, err) : 0;
}

/* "--from": another stage, or an image that was loaded. */
static int open_from(void *ctx, const char *from, struct image *image, struct err *err)
{
    struct building *b = ctx;
    const struct stage *s = find_stage(b, from);
    if (s == b->stages[b->count - 1])
        return err_set(err, ERR_USAGE, "--from names this stage itself");
    if (!s && image_open(from, image, err) < 0)
        return err_wrap(err, "--from=%s", from);
    int fd = openat(s ? s->image.root.fd : image->root_fd, "tree",
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open the files of %s", from) : fd;
}

static int read_mode(const char *text, long *ret, struct err *err)
{
    *ret = -1;
    if (!text)
        return 0;
    size_t len = strlen(text);
    if (!len || len > 4 || strspn(text, "01234567") != len)
        return err_set(err, ERR_USAGE, "--chmod: expected an octal number such as 755");
    *ret = strtol(text, NULL, 8) & 0777;
    return 0;
}

static int copy_words(struct building *b, const struct instruction *i, struct copying *c,
                      struct words *words, struct err *err)
{
    char dest[PATH_MAX];
    struct tar t;
    struct derived *d = now(b);
    if (words->count < 2)
        return err_set(err, ERR_USAGE, "expected SOURCE… DEST");
    const char *folder = d->edit.folder ? d->edit.folder : "/";
    if (context_place(folder, words->items[words->count - 1], dest, err) < 0)
        return err_number(err);
    free(words->items[--words->count]);
    words->items[words->count] = NULL;
    cleanup_fd int tree = openat(d->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open the files of the image");
    c->tree = tree;
    if (derive_open(d, &t, err) < 0)
        return err_number(err);
    c->tar = &t;
    int r = derive_put(d, &t, copy_each(b, i, c, words, dest, err), i->text, err);
    c->tar = NULL;
    return r;
}

static int do_copy(struct building *b, const struct instruction *i, struct err *err)
{
    static const char *const copy[] = {"from", "chmod", NULL}, *const add[] = {"chmod", NULL};
    static const char *const idle[] = {"chown", "link", NULL};
    const struct build_request *r = b->request;
    const char *from = instruction_flag(i, "from");
    cleanup_image struct image image = IMAGE_INIT;
    struct words words = {.count = 0};
    struct copying c = {.from = r->context,
                        .ignore = r->ignore,
                        .is_image = from != NULL,
                        .left_bytes = r->max_bytes,
                        .left_entries = r->max_entries,
                        .of = from ? "the image" : "the context"};
    if (check_flags(b, i, i->op == DOCKER_COPY ? copy : add, idle, err) < 0 ||
        read_mode(instruction_flag(i, "chmod"), &c.mode, err) < 0)
        return err_number(err);
    cleanup_fd int other = from ? open_from(b, from, &image, err) : -1;
    if (from && other < 0)
        return other;
    if (from) {
        c.from = other;
        c.ignore = NULL;
    }
    int result = expand_words(b, i, &words, err);
    if (result >= 0)
        result = copy_words(b, i, &c, &words, err);
    words_done(&words);
    return result;
}

/* The folder is made, as others do. */
static int make_workdir(struct building *b, const struct instruction *i, struct err *err)
{
    struct derived *d = now(b);
    struct tar t;
    cleanup_fd int tree = openat(d->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open the files of the image");
    if (context_has_folder(tree, d->edit.folder))
        return derive_note(d, i->text, false, err);
    if (derive_open(d, &t, err) < 0)
        return err_number(err);
    return derive_put(d, &t, tar_folder(&t, d->edit.folder + 1, 0755, 0, err), i->text, err);
}

/* ---- steps ---- */

static int do_config(struct building *b, const struct instruction *i, struct err *err)
{
    if (edit_apply(&now(b)->edit, i, b->file.escape, find_variable, b, err) < 0)
        return err_number(err);
    return i->op == DOCKER_WORKDIR ? make_workdir(b, i, err)
                                   : derive_note(now(b), i->text, false, err);
}

static int do_instruction(struct building *b, const struct instruction *i, struct err *err)
{
    if (i->op == DOCKER_FROM)
        return do_from(b, i, err);
    if (i->op == DOCKER_ARG)
        return do_arg(b, i, err);
    if (!b->count)
        return err_set(err, ERR_USAGE, "the first instruction must be FROM");
    switch (i->op) {
    case DOCKER_RUN:
        return do_run(b, i, err);
    case DOCKER_COPY:
    case DOCKER_ADD:
        return do_copy(b, i, err);
    case DOCKER_HEALTHCHECK:
    case DOCKER_MAINTAINER:
        if (b->request->note)
            b->request->note(b->request->ctx, i->line,
                             i->op == DOCKER_HEALTHCHECK ? "HEALTHCHECK has no meaning here"
                                                         : "MAINTAINER has no meaning here");
        return 0;
    default:
        return do_config(b, i, err);
    }
}

/* The stage that is asked for is the last that is built. */
static bool is_target_done(const struct building *b, size_t next)
{
    const char *target = b->request->target;
    return target && b->count && next < b->file.count && b->file.items[next].op == DOCKER_FROM &&
           b->stages[b->count - 1]->name && strcasecmp(b->stages[b->count - 1]->name, target) == 0;
}

static int check_args(const struct building *b, struct err *err)
{
    struct quoted q;
    for (size_t n = 0; n < b->request->arg_count; n++) {
        size_t len = strcspn(b->request->args[n], "=");
        bool known = false;
        for (size_t i = 0; i < b->file.count && !known; i++)
            for (size_t m = 0; b->file.items[i].op == DOCKER_ARG && m < b->file.items[i].args.count;
                 m += 2)
                known = known ||
                        (strlen(b->file.items[i].args.items[m]) == len &&
                         memcmp(b->file.items[i].args.items[m], b->request->args[n], len) == 0);
        if (!known) {
            char name[80];
            snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), b->request->args[n]);
            err_set(err, ERR_USAGE, "--build-arg: no ARG names %s", quote(&q, name));
            return err_hint(err, "write ARG %s into the Dockerfile where it is needed", name);
        }
    }
    return 0;
}

static int do_all(struct building *b, struct err *err)
{
    for (size_t n = 0; n < b->file.count; n++) {
        const struct instruction *i = &b->file.items[n];
        if (is_target_done(b, n))
            return 0;
        if (b->request->step)
            b->request->step(b->request->ctx, (unsigned)n + 1, (unsigned)b->file.count, i->text);
        if (do_instruction(b, i, err) < 0)
            return err_wrap(err, "line %u", i->line);
    }
    if (!b->count)
        return err_set(err, ERR_USAGE, "there is no FROM in it");
    const char *target = b->request->target, *last = b->stages[b->count - 1]->name;
    return target && (!last || strcasecmp(last, target) != 0)
               ? err_set(err, ERR_USAGE, "there is no stage %.60s in it", target)
               : 0;
}

static void building_done(struct building *b)
{
    while (b->count) {
        struct stage *s = b->stages[--b->count];
        derive_done(&s->image);
        free(s->name);
        free(s);
    }
    words_done(&b->global);
    words_done(&b->args);
    dockerfile_done(&b->file);
}

int build_image(const struct build_request *request, struct load_result *ret, struct err *err)
{
    struct reference ref;
    struct building b = {.request = request};
    if (reference_parse(request->name, &ref, err) < 0)
        return err_number(err);
    if (ref.digest[0])
        return err_set(err, ERR_USAGE, "a name for what is built has no @sha256:…");
    if (dockerfile_parse(request->dockerfile, request->dockerfile_len, &b.file, err) < 0)
        return err_number(err);
    int r = check_args(&b, err);
    if (r >= 0)
        r = do_all(&b, err);
    if (r >= 0)
        r = derive_finish(now(&b), ref.name, ret, err);
    if (b.count) {
        uint64_t bytes = 0;
        (void)steps_trim(&now(&b)->store, CACHE_BYTES, CACHE_STEPS, &bytes);
    }
    building_done(&b);
    return r;
}
