/* The field's own compiler as a second opinion: the part of the table that needs no arguments,
 * given to libseccomp, must come to the same verdict for every number. */
#include "filter_fixture.h"

#include <seccomp.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_INSNS 4096

static struct sock_filter other[MAX_INSNS];
static size_t other_len;

static bool plain_rule(const char *verdict, uint32_t *ret_action)
{
    if (strcmp(verdict, "allow") == 0)
        *ret_action = SCMP_ACT_ALLOW;
    else if (strcmp(verdict, "deny, seen") == 0)
        *ret_action = SCMP_ACT_NOTIFY;
    else
        return false;
    return true;
}

static void add_rules(scmp_filter_ctx ctx)
{
    struct filter_call call;
    uint32_t action;
    for (size_t i = 0; i < filter_call_count(); i++) {
        filter_call_at(i, &call);
        if (plain_rule(call.verdict, &action))
            cr_assert_eq(seccomp_rule_add(ctx, action, call.nr, 0), 0, "%s", call.name);
    }
}

static void export(scmp_filter_ctx ctx)
{
    FILE *f = tmpfile();
    cr_assert(f && seccomp_export_bpf(ctx, fileno(f)) == 0);
    ssize_t n = pread(fileno(f), other, sizeof(other), 0);
    cr_assert(n > 0 && (size_t)n < sizeof(other) && (size_t)n % sizeof(other[0]) == 0);
    other_len = (size_t)n / sizeof(other[0]);
    fclose(f);
}

Test(filter_seccomp, agrees_with_libseccomp_on_plain_calls)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    cr_assert(ctx);
    cr_assert_eq(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_NOTIFY), 0);
    cr_assert_eq(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), 0);
    add_rules(ctx);
    export(ctx);
    build(&container);

    unsigned compared = 0;
    for (int nr = 0; nr < 4096; nr++) {
        struct filter_call call = {.verdict = "absent (ENOSYS)"};
        for (size_t i = 0; i < filter_call_count(); i++) {
            struct filter_call c;
            filter_call_at(i, &c);
            if (c.nr == nr)
                call = c;
        }
        uint32_t action;
        if (!plain_rule(call.verdict, &action) && strcmp(call.verdict, "absent (ENOSYS)") != 0)
            continue;
        struct seccomp_data data = {.nr = nr, .arch = ARCH_X86_64};
        cr_assert_eq(sim_run(other, other_len, &data).ret, run(ARCH_X86_64, nr, NULL).ret, "%d",
                     nr);
        compared++;
        data.arch = ARCH_I386;
        cr_assert_eq(sim_run(other, other_len, &data).ret, run(ARCH_I386, nr, NULL).ret, "%d", nr);
    }
    cr_assert_geq(compared, 4000);
    seccomp_release(ctx);
}
