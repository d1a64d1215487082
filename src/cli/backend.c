/* Runs `brig-daemon audit REQUEST` for a verb and reads the lines that it prints. */
#include "cli/backend.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/state.h"
#include "cli/verb.h"
#include "os/beside.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DAEMON_NAME "brig-daemon"
#define TEXT_MAX    (2u << 20)

/* Numbers that no verb uses for its own. */
enum { OPT_JSON = 1001, OPT_STATE };

static const struct opt state_items[] = {
    {.id = OPT_STATE,
     .name = "state",
     .kind = OPT_VALUE,
     .value = "DIR",
     .group = "Where",
     .help = "the daemon's state folder, as given to brig serve"},
};
const struct opt_table backend_state_table = {
    .items = state_items, .count = ARRAY_LEN(state_items), .next = &common_options};

static const struct opt json_items[] = {
    {.id = OPT_JSON, .name = "json", .group = "Output", .help = "print JSON"},
};
const struct opt_table backend_option_table = {
    .items = json_items, .count = ARRAY_LEN(json_items), .next = &backend_state_table};

int backend_take(struct backend_options *o, const struct opt *opt, const char *value,
                 struct err *err)
{
    if (opt->id == OPT_STATE && !value[0])
        return err_set(err, ERR_USAGE, "--state: the folder's name is empty");
    if (opt->id == OPT_STATE)
        o->state = value;
    if (opt->id == OPT_JSON)
        o->json = true;
    return opt->id == OPT_JSON || opt->id == OPT_STATE;
}

int backend_begin(struct json_writer *w, struct buf *out, const char *verb, const char *state,
                  struct err *err)
{
    cleanup_buf struct buf folder;
    buf_init(&folder, 4096);
    if (state_folder(state, &folder, err) < 0)
        return err_number(err);
    jw_init(w, out, false);
    jw_object_begin(w);
    jw_kv_string(w, "verb", verb);
    jw_kv_string(w, "state", buf_text(&folder));
    return 0;
}

int backend_end(struct json_writer *w, struct err *err)
{
    jw_object_end(w);
    return w->out->failed ? err_set(err, ERR_LIMIT, "the options are too long") : 0;
}

/* ---- the program ---- */

static int start(const char *request, int out, pid_t *ret, struct err *err)
{
    extern char **environ;
    char program[4200];
    posix_spawn_file_actions_t files;
    if (program_beside(DAEMON_NAME, program, sizeof program, err) < 0)
        return err_number(err);
    char *argv[] = {(char *)DAEMON_NAME, (char *)"audit", (char *)(uintptr_t)request, NULL};
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    errno = posix_spawn(ret, program, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return errno ? err_sys(err, "start %s", program) : 0;
}

/* ---- its lines ---- */

struct lines {
    struct backend_reader *reader;
    struct buf text;
    bool enough;
};

static int take_error(const char *line, size_t len, struct err *err)
{
    /* {"error":{…}} */
    static const size_t head = sizeof "{\"error\":" - 1;
    if (len < head + 1 || wire_err_read(line + head, len - head - 1, err) < 0)
        return err_set(err, ERR_PROTOCOL, DAEMON_NAME " failed and did not say why");
    /* ERR_NOT_FOUND means a command that was not found inside a sandbox (exit status 127). */
    if (err->code == ERR_NOT_FOUND)
        err->code = ERR_SYSTEM;
    return err_number(err);
}

static int take_line(struct lines *l, const char *line, size_t len, struct err *err)
{
    struct backend_reader *r = l->reader;
    if (text_begins(line, "{\"error\":"))
        return take_error(line, len, err);
    if (text_begins(line, "{\"end\":")) {
        buf_reset(&r->end);
        buf_add(&r->end, line, len);
        return 0;
    }
    int n = r->line(r->ctx, line, len, err);
    l->enough = n > 0;
    return n < 0 ? n : 0;
}

static int take_text(struct lines *l, struct err *err)
{
    char *p = l->text.data, *newline;
    size_t left = l->text.len;
    while (!l->enough && left > 0 && (newline = memchr(p, '\n', left))) {
        size_t len = (size_t)(newline - p);
        *newline = '\0';
        if (take_line(l, p, len, err) < 0)
            return err_number(err);
        p += len + 1;
        left -= len + 1;
    }
    memmove(l->text.data, p, left);
    l->text.len = left;
    return !l->enough && l->reader->pause ? l->reader->pause(l->reader->ctx, err) : 0;
}

static int read_all(struct lines *l, int fd, struct err *err)
{
    char part[65536];
    while (!l->enough) {
        ssize_t n = read(fd, part, sizeof part);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "read from " DAEMON_NAME);
        buf_add(&l->text, part, (size_t)n);
        if (l->text.failed)
            return err_set(err, ERR_PROTOCOL, DAEMON_NAME " sent a line that is too long");
        if (take_text(l, err) < 0)
            return err_number(err);
    }
    return 0;
}

static int await(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int backend_run(const char *request, struct backend_reader *r, struct err *err)
{
    int pair[2];
    pid_t pid = -1;
    struct lines l = {.reader = r};
    buf_init(&l.text, TEXT_MAX);
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    int result = start(request, pair[1], &pid, err);
    close(pair[1]);
    if (result >= 0)
        result = read_all(&l, pair[0], err);
    /* Closing our end makes it end: it can write no more. */
    close(pair[0]);
    buf_done(&l.text);
    if (pid < 0)
        return result;
    int status = await(pid);
    if (result < 0)
        return result;
    if (!l.enough && (status < 0 || status > 1))
        return err_set(err, ERR_SYSTEM, DAEMON_NAME " ended before it had answered");
    return l.enough ? 0 : status;
}
