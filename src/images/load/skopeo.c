/* Starts skopeo and waits for it, with an eye on what it does. */
#include "images/load/skopeo.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 200                            /* between two looks at what has come */
#define RUN_US  (UINT64_C(6) * 3600 * 1000000) /* for all of it */

static const char *const places[] = {"/usr/bin/skopeo", "/usr/local/bin/skopeo"};

static const char *find_skopeo(struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    err_set(err, ERR_UNSUPPORTED,
            "skopeo is not installed, with which images are pulled and pushed");
    err_hint(err, "sudo apt-get install skopeo; or use archives: brig image load");
    return NULL;
}

/* No file that it writes gets larger than this, however fast it comes. */
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

static int start(const char *program, const struct skopeo_run *run, pid_t *ret, struct err *err)
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
    if (limit_files(run->max_file) < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        (run->quiet && dup2(null, STDERR_FILENO) < 0) || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(126);
    execve(program, run->argv, environ);
    _exit(126);
}

/* Until it has ended, or goes too far. */
static int watch(const struct skopeo_run *run, int pidfd, struct err *err)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    uint64_t end = clock_us() + RUN_US;
    int n;
    while ((n = poll(&p, 1, LOOK_MS)) <= 0) {
        if (n < 0 && errno != EINTR)
            return err_sys(err, "wait for skopeo");
        if (run->look && run->look(run->ctx, err) < 0)
            return err_number(err);
        if (clock_us() > end)
            return err_set(err, ERR_LIMIT, "skopeo was not done after 6 hours");
    }
    return 0;
}

static int await(const struct skopeo_run *run, pid_t pid, int *ret_status, struct err *err)
{
    cleanup_fd int pidfd = sys_pidfd_open(pid);
    int result = pidfd < 0 ? err_sys(err, "pidfd of skopeo") : watch(run, pidfd, err);
    if (result < 0)
        kill(pid, SIGKILL); /* not waited for yet: it is that process and no other */
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return result < 0 ? result : err_sys(err, "wait for skopeo");
    return result;
}

int skopeo_run(const struct skopeo_run *run, int *status, struct err *err)
{
    pid_t pid;
    const char *program = find_skopeo(err);
    if (!program || start(program, run, &pid, err) < 0 || await(run, pid, status, err) < 0)
        return err_number(err);
    return 0;
}
