/* IM-1: names of images and digests have one spelling. */
#include "policy/reference.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(reference, good_names)
{
    static const struct {
        const char *text, *name, *digest;
    } rows[] = {
        {"python", "python:latest", ""},
        {"python:3.12-slim", "python:3.12-slim", ""},
        {"a/b/c:V_1.x-2", "a/b/c:V_1.x-2", ""},
        {"localhost:5000/a", "localhost:5000/a:latest", ""},
        {"127.0.0.1:5000/a/b:t", "127.0.0.1:5000/a/b:t", ""},
        {"a__b/c--d/e.f:1", "a__b/c--d/e.f:1", ""},
        {"x@sha256:" HEX, "x:latest", "sha256:" HEX},
        {"x:t@sha256:" HEX, "x:t", "sha256:" HEX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct reference ref;
        struct err err = ERR_INIT;
        cr_assert(ge(int, reference_parse(rows[i].text, &ref, &err), 0), "%s: %s", rows[i].text,
                  err.message);
        cr_assert(eq(str, ref.name, (char *)rows[i].name));
        cr_assert(eq(str, ref.digest, (char *)rows[i].digest));
        struct reference again;
        cr_assert(ge(int, reference_parse(ref.name, &again, &err), 0));
        cr_assert(eq(str, again.name, ref.name));
    }
}

Test(reference, bad_names)
{
    static const char *const rows[] = {
        "",
        "-x",
        "/x",
        "x/",
        "x//y",
        "X",
        "x:",
        ":x",
        "x:.y",
        "x:-y",
        "a:b:c",
        "x y",
        "x\ny",
        "docker://x",
        "u@h/x",
        "a..b",
        "a___b",
        ".a",
        "a.",
        "h:0/x",
        "h:65536/x",
        "h:1x/x",
        "x@",
        "x@sha256:1",
        "x@sha512:" HEX,
        "x@sha256:" HEX "0",
        "x@SHA256:" HEX,
        "@sha256:" HEX,
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct reference ref;
        struct err err = ERR_INIT;
        cr_expect(lt(int, reference_parse(rows[i], &ref, &err), 0), "%s", rows[i]);
    }
}

Test(reference, the_longest)
{
    char text[300];
    struct reference ref, again;
    struct err err = ERR_INIT;
    memset(text, 'a', sizeof text);
    text[REFERENCE_MAX - 7] = '\0';
    cr_assert(ge(int, reference_parse(text, &ref, &err), 0));
    cr_assert(ge(int, reference_parse(ref.name, &again, &err), 0));
    cr_assert(eq(str, ref.name, again.name));
    text[REFERENCE_MAX - 7] = 'a';
    text[REFERENCE_MAX - 6] = '\0';
    cr_assert(lt(int, reference_parse(text, &ref, &err), 0));
}

Test(reference, digests)
{
    cr_assert(digest_valid("sha256:" HEX));
    cr_assert(not(digest_valid(NULL)));
    cr_assert(not(digest_valid("sha256:")));
    cr_assert(not(digest_valid(HEX)));
    cr_assert(not(digest_valid("sha256:" HEX " ")));
    cr_assert(not(
        digest_valid("sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef")));
    cr_assert(eq(ptr, (void *)reference_of_root("host"), NULL));
    cr_assert(eq(str, (char *)reference_of_root("image:x"), "x"));
}
