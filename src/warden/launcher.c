/* The launcher: starts the front, forks a warden for each sandbox that the front asks for, reloads
 * templates, and ends everything in order. */
#include "warden/launcher.h"

#include "base/cleanup.h"
#include "base/container.h"
#include "base/id.h"
#include "os/beside.h"
#include "os/cgroup.h"
#include "os/loop.h"
#include "os/signals.h"
#include "os/sys.h"
#include "os/weaken.h"
#include "warden/gatekeeper.h"
#include "warden/stem.h"
#include "warden/stems.h"
#include "warden/warden.h"
#include "wire/wire.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define WARDENS_MAX 8192
#define KEPT_MAX    4 /* descriptors that a child keeps */
/* After the front's end the wardens tear down by themselves. */
#define LAST_MS 20000

struct child {
    pid_t pid;
    struct stem *stem; /* that it was cloned from, or NULL */
    char id[BOX_ID_LEN + 1];
};

struct launcher {
    const struct launcher_config *c;
    struct loop *loop;
    struct loop_io front, signals;
    struct loop_timer last;
    struct templates templates;
    struct stems stems;
    struct gatekeeper gate;
    /* What the front listens on. */
    struct listener listeners[LAUNCHER_LISTENERS_MAX];
    unsigned listener_count;
    struct wire_msg *msg;
    pid_t front_pid;
    struct child *children;
    size_t count, room;
    bool started, ready;
    bool stopping; /* by a signal, or on the front's word */
    bool front_gone;
    int front_status;
};

static void say(const struct launcher *l, const char *text)
{
    if (l->c->say)
        l->c->say(l->c->ctx, text);
}

static void say_err(const struct launcher *l, const char *what, const struct err *err)
{
    char text[1000];
    snprintf(text, sizeof text, "%s: %s%s%s", what, err->message, err->hint[0] ? "; " : "",
             err->hint);
    say(l, text);
}

/* ---- to the front ---- */

static void tell(struct launcher *l, enum wire_type type, uint32_t request, int64_t value,
                 const char *text, size_t len, int fd)
{
    if (!l->front_gone)
        wire_send(l->front.fd, type, request, value, text, len, &fd, fd >= 0);
}

static void tell_fail(struct launcher *l, uint32_t request, const struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, 8192);
    wire_err_write(err, &text);
    tell(l, WIRE_FAIL, request, 0, buf_text(&text), text.len, -1);
}

static void write_listeners(const struct launcher *l, struct json_writer *w)
{
    jw_key(w, "listeners");
    jw_array_begin(w);
    for (unsigned i = 0; i < l->listener_count; i++) {
        jw_object_begin(w);
        jw_kv_uint(w, "fd", FRONT_FD_LISTENERS + i);
        jw_kv_string(w, "kind", l->listeners[i].kind);
        jw_kv_string(w, "address", l->listeners[i].address);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void say_hello(struct launcher *l)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, WIRE_TEXT_MAX);
    jw_init(&w, &text, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "version", BRIG_VERSION);
    templates_write_json(&l->templates, &w);
    jw_kv_string(&w, "state", l->c->state);
    jw_key(&w, "leftovers");
    jw_array_begin(&w);
    jw_array_end(&w);
    jw_key(&w, "operator_key");
    jw_object_begin(&w);
    jw_kv_string(&w, "id", l->c->key_id);
    jw_kv_string(&w, "hash", l->c->key_hash);
    jw_object_end(&w);
    if (l->c->max_boxes)
        jw_kv_uint(&w, "max_boxes", l->c->max_boxes);
    write_listeners(l, &w);
    jw_key(&w, "projects");
    jw_array_begin(&w);
    for (unsigned i = 0; i < l->c->project_count; i++)
        jw_bytes(&w, l->c->projects[i], strlen(l->c->projects[i]));
    jw_array_end(&w);
    jw_object_end(&w);
    tell(l, WIRE_HELLO, 0, 0, buf_text(&text), text.len, -1);
}

static void tell_templates(struct launcher *l)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, WIRE_TEXT_MAX);
    jw_init(&w, &text, false);
    jw_object_begin(&w);
    templates_write_json(&l->templates, &w);
    jw_object_end(&w);
    tell(l, WIRE_TEMPLATES, 0, 0, buf_text(&text), text.len, -1);
}

static void tell_id(struct launcher *l, enum wire_type type, uint32_t request, int64_t value,
                    const char *id, int fd)
{
    const char *text = JSON_SMALL(JSON_TEXT("id", id), JSON_NUMBER("status", value));
    tell(l, type, request, value, text, strlen(text), fd);
}

/* ---- wardens ---- */

static struct child *find(struct launcher *l, const char *id)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->children[i].id, id) == 0)
            return &l->children[i];
    return NULL;
}

static struct child *make_room(struct launcher *l)
{
    if (l->count == l->room) {
        size_t room = l->room ? l->room * 2 : 64;
        struct child *more =
            room <= WARDENS_MAX ? reallocarray(l->children, room, sizeof *more) : NULL;
        if (!more)
            return NULL;
        l->children = more;
        l->room = room;
    }
    return &l->children[l->count];
}

/* K-20. In the child: nothing of the launcher's stays but memory, of which the template is wanted.
 */
static void leave_launcher(const int *keep, int count)
{
    sigset_t none;
    int from[KEPT_MAX];
    sigemptyset(&none);
    /* A session of its own: ^C on the terminal is for the launcher, which ends all in order. */
    setsid();
    for (int i = 0; i < count; i++)
        if ((from[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, 3 + count)) < 0)
            _exit(125);
    for (int i = 0; i < count; i++)
        if (dup3(from[i], 3 + i, O_CLOEXEC) < 0)
            _exit(125);
    if (sys_close_range(3 + (unsigned)count, ~0u, 0) < 0)
        _exit(125);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

struct launch {
    char id[BOX_ID_LEN + 1];
    struct template *template;
    bool pooled;
    struct warden_order order;
};

/* What it is cloned from keeps its descriptors, at other numbers. */
static void become_warden(const struct launch *what, int sock, struct stem_source *source)
{
    int keep[KEPT_MAX] = {sock}, *moved[KEPT_MAX - 1], count = 0;
    if (source && source->machine) {
        moved[count++] = &source->parked.memory;
        moved[count++] = &source->parked.state;
        moved[count++] = &source->door;
    } else if (source) {
        moved[count++] = &source->process.door;
        moved[count++] = &source->process.image;
    }
    for (int i = 0; i < count; i++)
        keep[1 + i] = *moved[i];
    leave_launcher(keep, 1 + count);
    for (int i = 0; i < count; i++)
        *moved[i] = 4 + i;
    _exit(warden_main(3, what->template, what->id, source, &what->order));
}

static void become_stem(void *ctx, int sock, int door, const struct template *t, uid_t lease,
                        const struct parked *park)
{
    const int keep[] = {sock, door, park ? park->memory : -1, park ? park->state : -1};
    const struct parked here = {.memory = 5, .state = 6};
    (void)ctx;
    leave_launcher(keep, park ? 4 : 2);
    _exit(stem_main(3, 4, t, lease, park ? &here : NULL));
}

static void say_of_stem(void *ctx, const char *text)
{
    say(ctx, text);
}

/* A clone has its view of files and the template's policy already: a sandbox with a project, with a
 * policy of its own or with headers is started instead. A machine hears of its rules as a clone. */
static bool may_clone(const struct launch *what)
{
    const struct warden_order *o = &what->order;
    return !o->project && !o->policy && (!o->headers || stem_parks(what->template));
}

static int launch(struct launcher *l, const struct launch *what, int *ret_sock, struct err *err)
{
    int pair[2];
    struct child *c = make_room(l);
    if (!c)
        return err_set(err, ERR_LIMIT, "more than %d sandboxes", WARDENS_MAX / 2);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, "socket for a warden");
    struct stem_source source;
    struct stem *stem = NULL;
    if (may_clone(what))
        stem = stems_take(&l->stems, what->template, what->pooled, &source);
    pid_t pid = fork();
    if (pid == 0)
        become_warden(what, pair[1], stem ? &source : NULL);
    int why = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        if (stem)
            stems_drop(&l->stems, stem);
        errno = why;
        return err_sys(err, "start a warden");
    }
    *c = (struct child){.pid = pid, .stem = stem};
    memcpy(c->id, what->id, sizeof c->id);
    l->count++;
    *ret_sock = pair[0];
    return 0;
}

/* By number: no path comes from the front. */
static int find_project(const struct launcher *l, const struct json *number, const char **ret,
                        struct err *err)
{
    if (!number || json_type(number) == JSON_NULL)
        return 0;
    if (json_type(number) != JSON_INT || json_int(number) < 0 ||
        json_int(number) >= l->c->project_count)
        return err_set(err, ERR_PROTOCOL, "there is no such project");
    *ret = l->c->projects[json_int(number)];
    return 0;
}

/* Not read here: that is the warden's. */
static int find_policy(const struct json *text, const char **ret, struct err *err)
{
    if (!text || json_type(text) == JSON_NULL)
        return 0;
    if (json_type(text) != JSON_STRING)
        return err_set(err, ERR_PROTOCOL, "the policy of a launch is a text");
    *ret = json_string(text);
    return 0;
}

/* Neither are these; what they are is the warden's to judge. */
static const struct json *find_object(const struct json *j, const char *key)
{
    const struct json *found = json_get(j, key);
    return found && json_type(found) != JSON_NULL ? found : NULL;
}

static int on_launch(struct launcher *l, uint32_t request, const struct json *j, struct err *err)
{
    const struct json *id = json_get(j, "id"), *name = json_get(j, "template");
    const char *text = id ? json_string(id) : NULL;
    if (!box_id_valid(text) || !name || !json_string(name))
        return err_set(err, ERR_PROTOCOL, "a launch without id or template");
    if (l->stopping)
        return err_set(err, ERR_REFUSED, "brig serve is ending");
    if (find(l, text))
        return err_set(err, ERR_REFUSED, "there is a sandbox %s already", text);
    struct launch what = {.template = templates_find(&l->templates, json_string(name))};
    if (!what.template)
        return err_set(err, ERR_NOT_FOUND, "there is no template %.60s", json_string(name));
    cleanup_fd int sock = -1;
    const struct json *pooled = json_get(j, "pooled");
    what.pooled = pooled && json_type(pooled) == JSON_BOOL && json_bool(pooled);
    memcpy(what.id, text, sizeof what.id);
    what.order = (struct warden_order){.network = find_object(j, "network"),
                                       .headers = find_object(j, "headers"),
                                       .message = l->msg->text,
                                       .message_len = l->msg->text_len};
    if (find_project(l, json_get(j, "project"), &what.order.project, err) < 0 ||
        find_policy(json_get(j, "policy"), &what.order.policy, err) < 0 ||
        launch(l, &what, &sock, err) < 0)
        return err_number(err);
    tell_id(l, WIRE_LAUNCHED, request, 0, text, sock);
    return 0;
}

/* Only names that no living warden has. */
static int on_clean(struct launcher *l, uint32_t request, const struct json *j)
{
    const struct json *ids = json_get(j, "ids");
    struct cgroup_host host;
    int64_t cleaned = 0;
    cgroup_discover(&host);
    for (size_t i = 0; ids && i < json_count(ids); i++) {
        const char *id = json_string(json_at(ids, i));
        if (box_id_valid(id) && !find(l, id))
            cleaned += cgroup_clean(&host, id);
    }
    tell(l, WIRE_DONE, request, cleaned, "{}", 2, -1);
    return 0;
}

/* ---- the end ---- */

static void on_last(struct loop_timer *t)
{
    struct launcher *l = container_of(t, struct launcher, last);
    for (size_t i = 0; i < l->count; i++)
        kill(l->children[i].pid, SIGKILL); /* the guardians clean up */
    gatekeeper_kill(&l->gate);
    loop_stop(l->loop);
}

static void settle(struct launcher *l)
{
    if (l->front_gone && l->count == 0 && l->stems.count == 0 && l->front_pid == 0 &&
        l->gate.pid == 0)
        loop_stop(l->loop);
}

static void lose_front(struct launcher *l)
{
    if (l->front_gone)
        return;
    l->front_gone = true;
    loop_forget(l->loop, &l->front);
    close(l->front.fd);
    l->front.fd = -1;
    loop_timer_set(l->loop, &l->last, LAST_MS);
    stems_close(&l->stems);
    gatekeeper_close(&l->gate);
    settle(l);
}

/* The first time in order, the second time at once. */
static void stop(struct launcher *l)
{
    if (l->stopping || l->front_gone) {
        if (l->front_pid > 0)
            kill(l->front_pid, SIGKILL);
        return;
    }
    l->stopping = true;
    tell(l, WIRE_STOP, 0, 0, "{}", 2, -1);
}

/* ---- what comes in ---- */

static void on_ready(struct launcher *l)
{
    if (l->ready)
        return;
    l->ready = true;
    if (l->c->ready)
        l->c->ready(l->c->ctx);
}

/* One that has ended meanwhile is on the list until it was waited for, so that its number is its
 * own. Its guardian cleans up, as after any other death. */
static void on_kill(struct launcher *l, const struct json *tree)
{
    const char *id = json_text(tree, "id");
    const struct child *c = id ? find(l, id) : NULL;
    if (c)
        kill(c->pid, SIGKILL);
}

/* In place: whatever a launch says in confidence stands in the message alone. */
static int take_object(struct launcher *l, struct wire_msg *msg, struct err *err)
{
    struct json *root = NULL;
    int r = json_parse_in_place(msg->text, msg->text_len, &json_default_limits, &root, err);
    if (r == 0 && json_type(root) != JSON_OBJECT)
        r = err_set(err, ERR_PROTOCOL, "%s without an object", wire_type_name(msg->type));
    if (r == 0 && msg->type == WIRE_LAUNCH)
        r = on_launch(l, msg->request, root, err);
    else if (r == 0 && msg->type == WIRE_CLEAN)
        r = on_clean(l, msg->request, root);
    else if (r == 0 && msg->type == WIRE_KILL)
        on_kill(l, root);
    else if (r == 0 && json_get(root, "template") && json_text(root, "template"))
        stems_retire(&l->stems, json_text(root, "template"));
    json_free(root);
    explicit_bzero(msg->text, msg->text_len);
    return r;
}

static void take_order(struct launcher *l, struct wire_msg *msg)
{
    struct err err = ERR_INIT;
    switch (msg->type) {
    case WIRE_READY:
        on_ready(l);
        break;
    case WIRE_STOP:
        l->stopping = true;
        break;
    case WIRE_RETIRE:
    case WIRE_LAUNCH:
    case WIRE_CLEAN:
    case WIRE_KILL:
        if (take_object(l, msg, &err) < 0)
            tell_fail(l, msg->request, &err);
        break;
    default:
        lose_front(l);
    }
}

static void on_front(struct loop_io *io, uint32_t events)
{
    struct launcher *l = container_of(io, struct launcher, front);
    (void)events;
    for (int i = 0; i < 64 && !l->front_gone; i++) {
        int r = wire_receive(io->fd, l->msg, MSG_DONTWAIT);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            lose_front(l);
            return;
        }
        wire_close_fds(l->msg); /* it has none to give */
        take_order(l, l->msg);
    }
}

static void on_child(struct launcher *l, pid_t pid, int status)
{
    if (pid == l->front_pid) {
        l->front_pid = 0;
        l->front_status = status;
        lose_front(l);
    }
    stems_child(&l->stems, pid, status);
    gatekeeper_child(&l->gate, pid, status);
    for (size_t i = 0; i < l->count; i++) {
        if (l->children[i].pid != pid)
            continue;
        struct child gone = l->children[i];
        l->children[i] = l->children[--l->count];
        if (gone.stem)
            stems_drop(&l->stems, gone.stem);
        tell_id(l, WIRE_GONE, 0, status, gone.id, -1);
        break;
    }
    settle(l);
}

static void reload(struct launcher *l)
{
    struct templates fresh = {.count = 0};
    struct err err = ERR_INIT;
    if (l->c->load(l->c->ctx, &fresh, &err) < 0) {
        templates_done(&fresh);
        say_err(l, "the templates stay as they are", &err);
        return;
    }
    stems_retire(&l->stems, NULL);
    templates_done(&l->templates);
    l->templates = fresh;
    tell_templates(l);
    say(l, "templates are loaded anew");
}

static void on_signals(struct loop_io *io, uint32_t events)
{
    struct launcher *l = container_of(io, struct launcher, signals);
    struct signalfd_siginfo info;
    (void)events;
    while (read(io->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int status;
        pid_t pid;
        if (info.ssi_signo == SIGCHLD) {
            while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                on_child(l, pid, status);
        } else if (info.ssi_signo == SIGHUP) {
            reload(l);
            gatekeeper_reload(&l->gate);
        } else {
            stop(l);
        }
    }
}

/* ---- the front ---- */

/* Of a test build alone: its environment is empty but for what a test asks of it. */
static void pass_settings(char texts[2][256], char *envp[2])
{
    static const char *const names[] = {"BRIG_FAULT", "BRIG_FAIL_ALLOC_FRONT"};
    static const char *const passed[] = {"BRIG_FAULT", "BRIG_FAIL_ALLOC"};
    unsigned count = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = weaken_setting(names[i]);
        if (value && snprintf(texts[i], 256, "%s=%s", passed[i], value) < 256)
            envp[count++] = texts[i];
    }
}

struct front_words {
    char domain[300];
    char hosts[LAUNCHER_LISTENERS_MAX][60];
    char *argv[2 * LAUNCHER_LISTENERS_MAX + 3];
};

static void write_arguments(const struct launcher *l, struct front_words *w)
{
    const struct launcher_config *c = l->c;
    unsigned count = 0;
    w->argv[count++] = "brig-daemon";
    for (unsigned i = 0; i < l->listener_count; i++)
        w->argv[count++] = (char *)(uintptr_t)l->listeners[i].kind;
    /* It cannot look at sockets that it has not. */
    for (unsigned i = 0; c->certificate && i < c->listener_count; i++) {
        snprintf(w->hosts[i], sizeof w->hosts[i], "--host=%s", c->listeners[i].host);
        if (c->listeners[i].host[0])
            w->argv[count++] = w->hosts[i];
    }
    snprintf(w->domain, sizeof w->domain, "--domain=%s", c->domain ? c->domain : "");
    if (c->domain)
        w->argv[count++] = w->domain;
    w->argv[count] = NULL;
}

/* In the child: everything at its fixed number, nothing else open. */
static void become_front(const struct launcher *l, const char *program, int sock)
{
    struct front_words words;
    char *envp[] = {NULL, NULL, NULL};
    int count = FRONT_FD_LISTENERS + (int)l->listener_count;
    int from[FRONT_FD_LISTENERS + LAUNCHER_LISTENERS_MAX];
    char settings[2][256];
    pass_settings(settings, envp);
    for (int i = FRONT_FD_LAUNCHER; i < count; i++) {
        int fd = i == FRONT_FD_LAUNCHER ? sock
                 : i == FRONT_FD_STATE  ? l->c->state_fd
                                        : l->listeners[i - FRONT_FD_LISTENERS].fd;
        if ((from[i] = fcntl(fd, F_DUPFD_CLOEXEC, count)) < 0)
            _exit(125);
    }
    for (int i = FRONT_FD_LAUNCHER; i < count; i++)
        if (dup2(from[i], i) < 0)
            _exit(125);
    write_arguments(l, &words);
    sigset_t none;
    sigemptyset(&none);
    setsid();
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || sys_close_range((unsigned)count, ~0u, 0) < 0)
        _exit(125);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(program, words.argv, envp);
    _exit(127);
}

static int start_front(struct launcher *l, struct err *err)
{
    char program[4200];
    int pair[2];
    if (l->c->program)
        snprintf(program, sizeof program, "%s", l->c->program);
    else if (program_beside("brig-daemon", program, sizeof program, err) < 0)
        return err_number(err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, "socket for brig-daemon");
    l->front.fd = pair[0];
    say_hello(l);
    l->front_pid = fork();
    if (l->front_pid == 0)
        become_front(l, program, pair[1]);
    close(pair[1]);
    return l->front_pid < 0 ? err_sys(err, "start brig-daemon") : 0;
}

/* With TLS the TCP sockets are brig-tls's, and the front has the one over which it hands on. */
static int open_listeners(struct launcher *l, struct err *err)
{
    const struct launcher_config *c = l->c;
    for (unsigned i = 0; i < c->listener_count; i++) {
        if (c->certificate && strcmp(c->listeners[i].kind, "tcp") == 0)
            l->gate.listeners[l->gate.listener_count++] = c->listeners[i].fd;
        else
            l->listeners[l->listener_count++] = c->listeners[i];
    }
    if (!c->certificate)
        return 0;
    if (l->gate.listener_count == 0) {
        err_set(err, ERR_USAGE, "--tls: there is no TCP socket to speak it on");
        return err_hint(err, "name one with --listen ADDRESS:PORT");
    }
    l->gate.loop = l->loop;
    l->gate.certificate = c->certificate;
    l->gate.key = c->certificate_key;
    l->gate.domain = c->domain;
    l->gate.say = c->say;
    l->gate.warn = c->warn;
    l->gate.ctx = c->ctx;
    if (gatekeeper_open(&l->gate, err) < 0)
        return err_number(err);
    struct listener *door = &l->listeners[l->listener_count++];
    *door = (struct listener){.fd = l->gate.door[0], .kind = "tls", .address = "brig-tls"};
    return 0;
}

static int watch_signals(struct launcher *l, struct err *err)
{
    static const int watched[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    int fd = signals_open(watched, ARRAY_LEN(watched), NULL, err);
    if (fd < 0)
        return fd;
    l->signals = (struct loop_io){.fd = fd, .fn = on_signals};
    return loop_watch(l->loop, &l->signals, EPOLLIN) < 0 ? err_sys(err, "watch signals") : 0;
}

static int verdict(const struct launcher *l, struct err *err)
{
    if (l->stopping && l->front_status == 0)
        return 0;
    if (WIFSIGNALED(l->front_status))
        return err_set(err, ERR_SYSTEM, "brig-daemon was killed by signal %d; all sandboxes ended",
                       WTERMSIG(l->front_status));
    return err_set(err, ERR_SYSTEM, "brig-daemon ended with status %d; all sandboxes ended",
                   WEXITSTATUS(l->front_status));
}

/* Several may share this host: who runs it must know which limits are only watched. */
static void note_limits(struct launcher *l)
{
    struct cgroup_host host;
    char text[600];
    cgroup_discover(&host);
    if (host.version != CGROUP_NONE)
        return;
    snprintf(text, sizeof text,
             "limits of memory and CPU are watched, not held by the kernel: %s; %s", host.why,
             host.how);
    say(l, text);
}

static int run(struct launcher *l, struct err *err)
{
    l->msg = calloc(1, sizeof *l->msg);
    if (!l->msg)
        return err_memory(err);
    if (loop_new(&l->loop, err) < 0)
        return err_number(err);
    stems_init(&l->stems, l->loop);
    l->stems.say = say_of_stem;
    l->stems.become = become_stem;
    l->stems.ctx = l;
    if (l->c->load(l->c->ctx, &l->templates, err) < 0 || watch_signals(l, err) < 0 ||
        cgroup_take_scope(err) < 0 || open_listeners(l, err) < 0 || start_front(l, err) < 0)
        return err_number(err);
    note_limits(l);
    l->front.fn = on_front;
    l->last.fn = on_last;
    if (loop_watch(l->loop, &l->front, EPOLLIN) < 0)
        return err_sys(err, "watch brig-daemon");
    l->started = true;
    loop_run(l->loop);
    return verdict(l, err);
}

/* The kernel counts descriptors in flight per user: keep room for brig's own, whatever the code of
 * the same user sends (see limits.c). */
static void raise_descriptors(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return;
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
}

int launcher_run(const struct launcher_config *c, bool *ret_started, struct err *err)
{
    raise_descriptors();
    struct launcher l = {.c = c, .front = {.fd = -1}, .signals = {.fd = -1}};
    gatekeeper_init(&l.gate);
    int result = run(&l, err);
    *ret_started = l.started;
    gatekeeper_done(&l.gate);
    stems_done(&l.stems);
    templates_done(&l.templates);
    loop_free(l.loop);
    free(l.children);
    free(l.msg);
    if (l.signals.fd >= 0)
        close(l.signals.fd);
    if (l.front.fd >= 0)
        close(l.front.fd);
    return result;
}
