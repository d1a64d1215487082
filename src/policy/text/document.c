/* The one walk over a policy. What it writes is a document that brig reads back: every field,
 * whether it was chosen or not; `brig policy show` prints it as JSON or YAML, and learn mode thins
 * it out. In its canonical form it is the text that the policy's hash is taken over: compact JSON,
 * keys and lists sorted, numbers in base units under the names that struct policy has for them,
 * nothing about where a value came from. Two policies that enforce the same have the same canonical
 * text, however they were written. */
#include "policy/text/document.h"

#include "base/cleanup.h"
#include "base/sha256.h"
#include "policy/commands/internal.h"
#include "policy/egress/internal.h"
#include "policy/fields.h"
#include "policy/grants.h"
#include "policy/tools/internal.h"
#include "policy/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct walk {
    const struct policy *p;
    struct json_writer *w;
    bool canonical;
};

static void write_field_text(const struct walk *k, enum policy_field id)
{
    cleanup_buf struct buf text;
    buf_init(&text, k->w->out->cap);
    policy_field_text(k->p, id, &text);
    k->w->out->failed |= text.failed;
    jw_string(k->w, buf_text(&text));
}

static void write_wish(const struct walk *k)
{
    jw_array_begin(k->w);
    for (unsigned i = 0; i < k->p->wish.count; i++)
        jw_string(k->w, tier_name(k->p->wish.tiers[i]));
    jw_array_end(k->w);
}

static void write_field(const struct walk *k, enum policy_field id)
{
    enum field_type type = field_type(id);
    bool is_number = !field_is_text(id) && !type_has_words(type);
    bool has_unit = type == TYPE_SIZE || type == TYPE_DURATION;
    uint64_t number = field_is_text(id) ? 0 : field_number(k->p, id);
    jw_key(k->w, k->canonical ? field_member(id) : field_key(id));
    if (id == FIELD_TIER && k->p->wish.count)
        write_wish(k);
    else if (type == TYPE_BOOL)
        jw_bool(k->w, number != 0);
    else if (!is_number || number == POLICY_UNLIMITED || (has_unit && !k->canonical))
        write_field_text(k, id);
    else if (type == TYPE_MILLI && !k->canonical && number % 1000)
        jw_real(k->w, (double)number / 1000);
    else
        jw_uint(k->w, type == TYPE_MILLI && !k->canonical ? number / 1000 : number);
}

/* Without a user namespace nobody can choose the uid inside, and a document that names one is
 * refused: what is shown must read back. */
static bool may_be_said(const struct policy *p, enum policy_field id)
{
    return id != FIELD_UID || p->tier == TIER_AUTO || tier_namespaced(p->tier);
}

/* Leaves the section open for more; "" is the top, which is open already. */
static void write_fields(const struct walk *k, const char *section)
{
    if (*section) {
        jw_key(k->w, section);
        jw_object_begin(k->w);
    }
    for (enum policy_field id = 0; id < FIELD_COUNT; id++)
        if (field_in_section(id, section) && (k->canonical || may_be_said(k->p, id)))
            write_field(k, id);
}

static void write_grant_list(const struct walk *k, bool writable)
{
    jw_key(k->w, writable ? "rw" : "ro");
    jw_array_begin(k->w);
    for (size_t i = 0; i < k->p->grant_count; i++) {
        if (k->p->grants[i].writable != writable)
            continue;
        cleanup_buf struct buf text;
        buf_init(&text, k->w->out->cap);
        grant_text(&k->p->grants[i], &text);
        k->w->out->failed |= text.failed;
        jw_string(k->w, buf_text(&text));
    }
    jw_array_end(k->w);
}

static int compare_grants(const void *a, const void *b)
{
    const struct grant *const *x = a;
    const struct grant *const *y = b;
    return strcmp((*x)->dest, (*y)->dest);
}

/* Both kinds in one list, in the order of their places. */
static void write_sorted_grants(const struct walk *k)
{
    cleanup_free const struct grant **grants = calloc(k->p->grant_count + 1, sizeof *grants);
    if (!grants) {
        k->w->out->failed = true;
        return;
    }
    for (size_t i = 0; i < k->p->grant_count; i++)
        grants[i] = &k->p->grants[i];
    qsort(grants, k->p->grant_count, sizeof *grants, compare_grants);
    jw_key(k->w, "grants");
    jw_array_begin(k->w);
    for (size_t i = 0; i < k->p->grant_count; i++) {
        jw_object_begin(k->w);
        jw_kv_string(k->w, "dest", grants[i]->dest);
        jw_kv_string(k->w, "source", grants[i]->source);
        jw_kv_bool(k->w, "writable", grants[i]->writable);
        jw_object_end(k->w);
    }
    jw_array_end(k->w);
}

static void write_network(const struct walk *k)
{
    const struct egress *e = &k->p->egress;
    write_fields(k, "network");
    jw_key(k->w, "allow");
    egress_write_rules(e, k->w, k->canonical ? EGRESS_CANONICAL : EGRESS_SHOWN);
    jw_key(k->w, "block");
    egress_write_blocked(e, k->w);
    if (e->asks) {
        jw_key(k->w, "ask");
        egress_ask_write(e, k->w);
    }
    jw_object_end(k->w);
}

static void write_credentials(const struct walk *k)
{
    write_fields(k, "credentials");
    jw_key(k->w, "env");
    jw_object_begin(k->w);
    for (size_t i = 0; i < k->p->env_count; i++)
        jw_kv_string(k->w, k->p->env[i].name, k->p->env[i].value);
    jw_object_end(k->w);
    jw_key(k->w, "secrets");
    egress_write_secrets(&k->p->egress, k->w, k->canonical ? EGRESS_CANONICAL : EGRESS_SHOWN);
    jw_object_end(k->w);
}

static void write_policy(const struct walk *k)
{
    jw_object_begin(k->w);
    jw_kv_uint(k->w, "version", 1);
    write_fields(k, "");
    write_fields(k, "kernel");
    jw_object_end(k->w);
    write_fields(k, "filesystem");
    if (!k->canonical) {
        write_grant_list(k, false);
        write_grant_list(k, true);
    }
    jw_object_end(k->w);
    if (k->canonical)
        write_sorted_grants(k);
    write_network(k);
    write_credentials(k);
    write_fields(k, "lifecycle");
    jw_object_end(k->w);
    if (k->p->commands.given) {
        jw_key(k->w, "commands");
        commands_write(&k->p->commands, k->w);
    }
    if (k->p->tools.given) {
        jw_key(k->w, "tools");
        tools_write(&k->p->tools, k->w, k->canonical);
    }
    jw_object_end(k->w);
}

static struct json *make_tree(const struct policy *p, bool canonical, size_t cap)
{
    static const struct json_limits limits = {
        .max_bytes = SIZE_MAX, .max_depth = 32, .max_nodes = SIZE_MAX};
    cleanup_buf struct buf text;
    struct json_writer w;
    struct json *tree = NULL;
    buf_init(&text, cap);
    jw_init(&w, &text, false);
    write_policy(&(struct walk){.p = p, .w = &w, .canonical = canonical});
    if (text.failed || json_parse(buf_text(&text), text.len, &limits, &tree, NULL) < 0)
        return NULL;
    return tree;
}

struct json *policy_tree(const struct policy *p, size_t cap)
{
    return make_tree(p, false, cap);
}

void policy_show_json(const struct policy *p, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, true);
    write_policy(&(struct walk){.p = p, .w = &w});
    buf_chr(out, '\n');
}

void policy_canonical(const struct policy *p, struct buf *out)
{
    struct json_writer w;
    struct json *tree = make_tree(p, true, out->cap);
    jw_init(&w, out, false);
    if (tree)
        jw_json_sorted(&w, tree);
    else
        out->failed = true;
    json_free(tree);
}

int policy_hash(const struct policy *p, char out[static 72])
{
    cleanup_buf struct buf text;
    char hex[SHA256_HEX_SIZE];
    buf_init(&text, SIZE_MAX / 2);
    policy_canonical(p, &text);
    out[0] = '\0';
    /* The hash of half a text would be a lie. */
    if (text.failed)
        return -(int)ERR_SYSTEM;
    sha256_hex(buf_text(&text), text.len, hex);
    snprintf(out, 72, "sha256:%s", hex);
    return 0;
}
