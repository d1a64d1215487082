/* Any text as a number with a unit, a grant or a variable: refused with a message, or a value that
 * is written and read back without a change. */
#include "base/num.h"
#include "base/quote.h"
#include "policy/policy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_number(const char *text, int (*parse)(const char *, uint64_t *, struct err *),
                         void (*format)(uint64_t, char *))
{
    struct err err = ERR_INIT;
    char back[NUM_TEXT_SIZE];
    uint64_t value = 0;
    uint64_t again = 0;
    if (parse(text, &value, &err) < 0) {
        require(err.code == ERR_USAGE && strstr(err.message, "expected"));
        return;
    }
    require(value > 0 && value < UINT64_MAX);
    format(value, back);
    require(parse(back, &again, &err) == 0 && again == value);
}

static void check_policy(const char *text)
{
    struct policy p;
    struct err err = ERR_INIT;
    struct origin origin = {.kind = ORIGIN_OPTION, .name = "-x"};
    require(policy_init(&p, LEVEL_HIGH) == 0);
    for (enum policy_field field = 0; field < FIELD_COUNT; field++)
        policy_set(&p, field, text, &origin, &err);
    if (policy_grant(&p, text, true, &origin, &err) == 0)
        require(p.grants[0].dest[0] == '/' && !strstr(p.grants[0].dest, "//"));
    policy_env(&p, text, &origin, &err);
    policy_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct quoted q;
    char text[512];
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_number(text, num_parse_size, num_format_size);
    check_number(text, num_parse_duration, num_format_duration);
    check_number(text, num_parse_milli, num_format_milli);
    check_number(text, num_parse_count, num_format_count);
    require(text_is_utf8(quote(&q, text)) && !text_has_control(q.text));
    check_policy(text);
    return 0;
}
