#include "base/num.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <string.h>

typedef int (*parse_fn)(const char *, uint64_t *, struct err *);

struct good {
    const char *text;
    uint64_t value;
};

static void check_good(parse_fn parse, const struct good *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct err err = ERR_INIT;
        uint64_t value = 0;
        cr_assert_eq(parse(rows[i].text, &value, &err), 0, "%s: %s", rows[i].text, err.message);
        cr_assert_eq(value, rows[i].value, "%s gave %lu", rows[i].text, (unsigned long)value);
    }
}

/* Each is refused, says which text it was about, says what was expected, and leaves the result
 * alone. */
static void check_bad(parse_fn parse, const char *const *texts, size_t count, const char *expected)
{
    for (size_t i = 0; i < count; i++) {
        struct err err = ERR_INIT;
        uint64_t value = 77;
        cr_assert_lt(parse(texts[i], &value, &err), 0, "%s was accepted", texts[i]);
        cr_assert_eq(err.code, ERR_USAGE);
        cr_assert_eq(value, 77);
        cr_assert(strstr(err.message, "expected "), "%s", err.message);
        cr_assert(strstr(err.message, expected), "%s", err.message);
        cr_assert_eq(err.message[0], '"', "%s", err.message);
        cr_assert_lt(parse(texts[i], &value, NULL), 0);
    }
}

#define GOOD(parse, ...)                                                                           \
    do {                                                                                           \
        const struct good rows[] = {__VA_ARGS__};                                                  \
        check_good(parse, rows, ARRAY_LEN(rows));                                                  \
    } while (0)
#define BAD(parse, expected, ...)                                                                  \
    do {                                                                                           \
        const char *const texts[] = {__VA_ARGS__};                                                 \
        check_bad(parse, texts, ARRAY_LEN(texts), expected);                                       \
    } while (0)

Test(num, reads_sizes)
{
    GOOD(num_parse_size, {"1", 1}, {"4096", 4096}, {"10K", 10240}, {"10k", 10240}, {"10KB", 10240},
         {"10KiB", 10240}, {"10kib", 10240}, {"256M", 256UL << 20}, {"256MB", 256UL << 20},
         {"256mib", 256UL << 20}, {"1G", 1UL << 30}, {"1.5G", 3UL << 29}, {"2T", 2UL << 40},
         {"2TiB", 2UL << 40}, {"12B", 12}, {"0.5K", 512}, {"007", 7});
}

Test(num, refuses_what_is_no_size)
{
    BAD(num_parse_size, "256M", "", " ", "M", "-1", "+1", " 1", "1 ", "1 M", "1M ", "0", "0M",
        "0.0G", "1.5", "1.", ".5G", "1..5G", "1e3", "0x10", "12Q", "1Mi", "1MM", "1K1", "ten",
        "1,5G", "18446744073709551616", "18446744073709551615", "16777216T",
        "99999999999999999999999", "unlimited", "1\n", "\xff");
}

Test(num, rounds_down_and_refuses_what_comes_to_nothing)
{
    GOOD(num_parse_size, {"1.9999999999K", 2047}, {"0.001K", 1});
    BAD(num_parse_size, "more than zero", "0.0001K", "0.0000001M");
}

Test(num, reads_durations)
{
    GOOD(num_parse_duration, {"500ms", 500}, {"30s", 30000}, {"5m", 300000}, {"1h", 3600000},
         {"30", 30000}, {"1.5s", 1500}, {"1.5", 1500}, {"0.5h", 1800000}, {"0.001", 1});
    BAD(num_parse_duration, "500ms, 30s or 5m", "", "s", "-1s", "+1s", "1 s", "0", "0s", "0ms",
        "1.5ms", "1S", "1M", "1d", "1sec", "1m30s", "5124095576030432h", "inf", "nan", "0.0001s");
}

Test(num, reads_processors)
{
    GOOD(num_parse_milli, {"1", 1000}, {"0.5", 500}, {"2", 2000}, {"1.25", 1250}, {"0.001", 1},
         {"1.9999", 1999});
    BAD(num_parse_milli, "1, 2 or 0.5", "", "0", "0.0", "0.0001", "-1", ".5", "1.", "1k", "1 ",
        "half", "18446744073709552");
}

Test(num, reads_counts)
{
    GOOD(num_parse_count, {"1", 1}, {"256", 256}, {"10k", 10000}, {"10K", 10000}, {"1.5k", 1500},
         {"2M", 2000000}, {"2m", 2000000});
    BAD(num_parse_count, "256 or 10k", "", "0", "0k", "1.5", "-1", "+1", "1g", "10 k", "10kb",
        "18446744073709551616");
}

Test(num, reads_plain_numbers_with_zero)
{
    GOOD(num_parse_uint, {"0", 0}, {"1000", 1000},
         {"18446744073709551614", 18446744073709551614UL});
    BAD(num_parse_uint, "digits only", "", "-1", "1.5", "1k", " 1", "18446744073709551616");
}

Test(num, writes_the_shortest_text)
{
    char text[NUM_TEXT_SIZE];
#define WRITES(fn, value, expected)                                                                \
    do {                                                                                           \
        fn(value, text);                                                                           \
        cr_assert_str_eq(text, expected);                                                          \
    } while (0)
    WRITES(num_format_size, 0, "0");
    WRITES(num_format_size, 1000, "1000");
    WRITES(num_format_size, 10240, "10K");
    WRITES(num_format_size, 256UL << 20, "256M");
    WRITES(num_format_size, 3UL << 29, "1536M");
    WRITES(num_format_size, 2UL << 40, "2T");
    WRITES(num_format_size, UINT64_MAX, "18446744073709551615");
    WRITES(num_format_duration, 500, "500ms");
    WRITES(num_format_duration, 1500, "1500ms");
    WRITES(num_format_duration, 30000, "30s");
    WRITES(num_format_duration, 90000, "90s");
    WRITES(num_format_duration, 300000, "5m");
    WRITES(num_format_duration, 7200000, "2h");
    WRITES(num_format_milli, 1, "0.001");
    WRITES(num_format_milli, 500, "0.5");
    WRITES(num_format_milli, 1000, "1");
    WRITES(num_format_milli, 10000, "10");
    WRITES(num_format_milli, 1250, "1.25");
    WRITES(num_format_milli, UINT64_MAX, "18446744073709551.615");
    WRITES(num_format_count, 256, "256");
    WRITES(num_format_count, 32000, "32k");
    WRITES(num_format_count, 5000000, "5M");
}

Test(num, reads_back_what_it_writes)
{
    char text[NUM_TEXT_SIZE];
    uint64_t value;
    /* Steps that meet many remainders of every unit. */
    for (uint64_t n = 1; n < UINT64_MAX / 3; n += n / 3 + 1) {
        num_format_size(n, text);
        cr_assert(num_parse_size(text, &value, NULL) == 0 && value == n, "%s", text);
        num_format_duration(n, text);
        cr_assert(num_parse_duration(text, &value, NULL) == 0 && value == n, "%s", text);
        num_format_milli(n, text);
        cr_assert(num_parse_milli(text, &value, NULL) == 0 && value == n, "%s", text);
        num_format_count(n, text);
        cr_assert(num_parse_count(text, &value, NULL) == 0 && value == n, "%s", text);
    }
}

Test(num, quotes_what_a_terminal_would_obey)
{
    struct err err = ERR_INIT;
    uint64_t value;
    num_parse_size("1\x1b[2J", &value, &err);
    cr_assert_null(strchr(err.message, 0x1b));
    cr_assert(strstr(err.message, "\"1\\x1b[2J\""), "%s", err.message);
}
