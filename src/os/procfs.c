/* Readers of /proc/PID: status, namespaces, mounts, descriptors, limits, identity maps. */
#include "os/procfs.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* 65536 groups of up to ten digits, and the rest. */
#define STATUS_MAX (1u << 20)

static const char *field(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (*line == *name && strncmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1;
    }
    return NULL;
}

static int four_ids(const char *text, const char *name, uint32_t ret[4])
{
    const char *at = field(text, name);
    if (!at)
        return -ENODATA;
    for (int i = 0; i < 4; i++) {
        char *end;
        ret[i] = (uint32_t)strtoul(at, &end, 10);
        if (end == at)
            return -ENODATA;
        at = end;
    }
    return 0;
}

static int number(const char *text, const char *name, int base, uint64_t *ret)
{
    const char *at = field(text, name);
    if (!at)
        return -ENODATA;
    char *end;
    *ret = strtoull(at, &end, base);
    return end == at ? -ENODATA : 0;
}

static unsigned count_words(const char *at)
{
    unsigned count = 0;
    while (at && *at && *at != '\n') {
        while (*at == ' ' || *at == '\t')
            at++;
        if (*at && *at != '\n')
            count++;
        while (*at && *at != ' ' && *at != '\t' && *at != '\n')
            at++;
    }
    return count;
}

/* The capabilities stand together, two thirds down a long list: looked for from the first of them
 * on. */
static int capabilities(const char *text, struct proc_status *ret)
{
    const char *from = field(text, "CapInh");
    if (!from)
        return -ENODATA;
    from -= strlen("CapInh:");
    if (number(from, "CapInh", 16, &ret->cap_inh) < 0 ||
        number(from, "CapPrm", 16, &ret->cap_prm) < 0 ||
        number(from, "CapEff", 16, &ret->cap_eff) < 0 ||
        number(from, "CapBnd", 16, &ret->cap_bnd) < 0 ||
        number(from, "CapAmb", 16, &ret->cap_amb) < 0)
        return -ENODATA;
    return 0;
}

int procfs_status_parse(const char *text, struct proc_status *ret)
{
    uint64_t ppid, threads, nnp, seccomp, filters;
    if (four_ids(text, "Uid", ret->uid) < 0 || four_ids(text, "Gid", ret->gid) < 0 ||
        capabilities(text, ret) < 0 || number(text, "PPid", 10, &ppid) < 0 ||
        number(text, "Threads", 10, &threads) < 0 || number(text, "NoNewPrivs", 10, &nnp) < 0 ||
        number(text, "Seccomp", 10, &seccomp) < 0)
        return -ENODATA;
    ret->group_count = count_words(field(text, "Groups"));
    ret->ppid = (pid_t)ppid;
    ret->threads = (int)threads;
    ret->no_new_privs = (int)nnp;
    ret->seccomp = (int)seccomp;
    ret->seccomp_filters = number(text, "Seccomp_filters", 10, &filters) < 0 ? -1 : (int)filters;
    return 0;
}

pid_t procfs_child(pid_t pid)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    return (pid_t)strtol(text, NULL, 10);
}

const char *procfs_status_text(int dir, const char *path, char few[static PROC_STATUS_SIZE],
                               char **ret_many)
{
    const char *text = few;
    *ret_many = NULL;
    ssize_t n = file_read(dir, path, few, PROC_STATUS_SIZE);
    if (n == PROC_STATUS_SIZE - 1) { /* a user of hundreds of groups, which are all listed */
        text = *ret_many = malloc(STATUS_MAX);
        n = text ? file_read(dir, path, *ret_many, STATUS_MAX) : -ENOMEM;
    }
    if (n < 0)
        errno = (int)-n;
    return n < 0 ? NULL : text;
}

int procfs_status(pid_t pid, struct proc_status *ret, struct err *err)
{
    char path[64], few[PROC_STATUS_SIZE];
    cleanup_free char *many = NULL;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    const char *text = procfs_status_text(AT_FDCWD, path, few, &many);
    int r = text ? procfs_status_parse(text, ret) : -errno;
    errno = -r;
    return r < 0 ? err_sys(err, "read %s", path) : 0;
}

#define FLAG_EXITING 0x4u /* PF_EXITING of the kernel, shown since there is a /proc */

/* "PID (NAME) STATE PPID PGRP …": nothing after the name has a parenthesis in it. */
bool procfs_stat_parse(const char *text, struct proc_stat *ret)
{
    uint64_t fields[23] = {0};
    const char *name = strchr(text, '('), *at = strrchr(text, ')');
    if (!name || !at || name > at || strlen(at) < 4 || at[1] != ' ' || at[3] != ' ')
        return false;
    *ret = (struct proc_stat){.ready = at[2] == 'R', .ended = at[2] == 'Z' || at[2] == 'X'};
    size_t len = (size_t)(at - name - 1);
    memcpy(ret->name, name + 1, len < sizeof ret->name ? len : sizeof ret->name - 1);
    at += 4;
    for (int i = 4; i <= 22; i++) {
        char *end;
        fields[i] = strtoull(at, &end, 10);
        at = end;
    }
    ret->ppid = (pid_t)(fields[4] & INT32_MAX);
    ret->pgrp = (pid_t)(fields[5] & INT32_MAX);
    ret->own = fields[14] + fields[15];
    ret->reaped = fields[16] + fields[17];
    ret->tasks = fields[20];
    ret->start = fields[22];
    ret->ending = fields[9] & FLAG_EXITING;
    return true;
}

bool procfs_stat(pid_t pid, struct proc_stat *ret)
{
    char path[32], text[768];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return file_read(AT_FDCWD, path, text, sizeof text) > 0 && procfs_stat_parse(text, ret);
}

const char *proc_ns_name(enum proc_ns ns)
{
    static const char *const names[NS_COUNT] = {"user", "mnt", "pid",   "net",
                                                "ipc",  "uts", "cgroup"};
    return names[ns];
}

/* "net:[4026531840]": the link's text costs half of what a stat through the link does. */
static int namespace_id(const char *path, uint64_t *ret)
{
    char text[64], *end;
    ssize_t n = readlink(path, text, sizeof text - 1);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    const char *number = strchr(text, '[');
    *ret = number ? strtoull(number + 1, &end, 10) : 0;
    return *ret && *end == ']' ? 0 : -ENODATA;
}

int procfs_namespaces(pid_t pid, uint64_t ret[NS_COUNT], struct err *err)
{
    for (int ns = 0; ns < NS_COUNT; ns++) {
        char path[64];
        if (pid)
            snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, proc_ns_name(ns));
        else
            snprintf(path, sizeof path, "/proc/self/ns/%s", proc_ns_name(ns));
        int result = namespace_id(path, &ret[ns]);
        if (result < 0) {
            errno = -result;
            return err_sys(err, "read %s", path);
        }
    }
    return 0;
}

/* Octal escapes in place: mountinfo writes blanks and backslashes so. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
            s[3] >= '0' && s[3] <= '7') {
            *to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

static bool has_option(const char *options, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = options; at; at = strchr(at, ',')) {
        if (*at == ',')
            at++;
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

/* "98:0" */
static dev_t device_named(const char *text)
{
    char *end;
    unsigned long major = strtoul(text, &end, 10);
    return makedev((unsigned)major, *end == ':' ? (unsigned)strtoul(end + 1, NULL, 10) : 0);
}

/* "36 35 98:0 /root /dest rw,nosuid shared:1 - ext4 /dev/x rw" */
int procfs_mount_line(char *line, struct proc_mount *ret)
{
    char *save = NULL, *word[6];
    for (int i = 0; i < 6; i++)
        if (!(word[i] = strtok_r(i ? NULL : line, " ", &save)))
            return -EINVAL;
    *ret = (struct proc_mount){0};
    ret->dev = device_named(word[2]);
    unescape(word[4]);
    if (strlen(word[4]) >= sizeof ret->dest)
        return -ENAMETOOLONG;
    snprintf(ret->dest, sizeof ret->dest, "%s", word[4]);
    ret->read_only = has_option(word[5], "ro");
    ret->nosuid = has_option(word[5], "nosuid");
    ret->nodev = has_option(word[5], "nodev");
    ret->noexec = has_option(word[5], "noexec");
    char *optional;
    while ((optional = strtok_r(NULL, " ", &save)) && strcmp(optional, "-") != 0)
        ret->shared = true;
    char *type = optional ? strtok_r(NULL, " ", &save) : NULL;
    if (!type)
        return -EINVAL;
    snprintf(ret->type, sizeof ret->type, "%s", type);
    return 0;
}

int procfs_mounts(pid_t pid, proc_mount_fn *each, void *context, struct err *err)
{
    char path[64];
    size_t size = 256 * 1024;
    cleanup_free char *text = malloc(size);
    snprintf(path, sizeof path, "/proc/%d/mountinfo", pid);
    ssize_t n = text ? file_read(AT_FDCWD, path, text, size) : -ENOMEM;
    if (n < 0 || (size_t)n + 1 >= size) {
        errno = n < 0 ? (int)-n : EFBIG;
        return err_sys(err, "read %s", path);
    }
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        struct proc_mount m;
        if (procfs_mount_line(line, &m) < 0)
            return err_set(err, ERR_ATTEST, "cannot read a line of %s", path);
        int result = each(context, &m, err);
        if (result < 0)
            return result;
    }
    return 0;
}

uint64_t procfs_mount_of(int fd)
{
    char path[64], text[512];
    uint64_t id = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0 || number(text, "mnt_id", 10, &id) < 0)
        return 0;
    return id;
}

/* "36 35 98:0 /root /dest rw shared:1 - ext4 …" */
static int take_place(char *line, mount_place_fn *fn, void *ctx, struct err *err)
{
    char *save = NULL, *word[6], *more;
    for (int i = 0; i < 6; i++)
        if (!(word[i] = strtok_r(i ? NULL : line, " ", &save)))
            return err_set(err, ERR_SYSTEM, "cannot read a line of /proc/self/mountinfo");
    while ((more = strtok_r(NULL, " ", &save)) && strcmp(more, "-") != 0)
        ;
    struct mount_place m = {.id = strtoull(word[0], NULL, 10),
                            .parent = strtoull(word[1], NULL, 10),
                            .dev = device_named(word[2]),
                            .place = word[4],
                            .nosuid = has_option(word[5], "nosuid"),
                            .type = more ? strtok_r(NULL, " ", &save) : NULL};
    if (!m.type)
        return err_set(err, ERR_SYSTEM, "cannot read a line of /proc/self/mountinfo");
    unescape(word[4]);
    return fn(ctx, &m, err);
}

int procfs_each_mount(mount_place_fn *fn, void *ctx, struct err *err)
{
    FILE *list = fopen("/proc/self/mountinfo", "re");
    cleanup_free char *line = NULL;
    size_t room = 0;
    int r = 0;
    if (!list)
        return err_sys(err, "read /proc/self/mountinfo");
    while (r >= 0 && getline(&line, &room, list) > 0) {
        line[strcspn(line, "\n")] = '\0';
        r = take_place(line, fn, ctx, err);
    }
    if (r >= 0 && ferror(list))
        r = err_sys(err, "read /proc/self/mountinfo");
    fclose(list);
    return r;
}

static int fd_survives_exec(int dir, const char *name, bool *ret)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "fdinfo/%s", name);
    ssize_t n = file_read(dir, path, text, sizeof text);
    uint64_t flags;
    if (n < 0)
        return (int)n;
    if (number(text, "flags", 8, &flags) < 0)
        return -ENODATA;
    *ret = !(flags & O_CLOEXEC);
    return 0;
}

static int list_fds(pid_t pid, bool inherited, uint64_t *ret, struct err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", pid);
    cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int list_fd = dir < 0 ? -1 : openat(dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = folder_take(list_fd);
    if (!list)
        return err_sys(err, "list the descriptors of the sandbox");
    *ret = 0;
    int result = 0;
    for (struct dirent *e; result == 0 && (e = readdir(list));) {
        bool counts = true;
        if (e->d_name[0] == '.')
            continue;
        unsigned long fd = strtoul(e->d_name, NULL, 10);
        int known = inherited ? fd_survives_exec(dir, e->d_name, &counts) : 0;
        if (known == -ENOENT) /* closed meanwhile */
            continue;
        if (known < 0)
            result = err_set(err, ERR_ATTEST, "cannot read descriptor %lu of the sandbox", fd);
        else if (counts && fd > 63)
            result = err_set(err, ERR_ATTEST, "unexpected descriptor %lu in the sandbox", fd);
        else if (counts)
            *ret |= 1ull << fd;
    }
    closedir(list);
    return result;
}

int procfs_inherited_fds(pid_t pid, uint64_t *ret, struct err *err)
{
    return list_fds(pid, true, ret, err);
}

int procfs_fds(pid_t pid, uint64_t *ret, struct err *err)
{
    return list_fds(pid, false, ret, err);
}

pid_t procfs_pidfd(int pidfd)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    const char *at = strstr(text, "\nPid:");
    long pid = at ? strtol(at + 5, NULL, 10) : 0;
    return pid > 0 ? (pid_t)pid : 0;
}

static uint64_t limit_value(const char **at)
{
    char *end;
    while (**at == ' ')
        (*at)++;
    if (text_begins(*at, "unlimited")) {
        *at += 9;
        return UINT64_MAX;
    }
    uint64_t value = strtoull(*at, &end, 10);
    *at = end;
    return value;
}

int procfs_limits(pid_t pid, char text[static PROC_LIMITS_SIZE], struct err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/limits", pid);
    ssize_t n = file_read(AT_FDCWD, path, text, PROC_LIMITS_SIZE);
    errno = n < 0 ? (int)-n : 0;
    return n < 0 ? err_sys(err, "read %s", path) : 0;
}

int procfs_limit(const char *text, const char *name, uint64_t *soft, uint64_t *hard)
{
    const char *at = strstr(text, name);
    if (!at)
        return -ENODATA;
    at += strlen(name);
    *soft = limit_value(&at);
    *hard = limit_value(&at);
    return 0;
}

int procfs_id_map(pid_t pid, const char *which, char *out, size_t size, struct err *err)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
    ssize_t n = file_read(AT_FDCWD, path, text, sizeof text);
    if (n < 0) {
        errno = (int)-n;
        return err_sys(err, "read %s", path);
    }
    size_t used = 0;
    for (char *at = text; *at && used + 2 < size; at++) {
        bool blank = *at == ' ' || *at == '\t' || *at == '\n';
        if (!blank)
            out[used++] = *at;
        else if (used && out[used - 1] != ' ')
            out[used++] = ' ';
    }
    while (used && out[used - 1] == ' ')
        used--;
    out[used] = '\0';
    return 0;
}
