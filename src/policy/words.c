/* The words of levels, tiers and other enumerated values, from text and to text. */
#include "policy/words.h"

#include "base/cleanup.h"
#include "base/quote.h"

#include <string.h>

struct words {
    const char *const *word; /* in the order of the enum */
    size_t count;
    size_t first; /* words before this one are printed but not accepted */
};

static const char *const level_words[] = {"low", "medium", "high", "critical"};
static const char *const tier_words[] = {"auto",
#define X(id, word, namespaces) word,
                                         POLICY_TIERS(X)
#undef X
};
static const char *const need_words[] = {"off", "auto", "require"};
static const char *const sampling_words[] = {"accept", "auto", "refuse"};
static const char *const proc_words[] = {"pid", "own", "system"};
static const char *const network_words[] = {"off", "allowlist"};
static const char *const bool_words[] = {"false", "true"};

static const struct words *words_of(enum field_type type)
{
    static const struct words table[] = {
        [TYPE_LEVEL] = {level_words, ARRAY_LEN(level_words), 0},
        /* TIER_AUTO is the value before a level has filled it in; it cannot be asked for. */
        [TYPE_TIER] = {tier_words, ARRAY_LEN(tier_words), TIER_PROCESS},
        [TYPE_NEED] = {need_words, ARRAY_LEN(need_words), 0},
        [TYPE_SAMPLING] = {sampling_words, ARRAY_LEN(sampling_words), 0},
        [TYPE_PROC] = {proc_words, ARRAY_LEN(proc_words), 0},
        [TYPE_NETWORK] = {network_words, ARRAY_LEN(network_words), 0},
        [TYPE_BOOL] = {bool_words, ARRAY_LEN(bool_words), 0},
    };
    static const struct words none = {0};
    return type < ARRAY_LEN(table) ? &table[type] : &none;
}

bool type_has_words(enum field_type type)
{
    return words_of(type)->count > 0;
}

const char *word_of(enum field_type type, uint64_t value)
{
    const struct words *w = words_of(type);
    return value < w->count ? w->word[value] : NULL;
}

void words_list(enum field_type type, struct buf *out)
{
    const struct words *w = words_of(type);
    for (size_t i = w->first; i < w->count; i++) {
        if (i > w->first)
            buf_str(out, i + 1 == w->count ? " or " : ", ");
        buf_str(out, w->word[i]);
    }
}

int word_parse(enum field_type type, const char *text, uint64_t *ret, struct err *err)
{
    const struct words *w = words_of(type);
    for (size_t i = w->first; i < w->count; i++) {
        if (strcmp(w->word[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    cleanup_buf struct buf list;
    struct quoted q;
    buf_init(&list, 200);
    words_list(type, &list);
    return err_set(err, ERR_USAGE, "unknown value %s, expected %s", quote(&q, text),
                   buf_text(&list));
}

static const char *name_or_unknown(enum field_type type, uint64_t value)
{
    const char *word = word_of(type, value);
    return word ? word : "unknown";
}

const char *level_name(enum level level)
{
    return name_or_unknown(TYPE_LEVEL, level);
}

const char *tier_name(enum tier tier)
{
    return name_or_unknown(TYPE_TIER, tier);
}

bool tier_runs_modules(enum tier tier)
{
    return tier == TIER_WASM || tier == TIER_WASM_PROCESS;
}

bool tier_namespaced(enum tier tier)
{
    static const bool table[TIER_COUNT] = {
#define X(id, word, namespaces) [TIER_##id] = (namespaces),
        POLICY_TIERS(X)
#undef X
    };
    return tier < TIER_COUNT && table[tier];
}

int tier_parse(const char *text, enum tier *ret)
{
    uint64_t value;
    int r = word_parse(TYPE_TIER, text, &value, NULL);
    if (r == 0)
        *ret = (enum tier)value;
    return r;
}

int level_parse(const char *text, enum level *ret)
{
    uint64_t value;
    int r = word_parse(TYPE_LEVEL, text, &value, NULL);
    if (r == 0)
        *ret = (enum level)value;
    return r;
}
