#include "credentials/secret.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int make(const char *bytes, size_t len, struct err *err)
{
    cleanup_secret struct secret *s = NULL;
    return secret_new(bytes, len, &s, err);
}

Test(secret, keeps_what_it_is_given)
{
    cleanup_secret struct secret *s = NULL;
    struct err err = ERR_INIT;
    cr_assert_eq(secret_new("hunter2 hunter2\n", 16, &s, &err), 0, "%s", err.message);
    size_t len;
    const char *bytes = secret_expose(s, &len);
    cr_assert_eq(len, 15);
    cr_assert_str_eq(bytes, "hunter2 hunter2");
}

Test(secret, C04_refuses_what_could_break_a_line_and_does_not_repeat_it)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"tok3nvalue\r\nX: y", 16},
        {"tok3nvalue\n\n", 12},
        {"tok3nvalue\r", 11},
        {"tok3nval\0ue", 11},
        {"tok3nvalue\x7f", 11},
        {"tok3nvalue\t", 11},
        {"tok3nvalue\xc3\xa9", 12},
        {"tok3nv\n", 7},
        {"", 0},
        {"\n", 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;
        cr_assert_lt(make(bad[i].bytes, bad[i].len, &err), 0, "%zu", i);
        cr_assert_eq(err.code, ERR_REFUSED);
        cr_assert_null(strstr(err.message, "tok3n"));
        cr_assert_null(strstr(err.hint, "tok3n"));
    }
    cr_assert_eq(make("tok3nvalue", 10, NULL), 0, "control");
}

Test(secret, has_a_longest)
{
    char *bytes = malloc(SECRET_MAX + 1);
    memset(bytes, 'a', SECRET_MAX + 1);
    cr_assert_eq(make(bytes, SECRET_MAX, NULL), 0);
    cr_assert_lt(make(bytes, SECRET_MAX + 1, NULL), 0);
    free(bytes);
}

/* A helper program begins as a copy of its parent. */
Test(secret, is_not_in_a_copy_of_the_process)
{
    cleanup_secret struct secret *s = NULL;
    cr_assert_eq(secret_new("hunter2hunter2", 14, &s, NULL), 0);
    const char *bytes = secret_expose(s, NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(bytes[0] == 0 ? 0 : 1);
    int status;
    waitpid(pid, &status, 0);
    cr_assert_eq(status, 0);
    cr_assert_eq(bytes[0], 'h', "control: the owner still has it");
}

Test(secret, where_nothing_can_be_locked_there_is_none)
{
    struct rlimit none = {0, 0};
    /* Root may lock whatever the limit says. */
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
        cr_skip_test("cannot give up root");
    cr_assert_eq(make("hunter2hunter2", 14, NULL), 0, "control");
    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    struct err err = ERR_INIT;
    cr_assert_lt(make("hunter2hunter2", 14, &err), 0);
    cr_assert_neq(err.hint[0], 0);
}

Test(secret, what_no_longer_fits_under_the_limit_is_counted)
{
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
        cr_skip_test("cannot give up root");
    struct rlimit one_page = {4096, 4096};
    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &one_page), 0);
    cleanup_secret struct secret *a = NULL, *b = NULL;
    cr_assert_eq(secret_new("hunter2hunter2", 14, &a, NULL), 0);
    cr_assert_eq(secret_new("hunter2hunter2", 14, &b, NULL), 0);
    unsigned locked, unlocked;
    secret_count(&locked, &unlocked);
    cr_assert_eq(locked, 1);
    cr_assert_eq(unlocked, 1);
}

Test(secret, C10_has_an_end)
{
    cleanup_secret struct secret *s = NULL;
    cr_assert_eq(secret_new("hunter2hunter2", 14, &s, NULL), 0);
    cr_assert_not(secret_expired(s));
    secret_set_lifetime(s, 3600000);
    cr_assert_not(secret_expired(s), "control");
    secret_set_lifetime(s, 20);
    usleep(40000);
    cr_assert(secret_expired(s));
    secret_set_lifetime(s, SECRET_FOREVER);
    cr_assert_not(secret_expired(s));
}
