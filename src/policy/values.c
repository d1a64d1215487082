/* Sets one field of a policy from text, checks its range, and writes it back as text. */
#include "policy/values.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "http/url.h"
#include "policy/levels.h"
#include "policy/paths.h"
#include "policy/reference.h"
#include "policy/wish.h"
#include "policy/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int parse_number(enum field_type type, const char *text, uint64_t *ret, struct err *err)
{
    switch (type) {
    case TYPE_SIZE:
        return num_parse_size(text, ret, err);
    case TYPE_COUNT:
        return num_parse_count(text, ret, err);
    case TYPE_MILLI:
        return num_parse_milli(text, ret, err);
    case TYPE_DURATION:
        return num_parse_duration(text, ret, err);
    default:
        return num_parse_uint(text, ret, err);
    }
}

static int check_range(enum policy_field id, const char *text, uint64_t number, struct err *err)
{
    const struct field *f = field_rules(id);
    if (number >= f->min && number <= f->max)
        return 0;
    cleanup_buf struct buf low;
    cleanup_buf struct buf high;
    struct quoted q;
    buf_init(&low, NUM_TEXT_SIZE);
    buf_init(&high, NUM_TEXT_SIZE);
    value_format(id, f->min, &low);
    value_format(id, f->max, &high);
    return err_set(err, ERR_USAGE, "%s is out of range, expected %s to %s", quote(&q, text),
                   buf_text(&low), buf_text(&high));
}

static int parse_value(enum policy_field id, const char *text, uint64_t *ret, struct err *err)
{
    enum field_type type = field_type(id);
    if (type_has_words(type))
        return word_parse(type, text, ret, err);
    if (strcmp(text, "unlimited") == 0) {
        if (!field_rules(id)->unlimited)
            return err_set(err, ERR_USAGE, "cannot be unlimited, expected a number");
        *ret = POLICY_UNLIMITED;
        return 0;
    }
    uint64_t number = 0;
    int r = parse_number(type, text, &number, err);
    if (r < 0)
        return r;
    r = check_range(id, text, number, err);
    if (r == 0)
        *ret = number;
    return r;
}

/* The word that a text field takes instead of a text; only root keeps it, for the others it is
 * NULL. */
static const char *text_word(enum policy_field id)
{
    return id == FIELD_CWD ? "auto" : "host";
}

static int parse_resolver(const char *text, char **ret, struct err *err)
{
    struct quoted q;
    struct host host;
    uint16_t port;
    size_t len = strlen(text);
    /* An IPv6 address alone has colons and no port. */
    bool alone = text[0] != '[' && strchr(text, ':') != strrchr(text, ':');
    int r = alone ? host_parse(text, len, false, &host, err)
                  : authority_parse(text, len, 53, &host, &port, err);
    if (r < 0 || host.kind == HOST_NAME)
        return err_set(err, ERR_USAGE,
                       "%s is not a resolver, expected host, an address such as 9.9.9.9, or "
                       "ADDRESS:PORT",
                       quote(&q, text));
    char out[300];
    snprintf(out, sizeof out, host.kind == HOST_IPV6 ? "[%s]:%u" : "%s:%u", host.text,
             alone ? 53U : (unsigned)port);
    *ret = strdup(out);
    return *ret ? 0 : err_memory(err);
}

static int parse_path(enum policy_field id, const char *text, char **ret, struct err *err)
{
    int r = path_normalise(text, ret, err);
    if (r < 0 && text[0] != '/') {
        struct quoted q;
        return err_set(err, ERR_USAGE,
                       "%s is not an absolute path, expected %s or a path that "
                       "begins with /",
                       quote(&q, text), text_word(id));
    }
    if (r == 0 && id == FIELD_ROOT && strcmp(*ret, "/") == 0) {
        free(*ret);
        *ret = NULL;
        return err_set(err, ERR_USAGE,
                       "/ would show the whole host, expected host (a safe view of "
                       "it) or a folder");
    }
    return r;
}

/* As it stands: what it is pinned to belongs to the policy. */
static int parse_image(const char *text, char **ret, struct err *err)
{
    struct reference ref;
    if (reference_parse(reference_of_root(text), &ref, err) < 0)
        return err_number(err);
    *ret = strdup(text);
    return *ret ? 0 : err_memory(err);
}

static int parse_text(enum policy_field id, const char *text, char **ret, struct err *err)
{
    *ret = NULL;
    if (strcmp(text, text_word(id)) == 0) {
        if (id == FIELD_ROOT && !(*ret = strdup(text)))
            return err_memory(err);
        return 0;
    }
    if (id == FIELD_ROOT && reference_of_root(text))
        return parse_image(text, ret, err);
    return id == FIELD_RESOLVER ? parse_resolver(text, ret, err) : parse_path(id, text, ret, err);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Options may be repeated but not disagree: taking the last one would hide a mistake. */
static int check_repeat(const struct policy *p, enum policy_field id, const struct origin *origin,
                        bool same, struct err *err)
{
    if (same || origin->kind != ORIGIN_OPTION || p->origin[id].kind != ORIGIN_OPTION)
        return 0;
    cleanup_buf struct buf before;
    struct quoted q;
    buf_init(&before, 4096);
    policy_field_text(p, id, &before);
    return err_set(err, ERR_USAGE, "contradicts %s, which was given before as %s",
                   p->origin[id].name, quote(&q, buf_text(&before)));
}

static int set_text(struct policy *p, enum policy_field id, const char *text,
                    const struct origin *origin, struct err *err)
{
    cleanup_free char *value = NULL;
    int r = parse_text(id, text, &value, err);
    if (r < 0)
        return r;
    r = check_repeat(p, id, origin, same_text(value, field_string_of(p, id)), err);
    if (r < 0 || origin->kind < p->origin[id].kind)
        return r;
    char **slot = field_string(p, id);
    free(*slot);
    *slot = value;
    value = NULL;
    p->origin[id] = *origin;
    return 0;
}

/* A list of one is no list. */
static int set_tier(struct policy *p, const char *text, const struct origin *origin,
                    struct err *err)
{
    struct tier_wish wish;
    int r = wish_parse(text, &wish, err);
    if (r < 0)
        return r;
    enum tier tier = wish_weakest(&wish);
    if (wish.count == 1)
        wish.count = 0;
    r = check_repeat(p, FIELD_TIER, origin, tier == p->tier && wish_same(&wish, &p->wish), err);
    if (r < 0 || origin->kind < p->origin[FIELD_TIER].kind)
        return r;
    p->tier = tier;
    p->wish = wish;
    p->origin[FIELD_TIER] = *origin;
    return 0;
}

static int set_number(struct policy *p, enum policy_field id, const char *text,
                      const struct origin *origin, struct err *err)
{
    uint64_t number = 0;
    int r = parse_value(id, text, &number, err);
    if (r < 0)
        return r;
    r = check_repeat(p, id, origin, number == field_number(p, id), err);
    /* An option wins over a file, whichever of them is applied first. */
    if (r < 0 || origin->kind < p->origin[id].kind)
        return r;
    field_store(p, id, number);
    p->origin[id] = *origin;
    if (id == FIELD_LEVEL && level_apply(p, p->level) < 0)
        return err_sys(err, "policy");
    return 0;
}

int value_set(struct policy *p, enum policy_field id, const char *text, const struct origin *origin,
              struct err *err)
{
    if (field_is_text(id))
        return set_text(p, id, text, origin, err);
    if (id == FIELD_TIER)
        return set_tier(p, text, origin, err);
    return set_number(p, id, text, origin, err);
}

int origin_blame(const struct origin *origin, const char *what, struct err *err)
{
    bool named = origin->kind == ORIGIN_OPTION && origin->name[0];
    return err_wrap(err, "%s", named ? origin->name : what);
}

int policy_set(struct policy *p, enum policy_field field, const char *text,
               const struct origin *origin, struct err *err)
{
    int r = value_set(p, field, text, origin, err);
    return r < 0 ? origin_blame(origin, policy_field_path(field), err) : 0;
}

void value_format(enum policy_field id, uint64_t number, struct buf *out)
{
    char text[NUM_TEXT_SIZE] = "";
    enum field_type type = field_type(id);
    const char *word = word_of(type, number);
    if (type_has_words(type)) {
        buf_str(out, word ? word : "unknown");
        return;
    }
    if (number == POLICY_UNLIMITED) {
        buf_str(out, "unlimited");
        return;
    }
    if (type == TYPE_SIZE)
        num_format_size(number, text);
    else if (type == TYPE_DURATION)
        num_format_duration(number, text);
    else if (type == TYPE_MILLI)
        num_format_milli(number, text);
    else if (type == TYPE_COUNT)
        num_format_count(number, text);
    else
        snprintf(text, sizeof text, "%" PRIu64, number);
    buf_str(out, text);
}

void policy_field_text(const struct policy *p, enum policy_field field, struct buf *out)
{
    if (field == FIELD_TIER && p->wish.count) {
        wish_text(&p->wish, out);
        return;
    }
    if (!field_is_text(field)) {
        value_format(field, field_number(p, field), out);
        return;
    }
    const char *text = field_string_of(p, field);
    buf_str(out, text ? text : text_word(field));
}
