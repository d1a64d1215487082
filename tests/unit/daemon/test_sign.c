#include "daemon/api/sign.h"

#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

/* Made with: printf '%s' "$text" | openssl dgst -sha256 -binary | base64 | tr -d = */
static const struct signature plain = {.text = "v1_VV5cnKMLm+JJ6UtC8V1agQ4x7dIUMCEZwYlYmh0UPy8",
                                       .path = "/home/user/a b.txt",
                                       .user = "",
                                       .write = false};

static bool is_signed(const struct signature *s, const char *token)
{
    struct signature_start start;
    signature_begin(s, &start);
    return signature_matches(s, &start, token);
}

Test(sign, tokens_are_equal_or_not)
{
    cr_assert(token_equal("abc", "abc"));
    cr_assert_not(token_equal("abc", "abd"));
    cr_assert_not(token_equal("abc", "abcd"));
    cr_assert_not(token_equal("", ""));
}

Test(sign, accepts_what_a_client_signs)
{
    struct signature s = plain;
    s.text = "v1_VV5cnKMLm+JJ6UtC8V1agQ4x7dIUMCEZwYlYmh0UPy8";
    cr_assert(is_signed(&s, "token"));
    s.write = true;
    cr_assert_not(is_signed(&s, "token"), "another direction");
    s.text = "v1_TPIihHglbE6vXaPkgoTHHF0mCssa/SefpBgKaCSSdqI";
    cr_assert(is_signed(&s, "token"));
    s.user = "root";
    cr_assert_not(is_signed(&s, "token"), "another user");
}

Test(sign, is_bound_to_path_token_and_time)
{
    struct signature s = plain;
    s.path = "/home/user/a b.txt/../x";
    cr_assert_not(is_signed(&s, "token"));
    s = plain;
    cr_assert_not(is_signed(&s, "token2"));
    cr_assert_not(is_signed(&s, ""));
    s.expiration = "1700000000";
    cr_assert_not(is_signed(&s, "token"), "an expiration that was not signed");
    s.text = "v1_6ezZXR9pEimnWDIY4qQlvgFoN6mWSd4NfZ8F2jf2SNg";
    cr_assert(is_signed(&s, "token"));
    s.expiration = "1800000000";
    cr_assert_not(is_signed(&s, "token"), "another expiration");
}

/* One text, two ways to cut it: a link to read the file "/f:write:me" is none to write "/f". */
Test(sign, a_colon_does_not_move_the_borders_of_fields)
{
    struct signature s = {.text = "v1_pIlsEIpF96YNiaFKqTycpPDwmxTTm9NtHXJ7+HYO+O4",
                          .path = "/f:write:me",
                          .user = "root"};
    cr_assert(is_signed(&s, "token"), "control: what was signed");
    s = (struct signature){.text = s.text, .path = "/f", .user = "me:read:root", .write = true};
    cr_assert_not(is_signed(&s, "token"), "read became write");
    s = (struct signature){.text = "v1_C/hsTRdkGwIPYXCePvGydwO1xbOKCFEdBV08MdIF1L0",
                           .path = "/f:read:me",
                           .user = "root",
                           .write = true};
    cr_assert(is_signed(&s, "token"), "control");
    s = (struct signature){.text = s.text, .path = "/f", .user = "me:write:root"};
    cr_assert_not(is_signed(&s, "token"), "write became read, of another file");
    s = (struct signature){.text = "v1_MCRgyqzUO4DtdgG4JNR5aKb4/0uh8aiSwCBi8KTtAjk",
                           .path = "/f",
                           .user = "root",
                           .expiration = "17"};
    cr_assert(is_signed(&s, "token"), "control");
    s = (struct signature){.text = s.text, .path = "/f", .user = "root"};
    cr_assert_not(is_signed(&s, "token:17"), "without its end");
    s = (struct signature){.text = "v1_lpFKcNPTKFilcYDOsbzi9kALT48vsfuEIoBw9y9AycQ",
                           .path = "/a:b.txt",
                           .user = "root"};
    cr_assert(is_signed(&s, "token"), "files may have a colon");
}

Test(sign, expires)
{
    struct signature s = plain;
    cr_assert(signature_current(&s, 1));
    s.expiration = "100";
    cr_assert(signature_current(&s, 99));
    cr_assert_not(signature_current(&s, 100));
    static const char *const bad[] = {"", "-1", "1e9", "99999999999999999999", " 200", "0x200"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        s.expiration = bad[i];
        cr_assert_not(signature_current(&s, 1), "%s", bad[i]);
    }
    s = plain;
    s.text = "v2_SIG1";
    cr_assert_not(signature_current(&s, 1));
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whoever has no key can ask with a long path whose link it is: it is not hashed for each sandbox.
 */
Test(sign, a_long_path_is_hashed_once_for_all_tokens)
{
    enum { TOKENS = 1000 };
    char path[4096];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct signature s = {.text = plain.text, .path = path, .user = "user"};
    struct signature_start start;
    double begun = cpu_seconds();
    for (int i = 0; i < TOKENS; i++)
        cr_assert_not(is_signed(&s, "token"));
    double each = cpu_seconds() - begun;
    begun = cpu_seconds();
    signature_begin(&s, &start);
    for (int i = 0; i < TOKENS; i++)
        cr_assert_not(signature_matches(&s, &start, "token"));
    double once = cpu_seconds() - begun;
    cr_assert_lt(once, each / 4, "%f s, and %f s when each hashes it", once, each);
    s = plain;
    signature_begin(&s, &start);
    cr_assert_not(signature_matches(&s, &start, "other"));
    cr_assert(signature_matches(&s, &start, "token"), "what was begun can be used again");
}

Test(sign, malformed_signatures_are_none)
{
    static const char *const bad[] = {
        "v1_", "v1_=", "v1_AAAA", "v1_????",
        "v1_"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    struct signature s = plain;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        s.text = bad[i];
        cr_assert_not(is_signed(&s, "token"), "%s", bad[i]);
    }
}

Test(sign, a_traffic_token_is_another_one)
{
    char a[TRAFFIC_TOKEN_LEN + 1], b[TRAFFIC_TOKEN_LEN + 1];
    traffic_token("token", a);
    traffic_token("token2", b);
    cr_assert_eq(strlen(a), TRAFFIC_TOKEN_LEN);
    cr_assert_str_neq(a, b);
    traffic_token("token", b);
    cr_assert_str_eq(a, b);
}
