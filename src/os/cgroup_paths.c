/* /proc/self/cgroup says which group a process is in ("4:memory:/a/b"), relative to the root of its
 * cgroup namespace; mountinfo says which part of the hierarchy (its root field) is mounted where.
 * Only both together give a path in the file system. */
#include "os/cgroup_paths.h"

#include <string.h>

static const char *const controllers[CGROUP_V1_HIERARCHIES] = {"memory", "pids", "cpu", "cpuacct"};

struct slice {
    const char *at;
    size_t len;
};

/* Cuts `*rest` at the next separator; false at the end of the line. */
static bool next_field(const char **rest, char separator, struct slice *ret)
{
    if (!*rest)
        return false;
    const char *end = strchr(*rest, separator);
    ret->at = *rest;
    ret->len = end ? (size_t)(end - *rest) : strlen(*rest);
    *rest = end ? end + 1 : NULL;
    return true;
}

static bool slice_is(struct slice s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static bool list_has(struct slice list, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= list.len; i++) {
        bool starts = i == 0 || list.at[i - 1] == ',';
        bool ends = i + len == list.len || list.at[i + len] == ',';
        if (starts && ends && memcmp(list.at + i, word, len) == 0)
            return true;
    }
    return false;
}

static bool is_octal(const char *s)
{
    return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' && s[2] <= '7';
}

/* The kernel writes blank, tab, newline and backslash in paths as \ooo. */
static bool unescape(struct slice s, char *dst, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        if (c == '\\' && i + 3 < s.len && is_octal(s.at + i + 1)) {
            c = (char)((s.at[i + 1] - '0') * 64 + (s.at[i + 2] - '0') * 8 + (s.at[i + 3] - '0'));
            i += 3;
        }
        if (n + 1 >= size)
            return false;
        dst[n++] = c;
    }
    dst[n] = '\0';
    return true;
}

static void copy_path(struct slice s, char *dst)
{
    if (s.len == 0 || s.len >= CGROUP_PATH_MAX)
        return;
    memcpy(dst, s.at, s.len);
    dst[s.len] = '\0';
}

void cgroup_paths_membership(struct cgroup_paths *paths, const char *line)
{
    const char *rest = line;
    struct slice id, names;
    if (!next_field(&rest, ':', &id) || !next_field(&rest, ':', &names) || !rest)
        return;
    struct slice path = {rest, strcspn(rest, "\n")}; /* may itself hold colons */
    if (slice_is(id, "0") && names.len == 0)
        copy_path(path, paths->place[CGROUP_PATHS_V2].own);
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++)
        if (list_has(names, controllers[i]))
            copy_path(path, paths->place[i].own);
}

/* The part of `own` below the mounted `root`, or NULL when our group is not under this mount. A
 * path with ".." lies outside of our cgroup namespace: what it is called there cannot be known. */
static const char *below(const char *own, const char *root)
{
    if (strstr(own, "/..") || strstr(root, "/.."))
        return NULL;
    if (strcmp(own, "/") == 0)
        own = "";
    size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(own, root, len) != 0 || (own[len] != '/' && own[len] != '\0'))
        return NULL;
    return own + len;
}

static void place_mount(struct cgroup_place *p, const char *root, const char *mount)
{
    if (!p->own[0] || p->dir[0])
        return;
    size_t mount_len = strlen(mount);
    if (!p->mount[0])
        memcpy(p->mount, mount, mount_len + 1);
    const char *rest = below(p->own, root);
    if (!rest || mount_len + strlen(rest) >= sizeof p->dir)
        return;
    memcpy(p->mount, mount, mount_len + 1);
    memcpy(p->dir, mount, mount_len);
    memcpy(p->dir + mount_len, rest, strlen(rest) + 1);
}

void cgroup_paths_mount(struct cgroup_paths *paths, const char *line)
{
    const char *rest = line;
    struct slice f[6], type, source;
    for (int i = 0; i < 6; i++)
        if (!next_field(&rest, ' ', &f[i]))
            return;
    struct slice skip = {"", 0};
    while (!slice_is(skip, "-")) /* optional fields end with a dash */
        if (!next_field(&rest, ' ', &skip))
            return;
    if (!next_field(&rest, ' ', &type) || !next_field(&rest, ' ', &source) || !rest)
        return;
    bool v2 = slice_is(type, "cgroup2");
    if (!v2 && !slice_is(type, "cgroup"))
        return;
    char root[CGROUP_PATH_MAX], mount[CGROUP_PATH_MAX];
    if (!unescape(f[3], root, sizeof root) || !unescape(f[4], mount, sizeof mount))
        return;
    if (v2)
        place_mount(&paths->place[CGROUP_PATHS_V2], root, mount);
    struct slice options = {rest, strcspn(rest, " \n")};
    for (int i = 0; !v2 && i < CGROUP_V1_HIERARCHIES; i++)
        if (list_has(options, controllers[i]))
            place_mount(&paths->place[i], root, mount);
}
