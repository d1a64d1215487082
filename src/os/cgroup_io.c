/* Control files of cgroupfs: small texts, read and written through stack buffers. These calls stand
 * on the way to every start of a sandbox, hence no stdio and no heap. */
#include "os/cgroup_internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FILE_PATH_MAX (CGROUP_PATH_MAX + 64)

int cgroup_open_control(const char *dir, const char *file, int flags)
{
    char path[FILE_PATH_MAX];
    size_t dir_len = strlen(dir), file_len = strlen(file);
    if (dir_len + file_len + 2 > sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(path, dir, dir_len);
    path[dir_len] = '/';
    memcpy(path + dir_len + 1, file, file_len + 1);
    /* musl's open() spends a second call on O_CLOEXEC for kernels of long ago, its openat() does
     * not. */
    return openat(AT_FDCWD, path, flags | O_CLOEXEC);
}

long cgroup_read_file(const char *dir, const char *file, char *buf, size_t size)
{
    buf[0] = '\0';
    cleanup_fd int fd = cgroup_open_control(dir, file, O_RDONLY);
    if (fd < 0)
        return -1;
    size_t used = 0;
    while (used + 1 < size) {
        ssize_t n = read(fd, buf + used, size - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        used += (size_t)n;
        /* Control files come in one piece unless they fill a page: saves the read that says "end".
         */
        if (used < 2048)
            break;
    }
    buf[used] = '\0';
    return (long)used;
}

static uint64_t parse_u64(const char *s)
{
    if (*s < '0' || *s > '9')
        return UINT64_MAX;
    uint64_t value = 0;
    for (; *s >= '0' && *s <= '9'; s++) {
        uint64_t digit = (uint64_t)(*s - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return UINT64_MAX;
        value = value * 10 + digit;
    }
    return value;
}

uint64_t cgroup_read_u64(const char *dir, const char *file)
{
    char text[64];
    return cgroup_read_file(dir, file, text, sizeof text) < 0 ? UINT64_MAX : parse_u64(text);
}

uint64_t cgroup_keyed_u64(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return parse_u64(line + len + 1);
    }
    return UINT64_MAX;
}

int cgroup_write_file(const char *dir, const char *file, const char *text, size_t len)
{
    cleanup_fd int fd = cgroup_open_control(dir, file, O_WRONLY);
    if (fd < 0)
        return -1;
    ssize_t n;
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

int cgroup_write_u64(const char *dir, const char *file, uint64_t value)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, value);
    return cgroup_write_file(dir, file, text, (size_t)len);
}

bool cgroup_has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; (p = strstr(p, word)) != NULL; p += len) {
        bool starts = p == list || p[-1] == ' ';
        if (starts && (p[len] == '\0' || p[len] == ' ' || p[len] == '\n'))
            return true;
    }
    return false;
}

static bool lists(const char *text, pid_t pid)
{
    for (const char *line = text; *line;) {
        if (parse_u64(line) == (uint64_t)pid)
            return true;
        const char *end = strchr(line, '\n');
        if (!end)
            break;
        line = end + 1;
    }
    return false;
}

int cgroup_lists_pids(const char *dir, const pid_t *pids, unsigned count)
{
    char text[4096];
    unsigned i = 0;
    if (cgroup_read_file(dir, "cgroup.procs", text, sizeof text) < 0)
        return -1;
    while (i < count && lists(text, pids[i]))
        i++;
    return (int)i;
}

int cgroup_expect_u64(const char *dir, const char *file, uint64_t want, struct err *err)
{
    char text[64];
    if (cgroup_read_file(dir, file, text, sizeof text) < 0)
        return err_sys(err, "read %s/%s", dir, file);
    if (parse_u64(text) == want)
        return 0;
    text[strcspn(text, "\n")] = '\0';
    return err_set(err, ERR_ATTEST, "%s/%s is %s, not %" PRIu64, dir, file, text, want);
}

uint64_t cgroup_page_floor(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes / page * page;
}

struct cgroup_bandwidth cgroup_bandwidth_of(uint64_t cpus_milli)
{
    uint64_t period = cpus_milli < 10 ? 10 * CGROUP_CPU_PERIOD_US : CGROUP_CPU_PERIOD_US;
    return (struct cgroup_bandwidth){.quota_us = cpus_milli * (period / 1000), .period_us = period};
}
