/* RUN: a run of a sandbox whose root is what was built so far, by the caller's rules; what it
 * changed becomes a layer (IM-14), and is taken from a run before where that was the same.
 *
 * IM-16  A RUN has the walls, the limits and the network of the caller's options, whatever the file
 *        says. Arguments of a build are variables of its commands and nothing else: no value of one
 *        is written to the image unless an instruction does so. */
#include "images/build/builder.h"
#include "images/build/mounts.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
        if (over && builder_find_in(over, name))
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
    const struct derived *d = builder_now(b);
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
        r = keep_changes(builder_now(b), run, key, &result, err);
    run_result_done(&result);
    return r;
}

/* IM-17. 0: it was never done. */
static int run_from_cache(struct building *b, const struct instruction *i, const char *key,
                          struct err *err)
{
    struct step_found found;
    struct derived *d = builder_now(b);
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

/* Its root is a copy of the stage's, with what is mounted laid over it. */
static int run_with_mounts(struct building *b, struct running *run, struct err *err)
{
    const struct build_request *q = b->request;
    const struct mounts_source source = {.context = {.from = q->context,
                                                     .ignore = q->ignore,
                                                     .left_bytes = q->max_bytes,
                                                     .left_entries = q->max_entries,
                                                     .of = "the context"},
                                         .open_from = builder_open_from,
                                         .ctx = b};
    struct derived *d = calloc(1, sizeof *d);
    if (!d)
        return err_memory(err);
    d->store.fd = d->base.root_fd = -1;
    int r = builder_derive(b, d, builder_now(b), err);
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
    const char *folder = builder_now(b)->edit.folder ? builder_now(b)->edit.folder : "/";
    if (builder_check_flags(b, i, known, none, err) < 0)
        return err_number(err);
    for (size_t n = 0; n < i->flags.count; n++) {
        cleanup_buf struct buf text;
        buf_init(&text, 4096);
        if (docker_expand(i->flags.items[n] + strlen("--mount="), b->file.escape, builder_variable,
                          b, &text, err) < 0 ||
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

int builder_run(struct building *b, const struct instruction *i, struct err *err)
{
    struct running run = {.i = i, .given = builder_now(b)};
    int r = read_mounts(b, i, &run.mounts, err);
    if (r >= 0)
        r = run_argv(builder_now(b), i, &run.argv, err);
    if (r >= 0)
        r = do_run_shaped(b, &run, err);
    words_done(&run.argv);
    mounts_done(&run.mounts);
    return r;
}
