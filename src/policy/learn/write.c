/* The policy file that learn mode writes: what was given before, what is proposed, and why.
 *
 * The policy is shown as `brig policy show` does, without what only the level set, and with
 * comments before what is new. So it says the same as the policy, whatever members policies have.
 */
#include "policy/learn/learn.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "policy/fields.h"
#include "policy/grants.h"
#include "policy/paths.h"
#include "policy/text/show_yaml.h"
#include "policy/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_CAP (64u * 1024)

static const struct origin learned_from = {.kind = ORIGIN_OPTION, .name = "--learn"};

/* ---- the policy ---- */

static bool line_is_grant(const struct learn_line *line)
{
    return line->kind == LEARN_RO || line->kind == LEARN_RW;
}

static const char *place_of(const struct learn_line *line)
{
    return line->dest ? line->dest : line->value;
}

static const struct learn_line *find_field(const struct learn *l, enum policy_field id)
{
    for (size_t i = 0; i < l->line_count; i++)
        if (l->lines[i].kind == LEARN_FIELD && l->lines[i].field == id)
            return &l->lines[i];
    return NULL;
}

/* A grant of the base that a wider or stronger one takes the place of; `moved`: the working folder
 * is another, and what was put into the old one is in the new one by itself. */
static void drop_replaced(struct policy *p, const struct learn_line *line, bool moved)
{
    for (size_t i = 0; i < p->grant_count; i++) {
        struct grant *g = &p->grants[i];
        bool same = strcmp(g->dest, place_of(line)) == 0;
        bool inside = line->is_dir && path_covered(g->dest, place_of(line)) &&
                      path_covered(g->source, line->value) &&
                      (line->kind == LEARN_RW || !g->writable);
        bool left_behind = moved && line->is_dir && !g->writable &&
                           strcmp(g->source, g->dest) != 0 && path_covered(g->source, line->value);
        if (!same && !inside && !left_behind)
            continue;
        free(g->source);
        free(g->dest);
        p->grant_count--;
        memmove(g, g + 1, (p->grant_count - i) * sizeof *g);
        i--;
    }
}

static int add_grant(struct policy *p, const struct learn_line *line, bool moved, struct err *err)
{
    cleanup_buf struct buf spec;
    buf_init(&spec, LINE_CAP);
    buf_str(&spec, line->value);
    if (line->dest)
        buf_fmt(&spec, ":%s", line->dest);
    drop_replaced(p, line, moved);
    return grant_add(p, buf_text(&spec), line->kind == LEARN_RW, &learned_from, err);
}

static int add_host(struct policy *p, const struct learn_line *line, struct err *err)
{
    p->network_mode = NETWORK_ALLOWLIST;
    return policy_allow(p, line->value, &learned_from, err);
}

/* What does not go together with the policy is not proposed: negative, and the line is gone. */
static int add(struct policy *p, struct learn *l, struct learn_line *line)
{
    struct err err = ERR_INIT;
    int r;
    if (line_is_grant(line))
        r = add_grant(p, line, find_field(l, FIELD_CWD) != NULL, &err);
    else if (line->kind == LEARN_HOST)
        r = add_host(p, line, &err);
    else
        r = value_set(p, line->field, line->value, &learned_from, &err);
    if (r >= 0)
        return 0;
    learn_refuse(l, line->value, err.message, line->count);
    learn_drop(l, (size_t)(line - l->lines));
    return r;
}

/* A copy of the base, by way of its text, and the proposals on top of it. */
static int build(struct learn *l, const struct policy *base, struct policy *ret, struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, l->policy.cap);
    policy_show_yaml(base, &text);
    int r = text.failed ? err_set(err, ERR_LIMIT, "the policy is too long") : 0;
    if (r == 0)
        r = policy_load(ret, "base", buf_text(&text), text.len, err);
    /* Some checks depend on where values came from. Options count as a file here, so that no
     * proposal contradicts them. */
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        ret->origin[id] = base->origin[id];
        if (ret->origin[id].kind == ORIGIN_OPTION)
            ret->origin[id].kind = ORIGIN_FILE;
    }
    for (size_t i = 0; r >= 0 && i < l->line_count; i++)
        if (add(ret, l, &l->lines[i]) < 0)
            i--;
    return r < 0 ? r : policy_validate(ret, err);
}

/* ---- the text ---- */

struct notes {
    const struct learn *l;
    const struct policy *base;
};

static void comment(const struct learn_line *line, const char *indent, struct buf *out)
{
    buf_fmt(out, "%s# ", indent);
    learn_clean(line->asked, out);
    if (line->count > 1)
        buf_fmt(out, " (%" PRIu64 " times)", line->count);
    if (line->risk) {
        buf_fmt(out, "\n%s# risk ", indent);
        learn_clean(line->risk, out);
    }
    buf_chr(out, '\n');
}

static bool is_item(const struct learn_line *line, const char *item)
{
    size_t len = strlen(line->value);
    if (!line->dest)
        return strcmp(item, line->value) == 0;
    return strncmp(item, line->value, len) == 0 && item[len] == ':' &&
           strcmp(item + len + 1, line->dest) == 0;
}

static const struct learn_line *find_item(const struct learn *l, const char *section,
                                          const char *list, const struct json *item)
{
    static const struct {
        const char *section, *list;
        enum learn_kind kind;
    } lists[] = {{"filesystem", "ro", LEARN_RO},
                 {"filesystem", "rw", LEARN_RW},
                 {"network", "allow", LEARN_HOST}};
    for (size_t k = 0; json_type(item) == JSON_STRING && k < ARRAY_LEN(lists); k++) {
        if (strcmp(section, lists[k].section) != 0 || strcmp(list, lists[k].list) != 0)
            continue;
        for (size_t i = 0; i < l->line_count; i++)
            if (l->lines[i].kind == lists[k].kind && is_item(&l->lines[i], json_string(item)))
                return &l->lines[i];
    }
    return NULL;
}

static void note(void *ctx, const char *section, const char *key, const struct json *item,
                 const char *indent, struct buf *out)
{
    const struct notes *n = ctx;
    enum policy_field id = field_find(section, key);
    const struct learn_line *line = item               ? find_item(n->l, section, key, item)
                                    : id < FIELD_COUNT ? find_field(n->l, id)
                                                       : NULL;
    if (line)
        comment(line, indent, out);
}

/* An empty list that says the same as none. In other members an empty one may be a decision. */
static bool means_nothing(const struct policy *base, const char *section, const char *key)
{
    static const char *const lists[][2] = {{"filesystem", "ro"},   {"filesystem", "rw"},
                                           {"network", "allow"},   {"network", "block"},
                                           {"credentials", "env"}, {"credentials", "secrets"}};
    if (strcmp(section, "network") == 0 && strcmp(key, "allow") == 0 && base->allow_given)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (strcmp(section, lists[i][0]) == 0 && strcmp(key, lists[i][1]) == 0)
            return true;
    return false;
}

/* Of the fields those that were chosen, by whoever ran brig or by learning. */
static bool keep(void *ctx, const char *section, const char *key, const struct json *value)
{
    const struct notes *n = ctx;
    enum policy_field id = field_find(section, key);
    if (id < FIELD_COUNT)
        return find_field(n->l, id) || n->base->origin[id].kind > ORIGIN_LEVEL || id == FIELD_LEVEL;
    bool is_empty = (json_type(value) == JSON_ARRAY || json_type(value) == JSON_OBJECT) &&
                    json_count(value) == 0;
    return !is_empty || !means_nothing(n->base, section, key);
}

static void write_head(const struct learn *l, struct buf *out)
{
    buf_str(out, "# Learned by `brig run --learn` from: ");
    learn_clean(l->command ? l->command : "", out);
    buf_str(out,
            "\n# It allows what the program asked for and was refused, which is not always what it "
            "should have:\n# read each line before you use it.\n");
    if (l->ended_well && l->line_count)
        buf_str(out, "# The program ended well: it can do without what stands here, or hides that "
                     "it cannot.\n");
    else if (l->line_count)
        buf_str(out, "# It may ask for more once it gets further: run it with --policy and --learn "
                     "again.\n");
    if (l->dropped)
        buf_fmt(out, "# Incomplete: %" PRIu64 " further things that it asked for were not kept.\n",
                l->dropped);
}

static void write_refusals(const struct learn *l, struct buf *out)
{
    if (l->refusal_count)
        buf_str(out, "# Refused, and not proposed:\n");
    for (size_t i = 0; i < l->refusal_count; i++) {
        const struct learn_refusal *r = &l->refusals[i];
        buf_str(out, "#   ");
        learn_clean(r->what, out);
        if (r->count > 1)
            buf_fmt(out, " (%" PRIu64 " times)", r->count);
        buf_str(out, ": ");
        learn_clean(r->why, out);
        buf_chr(out, '\n');
    }
}

/* LN-1 */
static int read_back(const struct learn *l, const struct policy *meant, struct err *err)
{
    struct policy p;
    char a[72], b[72];
    int r = policy_init(&p, meant->level);
    if (r == 0)
        r = policy_load(&p, "learned", buf_text(&l->policy), l->policy.len, err);
    if (r == 0)
        r = policy_validate(&p, err);
    if (r == 0 && (policy_hash(&p, a) < 0 || policy_hash(meant, b) < 0 || strcmp(a, b) != 0))
        r = err_set(err, ERR_INTERNAL, "the learned policy does not read back as it was meant");
    policy_done(&p);
    return r;
}

int learn_write(struct learn *l, const struct policy *base, struct err *err)
{
    struct policy p;
    buf_reset(&l->policy);
    int r = policy_init(&p, base->level);
    if (r == 0)
        r = build(l, base, &p, err);
    if (r >= 0) {
        write_head(l, &l->policy);
        show_yaml(&p, &(struct yaml_notes){keep, note, &(struct notes){l, base}}, &l->policy);
        write_refusals(l, &l->policy);
        r = l->policy.failed ? err_set(err, ERR_LIMIT, "the learned policy is too long")
                             : read_back(l, &p, err);
    }
    policy_done(&p);
    return r < 0 ? err_wrap(err, "learned policy") : 0;
}

void learn_write_json(const struct learn *l, struct json_writer *w)
{
    jw_object_begin(w);
    jw_kv_string(w, "policy", buf_text(&l->policy));
    jw_key(w, "file");
    if (l->file)
        jw_bytes(w, l->file, strlen(l->file));
    else
        jw_null(w);
    jw_key(w, "proposals");
    jw_array_begin(w);
    for (size_t i = 0; i < l->line_count; i++) {
        const struct learn_line *line = &l->lines[i];
        jw_object_begin(w);
        jw_kv_string(w, "field", learn_field_name(line));
        jw_kv_string(w, "value", line->value);
        if (line->dest)
            jw_kv_string(w, "place", line->dest);
        jw_kv_string(w, "asked", line->asked);
        jw_kv_uint(w, "count", line->count);
        jw_kv_string(w, "risk", line->risk);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_key(w, "refused");
    jw_array_begin(w);
    for (size_t i = 0; i < l->refusal_count; i++) {
        jw_object_begin(w);
        jw_kv_string(w, "what", l->refusals[i].what);
        jw_kv_string(w, "why", l->refusals[i].why);
        jw_kv_uint(w, "count", l->refusals[i].count);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_kv_uint(w, "dropped", l->dropped);
    jw_kv_bool(w, "complete", l->line_count == 0 && l->dropped == 0);
    jw_object_end(w);
}
