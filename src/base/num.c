/* One parser and one formatter for sizes, durations, counts and fractions; a table says which units
 * each family has. */
#include "base/num.h"

#include "base/cleanup.h"
#include "base/quote.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* What one family of numbers looks like. */
struct grammar {
    const char *noun;     /* "a size" */
    const char *expected; /* completes "expected …" */
    const struct unit *units;
    size_t unit_count;
    bool fold_case;
};

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

static const struct unit size_units[] = {
    {"", 1},      {"b", 1},   {"k", KIB},  {"kb", KIB},  {"kib", KIB}, {"m", MIB},  {"mb", MIB},
    {"mib", MIB}, {"g", GIB}, {"gb", GIB}, {"gib", GIB}, {"t", TIB},   {"tb", TIB}, {"tib", TIB},
};
static const struct unit duration_units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000},
};
static const struct unit milli_units[] = {{"", 1000}};
static const struct unit count_units[] = {{"", 1}, {"k", 1000}, {"m", 1000 * 1000}};
static const struct unit no_units[] = {{"", 1}};

static const struct grammar size_grammar = {
    "a size",   "a number with an optional K, M, G or T, such as 256M or 1.5G",
    size_units, ARRAY_LEN(size_units),
    true,
};
static const struct grammar duration_grammar = {
    "a duration",
    "a number with ms, s, m or h, such as 500ms, 30s or 5m (without a unit: seconds)",
    duration_units,
    ARRAY_LEN(duration_units),
    false,
};
static const struct grammar milli_grammar = {
    "a number of CPUs", "a number such as 1, 2 or 0.5", milli_units, ARRAY_LEN(milli_units), false,
};
static const struct grammar count_grammar = {
    "a count",   "a whole number with an optional k or M (thousand, million), such as 256 or 10k",
    count_units, ARRAY_LEN(count_units),
    true,
};
static const struct grammar uint_grammar = {
    "a whole number", "digits only, such as 1000", no_units, ARRAY_LEN(no_units), false,
};

/* whole + fraction / 10^6 */
struct decimal {
    uint64_t whole;
    uint32_t fraction;
};
#define FRACTION_DIGITS 6
#define FRACTION_ONE    UINT64_C(1000000)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits past the sixth are read and dropped: rounding down. */
static const char *read_fraction(const char *s, uint32_t *ret)
{
    uint32_t value = 0;
    int digits = 0;
    for (; is_digit(*s); s++) {
        if (digits < FRACTION_DIGITS) {
            value = value * 10 + (uint32_t)(*s - '0');
            digits++;
        }
    }
    for (; digits < FRACTION_DIGITS; digits++)
        value *= 10;
    *ret = value;
    return s;
}

enum read_result {
    READ_OK,
    READ_MALFORMED,
    READ_TOO_LARGE,
};

static enum read_result read_decimal(const char **text, struct decimal *ret)
{
    const char *s = *text;
    *ret = (struct decimal){0};
    if (!is_digit(*s))
        return READ_MALFORMED;
    for (; is_digit(*s); s++) {
        if (__builtin_mul_overflow(ret->whole, 10, &ret->whole) ||
            __builtin_add_overflow(ret->whole, (uint64_t)(*s - '0'), &ret->whole))
            return READ_TOO_LARGE;
    }
    if (*s == '.') {
        if (!is_digit(s[1]))
            return READ_MALFORMED;
        s = read_fraction(s + 1, &ret->fraction);
    }
    *text = s;
    return READ_OK;
}

static enum read_result scale(const struct decimal *d, uint64_t factor, uint64_t *ret)
{
    uint64_t value;
    /* The largest factor is 2^40 and a fraction is below 2^20: this product cannot overflow. */
    uint64_t part = d->fraction * factor / FRACTION_ONE;
    if (__builtin_mul_overflow(d->whole, factor, &value) ||
        __builtin_add_overflow(value, part, &value))
        return READ_TOO_LARGE;
    /* The largest value is kept free: policies use it for "unlimited". */
    if (value == UINT64_MAX)
        return READ_TOO_LARGE;
    *ret = value;
    return READ_OK;
}

static const struct unit *find_unit(const struct grammar *g, const char *name)
{
    for (size_t i = 0; i < g->unit_count; i++) {
        const char *known = g->units[i].name;
        if (g->fold_case ? strcasecmp(known, name) == 0 : strcmp(known, name) == 0)
            return &g->units[i];
    }
    return NULL;
}

static enum read_result read_number(const struct grammar *g, const char *text, uint64_t *ret)
{
    struct decimal d;
    enum read_result result = read_decimal(&text, &d);
    if (result != READ_OK)
        return result;
    const struct unit *unit = find_unit(g, text);
    if (!unit)
        return READ_MALFORMED;
    /* There is no half byte and no half process: a fraction needs a unit that can be divided. */
    if (unit->factor == 1 && d.fraction)
        return READ_MALFORMED;
    return scale(&d, unit->factor, ret);
}

static int parse(const struct grammar *g, const char *text, bool zero_ok, uint64_t *ret,
                 struct err *err)
{
    struct quoted q;
    uint64_t value = 0;
    switch (read_number(g, text, &value)) {
    case READ_MALFORMED:
        return err_set(err, ERR_USAGE, "%s is not %s, expected %s", quote(&q, text), g->noun,
                       g->expected);
    case READ_TOO_LARGE:
        return err_set(err, ERR_USAGE, "%s is too large, expected %s", quote(&q, text),
                       g->expected);
    case READ_OK:
        break;
    }
    if (value == 0 && !zero_ok)
        return err_set(err, ERR_USAGE, "%s is zero, expected more than zero: %s", quote(&q, text),
                       g->expected);
    *ret = value;
    return 0;
}

int num_parse_size(const char *text, uint64_t *ret, struct err *err)
{
    return parse(&size_grammar, text, false, ret, err);
}

int num_parse_duration(const char *text, uint64_t *ret_ms, struct err *err)
{
    return parse(&duration_grammar, text, false, ret_ms, err);
}

int num_parse_milli(const char *text, uint64_t *ret, struct err *err)
{
    return parse(&milli_grammar, text, false, ret, err);
}

int num_parse_count(const char *text, uint64_t *ret, struct err *err)
{
    return parse(&count_grammar, text, false, ret, err);
}

int num_parse_uint(const char *text, uint64_t *ret, struct err *err)
{
    return parse(&uint_grammar, text, true, ret, err);
}

/* The largest unit that divides the value; `units` goes from large to small and ends with factor 1.
 */
static void format(uint64_t value, const struct unit *units, char out[static NUM_TEXT_SIZE])
{
    while (units->factor != 1 && (value == 0 || value % units->factor != 0))
        units++;
    snprintf(out, NUM_TEXT_SIZE, "%" PRIu64 "%s", value / units->factor, units->name);
}

void num_format_size(uint64_t bytes, char out[static NUM_TEXT_SIZE])
{
    static const struct unit units[] = {{"T", TIB}, {"G", GIB}, {"M", MIB}, {"K", KIB}, {"", 1}};
    format(bytes, units, out);
}

void num_format_duration(uint64_t ms, char out[static NUM_TEXT_SIZE])
{
    static const struct unit units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    format(ms, units, out);
}

void num_format_milli(uint64_t milli, char out[static NUM_TEXT_SIZE])
{
    int n =
        snprintf(out, NUM_TEXT_SIZE, "%" PRIu64 ".%03u", milli / 1000, (unsigned)(milli % 1000));
    while (n > 0 && out[n - 1] == '0')
        out[--n] = '\0';
    if (n > 0 && out[n - 1] == '.')
        out[n - 1] = '\0';
}

void num_format_count(uint64_t count, char out[static NUM_TEXT_SIZE])
{
    static const struct unit units[] = {{"M", 1000000}, {"k", 1000}, {"", 1}};
    format(count, units, out);
}
