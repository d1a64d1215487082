/* Pulls an image with skopeo, which knows registries, their tokens, mirrors and credential helpers,
 * into a folder, and loads that.
 *
 * IM-11  skopeo is started with one fixed transport and a reference that has the strict spelling of
 *        IM-1; nothing else of its command line is anybody's choice. What it brings is as hostile
 * as any other source. */
#include "base/cleanup.h"
#include "images/load/load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

static int start(const char *program, char *const argv[], pid_t *ret, struct err *err)
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
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(126);
    execve(program, argv, environ);
    _exit(126);
}

static int run_skopeo(const struct pull_request *request, const struct reference *ref,
                      const char *folder, struct err *err)
{
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
    if (start(program, argv, &pid, err) < 0)
        return err_number(err);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, "wait for skopeo");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    err_set(err, ERR_REFUSED, "skopeo could not pull %s", ref->name);
    return err_hint(err, "what it said is above; a login is made with: skopeo login REGISTRY");
}

static int pull_into(const struct pull_request *request, const struct reference *ref,
                     struct scratch *t, struct err *err)
{
    char folder[PATH_MAX];
    struct load_request load = request->load;
    snprintf(folder, sizeof folder, "%.*s/pulled", PATH_MAX - 10, t->path);
    if (load.step)
        load.step(load.ctx, "pull", 0, 0);
    if (run_skopeo(request, ref, folder, err) < 0)
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
