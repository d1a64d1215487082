/* The field's own compiler as a second opinion: the part of the table that needs no arguments,
 * given to libseccomp, must come to the same verdict for every number. */
#include "filter_fixture.h"

#include <seccomp.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_INSNS 4096
#define MAX_NR    1024

static struct sock_filter other[MAX_INSNS];
static size_t other_len;

static bool plain_rule(const char *verdict, uint32_t *ret_action)
{
    if (strcmp(verdict, "allow") == 0)
        *ret_action = SCMP_ACT_ALLOW;
    else if (strcmp(verdict, "deny, seen") == 0)
        *ret_action = SCMP_ACT_NOTIFY;
    else if (strcmp(verdict, "not for these descriptors (EINVAL)") == 0)
        *ret_action = SCMP_ACT_ERRNO(EINVAL);
    else
        return false;
    return true;
}

static uint32_t library_arch(void)
{
    return arch == FILTER_X86_64 ? SCMP_ARCH_X86_64 : SCMP_ARCH_AARCH64;
}

/* libseccomp takes the machine's own numbers, also in a filter for the other architecture, and
 * translates them by name. So it is given names, and finds the numbers by itself; those that are
 * newer than the library it does not know. */
static unsigned add_rules(scmp_filter_ctx ctx, bool known[MAX_NR])
{
    struct filter_call call;
    uint32_t action;
    unsigned count = 0;
    for (size_t i = 0; i < filter_call_count(); i++) {
        filter_call_at(arch, i, &call);
        if (call.nr < 0)
            continue;
        int theirs = seccomp_syscall_resolve_name_arch(library_arch(), call.name);
        known[call.nr] = theirs != __NR_SCMP_ERROR;
        if (!known[call.nr])
            continue;
        count++;
        cr_assert_eq(theirs, call.nr, "%s", call.name);
        if (plain_rule(call.verdict, &action))
            cr_assert_eq(seccomp_rule_add(ctx, action, seccomp_syscall_resolve_name(call.name), 0),
                         0, "%s", call.name);
    }
    return count;
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

/* The table's verdict for a number, "absent" for one that is not in it. */
static const char *verdict_of(int nr)
{
    struct filter_call call;
    for (size_t i = 0; i < filter_call_count(); i++) {
        filter_call_at(arch, i, &call);
        if (call.nr == nr)
            return call.verdict;
    }
    return "absent (ENOSYS)";
}

static void compare(uint32_t entry, int nr)
{
    struct seccomp_data data = {.nr = nr, .arch = entry};
    cr_assert_eq(sim_run(other, other_len, &data).ret, run(entry, nr, NULL).ret, "%#x, call %d",
                 entry, nr);
}

TestBoth(filter_seccomp, agrees_with_libseccomp_on_plain_calls)
{
    bool known[MAX_NR] = {false};
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    cr_assert(ctx);
    if (arch != FILTER_NATIVE) {
        cr_assert_eq(seccomp_arch_add(ctx, library_arch()), 0);
        cr_assert_eq(seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE), 0);
    }
    cr_assert_eq(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_NOTIFY), 0);
    cr_assert_eq(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), 0);
    cr_assert_geq(add_rules(ctx, known), arch == FILTER_X86_64 ? 350 : 300);
    export(ctx);
    build(&container);

    unsigned compared = 0;
    for (int nr = 0; nr < 4096; nr++) {
        uint32_t action;
        const char *verdict = verdict_of(nr);
        bool plain = plain_rule(verdict, &action);
        if (!plain && strcmp(verdict, "absent (ENOSYS)") != 0)
            continue;
        if (plain && !known[nr])
            continue;
        compare(arch, nr);
        compared++;
        compare(ARCH_I386, nr);
        compare(ARCH_ARM, nr);
        compare(arch == FILTER_X86_64 ? FILTER_AARCH64 : FILTER_X86_64, nr);
    }
    cr_assert_geq(compared, 3990);
    seccomp_release(ctx);
}
