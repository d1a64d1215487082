/* The shapes of dangerous commands. Each looks at one command line; what needs a script to show is
 * in script.c. A shape is a hint for a person: it misses what is hidden well enough. */
#include "base/cleanup.h"
#include "base/text.h"
#include "policy/commands/internal.h"

#include <string.h>

static const struct {
    const char *name, *text;
} shapes[SHAPE_COUNT] = {
    [SHAPE_NONE] = {"none", ""},
    [SHAPE_UNKNOWN] = {"unknown", "it cannot be told what would be started"},
    [SHAPE_DELETE] = {"recursive-delete", "deletes folders outside of the workspace, or all of it"},
    [SHAPE_HISTORY] = {"history-rewrite", "rewrites or throws away history that others may have"},
    [SHAPE_PIPE_TO_SHELL] = {"pipe-to-shell",
                             "runs what comes from elsewhere without a look at it"},
    [SHAPE_CREDENTIALS] = {"credential-read", "reads keys, passwords or tokens"},
    [SHAPE_PUBLISH] = {"publish", "publishes a package, an image or a release"},
    [SHAPE_DISK] = {"disk", "formats or overwrites a disk"},
    [SHAPE_FORK_BOMB] = {"fork-bomb", "starts itself again and again"},
    [SHAPE_PERMISSIONS] = {"permissions", "changes owners or modes of whole folders outside of the "
                                          "workspace"},
    [SHAPE_PERSISTENCE] = {"persistence", "changes what is run later: logins, schedules, hooks"},
    [SHAPE_POWER] = {"power", "stops the machine, or all of its processes"},
};

const char *command_shape_name(enum command_shape shape)
{
    return shapes[(size_t)shape < SHAPE_COUNT ? shape : SHAPE_UNKNOWN].name;
}

const char *command_shape_text(enum command_shape shape)
{
    return shapes[(size_t)shape < SHAPE_COUNT ? shape : SHAPE_UNKNOWN].text;
}

/* ---- looking at words ---- */

static bool line_has_option(const struct command_line *l, char letter, const char *name)
{
    for (size_t i = 1; i < l->argc; i++) {
        const char *w = l->argv[i];
        if (strcmp(w, "--") == 0)
            return false;
        if (w[0] != '-')
            continue;
        if (w[1] == '-') {
            size_t len = strlen(name ? name : "");
            if (name && strncmp(w + 2, name, len) == 0 && (w[2 + len] == '\0' || w[2 + len] == '='))
                return true;
        } else if (letter && strchr(w + 1, letter)) {
            return true;
        }
    }
    return false;
}

static bool is_option(const struct command_line *l, size_t i)
{
    return l->argv[i][0] == '-' && l->argv[i][1];
}

/* "npm publish": the program, and the first words after it that are no options. */
static bool line_says(const struct command_line *l, const char *words)
{
    size_t i = 0;
    while (*words) {
        size_t len = strcspn(words, " ");
        while (i > 0 && i < l->argc && is_option(l, i))
            i++;
        const char *have = i >= l->argc ? NULL : i == 0 ? command_program(l->argv[0]) : l->argv[i];
        if (!have || strlen(have) != len || strncmp(have, words, len) != 0)
            return false;
        i++;
        words += len;
        words += *words == ' ';
    }
    return true;
}

static bool says_one_of(const struct command_line *l, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (line_says(l, list[i]))
            return true;
    return false;
}

/* Any word that is no option, or stands behind --. */
static bool any_operand(const struct command_line *l,
                        bool (*fn)(const struct command_line *, size_t))
{
    bool only = false;
    for (size_t i = 1; i < l->argc; i++) {
        if (!only && strcmp(l->argv[i], "--") == 0) {
            only = true;
            continue;
        }
        if ((only || !is_option(l, i)) && fn(l, i))
            return true;
    }
    return false;
}

static bool has_operand(const struct command_line *l, size_t i)
{
    (void)l;
    return i > 0;
}

/* ---- delete, owners, modes ---- */

static bool find_acts(const struct command_line *l, size_t *ret_paths)
{
    size_t paths = 1;
    bool acts = false;
    while (paths < l->argc && !strchr("-(!", l->argv[paths][0]))
        paths++;
    for (size_t i = paths; i < l->argc; i++) {
        bool runs = WORD_IS(l->argv[i], "-exec", "-execdir", "-ok", "-okdir") && i + 1 < l->argc;
        acts |= strcmp(l->argv[i], "-delete") == 0 ||
                (runs && WORD_IS(command_program(l->argv[i + 1]), "rm", "shred", "unlink"));
    }
    *ret_paths = paths;
    return acts;
}

static bool find_deletes_outside(const struct command_line *l)
{
    size_t end = 1;
    if (!find_acts(l, &end))
        return false;
    for (size_t i = 1; i < end; i++) {
        /* `find . -name x -delete` picks; it is not the whole folder that goes. */
        bool here = WORD_IS(l->argv[i], ".", "./") && !l->moved;
        if (!here && path_is_outside(l, i))
            return true;
    }
    return false;
}

static bool is_recursive(const struct command_line *l)
{
    return line_has_option(l, 'r', "recursive") || line_has_option(l, 'R', NULL);
}

static bool deletes(const struct command_line *l, const char *program)
{
    if (strcmp(program, "find") == 0)
        return find_deletes_outside(l);
    if (strcmp(program, "rm") != 0 || !is_recursive(l))
        return false;
    if (l->open_ended)
        return true;
    return any_operand(l, path_is_outside) || line_has_option(l, 0, "no-preserve-root");
}

/* The first operand is the mode or the owner. */
static bool changes_owners(const struct command_line *l, const char *program)
{
    bool first = true;
    if (!WORD_IS(program, "chmod", "chown", "chgrp") || !line_has_option(l, 'R', "recursive"))
        return false;
    for (size_t i = 1; i < l->argc; i++) {
        if (is_option(l, i))
            continue;
        if (!first && path_is_outside(l, i) && !WORD_IS(l->argv[i], ".", "./"))
            return true;
        first = false;
    }
    return l->open_ended;
}

/* ---- git ---- */

/* The number of the subcommand, after options of git itself. */
static size_t git_verb(const struct command_line *l)
{
    for (size_t i = 1; i < l->argc; i++) {
        const char *w = l->argv[i];
        if (w[0] != '-')
            return i;
        if (WORD_IS(w, "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"))
            i++;
    }
    return 0;
}

static bool push_forces(const struct command_line *l, size_t verb)
{
    if (line_has_option(l, 0, "dry-run"))
        return false;
    for (size_t i = verb + 1; i < l->argc; i++) {
        const char *w = l->argv[i];
        bool cluster = w[0] == '-' && w[1] && w[1] != '-' && strpbrk(w + 1, "fd");
        if (cluster || text_begins(w, "--force") || WORD_IS(w, "--mirror", "--delete", "--prune"))
            return true;
        if ((w[0] == '+' || w[0] == ':') && w[1])
            return true;
    }
    return false;
}

static bool resets_away(const struct command_line *l, size_t verb)
{
    if (!line_has_option(l, 0, "hard"))
        return false;
    for (size_t i = verb + 1; i < l->argc; i++)
        if (l->argv[i][0] != '-' && !WORD_IS(l->argv[i], "HEAD", "@"))
            return true;
    return false;
}

static bool rewrites_history(const struct command_line *l, const char *program)
{
    size_t verb = strcmp(program, "git") == 0 ? git_verb(l) : 0;
    if (verb == 0)
        return WORD_IS(program, "git-filter-repo", "bfg");
    const char *w = l->argv[verb];
    if (strcmp(w, "push") == 0)
        return push_forces(l, verb);
    if (strcmp(w, "reset") == 0)
        return resets_away(l, verb);
    if (strcmp(w, "rebase") == 0)
        return !line_has_option(l, 0, "abort") && !line_has_option(l, 0, "quit") &&
               !line_has_option(l, 0, "show-current-patch");
    if (strcmp(w, "reflog") == 0)
        return verb + 1 < l->argc && WORD_IS(l->argv[verb + 1], "expire", "delete");
    if (strcmp(w, "branch") == 0)
        return line_has_option(l, 'D', NULL);
    if (strcmp(w, "update-ref") == 0)
        return line_has_option(l, 'd', NULL);
    return WORD_IS(w, "filter-branch", "filter-repo", "replace");
}

/* ---- keys ---- */

/* --file=PATH, @PATH, if=PATH, HOST:PATH */
static const char *path_in(const char *word)
{
    size_t skip = strcspn(word, "=@:");
    return word[skip] && word[skip + 1] ? word + skip + 1 : word;
}

static bool reads_credential(const struct command_line *l, size_t i)
{
    const char *program = command_program(l->argv[0]);
    bool last = i + 1 == l->argc;
    if (last && i > 1 && WORD_IS(program, "cp", "mv", "ln", "install", "rsync", "scp"))
        return false;
    return path_is_credential(l->argv[i]) || path_is_credential(path_in(l->argv[i]));
}

static bool names_metadata(const struct command_line *l, size_t i)
{
    return strstr(l->argv[i], "169.254.169.254") ||
           strstr(l->argv[i], "metadata.google.internal") || strstr(l->argv[i], "[fd00:ec2::254]");
}

static bool reads_credentials(const struct command_line *l, const char *program)
{
    static const char *const tellers[] = {"gh auth token",
                                          "gcloud auth print-access-token",
                                          "gcloud auth print-identity-token",
                                          "az account get-access-token",
                                          "aws configure get",
                                          "aws sts get-session-token",
                                          "aws secretsmanager get-secret-value",
                                          "pass show",
                                          "op read",
                                          "op item get",
                                          "vault read",
                                          "vault kv get",
                                          "vault print token",
                                          "kubectl get secret",
                                          "kubectl get secrets",
                                          "git credential fill",
                                          "secret-tool lookup",
                                          "security find-generic-password",
                                          "npm token",
                                          "bw get",
                                          "gpg --export-secret-keys",
                                          "aws ssm get-parameter"};
    if (says_one_of(l, tellers, ARRAY_LEN(tellers)) ||
        (strcmp(program, "gpg") == 0 && line_has_option(l, 0, "export-secret-keys")))
        return true;
    if (any_operand(l, names_metadata))
        return true;
    if (WORD_IS(program, "ls", "mkdir", "rmdir", "chmod", "chown", "stat", "test", "[", "touch",
                "echo", "printf", "cd", "rm", "pushd", "git"))
        return false;
    for (size_t i = 1; i < l->argc; i++)
        if (reads_credential(l, i))
            return true;
    return false;
}

/* ---- the rest ---- */

static bool publishes(const struct command_line *l, const char *program)
{
    static const char *const list[] = {"npm publish",      "npm unpublish",
                                       "npm deprecate",    "pnpm publish",
                                       "yarn publish",     "yarn npm publish",
                                       "bun publish",      "lerna publish",
                                       "twine upload",     "poetry publish",
                                       "flit publish",     "hatch publish",
                                       "uv publish",       "pdm publish",
                                       "cargo publish",    "cargo yank",
                                       "gem push",         "gem yank",
                                       "docker push",      "podman push",
                                       "buildah push",     "skopeo copy",
                                       "helm push",        "mvn deploy",
                                       "gradle publish",   "dotnet nuget push",
                                       "nuget push",       "gh release create",
                                       "vsce publish",     "ovsx publish",
                                       "pod trunk push",   "jsr publish",
                                       "deno publish",     "goreleaser release",
                                       "npx npm publish",  "mix hex.publish",
                                       "dart pub publish", "flutter pub publish",
                                       "clojars push"};
    if (line_has_option(l, 0, "dry-run") || line_has_option(l, 0, "help"))
        return false;
    if (says_one_of(l, list, ARRAY_LEN(list)))
        return true;
    if (text_begins(program, "python") && l->argc > 3 && strcmp(l->argv[1], "-m") == 0)
        return strcmp(l->argv[2], "twine") == 0 && strcmp(l->argv[3], "upload") == 0;
    return text_begins(program, "python") && l->argc > 2 &&
           strcmp(command_program(l->argv[1]), "setup.py") == 0 && WORD_IS(l->argv[2], "upload");
}

static bool names_disk(const struct command_line *l, size_t i)
{
    return path_is_disk(l->argv[i]) || (l->dynamic && l->dynamic[i]);
}

static bool only_lists(const struct command_line *l)
{
    return line_has_option(l, 'l', "list") || line_has_option(l, 'n', "no-act") ||
           line_has_option(l, 0, "help") || line_has_option(l, 0, "version");
}

static bool hurts_disk(const struct command_line *l, const char *program)
{
    if (text_begins(program, "mkfs") ||
        WORD_IS(program, "mke2fs", "mkswap", "wipefs", "blkdiscard", "fdisk", "sfdisk", "cfdisk",
                "gdisk", "sgdisk", "parted", "badblocks"))
        return !only_lists(l) && any_operand(l, names_disk);
    if (WORD_IS(program, "dd", "shred", "tee", "cp", "mv", "truncate"))
        for (size_t i = 1; i < l->argc; i++)
            if (path_is_disk(text_begins(l->argv[i], "of=") ? l->argv[i] + 3 : l->argv[i]) &&
                (strcmp(program, "cp") != 0 || i + 1 == l->argc))
                return true;
    if (strcmp(program, "cryptsetup") == 0)
        return l->argc > 1 && WORD_IS(l->argv[1], "luksFormat", "erase", "luksErase", "reencrypt");
    if (WORD_IS(program, "zpool", "zfs"))
        return l->argc > 1 && WORD_IS(l->argv[1], "destroy", "labelclear");
    return WORD_IS(program, "lvremove", "vgremove", "pvremove", "hdparm") && !only_lists(l) &&
           any_operand(l, has_operand);
}

static bool names_startup(const struct command_line *l, size_t i)
{
    return path_is_startup(l->argv[i]);
}

static bool persists(const struct command_line *l, const char *program)
{
    if (strcmp(program, "crontab") == 0)
        return !line_has_option(l, 'l', NULL);
    if (strcmp(program, "systemctl") == 0)
        return line_says(l, "systemctl enable") || line_says(l, "systemctl link");
    if (WORD_IS(program, "cp", "mv", "ln", "install") && l->argc > 2)
        return path_is_startup(l->argv[l->argc - 1]);
    return WORD_IS(program, "tee", "ssh-copy-id", "at") && any_operand(l, names_startup);
}

static bool stops_all(const struct command_line *l, const char *program)
{
    if (WORD_IS(program, "shutdown", "reboot", "halt", "poweroff"))
        return !line_has_option(l, 'c', NULL) && !line_has_option(l, 0, "help");
    if (WORD_IS(program, "init", "telinit"))
        return l->argc > 1 && WORD_IS(l->argv[1], "0", "6");
    if (line_says(l, "systemctl poweroff") || line_says(l, "systemctl reboot") ||
        line_says(l, "systemctl halt"))
        return true;
    for (size_t i = 2; strcmp(program, "kill") == 0 && i < l->argc; i++)
        if (strcmp(l->argv[i], "-1") == 0)
            return true;
    return false;
}

/* Interpreters with a one-liner that everybody knows. */
static bool is_bomb(const struct command_line *l, const char *program)
{
    if (!WORD_IS(program, "perl", "ruby"))
        return false;
    for (size_t i = 1; i < l->argc; i++)
        if (strstr(l->argv[i], "fork while") || strstr(l->argv[i], "loop{fork") ||
            strstr(l->argv[i], "loop { fork"))
            return true;
    return false;
}

enum command_shape command_shape_of(const struct command_line *l)
{
    static const struct {
        enum command_shape shape;
        bool (*fits)(const struct command_line *l, const char *program);
    } table[] = {
        {SHAPE_DELETE, deletes},           {SHAPE_DISK, hurts_disk},
        {SHAPE_HISTORY, rewrites_history}, {SHAPE_CREDENTIALS, reads_credentials},
        {SHAPE_PUBLISH, publishes},        {SHAPE_PERMISSIONS, changes_owners},
        {SHAPE_PERSISTENCE, persists},     {SHAPE_POWER, stops_all},
        {SHAPE_FORK_BOMB, is_bomb},
    };
    if (l->argc == 0)
        return SHAPE_NONE;
    if ((l->dynamic && l->dynamic[0]) || (l->glob && l->glob[0]))
        return SHAPE_UNKNOWN;
    const char *program = command_program(l->argv[0]);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].fits(l, program))
            return table[i].shape;
    return SHAPE_NONE;
}
