/* Which of the places that a program asked for may be put into a policy for a person to read.
 *
 * Stricter than the list of places that never enter (protect.c): that one stops an operator's slip,
 * this one stops a program from writing its own permission. Names decide, since the contents are
 * not looked at. */
#include "base/cleanup.h"
#include "base/text.h"
#include "filesystem/filesystem.h"
#include "filesystem/look.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* As a part of a path, wherever it lies. */
static const char *const secret_names[] = {
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".npmrc",
    ".yarnrc*",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".env",
    ".env.*",
    ".envrc",
    ".htpasswd",
    ".vault-token",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".terraform.d",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    "gcloud",
    "keyrings",
    "google-chrome",
    "chromium",
    "BraveSoftware",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "authorized_keys",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.kdbx",
    "*.keystore",
    "*.gpg",
    "*.asc",
    "*.ovpn",
    "*.tfstate*",
    "kubeconfig*",
    "credentials",
    "credentials.*",
    "credential*.json",
    "secret",
    "secrets",
    "secret.*",
    "secrets.*",
    "*token*.json",
    "*service-account*.json",
    "htpasswd",
    "shadow*",
    "gshadow*",
    "docker.sock",
    "*.sock",
};

/* Too much at once, as a whole. Deeper ones are counted by their parts. */
static const char *const too_wide[] = {
    "/usr/local", "/var/lib", "/var/log",   "/var/cache",      "/var/spool", "/var/mail",
    "/var/www",   "/srv/www", "/opt/local", "/home/linuxbrew", "/mnt/c",     "/data/home",
};

/* Other people's, or the machine's, secrets. */
static const char *const closed[] = {
    "/root",           "/var/lib/systemd",    "/var/lib/postgresql", "/var/lib/mysql",
    "/var/log",        "/var/lib/docker",     "/var/lib/private",    "/var/backups",
    "/var/mail",       "/var/spool",          "/etc/wireguard",      "/etc/openvpn",
    "/etc/kubernetes", "/etc/NetworkManager", "/etc/letsencrypt",    "/etc/krb5.keytab",
    "/etc/ppp",        "/etc/crypttab",       "/lost+found",
};

/* Settings that libraries and tools look for everywhere and do without. */
static const char *const optional[] = {
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/locale.alias",
    "/etc/python*/sitecustomize.py",
    "/etc/ld.so.preload",
    "/etc/ld.so.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/inputrc",
    "/etc/bash.bashrc",
    "/etc/profile",
    "/etc/environment",
    "/etc/gitconfig",
    "/etc/gitattributes",
    "/etc/wgetrc",
    "/etc/machine-id",
    "/etc/timezone",
    "/etc/selinux/*",
    "/etc/apparmor*",
    "/etc/login.defs",
    "/etc/shells",
    "/etc/mailcap",
    "/etc/nscd.conf",
    "/etc/papersize",
    "/etc/npmrc",
    "/etc/curlrc",
    "/etc/magic*",
    "/etc/default/locale",
    "/etc/terminfo*",
    "/etc/perl/sitecustomize.pl",
    "/etc/skel*",
    "/etc/sysctl.conf",
    "/etc/fstab",
    "/etc/mtab",
    "/etc/hostid",
    "/etc/networks",
    "/etc/ethers",
    "/etc/rpc",
    "/etc/initramfs-tools*",
    "/etc/apt*",
};

static bool say(char why[static LOOK_WHY_MAX], const char *text)
{
    snprintf(why, LOOK_WHY_MAX, "%s", text);
    return false;
}

static bool is_optional(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(optional); i++)
        if (fnmatch(optional[i], path, 0) == 0)
            return true;
    return false;
}

static bool is_secret_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(secret_names); i++)
        if (fnmatch(secret_names[i], name, FNM_CASEFOLD) == 0)
            return true;
    return false;
}

static bool has_secret_part(const char *path)
{
    char name[NAME_MAX + 1];
    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        size_t len = strcspn(at, "/");
        if (len && len <= NAME_MAX) {
            memcpy(name, at, len);
            name[len] = '\0';
            if (is_secret_name(name))
                return true;
        }
        at += len;
    }
    return false;
}

/* "/home/x/.cache": what programs keep for themselves in a home, tokens among it. */
static bool is_hidden_in_home(const char *path)
{
    const char *rest = text_begins(path, "/home/") ? strchr(path + 6, '/') : NULL;
    const char *home = getenv("HOME");
    if (!rest && home && home[0] == '/' && home[1] && path_within(path, home))
        rest = path + strlen(home);
    return rest && rest[0] == '/' && rest[1] == '.';
}

/* A folder directly below /home that is not the caller's own. */
static bool is_foreign_home(const char *path)
{
    const char *home = getenv("HOME");
    if (!text_begins(path, "/home/"))
        return false;
    size_t len = 6 + strcspn(path + 6, "/");
    return !home || strlen(home) != len || strncmp(path, home, len) != 0;
}

static unsigned parts_of(const char *path)
{
    unsigned parts = 0;
    for (; *path; path++)
        parts += path[0] == '/' && path[1] && path[1] != '/';
    return parts;
}

static bool is_too_wide(const char *path)
{
    if (parts_of(path) < 2)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(too_wide); i++)
        if (strcmp(path, too_wide[i]) == 0)
            return true;
    return false;
}

bool look_may_propose(const char *path, bool is_dir, char why[static LOOK_WHY_MAX])
{
    struct err err = ERR_INIT;
    for (size_t i = 0; i < ARRAY_LEN(closed); i++)
        if (path_within(path, closed[i]))
            return say(why, "holds what belongs to the machine or to its administrator");
    if (is_foreign_home(path))
        return say(why, "is in the home of another user");
    if (has_secret_part(path))
        return say(why, "its name is one under which credentials are kept");
    if (is_hidden_in_home(path))
        return say(why, "hidden files of a home often hold tokens");
    if (protect_check(path, &err) < 0)
        return say(why, "is among the places that never enter a sandbox, or holds one");
    if (is_optional(path))
        return say(why, "programs look for it everywhere and do without; grant it by hand if not");
    if (is_dir && is_too_wide(path))
        return say(why, "is too wide to be proposed as a whole");
    return true;
}

const char *look_risk(const char *path, bool is_dir, bool writable)
{
    const char *home = getenv("HOME");
    bool at_home = text_begins(path, "/home/") || (home && home[1] && path_within(path, home));
    if (writable)
        return is_dir ? "high: the program may change or remove everything in this folder"
                      : "high: the program may change this file";
    if (path_within(path, "/etc"))
        return "medium: settings of this machine";
    if (is_dir && at_home)
        return "medium: a folder of yours, with everything in it";
    return is_dir ? "low: everything in this folder can be read" : "low: one file can be read";
}
