/* The one text of a policy that its hash is taken over: compact JSON, keys and lists sorted,
 * numbers in base units under the names that struct policy has for them, nothing about where a
 * value came from. Two policies that enforce the same have the same text, however they were
 * written. */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/sha256.h"
#include "policy/commands/internal.h"
#include "policy/egress/internal.h"
#include "policy/fields.h"
#include "policy/tools/internal.h"
#include "policy/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_fields(const void *a, const void *b)
{
    const enum policy_field *x = a;
    const enum policy_field *y = b;
    return strcmp(field_member(*x), field_member(*y));
}

static int compare_grants(const void *a, const void *b)
{
    const struct grant *const *x = a;
    const struct grant *const *y = b;
    return strcmp((*x)->dest, (*y)->dest);
}

static int compare_env(const void *a, const void *b)
{
    const struct env_var *const *x = a;
    const struct env_var *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void write_field(struct json_writer *w, const struct policy *p, enum policy_field id)
{
    enum field_type type = field_type(id);
    uint64_t number = field_number(p, id);
    jw_key(w, field_member(id));
    if (field_is_text(id)) {
        cleanup_buf struct buf text;
        buf_init(&text, w->out->cap);
        policy_field_text(p, id, &text);
        jw_string(w, buf_text(&text));
    } else if (type == TYPE_BOOL) {
        jw_bool(w, number != 0);
    } else if (type_has_words(type)) {
        jw_string(w, word_of(type, number));
    } else if (number == POLICY_UNLIMITED) {
        jw_string(w, "unlimited");
    } else {
        jw_uint(w, number);
    }
}

static void write_fields(struct json_writer *w, const struct policy *p, const char *section)
{
    enum policy_field ids[FIELD_COUNT];
    size_t count = 0;
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (field_in_section(id, section))
            ids[count++] = id;
    }
    qsort(ids, count, sizeof ids[0], compare_fields);
    for (size_t i = 0; i < count; i++)
        write_field(w, p, ids[i]);
}

static void write_section(struct json_writer *w, const struct policy *p, const char *section)
{
    jw_key(w, section);
    jw_object_begin(w);
    write_fields(w, p, section);
    jw_object_end(w);
}

/* Sorted pointers into an array; NULL and a failed buffer when there is no memory. */
static void *sorted_pointers(struct json_writer *w, const void *array, size_t count, size_t size,
                             int (*compare)(const void *, const void *))
{
    const void **sorted = calloc(count + 1, sizeof *sorted);
    if (!sorted) {
        w->out->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = (const char *)array + i * size;
    qsort(sorted, count, sizeof *sorted, compare);
    return sorted;
}

static int compare_secrets(const void *a, const void *b)
{
    const struct egress_secret *const *x = a;
    const struct egress_secret *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void write_secrets(struct json_writer *w, const struct policy *p)
{
    const struct egress *e = &p->egress;
    cleanup_free const struct egress_secret **secrets =
        sorted_pointers(w, e->secrets, e->secret_count, sizeof *e->secrets, compare_secrets);
    jw_key(w, "secrets");
    jw_array_begin(w);
    for (size_t i = 0; secrets && i < e->secret_count; i++)
        secret_write(secrets[i], w, false);
    jw_array_end(w);
}

/* Rules and blocked hosts have one order already. What a secret implies stands there too: it is
 * enforced. */
static void write_network(struct json_writer *w, const struct policy *p)
{
    const struct egress *e = &p->egress;
    jw_key(w, "network");
    jw_object_begin(w);
    jw_key(w, "allow");
    jw_array_begin(w);
    for (size_t i = 0; i < e->rule_count; i++)
        rule_write(&e->rules[i], w, false);
    jw_array_end(w);
    if (e->asks) {
        jw_key(w, "ask");
        egress_ask_write(e, w);
    }
    jw_key(w, "block");
    jw_array_begin(w);
    for (size_t i = 0; i < e->blocked_count; i++) {
        cleanup_buf struct buf host;
        buf_init(&host, 512);
        pattern_text(&e->blocked[i], &host);
        jw_string(w, buf_text(&host));
    }
    jw_array_end(w);
    write_fields(w, p, "network");
    jw_object_end(w);
}

static void write_env(struct json_writer *w, const struct policy *p)
{
    cleanup_free const struct env_var **env =
        sorted_pointers(w, p->env, p->env_count, sizeof *p->env, compare_env);
    jw_key(w, "credentials");
    jw_object_begin(w);
    jw_key(w, "env");
    jw_object_begin(w);
    for (size_t i = 0; env && i < p->env_count; i++)
        jw_kv_string(w, env[i]->name, env[i]->value);
    jw_object_end(w);
    write_secrets(w, p);
    jw_object_end(w);
}

static void write_grants(struct json_writer *w, const struct policy *p)
{
    cleanup_free const struct grant **grants =
        sorted_pointers(w, p->grants, p->grant_count, sizeof *p->grants, compare_grants);
    jw_key(w, "grants");
    jw_array_begin(w);
    for (size_t i = 0; grants && i < p->grant_count; i++) {
        jw_object_begin(w);
        jw_kv_string(w, "dest", grants[i]->dest);
        jw_kv_string(w, "source", grants[i]->source);
        jw_kv_bool(w, "writable", grants[i]->writable);
        jw_object_end(w);
    }
    jw_array_end(w);
}

void policy_canonical(const struct policy *p, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    if (p->commands.given) {
        jw_key(&w, "commands");
        commands_write(&p->commands, &w);
    }
    write_env(&w, p);
    write_section(&w, p, "filesystem");
    write_grants(&w, p);
    write_section(&w, p, "kernel");
    write_fields(&w, p, "");
    write_section(&w, p, "lifecycle");
    write_network(&w, p);
    if (p->tools.given) {
        jw_key(&w, "tools");
        tools_write(&p->tools, &w);
    }
    jw_kv_uint(&w, "version", 1);
    jw_object_end(&w);
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
