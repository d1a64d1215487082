/* Takes from an image's config what a run may take from it.
 *
 * IM-10  A config can fill in what nobody chose: variables, working folder, user id, command. It
 *        widens nothing: no grant, no rule, no limit, no tier can be said in it. */
#include "sandbox/image.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "os/sys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sandbox_image_open(const struct policy *p, struct image *ret, struct err *err)
{
    const char *reference = reference_of_root(p->root);
    *ret = (struct image)IMAGE_INIT;
    return reference ? image_open(reference, ret, err) : 0;
}

static bool has_variable(const struct policy *p, const char *entry, size_t name_len)
{
    for (size_t i = 0; i < p->env_count; i++)
        if (strncmp(p->env[i].name, entry, name_len) == 0 && !p->env[i].name[name_len])
            return true;
    for (size_t i = 0; i < p->egress.secret_count; i++)
        if (strncmp(p->egress.secrets[i].name, entry, name_len) == 0 &&
            !p->egress.secrets[i].name[name_len])
            return true;
    return false;
}

/* A later entry of the same name wins, as in an image. */
static bool comes_again(const struct image_config *c, unsigned at, size_t name_len)
{
    for (unsigned i = at + 1; i < c->env_count; i++)
        if (strncmp(c->env[i], c->env[at], name_len + 1) == 0)
            return true;
    return false;
}

static int apply_env(struct policy *p, const struct image_config *c, const struct origin *origin,
                     struct err *err)
{
    struct quoted q;
    for (unsigned i = 0; i < c->env_count; i++) {
        const char *equals = strchr(c->env[i], '=');
        if (!equals)
            return err_set(err, ERR_REFUSED, "the image's variable %s has no value",
                           quote(&q, c->env[i]));
        size_t len = (size_t)(equals - c->env[i]);
        if (has_variable(p, c->env[i], len) || comes_again(c, i, len))
            continue;
        if (policy_env(p, c->env[i], origin, err) < 0)
            return err_wrap(err, "the image's config");
    }
    return 0;
}

static bool is_folder(const struct image *image, const char *path)
{
    cleanup_fd int tree = openat(image->root_fd, "tree", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd =
        tree < 0 ? -1
                 : sys_openat2(tree, path + strspn(path, "/"), O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                               RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    return fd >= 0 || !path[strspn(path, "/")];
}

/* Places that are brig's own in every sandbox. */
static bool is_ours(const char *path)
{
    static const char *const ours[] = {"/tmp", "/workspace", "/run", "/dev", "/proc"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcmp(path, ours[i]) == 0)
            return true;
    return false;
}

/* A folder that is not there is made by other programs; here the root is read-only. */
static int apply_folder(struct policy *p, const struct image *image, const struct origin *origin,
                        struct err *err)
{
    struct quoted q;
    const char *folder = image->config.folder;
    if (!folder || strcmp(folder, "/") == 0 || policy_field_is_chosen(p, FIELD_CWD) || p->project)
        return 0;
    if (!is_ours(folder) && !is_folder(image, folder)) {
        err_set(err, ERR_REFUSED, "the image's working folder %s is not in it", quote(&q, folder));
        return err_hint(err, "choose another one: --cwd /");
    }
    return policy_set(p, FIELD_CWD, folder, origin, err);
}

static int apply_user(struct policy *p, const struct image *image, const struct origin *origin,
                      struct err *err)
{
    char text[24];
    uint64_t uid;
    if (policy_field_is_chosen(p, FIELD_UID) || p->root_beside)
        return 0;
    if (image_user(image, &uid, err) < 0)
        return err_number(err);
    snprintf(text, sizeof text, "%" PRIu64, uid);
    return policy_set(p, FIELD_UID, text, origin, err);
}

int sandbox_image_apply(struct policy *p, const struct image *image, struct err *err)
{
    struct origin origin = {.kind = ORIGIN_FILE, .line = 1};
    if (image->root_fd < 0)
        return 0;
    snprintf(origin.name, sizeof origin.name, "image");
    if (apply_env(p, &image->config, &origin, err) < 0 ||
        apply_folder(p, image, &origin, err) < 0 || apply_user(p, image, &origin, err) < 0)
        return err_number(err);
    return policy_validate(p, err);
}

static void add_words(char **argv, size_t *count, const char *const *words, unsigned more)
{
    for (unsigned i = 0; i < more; i++)
        argv[(*count)++] = (char *)words[i];
}

char **sandbox_image_argv(const struct image *image, char *const *command)
{
    const struct image_config *c = &image->config;
    size_t given = 0, count = 0;
    while (command[given])
        given++;
    char **argv = calloc(c->entrypoint_count + c->command_count + given + 1, sizeof *argv);
    if (!argv)
        return NULL;
    add_words(argv, &count, c->entrypoint, c->entrypoint_count);
    if (!given)
        add_words(argv, &count, c->command, c->command_count);
    for (size_t i = 0; i < given; i++)
        argv[count++] = command[i];
    return argv;
}
