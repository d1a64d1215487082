/* The launcher's socket: which templates there are, which sandboxes it started, which are gone. */
#include "base/cleanup.h"
#include "base/container.h"
#include "base/wall.h"
#include "daemon/core/core_internal.h"

#include <string.h>

static const struct peer_ops launcher_ops;

static struct core *core_of(struct peer *p)
{
    return container_of(p, struct core, launcher);
}

static struct json *parse(struct wire_msg *m, struct err *err)
{
    struct json *tree = NULL;
    if (json_parse(m->text, m->text_len, NULL, &tree, err) < 0)
        return NULL;
    if (json_type(tree) != JSON_OBJECT) {
        err_set(err, ERR_PROTOCOL, "the launcher sent no object");
        json_free(tree);
        return NULL;
    }
    return tree;
}

static void on_templates(struct core *c, const struct json *tree, struct err *err)
{
    if (templates_read(c, json_get(tree, "templates"), err) < 0)
        core_lose(c, err);
    else if (c->ready)
        core_record(c, "daemon.templates", NULL, NULL, NULL);
}

/* The key that the launcher made or read: as good as one that was kept. */
static int take_operator_key(struct core *c, const struct json *key, struct err *err)
{
    const char *id = json_text(key, "id"), *hash = json_text(key, "hash");
    cleanup_buf struct buf text = {0};
    struct json_writer w;
    if (!id || !hash || !*hash || keys_find(c->keys, id))
        return 0;
    jw_begin(&w, &text, 4096);
    jw_kv_string(&w, "name", "operator");
    jw_kv_string(&w, "hash", hash);
    jw_kv_bool(&w, "operator", true);
    jw_kv_int(&w, "created_ms", wall_ms());
    jw_kv_int(&w, "revoked_ms", 0);
    jw_kv_int(&w, "max_boxes", 0);
    jw_object_end(&w);
    return keys_restore(c->keys, id, buf_text(&text), text.len, err);
}

static void take_projects(struct core *c, const struct json *list)
{
    for (size_t i = 0; list && i < json_count(list) && c->project_count < CORE_PROJECTS_MAX; i++) {
        const char *path = json_string(json_at(list, i));
        char *copy = strdup(path ? path : "");
        if (copy)
            c->projects[c->project_count++] = copy;
    }
}

const char *core_project(const struct core *c, size_t i)
{
    return i < c->project_count ? c->projects[i] : NULL;
}

const char *core_project_of(const struct core *c, const struct key *key)
{
    for (size_t i = 0; i < c->project_count; i++)
        if (key_has_project(key, c->projects[i]))
            return c->projects[i];
    return NULL;
}

static void on_hello(struct core *c, const struct json *tree, struct err *err)
{
    const struct json *most = json_get(tree, "max_boxes");
    if (json_type(most) == JSON_INT && json_int(most) > 0 && json_int(most) <= 100000)
        c->config.max_boxes = (unsigned)json_int(most);
    if (c->config.possible_boxes && c->config.max_boxes > c->config.possible_boxes)
        c->config.max_boxes = c->config.possible_boxes;
    if (take_operator_key(c, json_get(tree, "operator_key"), err) < 0)
        core_lose(c, err);
    if (!c->hello)
        take_projects(c, json_get(tree, "projects"));
    on_templates(c, tree, err);
    c->hello = true;
    core_check_ready(c);
}

static void on_launched(struct core *c, const struct json *tree, struct wire_msg *m)
{
    c->config.boxes->launched(c, json_text(tree, "id"), wire_steal_fd(m, 0));
}

/* To a LAUNCH: no process was made. */
static void on_fail(struct core *c, struct wire_msg *m)
{
    struct err err = ERR_INIT;
    if (wire_err_read(m->text, m->text_len, &err) < 0 || err.code == ERR_NONE)
        err_set(&err, ERR_PROTOCOL, "the launcher failed without saying why");
    if (m->request == 0)
        core_lose(c, &err);
    else
        c->config.boxes->not_launched(c, m->request, &err);
}

static void on_message(struct peer *p, struct wire_msg *m)
{
    struct core *c = core_of(p);
    struct err err = ERR_INIT;
    if (m->type == WIRE_FAIL) {
        on_fail(c, m);
        return;
    }
    if (m->type == WIRE_STOP) {
        core_stop(c);
        return;
    }
    struct json *tree = parse(m, &err);
    if (!tree) {
        core_lose(c, &err);
        return;
    }
    if (m->type == WIRE_HELLO) {
        on_hello(c, tree, &err);
    } else if (m->type == WIRE_TEMPLATES) {
        on_templates(c, tree, &err);
    } else if (m->type == WIRE_LAUNCHED) {
        on_launched(c, tree, m);
    } else if (m->type == WIRE_GONE) {
        int64_t status = m->value;
        wire_close_fds(m); /* the room is used again for the warden's last words */
        c->config.boxes->gone(c, json_text(tree, "id"), status);
    }
    json_free(tree);
}

static void on_closed(struct peer *p, const struct err *why)
{
    core_lose(core_of(p), why);
}

static const struct peer_ops launcher_ops = {
    .name = "the launcher",
    .message = on_message,
    .closed = on_closed,
    .out_max = 4u << 20,
    .ask_max = 4096,
};

int launcher_open(struct core *c, int fd, struct err *err)
{
    peer_init(&c->launcher, c->loop, c->room, &launcher_ops);
    return peer_open(&c->launcher, fd, err);
}
