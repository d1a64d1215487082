/* What an installer of packages finds in a writable root: in a view of the host, the database of
 * what is installed there and the distribution's archive; in every root, what lets apt be root with
 * one id. */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"
#include "os/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Nothing of /etc/apt is shown: addresses in it may hold tokens. */
#define DATABASE "/var/lib/dpkg"
#define CONF_DIR "/etc/apt/apt.conf.d"

/* The value of NAME= in /etc/os-release, which is a shell's: letters, digits and dots, or nothing.
 */
static void release_word(const char *text, const char *name, char *out, size_t size)
{
    size_t len = strlen(name), n = 0;
    out[0] = '\0';
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, name, len) != 0 || at[len] != '=')
            continue;
        for (at += len + 1; *at == '"' || *at == '\''; at++)
            ;
        n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789.");
        snprintf(out, size, "%.*s", (int)n, at);
        return;
    }
}

/* The distribution's own archive, and the keys that lie in its /usr: what is fetched is signed. */
static const struct archive {
    const char *id;
    const char *keys;
    const char *sources[3][2]; /* address, end of the suite's name */
    const char *parts;
} archives[] = {
    {"debian",
     "/usr/share/keyrings/debian-archive-keyring.gpg",
     {{"deb.debian.org/debian", ""},
      {"deb.debian.org/debian", "-updates"},
      {"security.debian.org/debian-security", "-security"}},
     "main"},
#if defined(__x86_64__)
    {"ubuntu",
     "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
     {{"archive.ubuntu.com/ubuntu", ""},
      {"archive.ubuntu.com/ubuntu", "-updates"},
      {"security.ubuntu.com/ubuntu", "-security"}},
     "main universe"},
#else
    {"ubuntu",
     "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
     {{"ports.ubuntu.com/ubuntu-ports", ""},
      {"ports.ubuntu.com/ubuntu-ports", "-updates"},
      {"ports.ubuntu.com/ubuntu-ports", "-security"}},
     "main universe"},
#endif
};

static void name_archive(const struct archive *a, const char *suite, char *out, size_t size)
{
    for (size_t i = 0, used = 0; i < ARRAY_LEN(a->sources) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "deb [signed-by=%s] http://%s %s%s %s\n",
                                 a->keys, a->sources[i][0], suite, a->sources[i][1], a->parts);
}

static void probe_archive(struct filesystem_host *host)
{
    char text[4096], id[32], suite[32];
    host->archive[0] = '\0';
    if (file_read(AT_FDCWD, "/etc/os-release", text, sizeof text) <= 0)
        return;
    release_word(text, "ID", id, sizeof id);
    release_word(text, "VERSION_CODENAME", suite, sizeof suite);
    for (size_t i = 0; suite[0] && i < ARRAY_LEN(archives); i++)
        if (strcmp(archives[i].id, id) == 0)
            name_archive(&archives[i], suite, host->archive, sizeof host->archive);
}

/* For root inside alone: what the host has installed is nobody else's business. */
void filesystem_probe_packages(struct filesystem_host *ret)
{
    view_probe(ret, DATABASE);
    probe_archive(ret);
}

/* ---- the plan ---- */

static void folder(struct plan *plan, const char *path)
{
    plan_str(plan, OP_DIR, path, NULL, 0755);
}

static void text_file(struct plan *plan, const char *path, const char *text)
{
    plan_add(plan, &(struct op){.kind = OP_FILE,
                                .a = path,
                                .num = {0644, true},
                                .data = text,
                                .data_len = strlen(text)});
}

/* apt would become another user to fetch, and there is none. */
static void configure(struct plan *plan)
{
    text_file(plan, CONF_DIR "/00brig", "APT::Sandbox::User \"root\";\n");
}

static bool has_database(const struct filesystem *fs)
{
    for (unsigned i = 0; i < fs->host.view_count; i++)
        if (strcmp(fs->host.view[i].path, DATABASE) == 0)
            return fs->host.view[i].is_dir;
    return false;
}

/* dpkg makes hard links of the first, and a file of the host's cannot have one; it opens the others
 * to lock them, and they are nobody else's to open. Whom statoverride names is not there. */
static void own_database(struct plan *plan)
{
    static const char *const copied[] = {DATABASE "/status", DATABASE "/diversions"};
    static const char *const emptied[] = {DATABASE "/lock", DATABASE "/lock-frontend",
                                          DATABASE "/triggers/Lock", DATABASE "/statoverride"};
    folder(plan, DATABASE "/triggers");
    for (size_t i = 0; i < ARRAY_LEN(copied); i++)
        plan_add(plan, &(struct op){
                           .kind = OP_COPY, .a = copied[i], .b = copied[i], .num = {0644, true}});
    for (size_t i = 0; i < ARRAY_LEN(emptied); i++)
        text_file(plan, emptied[i], "");
}

static void host_packages(const struct filesystem *fs, struct plan *plan)
{
    static const char *const folders[] = {
        "/etc/apt",           CONF_DIR,         "/etc/apt/preferences.d",
        "/var/cache",         "/var/cache/apt", "/var/cache/apt/archives",
        "/var/cache/debconf", "/var/lib/apt",   "/var/lib/apt/lists",
        "/var/log",           "/var/log/apt"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        folder(plan, folders[i]);
    own_database(plan);
    configure(plan);
    if (fs->host.archive[0])
        text_file(plan, "/etc/apt/sources.list", fs->host.archive);
}

void packages_plan(const struct filesystem *fs, struct plan *plan)
{
    bool host = fs->root_fd < 0;
    if (!filesystem_has_root(fs)) /* who can install nothing */
        return;
    if (host && has_database(fs))
        host_packages(fs, plan);
    else if (!host && image_has_folder(fs, CONF_DIR))
        configure(plan);
}
