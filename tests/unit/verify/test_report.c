/* What comes from inside. */
#include "verify/report.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct report parse(const char *line)
{
    struct report r;
    report_parse(line, strlen(line), &r);
    return r;
}

Test(report, an_outcome_goes_there_and_comes_back)
{
    struct outcome o = {.reported = true, .code = EACCES, .detail = "a b"};
    char line[400];
    outcome_line("F-01.read", &o, line, sizeof line);
    line[strcspn(line, "\n")] = '\0';
    struct report r = parse(line);
    cr_assert_eq(r.kind, REPORT_OUTCOME);
    cr_assert_str_eq(r.id, "F-01.read");
    cr_assert_eq(r.outcome.code, EACCES);
    cr_assert_str_eq(r.outcome.detail, "a b");
    cr_assert(r.outcome.reported && !r.outcome.worked);
}

Test(report, words_for_the_judge)
{
    cr_assert_eq(parse("@look").kind, REPORT_LOOK);
    cr_assert_eq(parse("@looks").kind, REPORT_NOTHING);
    struct report r = parse("@home\t/tmp/brig-1");
    cr_assert_eq(r.kind, REPORT_HOME);
    cr_assert_str_eq(r.home, "/tmp/brig-1");
}

Test(report, nonsense_is_nothing)
{
    static const char *const lines[] = {"",
                                        "\t",
                                        "K-01",
                                        "K-01\t1",
                                        "K-01\t1\t0\t0",
                                        "K-01\t2\t0\t0\t",
                                        "K-01\t-1\t0\t0\t",
                                        "K-01\t0\t99999\t0\t",
                                        "K-01\t0\t1\t65\t",
                                        "K-01\t0\t1x\t0\t",
                                        "K-01\t1\t1\t0\tworked and refused",
                                        "\t0\t1\t0\t",
                                        "K-01\t0\t1\t0\tbell \a",
                                        "a-name-that-is-longer-than-any-row-has\t0\t1\t0\t"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        cr_assert_eq(parse(lines[i]).kind, REPORT_NOTHING, "%s", lines[i]);
}

Test(report, a_long_detail_is_not_cut_but_refused)
{
    char line[600] = "K-01\t0\t1\t0\t";
    memset(line + strlen(line), 'x', 400);
    cr_assert_eq(parse(line).kind, REPORT_NOTHING);
}

Test(place, what_is_told_inside_is_what_was_meant)
{
    struct place p = {.folder = "/tmp/brig-verify-0011",
                      .mark = "vfya0011",
                      .victim = 4711,
                      .leaked = -1,
                      .shm_key = 5,
                      .limit = 64,
                      .patience = 5000,
                      .namespaced = 1,
                      .guest = 1,
                      .caller = 1000,
                      .tcp = 1,
                      .tcp6 = 2,
                      .udp = 3,
                      .bound = 4,
                      .plain = 5,
                      .closed = 6,
                      .names = 65535};
    struct place q;
    char text[400];
    place_derive(&p);
    place_write(&p, text, sizeof text);
    cr_assert_eq(place_read(&q, text, NULL), 0);
    cr_assert_eq(memcmp(&p, &q, sizeof p), 0);
    cr_assert_lt(place_read(&q, "", NULL), 0);
    cr_assert_lt(place_read(&q, "/tmp/x mark 1 2 3", NULL), 0);
    strcat(text, " 1");
    cr_assert_lt(place_read(&q, text, NULL), 0);
}
