/* Two kinds of sessions.
 *
 * The protocol's own (Mcp-Session-Id, legacy era): nothing hangs on them but which request a
 * notifications/cancelled means. A table of fixed size; the one that was not used for longest makes
 * room, and its client begins anew as it would after a restart.
 *
 * A model's (create_session): sandboxes. They are kept by the core as all others are; here stands
 * which ones were made that way, by whom, and how long they may stay unused. */
#include "daemon/mcp/mcp.h"

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
static struct session sessions[SESSIONS_MAX];
static uint64_t uses;

static struct session *session_find(const struct key *key, const char *id)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (sessions[i].key == key && !strcmp(sessions[i].id, id))
            return &sessions[i];
    return NULL;
}

/* A free one; else the key's oldest, if it has too many; else the oldest of all. */
static struct session *session_place(const struct key *key)
{
    struct session *oldest = &sessions[0], *own = NULL, *unused = NULL;
    unsigned count = 0;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *s = &sessions[i];
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

const char *mcp_session_new(const struct key *key)
{
    struct session *s = session_place(key);
    s->key = key;
    s->used = ++uses;
    random_id(s->id, MCP_SESSION_LEN);
    return s->id;
}

bool mcp_session_use(const struct key *key, const char *id)
{
    struct session *s = session_find(key, id);
    if (s)
        s->used = ++uses;
    return s != NULL;
}

bool mcp_session_end(const struct key *key, const char *id)
{
    struct session *s = session_find(key, id);
    if (!s)
        return false;
    *s = (struct session){0};
    return true;
}

/* ---- sandboxes ---- */

struct mcp_box {
    struct mcp_box *next;
    const struct key *key;
    char id[BOX_ID_LEN + 1];
    int64_t idle_ms;
};
static struct mcp_box *made;

/* Forgets those that are gone. */
static unsigned count_live(struct core *core, const struct key *key)
{
    unsigned count = 0;
    for (struct mcp_box **at = &made, *m; (m = *at);) {
        if (m->id[0] && !box_find_any(core, m->id)) {
            *at = m->next;
            free(m);
            continue;
        }
        count += m->key == key;
        at = &m->next;
    }
    return count;
}

struct mcp_box *mcp_box_reserve(struct core *core, const struct key *key, int64_t idle_ms,
                                struct err *err)
{
    struct mcp_box *m;
    if (count_live(core, key) >= MCP_BOXES_MAX) {
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
    m->next = made;
    made = m;
    return m;
}

void mcp_box_made(struct mcp_box *m, const char *box_id)
{
    struct mcp_box **at = &made;
    if (box_id) {
        memcpy(m->id, box_id, sizeof(m->id));
        return;
    }
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    free(m);
}

void mcp_boxes_touch(struct box *b)
{
    box_touch(b);
    for (struct mcp_box *m = made; m; m = m->next)
        if (!strcmp(m->id, box_info(b)->id))
            box_set_timeout(b, m->idle_ms, true);
}

size_t mcp_boxes_of(struct core *core, const struct key *key, const char **ret, size_t max)
{
    size_t n = 0;
    count_live(core, key);
    for (struct mcp_box *m = made; m && n < max; m = m->next)
        if (m->key == key && m->id[0])
            ret[n++] = m->id;
    return n;
}
