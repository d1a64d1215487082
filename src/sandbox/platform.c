/* Which of gVisor's platforms works on this host. The file of runsc says which it was built with; a
 * kernel, its settings, or the container around brig may forbid what one of them needs.
 *
 * A trial is a run of `true` on the gvisor tier, with that platform and in all walls: its sandbox
 * is a child's, so that nothing of it stays here, and it has a time limit. It costs as much as a
 * start. So a run makes one only where there is a choice and none was made yet for this runsc and
 * this kernel: what works is kept in the state folder, and what does not is not, since it may have
 * been the moment's. `brig doctor` tries all of them each time, and keeps what it found. */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/fd.h"
#include "os/runstate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER   "gvisor"
#define KEPT     "platform"
#define KEPT_MAX 256u
#define TRIAL    "20s"
#define TRIAL_MS 30000 /* and what brig needs around it */

enum outcome { UNKNOWN, WORKS, FAILS };
struct trial {
    enum outcome outcome;
    char why[160];
};

/* ---- what is kept ---- */

static bool describe(const struct gvisor_build *b, const char *platform, char line[KEPT_MAX])
{
    struct utsname host;
    return b->hash[0] && uname(&host) == 0 &&
           snprintf(line, KEPT_MAX, "%s %.65s %s\n", b->hash, host.release, platform) <
               (int)KEPT_MAX;
}

bool platform_known(struct gvisor_build *b)
{
    char kept[KEPT_MAX] = "", line[KEPT_MAX];
    cleanup_fd int folder = runstate_open(FOLDER, false);
    if (folder < 0 || file_read(folder, KEPT, kept, sizeof kept) <= 0)
        return false;
    for (unsigned i = 0; i < b->platform_count; i++)
        if (describe(b, b->platforms[i], line) && strcmp(line, kept) == 0) {
            b->platform = b->platforms[i];
            return true;
        }
    return false;
}

/* Under another name until it is whole. That it cannot be kept only costs another trial. */
static void keep(const struct gvisor_build *b)
{
    char line[KEPT_MAX], temporary[32];
    cleanup_fd int folder = runstate_open(FOLDER, true);
    if (folder < 0 || !describe(b, b->platform, line))
        return;
    snprintf(temporary, sizeof temporary, ".new-%d", (int)getpid());
    cleanup_fd int fd =
        openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && (write(fd, line, strlen(line)) != (ssize_t)strlen(line) ||
                    renameat(folder, temporary, folder, KEPT) < 0))
        unlinkat(folder, temporary, 0);
}

/* ---- a trial ---- */

static int make_policy(struct policy *p, struct err *err)
{
    const struct origin origin = {.kind = ORIGIN_OPTION, .name = "brig doctor"};
    if (policy_init(p, LEVEL_HIGH) < 0)
        return err_memory(err);
    if (policy_set(p, FIELD_TIER, tier_name(TIER_GVISOR), &origin, err) < 0 ||
        policy_set(p, FIELD_TIMEOUT, TRIAL, &origin, err) < 0)
        return err_number(err);
    return policy_validate(p, err);
}

/* brig-gvisor ends with SIGKILL if runsc ended before the code, and says why. That `true` cannot be
 * started says that runsc could. */
static void judge(const struct run_result *r, struct trial *ret)
{
    static const char told[] = "`brig doctor` tries its platforms): ";
    if (r->limit_hit && strcmp(r->limit_hit, "timeout") == 0) {
        ret->outcome = FAILS;
        snprintf(ret->why, sizeof ret->why, "it does not start within " TRIAL);
    } else if (!r->limit_hit && r->exit_code >= 0) {
        ret->outcome = WORKS;
    } else if (!r->limit_hit && r->signal == SIGKILL) {
        const char *why = strstr(buf_text(&r->errout), told);
        ret->outcome = FAILS;
        snprintf(ret->why, sizeof ret->why, "%.*s", why ? (int)strcspn(why, "\n") : 100,
                 why ? why + strlen(told) : "runsc ends before it has booted");
        ret->why[strcspn(ret->why, "\n")] = '\0';
    }
}

static void try_in_child(const char *platform, int out)
{
    char *argv[] = {"true", NULL};
    struct policy policy;
    struct run_result result;
    struct err err = ERR_INIT;
    struct trial told = {.outcome = UNKNOWN};
    struct run_request request = {.policy = &policy,
                                  .argv = argv,
                                  .platform = platform,
                                  .stdin_fd = -1,
                                  .stdout_fd = -1,
                                  .stderr_fd = -1,
                                  .capture = true};
    setsid(); /* ^C is for the run that waits for this */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_result_init(&result);
    if (make_policy(&policy, &err) >= 0 && sandbox_run(&request, &result, &err) >= 0)
        judge(&result, &told);
    else
        snprintf(told.why, sizeof told.why, "%.150s", err.message);
    ssize_t n = write(out, &told, sizeof told);
    _exit(n == (ssize_t)sizeof told ? 0 : 1);
}

static void try_platform(const char *platform, struct trial *ret)
{
    int ends[2];
    *ret = (struct trial){.outcome = UNKNOWN};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0)
        try_in_child(platform, ends[1]);
    close(ends[1]);
    struct pollfd answer = {.fd = ends[0], .events = POLLIN};
    uint64_t until = clock_us() + TRIAL_MS * 1000u;
    while (pid > 0 && clock_us() < until && poll(&answer, 1, TRIAL_MS) < 0 && errno == EINTR)
        ;
    if (pid < 0 || !(answer.revents & POLLIN) || read(ends[0], ret, sizeof *ret) != sizeof *ret)
        *ret = (struct trial){.outcome = UNKNOWN, .why = "it could not be tried"};
    close(ends[0]);
    if (pid > 0)
        kill(pid, SIGKILL); /* it has nothing more to do; what it made, its guardian removes */
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int platform_choose(struct gvisor_build *b, struct err *err)
{
    struct trial trial;
    char reasons[GVISOR_PLATFORMS * 200] = "";
    size_t used = 0;
    if (b->platform_count < 2 || platform_known(b))
        return 0;
    for (unsigned i = 0; i < b->platform_count; i++) {
        try_platform(b->platforms[i], &trial);
        if (trial.outcome == UNKNOWN)
            return 0; /* the run itself will tell */
        b->platform = b->platforms[i];
        if (trial.outcome == WORKS) {
            keep(b);
            return 0;
        }
        used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %.160s",
                                 i ? "; " : "", b->platforms[i], trial.why);
    }
    err_set(err, ERR_UNSUPPORTED, "no platform of %.100s works here: %s", b->path, reasons);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "`brig doctor` tries them again; --tier container runs the same behind a "
                         "weaker kernel wall");
}

/* ---- brig doctor ---- */

static void tell(struct host_tier *t, const struct gvisor_build *b, const struct trial *trials,
                 int works)
{
    char rest[200] = "";
    size_t used = 0;
    for (unsigned i = 0; i < b->platform_count; i++) {
        const char *word = trials[i].outcome == UNKNOWN ? "was not tried" : "does not work";
        if (trials[i].outcome != WORKS && used < sizeof rest)
            used += (size_t)snprintf(rest + used, sizeof rest - used, "%s%s %s: %.80s",
                                     used ? "; " : "", b->platforms[i], word, trials[i].why);
    }
    t->available = works >= 0;
    if (works < 0)
        snprintf(t->why, sizeof t->why, "no platform of %.40s works here: %.190s", b->path, rest);
    if (works < 0)
        snprintf(t->how, sizeof t->how,
                 "a build of runsc with another platform; "
                 "--tier container needs none");
    else
        snprintf(t->how, sizeof t->how, "%.80s %s, platform %s (tried)%s%.100s", b->path,
                 b->version, b->platforms[works], rest[0] ? "; " : "", rest);
}

void sandbox_host_try(struct host_report *report)
{
    struct host_tier *t = &report->tiers[TIER_GVISOR - TIER_PROCESS];
    struct trial trials[GVISOR_PLATFORMS];
    struct err err = ERR_INIT;
    int works = -1;
    struct gvisor_build *b = t->available ? calloc(1, sizeof *b) : NULL;
    if (!b || gvisor_find(b, true, &err) < 0) {
        free(b);
        return;
    }
    for (unsigned i = 0; i < b->platform_count; i++) {
        try_platform(b->platforms[i], &trials[i]);
        if (trials[i].outcome == WORKS && works < 0) {
            works = (int)i;
            b->platform = b->platforms[i];
            keep(b);
        }
    }
    bool all_failed = works < 0;
    for (unsigned i = 0; i < b->platform_count; i++)
        all_failed = all_failed && trials[i].outcome == FAILS;
    if (works >= 0 || all_failed)
        tell(t, b, trials, works);
    free(b);
}
