/* What was learned, as it comes in. */
#include "policy/learn/learn.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "policy/paths.h"
#include "policy/text/show_yaml.h"
#include "policy/values.h"

#include <stdlib.h>
#include <string.h>

#define CLEAN_MAX  200
#define POLICY_MAX (1u << 20)

struct learn *learn_new(void)
{
    struct learn *l = calloc(1, sizeof *l);
    if (l)
        buf_init(&l->policy, POLICY_MAX);
    return l;
}

static void line_free(struct learn_line *line)
{
    free(line->value);
    free(line->dest);
    free(line->asked);
}

void learn_free(struct learn *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->line_count; i++)
        line_free(&l->lines[i]);
    for (size_t i = 0; i < l->refusal_count; i++) {
        free(l->refusals[i].what);
        free(l->refusals[i].why);
    }
    free(l->command);
    free(l->file);
    buf_done(&l->policy);
    free(l);
}

/* Marks that are not seen, or that turn the order of what follows around. */
static bool is_invisible(uint32_t code)
{
    return code == 0xad || code == 0x61c || code == 0x180e || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff || (code >= 0xfff0 && code <= 0xffff) || code >= 0xe0000;
}

static size_t plain_character(const char *text, uint32_t *code)
{
    size_t len = utf8_decode(text, strnlen(text, 4), code);
    bool control = *code < 0x20 || (*code >= 0x7f && *code < 0xa0);
    return control || is_invisible(*code) ? 0 : len;
}

void learn_clean(const char *text, struct buf *out)
{
    size_t start = out->len;
    while (*text && out->len - start < CLEAN_MAX) {
        uint32_t code = 0;
        size_t len = plain_character(text, &code);
        if (len)
            buf_add(out, text, len);
        else
            buf_fmt(out, "\\x%02x", (unsigned)(unsigned char)*text);
        text += len ? len : 1;
    }
    if (*text)
        buf_str(out, "...");
}

static char *cleaned(const char *text)
{
    cleanup_buf struct buf b;
    buf_init(&b, 4 * CLEAN_MAX);
    learn_clean(text ? text : "", &b);
    return strdup(buf_text(&b));
}

/* Could a person read it in a policy, and brig too? */
static const char *unwritable(const char *path)
{
    if (!text_is_utf8(path))
        return "its name is not valid UTF-8, and cannot stand in a policy";
    for (const char *at = path; *at;) {
        uint32_t code = 0;
        size_t len = plain_character(at, &code);
        if (!len)
            return "its name has control or invisible characters";
        at += len;
    }
    return strchr(path, ':') ? "its name has a colon, which a policy reads as the end of it" : NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_line(const struct learn_line *a, const struct learn_line *b)
{
    return a->kind == b->kind && (a->kind == LEARN_FIELD ? a->field == b->field
                                                         : strcmp(a->value, b->value) == 0 &&
                                                               same_text(a->dest, b->dest));
}

/* Takes a copy. The same again is counted. */
static void add_line(struct learn *l, const struct learn_line *line)
{
    for (size_t i = 0; i < l->line_count; i++) {
        if (!same_line(&l->lines[i], line))
            continue;
        l->lines[i].count += line->count;
        l->lines[i].looked &= line->looked;
        return;
    }
    if (l->line_count == LEARN_LINES_MAX) {
        l->dropped++;
        return;
    }
    struct learn_line copy = *line;
    copy.value = strdup(line->value);
    copy.dest = line->dest ? strdup(line->dest) : NULL;
    copy.asked = cleaned(line->asked);
    if (!copy.value || !copy.asked || (line->dest && !copy.dest)) {
        line_free(&copy);
        l->dropped++;
        return;
    }
    l->lines[l->line_count++] = copy;
}

void learn_drop(struct learn *l, size_t i)
{
    line_free(&l->lines[i]);
    l->line_count--;
    memmove(&l->lines[i], &l->lines[i + 1], (l->line_count - i) * sizeof l->lines[0]);
}

static bool place_is_taken(const struct learn *l, const char *source, const char *place)
{
    for (size_t i = 0; i < l->line_count; i++) {
        const struct learn_line *line = &l->lines[i];
        if ((line->kind == LEARN_RO || line->kind == LEARN_RW) &&
            strcmp(line->dest ? line->dest : line->value, place) == 0 &&
            strcmp(line->value, source) != 0)
            return true;
    }
    return false;
}

void learn_grant(struct learn *l, const struct learn_line *line)
{
    cleanup_free char *source = NULL;
    cleanup_free char *dest = NULL;
    const char *why = unwritable(line->value);
    if (!why && line->dest)
        why = unwritable(line->dest);
    if (!why && (path_normalise(line->value, &source, NULL) < 0 || !source[1] ||
                 (line->dest && path_normalise(line->dest, &dest, NULL) < 0)))
        why = "it is no path that a policy can name";
    if (!why && place_is_taken(l, source, dest ? dest : source))
        why = "two different things were asked for at the same place";
    if (why) {
        learn_refuse(l, line->value, why, line->count);
        return;
    }
    struct learn_line clean = *line;
    clean.value = source;
    clean.dest = dest && strcmp(dest, source) != 0 ? dest : NULL;
    add_line(l, &clean);
}

void learn_host(struct learn *l, const char *rule, const char *asked, const char *risk,
                uint64_t count)
{
    struct egress e;
    struct origin from = {.kind = ORIGIN_OPTION};
    egress_init(&e);
    bool ok = egress_allow(&e, rule, &from, NULL) >= 0 && e.rule_count == 1 &&
              e.rules[0].host.stars == 0 && e.rules[0].paths.count == 0 && !e.rules[0].pinned &&
              !rule_opens_nothing(&e.rules[0]);
    if (ok)
        add_line(l, &(struct learn_line){.kind = LEARN_HOST,
                                         .value = e.rules[0].text,
                                         .asked = (char *)asked,
                                         .risk = risk,
                                         .count = count});
    else
        learn_refuse(l, rule, "it is no host that a rule can name", count);
    egress_done(&e);
}

void learn_field(struct learn *l, enum policy_field field, const char *value, const char *asked,
                 const char *risk, uint64_t count)
{
    add_line(l, &(struct learn_line){.kind = LEARN_FIELD,
                                     .field = field,
                                     .value = (char *)value,
                                     .asked = (char *)asked,
                                     .risk = risk,
                                     .count = count});
}

/* Beyond these a person decides. */
static uint64_t most_proposed(enum policy_field field)
{
    switch (field) {
    case FIELD_MEMORY:
    case FIELD_DISK:
        return UINT64_C(64) << 30;
    case FIELD_OUTPUT:
        return UINT64_C(1) << 30;
    case FIELD_TIMEOUT:
    case FIELD_CPU_TIME:
        return UINT64_C(24) * 3600 * 1000;
    case FIELD_PIDS:
        return 32768;
    case FIELD_OPEN_FILES:
        return 1048576;
    case FIELD_INODES:
        return 10000000;
    default:
        return 0;
    }
}

void learn_limit(struct learn *l, const struct policy *base, enum policy_field field,
                 const char *asked)
{
    uint64_t now = field_number(base, field);
    cleanup_buf struct buf value;
    buf_init(&value, 64);
    if (now == POLICY_UNLIMITED || now > most_proposed(field) / 2) {
        learn_refuse(l, policy_field_path(field), "the limit is large already: raise it by hand",
                     1);
        return;
    }
    value_format(field, now * 2, &value);
    learn_field(
        l, field, buf_text(&value), asked,
        "low: twice the limit that was reached; what it needs is not known before it gets it", 1);
}

void learn_refuse(struct learn *l, const char *what, const char *why, uint64_t count)
{
    cleanup_free char *clean = cleaned(what);
    for (size_t i = 0; clean && i < l->refusal_count; i++) {
        if (strcmp(l->refusals[i].what, clean) != 0)
            continue;
        l->refusals[i].count += count;
        return;
    }
    char *reason = l->refusal_count < LEARN_REFUSALS_MAX && clean ? cleaned(why) : NULL;
    if (!reason) {
        l->dropped++;
        return;
    }
    l->refusals[l->refusal_count++] = (struct learn_refusal){clean, reason, count};
    clean = NULL;
}

bool learn_has_grants(const struct learn *l)
{
    for (size_t i = 0; i < l->line_count; i++)
        if (l->lines[i].kind == LEARN_RO || l->lines[i].kind == LEARN_RW)
            return true;
    return false;
}

const char *learn_field_name(const struct learn_line *line)
{
    switch (line->kind) {
    case LEARN_RO:
        return "filesystem.ro";
    case LEARN_RW:
        return "filesystem.rw";
    case LEARN_HOST:
        return "network.allow";
    case LEARN_FIELD:
        break;
    }
    return policy_field_path(line->field);
}
