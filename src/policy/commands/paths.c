/* Paths in command lines: where they lead, as far as can be told from the text. */
#include "base/cleanup.h"
#include "base/text.h"
#include "policy/commands/internal.h"

#include <string.h>

static bool ends(const char *text, const char *with)
{
    size_t a = strlen(text), b = strlen(with);
    return a >= b && strcmp(text + a - b, with) == 0;
}

static bool within_any(const char *path, const char *const *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (path_within(path, places[i]))
            return true;
    return false;
}

/* ---- outside of the workspace ---- */

enum place {
    PLACE_INSIDE,
    PLACE_ROOT, /* the whole of it */
    PLACE_OUTSIDE,
};

/* Walks the parts of a relative path: does it ever climb above where it began? */
static enum place relative_place(const char *path)
{
    int depth = 0;
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len == 2 && path[0] == '.' && path[1] == '.')
            depth--;
        else if (len > 0 && !(len == 1 && path[0] == '.'))
            depth++;
        if (depth < 0)
            return PLACE_OUTSIDE;
        path += len;
        path += strspn(path, "/");
    }
    return depth > 0 ? PLACE_INSIDE : PLACE_ROOT;
}

static enum place absolute_place(const struct command_place *at, const char *path)
{
    enum place best = PLACE_OUTSIDE;
    for (size_t i = 0; at && i < at->root_count; i++) {
        const char *root = at->roots[i];
        if (!path_within(path, root))
            continue;
        const char *rest = path + strlen(root);
        enum place here = relative_place(rest + strspn(rest, "/"));
        best = here < best ? here : best;
    }
    return best;
}

/* What $PWD and $TMPDIR stand for is known; nothing else is. */
static const char *known_variable(const char *path, bool *ret_temporary)
{
    static const char *const here[] = {"$PWD", "${PWD}"};
    static const char *const temporary[] = {"$TMPDIR", "${TMPDIR}"};
    *ret_temporary = false;
    for (size_t i = 0; i < 2; i++) {
        if (path_within(path, here[i]))
            return path + strlen(here[i]);
        if (path_within(path, temporary[i])) {
            *ret_temporary = true;
            return path + strlen(temporary[i]);
        }
    }
    return NULL;
}

static bool is_everything(const char *path)
{
    while (text_begins(path, "./"))
        path += 2;
    return strcmp(path, "*") == 0 || strcmp(path, ".*") == 0 || strcmp(path, "**") == 0;
}

/* A cwd that is known and no root makes relative paths outside ones. */
static bool starts_outside(const struct command_line *l)
{
    if (l->moved)
        return true;
    return l->at && l->at->cwd && absolute_place(l->at, l->at->cwd) == PLACE_OUTSIDE;
}

static bool text_is_outside(const struct command_line *l, const char *path, bool dynamic, bool glob)
{
    bool temporary = false;
    const char *rest = dynamic ? known_variable(path, &temporary) : NULL;
    if (dynamic && (!rest || strpbrk(rest, "$`")))
        return true;
    if (rest)
        path = rest + strspn(rest, "/");
    else if (path[0] == '~')
        return true;
    else if (path[0] == '/')
        return absolute_place(l->at, path) != PLACE_INSIDE;
    enum place place = relative_place(path);
    if (place == PLACE_OUTSIDE || (!temporary && starts_outside(l)))
        return true;
    bool whole = place == PLACE_ROOT || (glob && is_everything(path));
    return whole && !l->deeper;
}

bool path_is_outside(const struct command_line *l, size_t word)
{
    return text_is_outside(l, l->argv[word], l->dynamic && l->dynamic[word],
                           l->glob && l->glob[word]);
}

/* ---- places that mean something ---- */

/* Past "~/", "$HOME/", "/home/NAME/", "/root/"; NULL where the path does not begin with a home. */
static const char *below_home(const char *path)
{
    static const char *const homes[] = {"~/", "$HOME/", "${HOME}/", "/root/"};
    for (size_t i = 0; i < 4; i++)
        if (text_begins(path, homes[i]))
            return path + strlen(homes[i]);
    const char *name = text_begins(path, "/home/")    ? path + 6
                       : text_begins(path, "/Users/") ? path + 7
                       : path[0] == '~'               ? path + 1
                                                      : NULL;
    const char *slash = name ? strchr(name, '/') : NULL;
    return slash ? slash + 1 : NULL;
}

static bool is_public_part(const char *path)
{
    return ends(path, ".pub") || ends(path, "/known_hosts") || ends(path, "/ssh/config") ||
           ends(path, "/.ssh/config");
}

bool path_is_credential(const char *path)
{
    static const char *const in_home[] = {".ssh",
                                          ".aws",
                                          ".azure",
                                          ".config/gcloud",
                                          ".config/gh",
                                          ".kube",
                                          ".docker",
                                          ".gnupg",
                                          ".netrc",
                                          ".npmrc",
                                          ".pypirc",
                                          ".git-credentials",
                                          ".vault-token",
                                          ".password-store",
                                          ".config/op",
                                          ".local/share/keyrings",
                                          ".mozilla",
                                          ".config/google-chrome",
                                          ".config/chromium",
                                          ".cargo/credentials",
                                          ".cargo/credentials.toml",
                                          ".bash_history",
                                          ".zsh_history",
                                          ".config/rclone",
                                          ".terraform.d",
                                          ".m2/settings.xml"};
    static const char *const anywhere[] = {"/etc/shadow", "/etc/gshadow", "/etc/ssl/private",
                                           "/run/secrets", "/var/run/secrets"};
    static const char *const names[] = {"id_rsa",           "id_ed25519",      "id_ecdsa", "id_dsa",
                                        ".git-credentials", ".netrc",          ".pgpass",  ".env",
                                        ".vault-token",     "credentials.json"};
    const char *rest = below_home(path);
    if (is_public_part(path))
        return false;
    if ((rest && within_any(rest, in_home, ARRAY_LEN(in_home))) ||
        within_any(path, anywhere, ARRAY_LEN(anywhere)))
        return true;
    if (text_begins(path, "/etc/ssh/") && strstr(path, "_key"))
        return true;
    if (text_begins(path, "/proc/") && ends(path, "/environ"))
        return true;
    return word_is(command_program(path), names, sizeof names / sizeof *names);
}

bool path_is_disk(const char *path)
{
    static const char *const kinds[] = {"sd",  "hd", "vd",   "xvd",   "nvme", "mmcblk", "mapper/",
                                        "dm-", "md", "loop", "disk/", "mem",  "kmem",   "port"};
    if (!text_begins(path, "/dev/"))
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (text_begins(path + 5, kinds[i]))
            return true;
    return false;
}

/* Files that somebody else's shell or program runs later. */
bool path_is_startup(const char *path)
{
    static const char *const in_home[] = {
        ".bashrc",     ".bash_profile",     ".profile",        ".zshrc",
        ".zprofile",   ".zshenv",           ".bash_logout",    ".ssh/authorized_keys",
        ".ssh/rc",     ".config/autostart", ".config/systemd", ".gitconfig",
        ".config/git", ".config/fish"};
    static const char *const anywhere[] = {"/etc/profile",       "/etc/profile.d",  "/etc/crontab",
                                           "/etc/cron.d",        "/var/spool/cron", "/etc/systemd",
                                           "/etc/ld.so.preload", "/etc/rc.local",   "/etc/sudoers",
                                           "/etc/sudoers.d",     "/etc/passwd"};
    const char *rest = below_home(path);
    if ((rest && within_any(rest, in_home, ARRAY_LEN(in_home))) ||
        within_any(path, anywhere, ARRAY_LEN(anywhere)))
        return true;
    return strstr(path, ".git/hooks/") != NULL || ends(path, "/authorized_keys");
}
