/* Pulls an image with skopeo, which knows registries, their tokens, mirrors and credential helpers,
 * into a folder, and loads that.
 *
 * IM-11  skopeo is started with one fixed transport and a reference that has the strict spelling of
 *        IM-1; nothing else of its command line is anybody's choice. What it brings is as hostile
 * as any other source.
 *
 * IM-19  It knows no limit: what a registry sends may be more than it said, without end. So no file
 *        can be larger than all that the image may have, and all of them are measured while they
 *        come. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "images/load/load.h"
#include "os/fd.h"
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 200                            /* between two looks at what has come */
#define PULL_US (UINT64_C(6) * 3600 * 1000000) /* for all of it */

static const char *const places[] = {"/usr/bin/skopeo", "/usr/local/bin/skopeo"};

static const char *find_skopeo(struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    err_set(err, ERR_UNSUPPORTED, "skopeo is not installed, with which images are pulled");
    err_hint(err, "sudo apt-get install skopeo; or load an archive: brig image load");
    return NULL;
}

/* A tag and a digest together are too much for it; the digest says more. */
static void source_text(const struct reference *ref, char *ret, size_t size)
{
    const char *slash = strrchr(ref->name, '/');
    const char *tag = strrchr(slash ? slash : ref->name, ':');
    int bare = tag ? (int)(tag - ref->name) : (int)strlen(ref->name);
    if (ref->digest[0])
        snprintf(ret, size, "docker://%.*s@%s", bare, ref->name, ref->digest);
    else
        snprintf(ret, size, "docker://%s", ref->name);
}

/* A file of what was pulled is never larger, however fast it comes. */
static int limit_files(uint64_t max_bytes)
{
    struct rlimit size;
    if (getrlimit(RLIMIT_FSIZE, &size) < 0)
        return -1;
    if (size.rlim_max > max_bytes)
        size.rlim_max = max_bytes;
    if (size.rlim_cur > size.rlim_max)
        size.rlim_cur = size.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &size);
}

static int start(const char *program, char *const argv[], uint64_t max_bytes, pid_t *ret,
                 struct err *err)
{
    pid_t parent = getpid();
    *ret = fork();
    if (*ret < 0)
        return err_sys(err, "start %s", program);
    if (*ret > 0)
        return 0;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(126);
    int null = open("/dev/null", O_RDWR);
    if (limit_files(max_bytes) < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(126);
    execve(program, argv, environ);
    _exit(126);
}

/* ---- what comes ---- */

struct came {
    uint64_t bytes, files;
};

/* What is gone again was there under another name, or is of no use any more. */
static int measure_file(int dir, const char *name, struct came *came, struct err *err)
{
    struct stat sb;
    came->files++;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        came->bytes += (uint64_t)sb.st_size;
    else if (!path_is_absent(errno))
        return err_sys(err, "look at what came");
    return 0;
}

/* It lies in one folder, without any below it. What cannot be measured is over the limit as far as
 * anybody knows. */
static int measure(int tmp, struct came *came, struct err *err)
{
    struct dirent *e;
    DIR *dir = folder_open(tmp, "pulled");
    int result = 0, more = 0;
    if (!dir) /* or skopeo has not begun */
        return path_is_absent(errno) ? 0 : err_sys(err, "open what came");
    while (result >= 0 && (more = folder_next(dir, &e)) > 0)
        result = measure_file(dirfd(dir), e->d_name, came, err);
    if (result >= 0 && more < 0)
        result = err_sys(err, "list what came");
    closedir(dir);
    return result;
}

static int check_size(const struct load_request *load, int tmp, struct err *err)
{
    struct came came = {0};
    if (measure(tmp, &came, err) < 0)
        return err_number(err);
    if (came.bytes > load->max_bytes) {
        err_set(err, ERR_LIMIT, "more than the %" PRIu64 " bytes that it may have came",
                load->max_bytes);
        return err_hint(err, "--max-size changes that");
    }
    if (came.files <= load->max_entries)
        return 0;
    err_set(err, ERR_LIMIT, "more than the %" PRIu64 " files that it may have came",
            load->max_entries);
    return err_hint(err, "--max-entries changes that");
}

/* Until it has ended, or goes too far. */
static int watch(const struct load_request *load, int pidfd, int tmp, struct err *err)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    uint64_t end = clock_us() + PULL_US;
    int n;
    while ((n = poll(&p, 1, LOOK_MS)) <= 0) {
        if (n < 0 && errno != EINTR)
            return err_sys(err, "wait for skopeo");
        if (check_size(load, tmp, err) < 0)
            return err_number(err);
        if (clock_us() > end)
            return err_set(err, ERR_LIMIT, "skopeo was not done after 6 hours");
    }
    return 0;
}

static int await(const struct load_request *load, pid_t pid, int tmp, int *ret_status,
                 struct err *err)
{
    cleanup_fd int pidfd = sys_pidfd_open(pid);
    int result = pidfd < 0 ? err_sys(err, "pidfd of skopeo") : watch(load, pidfd, tmp, err);
    if (result < 0)
        kill(pid, SIGKILL); /* not waited for yet: it is that process and no other */
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return result < 0 ? result : err_sys(err, "wait for skopeo");
    return result;
}

static int run_skopeo(const struct pull_request *request, const struct reference *ref,
                      const struct scratch *t, const char *folder, struct err *err)
{
    const struct load_request *load = &request->load;
    char source[REFERENCE_SIZE + DIGEST_SIZE + 16], target[PATH_MAX + 8];
    pid_t pid;
    int status;
    const char *program = find_skopeo(err);
    if (!program)
        return err_number(err);
    source_text(ref, source, sizeof source);
    snprintf(target, sizeof target, "dir:%s", folder);
    char *argv[] = {"skopeo",
                    "copy",
                    "--quiet",
                    "--override-os=linux",
                    request->plain_http ? "--src-tls-verify=false" : "--src-tls-verify=true",
                    "--",
                    source,
                    target,
                    NULL};
    if (start(program, argv, load->max_bytes, &pid, err) < 0 ||
        await(load, pid, t->fd, &status, err) < 0)
        return err_number(err);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return check_size(load, t->fd, err);
    err_set(err, ERR_REFUSED, "skopeo could not pull %s", ref->name);
    /* The file that became too large is gone by now. */
    return err_hint(err, "what it said is above; a login is made with: skopeo login REGISTRY; what "
                         "is too large may be pulled with --max-size");
}

static int pull_into(const struct pull_request *request, const struct reference *ref,
                     struct scratch *t, struct err *err)
{
    char folder[PATH_MAX];
    struct load_request load = request->load;
    snprintf(folder, sizeof folder, "%.*s/pulled", PATH_MAX - 10, t->path);
    if (load.step)
        load.step(load.ctx, "pull", 0, 0);
    if (run_skopeo(request, ref, t, folder, err) < 0)
        return err_number(err);
    cleanup_fd int source =
        openat(t->fd, "pulled", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (source < 0)
        return err_sys(err, "open what was pulled");
    load.source = source;
    load.name = ref->name;
    return load_image(&load, err);
}

int pull_image(const struct pull_request *request, struct err *err)
{
    struct reference ref;
    cleanup_store struct store store = STORE_INIT;
    struct scratch scratch = SCRATCH_INIT;
    if (reference_parse(request->reference, &ref, err) < 0 || store_open(&store, true, err) < 0)
        return err_number(err);
    int r = scratch_make(&store, &scratch, err);
    if (r >= 0)
        r = pull_into(request, &ref, &scratch, err);
    scratch_done(&store, &scratch);
    return r;
}
