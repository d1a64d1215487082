/* What a living sandbox has changed in the project that it was given: the front asks, a child of
 * the warden looks, and the front gets a descriptor with finished bytes. The child may take its
 * time: the warden goes on. */
#include "review/review.h"
#include "base/cleanup.h"
#include "base/container.h"
#include "os/fd.h"
#include "os/sys.h"
#include "warden/session.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define TEXT_MAX  (16u << 20) /* as the front takes it (daemon/box/review.c) */
#define NAMES_MAX 4096
#define REAP_MS   1000

/* ---- in the child ---- */

struct names {
    const char *items[NAMES_MAX];
    size_t count;
};

static int take_names(const struct json *j, const char *key, struct names *ret, struct err *err)
{
    const struct json *list = json_get(j, key);
    for (size_t i = 0; list && i < json_count(list); i++) {
        const char *name = json_string(json_at(list, i));
        if (json_type(list) != JSON_ARRAY || !name || ret->count == NAMES_MAX)
            return err_set(err, ERR_USAGE, "%s: expected at most %d names", key, NAMES_MAX);
        ret->items[ret->count++] = name;
    }
    return 0;
}

/* While it runs, only who says what he has seen can have it; paused, it stands still. */
static int apply(struct review *r, const struct json *j, bool frozen, struct buf *out,
                 struct err *err)
{
    static struct names files, trust;
    if (take_names(j, "files", &files, err) < 0 || take_names(j, "trust", &trust, err) < 0)
        return err_number(err);
    struct review_choice choice = {.files = files.items,
                                   .file_count = files.count,
                                   .trust = trust.items,
                                   .trust_count = trust.count,
                                   .digest = json_text(j, "digest"),
                                   .dry_run = json_flag(j, "dry_run"),
                                   .live = true};
    if (!choice.digest && !frozen && !choice.dry_run) {
        err_set(err, ERR_REFUSED, "the sandbox runs: its changes may not be those you looked at");
        return err_hint(err, "give the digest of the diff, or pause the sandbox first");
    }
    if (review_apply(r, &choice, err) < 0)
        return err_number(err);
    review_told(r, true, choice.dry_run, out);
    return 0;
}

static int add_text(void *ctx, const char *text, size_t len)
{
    buf_add(ctx, text, len);
    return ((struct buf *)ctx)->failed ? -1 : 0;
}

static int look(struct review *r, const char *format, struct buf *out, struct err *err)
{
    static const struct review_style plain;
    if (format && strcmp(format, "text") == 0)
        return review_text(r, &plain, add_text, out, err);
    return review_json(r, format && strcmp(format, "stat") == 0, out, err);
}

static int work(const struct warden *w, const struct json *j, struct buf *out, struct err *err)
{
    struct review r;
    const char *op = json_text(j, "op");
    review_init(&r);
    r.live = true;
    int result = review_open(&r, w->s->reviews_fd, w->s->id, err);
    if (result >= 0)
        result = review_find(&r, err);
    if (result >= 0)
        result = op && strcmp(op, "apply") == 0 ? apply(&r, j, w->frozen, out, err)
                                                : look(&r, json_text(j, "format"), out, err);
    review_done(&r);
    if (result >= 0 && out->failed)
        result = err_set(err, ERR_LIMIT, "the changes are too long to be shown");
    return result;
}

static void child(const struct warden *w, const struct json *j, pid_t parent, int status, int text)
{
    struct err err = ERR_INIT;
    struct buf out;
    size_t done = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "brig-review");
    if (getppid() != parent)
        _exit(1);
    /* The front's socket must end with the warden. */
    close(w->front.fd);
    close(w->s->ctl_fd);
    buf_init(&out, TEXT_MAX);
    int result = work(w, j, &out, &err);
    while (result >= 0 && done < out.len) {
        ssize_t n = write(text, out.data + done, out.len - done);
        if (n <= 0)
            result = err_sys(&err, "hand over the changes");
        done += n > 0 ? (size_t)n : 0;
    }
    if (result < 0 && write(status, &err, sizeof err) != (ssize_t)sizeof err)
        _exit(1);
    /* The word that it is complete. */
    if (result >= 0 && write(status, "+", 1) != 1)
        _exit(1);
    _exit(0);
}

/* ---- in the warden ---- */

/* The project may lie on a file system that does not answer: who looks at it cannot be killed then,
 * and the warden has limits to keep. */
static void reap(struct warden *w, pid_t pid)
{
    cleanup_fd int pidfd = sys_pidfd_open(pid);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    if (pidfd >= 0)
        poll(&p, 1, REAP_MS);
    helped_look(&w->s->lifecycle); /* it has ended, and its time can still be read */
    w->s->lifecycle.reviewer = 0;
    waitpid(pid, NULL, WNOHANG);
}

static void finish(struct warden *w, const struct err *err)
{
    struct review_work *r = &w->review;
    int text = r->text;
    reap(w, r->pid);
    loop_forget(w->loop, &r->status);
    close(r->status.fd);
    r->pid = 0;
    if (err) {
        warden_fail(w, r->request, err);
    } else {
        lseek(text, 0, SEEK_SET);
        warden_done(w, r->request, 0, "{}", 2, &text, 1);
    }
    close(text);
}

static void on_status(struct loop_io *io, uint32_t events)
{
    struct warden *w = container_of(io, struct warden, review.status);
    struct err err = ERR_INIT;
    char room[sizeof err + 1];
    (void)events;
    /* One write of the child's, smaller than a pipe's atomic size. */
    ssize_t n = read(io->fd, room, sizeof room);
    if (n == 1 && room[0] == '+') {
        finish(w, NULL);
    } else if (n == (ssize_t)sizeof err) {
        memcpy(&err, room, sizeof err);
        finish(w, &err);
    } else {
        err_set(&err, ERR_SYSTEM, "looking at the changes came to nothing");
        finish(w, &err);
    }
}

static int start(struct warden *w, uint32_t request, const struct json *j, struct err *err)
{
    struct review_work *r = &w->review;
    int ends[2];
    cleanup_fd int text = memfd_create("brig-review", MFD_CLOEXEC);
    if (text < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, "look at the changes");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        child(w, j, parent, ends[1], text);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return err_sys(err, "look at the changes");
    }
    r->pid = w->s->lifecycle.reviewer = pid;
    helped_look(&w->s->lifecycle);
    r->request = request;
    r->text = fd_steal(&text);
    warden_watch(w, &r->status, ends[0], on_status);
    return 0;
}

int review_ask(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err)
{
    const char *op = json_text(j, "op");
    if (w->s->filesystem.review_fd < 0)
        return err_set(err, ERR_REFUSED, "this sandbox has no project to review");
    if (w->review.pid)
        return err_set(err, ERR_LIMIT, "somebody else looks at the changes right now");
    if (!op || (strcmp(op, "diff") && strcmp(op, "apply") && strcmp(op, "discard")))
        return err_set(err, ERR_USAGE, "diff, apply or discard?");
    if (strcmp(op, "discard") != 0)
        return start(w, msg->request, j, err);
    w->s->discard = true;
    warden_done(w, msg->request, 0, "{\"discarded\":true}", 18, NULL, 0);
    warden_end(w, "its changes were discarded");
    return 0;
}

void review_stop(struct warden *w)
{
    struct review_work *r = &w->review;
    if (!r->pid)
        return;
    /* An apply is undone by whoever opens the review next. */
    kill(r->pid, SIGKILL);
    reap(w, r->pid);
    close(r->status.fd);
    close(r->text);
    r->pid = 0;
}
