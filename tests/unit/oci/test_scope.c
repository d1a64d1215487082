/* Names of scopes and slices, and where their groups lie. */
#include "oci/manager.h"

#include <criterion/criterion.h>
#include <string.h>

static int parse(const char *path, struct oci_scope *s)
{
    struct err err = ERR_INIT;
    int r = oci_scope_parse(path, "one", false, s, &err);
    cr_assert_eq(r < 0, err.code != ERR_NONE);
    return r;
}

static void expect(const char *path, const char *manager, const char *group)
{
    struct oci_scope s;
    struct err err = ERR_INIT;
    char got[1024];
    cr_assert_eq(parse(path, &s), 0, "%s", path);
    cr_assert_eq(oci_scope_path(&s, manager, got, &err), 0);
    cr_expect_str_eq(got, group);
}

Test(oci_scope, where_its_group_lies)
{
    expect("", "/", "/system.slice/brig-one.scope/container");
    expect(NULL, "", "/system.slice/brig-one.scope/container");
    expect("machine.slice:libpod:abc", "/", "/machine.slice/libpod-abc.scope/container");
    expect(":docker:abc", "/", "/system.slice/docker-abc.scope/container");
    expect("-.slice:a:b", "/", "/a-b.scope/container");
    expect("a.slice::b", "/", "/a.slice/b.scope/container");
    expect("user.slice:libpod:abc", "/user.slice/user-1000.slice/user@1000.service",
           "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-abc.scope/container");
    expect("kubepods-burstable-pod1_2.slice:cri-containerd:abc", "/",
           "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
           "cri-containerd-abc.scope/container");
}

Test(oci_scope, a_user_has_a_slice_of_its_own)
{
    struct oci_scope s;
    struct err err = ERR_INIT;
    cr_assert_eq(oci_scope_parse("", "one", true, &s, &err), 0);
    cr_expect_str_eq(s.slice, "user.slice");
}

Test(oci_scope, what_is_none)
{
    static const char *const wrong[] = {
        "a.slice:b",         "a.slice",          "a.slice:b:c:d",  "/a/b",
        "a.slice:b:",        "a.slice:b/c:d",    "a.slice:b:../c", "a.slice:.b:c",
        "a.slice:b:.c",      "a-.slice:b:c",     "-a.slice:b:c",   "a--b.slice:b:c",
        "a.service:b:c",     "../a.slice:b:",    ".slice:b:c",     "a.slice/b:c:d",
        "a.slice:b:c@d",     "a.slice:b:c\\x2d", "a.slice:b:c d",  "a.slice:b:c\n",
        "a.slice.slice:b:c", "a.slice:b:c.slice"};
    struct oci_scope s;
    char text[600];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_lt(parse(wrong[i], &s), 0, "%s", wrong[i]);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "a.slice:b:", 10);
    cr_expect_lt(parse(text, &s), 0);
    memcpy(text + 400, ".slice:b:c", 11);
    memset(text, 'a', 400);
    cr_expect_lt(parse(text, &s), 0);
}

Test(oci_scope, a_path_that_is_too_long)
{
    struct oci_scope s = {.unit = "b.scope"};
    struct err err = ERR_INIT;
    char got[1024], manager[1100];
    memset(s.slice, 'a', 240);
    for (size_t i = 1; i < 240; i += 2)
        s.slice[i] = '-';
    memcpy(s.slice + 239, ".slice", 7);
    cr_expect_lt(oci_scope_path(&s, "/", got, &err), 0);
    memset(manager, 'm', sizeof manager - 1);
    manager[0] = '/';
    manager[sizeof manager - 1] = '\0';
    memcpy(s.slice, "a.slice", sizeof "a.slice");
    cr_expect_lt(oci_scope_path(&s, manager, got, &err), 0);
}
