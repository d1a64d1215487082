/* Whatever comes from inside is one of ours in full, or nothing; its texts are short, printable and
 * end. */
#include "verify/report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_text(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    require(len < size);
    for (size_t i = 0; i < len; i++)
        require(text[i] >= 0x20 && text[i] <= 0x7e);
}

static void check_again(const struct report *r)
{
    char line[600];
    struct report again;
    outcome_line(r->id, &r->outcome, line, sizeof line);
    report_parse(line, strcspn(line, "\n"), &again);
    require(again.kind == REPORT_OUTCOME && strcmp(again.id, r->id) == 0);
    require(again.outcome.worked == r->outcome.worked && again.outcome.code == r->outcome.code);
    require(strcmp(again.outcome.detail, r->outcome.detail) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct report r;
    report_parse((const char *)data, size, &r);
    check_text(r.id, sizeof r.id);
    check_text(r.home, sizeof r.home);
    check_text(r.outcome.detail, sizeof r.outcome.detail);
    require(r.kind == REPORT_OUTCOME ? r.outcome.reported && r.id[0] : !r.outcome.reported);
    if (r.kind == REPORT_OUTCOME)
        check_again(&r);
    return 0;
}
