/* Two kinds of sessions.
 *
 * The protocol's own (Mcp-Session-Id, legacy era): nothing hangs on them but which request a
 * notifications/cancelled means. A table of fixed size; the one that was not used for longest makes
 * room, and its client begins anew as it would after a restart.
 *
 * A model's (create_session): sandboxes. They are kept by the core as all others are; here stands
 * which ones were made that way, by whom, and how long they may stay unused. */
#include "daemon/mcp/mcp.h"

#include "base/container.h"
#include "daemon/base/random.h"

#include <stdlib.h>
#include <string.h>

#define SESSIONS_MAX 1024u
#define PER_KEY_MAX  256u

struct session {
    const struct key *key; /* NULL: free */
    char id[MCP_SESSION_LEN + 1];
    uint64_t used; /* a clock that counts uses */
};

struct mcp_box {
    struct mcp_box *next;
    const struct key *key;
    char id[BOX_ID_LEN + 1];
    int64_t idle_ms;
};

struct mcp_state {
    struct core_part part;
    struct core *core;
    struct session sessions[SESSIONS_MAX];
    uint64_t uses;
    struct mcp_box *made;
    struct mcp_call *running;
};

static void state_free(struct core_part *p)
{
    struct mcp_state *s = container_of(p, struct mcp_state, part);
    for (struct mcp_call *c = s->running; c; c = c->next)
        c->at = NULL;
    while (s->made) {
        struct mcp_box *m = s->made;
        s->made = m->next;
        free(m);
    }
    free(s);
}

struct mcp_state *mcp_state(struct core *core)
{
    struct core_part *p = core_part(core, state_free);
    if (p)
        return container_of(p, struct mcp_state, part);
    struct mcp_state *s = calloc(1, sizeof(*s));
    if (s) {
        s->part.free = state_free;
        s->core = core;
        core_add_part(core, &s->part);
    }
    return s;
}

struct mcp_call **mcp_running(struct mcp_state *s)
{
    return &s->running;
}

/* ---- the protocol's own ---- */

static struct session *session_find(struct mcp_state *s, const struct key *key, const char *id)
{
    for (size_t i = 0; s && i < SESSIONS_MAX; i++)
        if (s->sessions[i].key == key && !strcmp(s->sessions[i].id, id))
            return &s->sessions[i];
    return NULL;
}

/* A free one; else the key's oldest, if it has too many; else the oldest of all. */
static struct session *session_place(struct mcp_state *state, const struct key *key)
{
    struct session *oldest = &state->sessions[0], *own = NULL, *unused = NULL;
    unsigned count = 0;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *s = &state->sessions[i];
        if (!s->key)
            unused = s;
        if (s->used < oldest->used)
            oldest = s;
        if (s->key != key)
            continue;
        count++;
        if (!own || s->used < own->used)
            own = s;
    }
    return count >= PER_KEY_MAX ? own : unused ? unused : oldest;
}

const char *mcp_session_new(struct mcp_state *state, const struct key *key)
{
    struct session *s = session_place(state, key);
    s->key = key;
    s->used = ++state->uses;
    random_id(s->id, MCP_SESSION_LEN);
    return s->id;
}

bool mcp_session_use(struct mcp_state *state, const struct key *key, const char *id)
{
    struct session *s = session_find(state, key, id);
    if (s)
        s->used = ++state->uses;
    return s != NULL;
}

bool mcp_session_end(struct mcp_state *state, const struct key *key, const char *id)
{
    struct session *s = session_find(state, key, id);
    if (!s)
        return false;
    *s = (struct session){0};
    return true;
}

void mcp_sessions_forget(struct mcp_state *s, const struct key *key)
{
    for (size_t i = 0; s && i < SESSIONS_MAX; i++)
        if (s->sessions[i].key == key)
            s->sessions[i] = (struct session){0};
}

/* ---- sandboxes ---- */

/* Forgets those that are gone. */
static unsigned count_live(struct mcp_state *s, const struct key *key)
{
    unsigned count = 0;
    for (struct mcp_box **at = &s->made, *m; (m = *at);) {
        if (m->id[0] && !box_find_any(s->core, m->id)) {
            *at = m->next;
            free(m);
            continue;
        }
        count += m->key == key;
        at = &m->next;
    }
    return count;
}

struct mcp_box *mcp_box_reserve(struct mcp_state *s, const struct key *key, int64_t idle_ms,
                                struct err *err)
{
    struct mcp_box *m;
    if (count_live(s, key) >= MCP_BOXES_MAX) {
        err_set(err, ERR_LIMIT, "there are already %u sessions", MCP_BOXES_MAX);
        err_hint(err, "end one with destroy_session, or go on in one that exists");
        return NULL;
    }
    m = calloc(1, sizeof(*m));
    if (!m) {
        err_memory(err);
        return NULL;
    }
    m->key = key;
    m->idle_ms = idle_ms;
    m->next = s->made;
    s->made = m;
    return m;
}

void mcp_box_made(struct mcp_state *s, struct mcp_box *m, const char *box_id)
{
    struct mcp_box **at = &s->made;
    if (box_id) {
        memcpy(m->id, box_id, sizeof(m->id));
        return;
    }
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    free(m);
}

void mcp_boxes_touch(struct mcp_state *s, struct box *b)
{
    box_touch(b);
    for (struct mcp_box *m = s->made; m; m = m->next)
        if (!strcmp(m->id, box_info(b)->id))
            box_set_timeout(b, m->idle_ms, true);
}

size_t mcp_boxes_of(struct mcp_state *s, const struct key *key, const char **ret, size_t max)
{
    size_t n = 0;
    count_live(s, key);
    for (struct mcp_box *m = s->made; m && n < max; m = m->next)
        if (m->key == key && m->id[0])
            ret[n++] = m->id;
    return n;
}
