/* A configuration's filter, compiled, and run as the kernel would run it. */
#include "kernel/process/filter.h"
#include "oci/seccomp.h"

#include <criterion/criterion.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

static struct oci_filter f;

static int compile(const char *text, struct err *err)
{
    struct json *j = NULL;
    *err = (struct err)ERR_INIT;
    cr_assert_eq(json_parse(text, strlen(text), &json_default_limits, &j, err), 0, "%s",
                 err->message);
    int r = oci_filter_compile(j, &f, err);
    json_free(j);
    return r;
}

static uint32_t run(int nr, uint64_t first, uint64_t second)
{
    static struct filter_program p;
    struct seccomp_data data = {.nr = nr, .arch = FILTER_NATIVE, .args = {first, second}};
    cr_assert_lt(f.len, FILTER_MAX_INSNS);
    memcpy(p.code, f.code, f.len * sizeof f.code[0]);
    p.len = f.len;
    return filter_run(&p, &data);
}

#define ERRNO(n) (SECCOMP_RET_ERRNO | (n))

Test(oci_seccomp, names_and_the_default)
{
    struct err err;
    cr_assert_eq(compile("{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,"
                         "\"syscalls\":[{\"names\":[\"read\",\"nosuch\"],"
                         "\"action\":\"SCMP_ACT_ALLOW\"},{\"names\":[\"write\"],\"action\":\"SCMP_"
                         "ACT_KILL_PROCESS\"}]}",
                         &err),
                 0, "%s", err.message);
    cr_assert_eq(run(SYS_read, 0, 0), SECCOMP_RET_ALLOW);
    cr_assert_eq(run(SYS_write, 0, 0), SECCOMP_RET_KILL_PROCESS);
    cr_assert_eq(run(SYS_close, 0, 0), ERRNO(38));
}

Test(oci_seccomp, every_comparison)
{
    static const struct {
        const char *op;
        uint64_t value, second;
        uint64_t fits[3], not [3];
    } cases[] = {
        {"EQ",
         0x100000005,
         0,
         {0x100000005, 0x100000005, 0x100000005},
         {5, 0x100000004, 0x200000005}},
        {"NE",
         0x100000005,
         0,
         {5, 0x100000004, 0x200000005},
         {0x100000005, 0x100000005, 0x100000005}},
        {"GT",
         0x100000005,
         0,
         {0x100000006, 0x200000000, UINT64_MAX},
         {0x100000005, 5, 0xffffffff}},
        {"GE",
         0x100000005,
         0,
         {0x100000005, 0x200000000, UINT64_MAX},
         {0x100000004, 5, 0xffffffff}},
        {"LT",
         0x100000005,
         0,
         {0x100000004, 0, 0xffffffff},
         {0x100000005, 0x200000000, UINT64_MAX}},
        {"LE",
         0x100000005,
         0,
         {0x100000005, 0, 0xffffffff},
         {0x100000006, 0x200000000, UINT64_MAX}},
        {"MASKED_EQ", 0xf0, 0x50, {0x50, 0x5f, 0x150}, {0x60, 0, 0xf0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[400];
        struct err err;
        snprintf(text, sizeof text,
                 "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"read\"],"
                 "\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":1,"
                 "\"value\":%llu,\"valueTwo\":%llu,\"op\":\"SCMP_CMP_%s\"}]},{\"names\":[\"write\"]"
                 ",\"action\":\"SCMP_ACT_TRAP\"}]}",
                 (unsigned long long)cases[i].value, (unsigned long long)cases[i].second,
                 cases[i].op);
        cr_assert_eq(compile(text, &err), 0, "%s", err.message);
        for (int k = 0; k < 3; k++) {
            cr_assert_eq(run(SYS_read, 0, cases[i].fits[k]), ERRNO(1), "%s %d", cases[i].op, k);
            cr_assert_eq(run(SYS_read, 0, cases[i].not [k]), SECCOMP_RET_ALLOW, "%s %d",
                         cases[i].op, k);
        }
        cr_assert_eq(run(SYS_write, 0, 0),
                     SECCOMP_RET_TRAP); /* what comes after still knows the number */
    }
}

Test(oci_seccomp, two_conditions_hold_together)
{
    struct err err;
    cr_assert_eq(compile("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"read\"]"
                         ",\"action\":\"SCMP_ACT_ERRNO\",\"args\":["
                         "{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"},{\"index\":1,\"value\":"
                         "2,\"op\":\"SCMP_CMP_EQ\"}]}]}",
                         &err),
                 0, "%s", err.message);
    cr_assert_eq(run(SYS_read, 1, 2), ERRNO(1));
    cr_assert_eq(run(SYS_read, 1, 3), SECCOMP_RET_ALLOW);
    cr_assert_eq(run(SYS_read, 0, 2), SECCOMP_RET_ALLOW);
}

/* O-11 */
Test(oci_seccomp, what_is_not_understood_is_refused)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"{\"defaultAction\":\"SCMP_ACT_NOTIFY\"}", "SCMP_ACT_NOTIFY"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"listenerPath\":\"/x\"}", "listenerPath"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"flags\":[\"SECCOMP_FILTER_FLAG_SPEC_ALLOW\"]}",
         "SPEC_ALLOW"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":[\"SCMP_ARCH_PDP11\"]}", "PDP11"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"opnat\"],\"action\":"
         "\"SCMP_ACT_ERRNO\"}]}",
         "opnat"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"read\"],\"action\":"
         "\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":0,"
         "\"op\":\"SCMP_CMP_XX\"}]}]}",
         "SCMP_CMP_XX"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"read\"],\"action\":"
         "\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":6,"
         "\"op\":\"SCMP_CMP_EQ\"}]}]}",
         "index"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultErrnoRet\":1}", "defaultErrnoRet"},
        {"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":4096}", "defaultErrnoRet"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"read\"],\"action\":"
         "\"SCMP_ACT_KILL\",\"errnoRet\":1}]}",
         "errnoRet"},
        {"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[],\"action\":"
         "\"SCMP_ACT_KILL\"}]}",
         "names"},
        {"{}", "action"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err;
        cr_assert_lt(compile(cases[i].text, &err), 0, "%s", cases[i].text);
        cr_assert(strstr(err.message, cases[i].why), "%s", err.message);
    }
}

Test(oci_seccomp, none)
{
    struct err err = ERR_INIT;
    cr_assert_eq(oci_filter_compile(NULL, &f, &err), 0);
    cr_assert_eq(f.len, 0);
}
