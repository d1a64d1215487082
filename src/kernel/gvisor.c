/* Finds runsc and reads from the file what it is: its version, its platforms, how its parts are
 * started. Nothing of it is executed for that. A runsc that somebody else could have put there or
 * changed is refused (GV-3). */
#include "kernel/gvisor.h"

#include "base/cleanup.h"
#include "base/sha256.h"
#include "os/beside.h"
#include "os/reach.h"
#include "os/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_MAX_RUNSC (512u << 20)
/* Builds before this one answer EINVAL to the statx of coreutils 9, and so to `ls`. */
#define RUNS_LS 20230101u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "0.0~20240729.0" (Debian) or "release-20240729.0" (upstream): the date behind the mark. */
static unsigned date_at(const char *at, const char *end)
{
    unsigned date = 0;
    for (int i = 0; i < 8; i++) {
        if (at + i >= end || !is_digit(at[i]))
            return 0;
        date = date * 10 + (unsigned)(at[i] - '0');
    }
    return date / 10000 >= 2018 && date / 10000 < 2100 ? date : 0;
}

static bool read_version(const char *bytes, const char *end, const char *mark,
                         struct gvisor_build *ret)
{
    size_t len = strlen(mark);
    for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), mark, len)); at++) {
        const char *digits = at + len;
        if (!(ret->date = date_at(digits, end)))
            continue;
        size_t n = len + 8;
        while (at + n < end && n < sizeof ret->version - 1 && (is_digit(at[n]) || at[n] == '.'))
            n++;
        memcpy(ret->version, at, n);
        ret->version[n] = '\0';
        return true;
    }
    return false;
}

void gvisor_read(const char *bytes, size_t len, struct gvisor_build *ret)
{
    static const char confs[] = "gofer-mount-confs", systrap[] = "platform/systrap";
    const char *end = bytes + len;
    if (!read_version(bytes, end, "release-", ret) && !read_version(bytes, end, "0.0~", ret))
        snprintf(ret->version, sizeof ret->version, "unknown");
    ret->confs = memmem(bytes, len, confs, sizeof confs - 1) != NULL;
    ret->platform_count = 0;
    if (memmem(bytes, len, systrap, sizeof systrap - 1))
        ret->platforms[ret->platform_count++] = "systrap";
    ret->platforms[ret->platform_count++] = "ptrace";
    ret->platform = ret->platforms[0];
}

static int refuse(struct err *err, const char *path, const char *what)
{
    err_set(err, ERR_UNSUPPORTED, "%.200s %s", path, what);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(
        err, "install gVisor's runsc as /usr/local/bin/runsc, or name another: " GVISOR_VARIABLE
             "=/path/to/runsc");
}

static int examine(int fd, bool hash, struct gvisor_build *ret, struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "look at %.200s", ret->path);
    if (!(sb.st_mode & 0111) || sb.st_size < 64 || (uint64_t)sb.st_size > SIZE_MAX_RUNSC)
        return refuse(err, ret->path, "is no program");
    size_t len = (size_t)sb.st_size;
    char *bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return err_sys(err, "read %.200s", ret->path);
    bool program = memcmp(bytes, "\177ELF", 4) == 0;
    if (program)
        gvisor_read(bytes, len, ret);
    if (program && hash) {
        memcpy(ret->hash, "sha256:", 7);
        sha256_hex(bytes, len, ret->hash + 7);
    }
    munmap(bytes, len);
    return program ? 0 : refuse(err, ret->path, "is a script, not runsc itself");
}

/* What is in PATH has no say. */
static int open_first(struct gvisor_build *ret, struct err *err)
{
    static const char *const places[] = {"/usr/local/bin/runsc", "/usr/bin/runsc"};
    const char *named = getenv(GVISOR_VARIABLE);
    ret->named = named && named[0];
    for (size_t i = 0; i < (ret->named ? 1 : ARRAY_LEN(places)); i++) {
        const char *path = ret->named ? named : places[i];
        struct reached at;
        int fd = trusted_open(AT_FDCWD, path, "runsc", TRUSTED_FILE, err);
        if (fd >= 0 && path[0] == '/' && reach_open(path, &at) == 0) {
            memcpy(ret->path, at.path, sizeof ret->path);
            reach_close(&at);
            return fd;
        }
        if (fd >= 0)
            close(fd);
        if (fd >= 0 || ret->named || err->sys_errno != ENOENT)
            return fd >= 0 ? refuse(err, path, "is no absolute path of a program")
                           : err_number(err);
    }
    err_set(err, ERR_UNSUPPORTED, "gVisor's runsc is not installed");
    return err_hint(err, "apt install runsc, or a current build from gvisor.dev as "
                         "/usr/local/bin/runsc");
}

int gvisor_find(struct gvisor_build *ret, bool hash, struct err *err)
{
    *ret = (struct gvisor_build){.date = 0};
    cleanup_fd int fd = open_first(ret, err);
    if (fd < 0 || examine(fd, hash, ret, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    if (ret->named || ret->date >= RUNS_LS)
        return 0;
    err_set(err, ERR_UNSUPPORTED, "%.100s (%s) cannot run programs of this system such as `ls`",
            ret->path, ret->version);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err,
                    "install a current runsc as /usr/local/bin/runsc; " GVISOR_VARIABLE
                    "=%.100s uses this one as it is",
                    ret->path);
}

bool gvisor_probe(struct tier_answer *ret)
{
    char program[4200];
    struct err err = ERR_INIT;
    struct gvisor_build *build = calloc(1, sizeof *build);
    bool good = build && program_beside(GVISOR_ENGINE, program, sizeof program, &err) == 0 &&
                gvisor_find(build, false, &err) == 0;
    if (good)
        snprintf(ret->how, sizeof ret->how, "%.120s %s, platform %s", build->path, build->version,
                 build->platform);
    else
        snprintf(ret->why, sizeof ret->why, "%.250s", err.message);
    if (!good)
        snprintf(ret->how, sizeof ret->how, "%.250s", err.hint);
    free(build);
    return good;
}
