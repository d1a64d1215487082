/* The limit with which a crash is nobody's. */
#include "os/coredump.h"

#include <criterion/criterion.h>
#include <sys/resource.h>
#include <unistd.h>

Test(coredump, one_byte_wherever_it_can_be_given)
{
    struct err err = ERR_INIT;
    struct rlimit limit = {0};
    uint64_t got = 7;
    getrlimit(RLIMIT_CORE, &limit);
    if (limit.rlim_max == 0 && geteuid() != 0)
        cr_skip_test("the hard limit of core files is 0 already");
    cr_assert_eq(coredump_limit(&got, &err), 0, "%s", err.message);
    cr_assert_eq(got, 1);
    /* What it says can be done. */
    limit = (struct rlimit){1, 1};
    cr_assert_eq(setrlimit(RLIMIT_CORE, &limit), 0);
}

static const struct rlimit none;

Test(coredump, who_may_raise_it_does)
{
    struct err err = ERR_INIT;
    struct rlimit one = {0, 1};
    uint64_t got = 7;
    cr_assert_eq(setrlimit(RLIMIT_CORE, &none), 0);
    if (setrlimit(RLIMIT_CORE, &one) < 0)
        cr_skip_test("no right to raise limits here");
    cr_assert_eq(setrlimit(RLIMIT_CORE, &none), 0);
    cr_assert_eq(coredump_limit(&got, &err), 0, "%s", err.message);
    cr_assert_eq(got, 1);
}

/* Refused with a program in the way, else 0: both are no dump. */
Test(coredump, who_may_not_gets_none_or_an_error)
{
    struct err err = ERR_INIT;
    uint64_t got = 7;
    cr_assert_eq(setrlimit(RLIMIT_CORE, &none), 0);
    if (geteuid() == 0)
        cr_assert(setgid(65534) == 0 && setuid(65534) == 0);
    int r = coredump_limit(&got, &err);
    cr_assert_eq(got, 0);
    if (r < 0)
        cr_expect(err.code == ERR_UNSUPPORTED && err.hint[0], "%s", err.message);
}
