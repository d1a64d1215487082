#include "base/cleanup.h"
#include "credentials/inject.h"
#include "credentials/swap.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VALUE       "s3cr3t/v+l=&\"\\x"
#define PLACEHOLDER "brig_placeholder_00112233"

static char *methods[] = {"GET", "POST"};
static char *paths[] = {"/api/**"};

/* One secret for https://api.test:443, changed by the test. */
struct fixture {
    struct egress_secret secret;
    struct egress egress;
    struct secret *value;
    struct injector in;
    struct target t;
    struct http_request r;
    struct err err;
};

static struct host host(const char *text)
{
    struct host h;
    cr_assert_eq(host_parse(text, strlen(text), false, &h, NULL), 0);
    return h;
}

static void setup(struct fixture *f, enum inject_form form, const char *name, const char *template)
{
    *f = (struct fixture){
        .secret = {.name = "TOKEN",
                   .scheme = SCHEME_HTTPS,
                   .host = host("api.test"),
                   .port = 443,
                   .form = form,
                   .inject_name = (char *)name,
                   .template = (char *)template,
                   .swap_header = true,
                   .placeholder = PLACEHOLDER},
        .t = {.scheme = SCHEME_HTTPS, .host = host("api.test"), .port = 443, .method = "GET"},
    };
    f->egress = (struct egress){.secrets = &f->secret, .secret_count = 1};
    cr_assert_eq(secret_new(VALUE, strlen(VALUE), &f->value, NULL), 0);
    f->in = (struct injector){.egress = &f->egress, .values = &f->value};
}

static void request(struct fixture *f, const char *target, const char *headers)
{
    char head[4096];
    http_request_done(&f->r);
    f->r = (struct http_request){0};
    int len =
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: api.test\r\n%s\r\n", target, headers);
    cr_assert_eq(http_request_parse(head, (size_t)len, &f->r, &f->err), 0, "%s", f->err.message);
}

static void teardown(struct fixture *f)
{
    http_request_done(&f->r);
    secret_free(f->value);
}

static bool sends(const struct fixture *f, const char *what)
{
    for (size_t i = 0; i < f->r.headers.count; i++)
        if (strstr(f->r.headers.items[i].value, what))
            return true;
    return f->r.target && strstr(f->r.target, what);
}

static int apply(struct fixture *f)
{
    return inject_apply(&f->in, &f->t, &f->r, &f->err);
}

Test(inject, a_header_is_put_in)
{
    struct fixture f;
    setup(&f, INJECT_HEADER, "Authorization", "Bearer {}");
    request(&f, "/", "");
    cr_assert_eq(apply(&f), 1);
    cr_assert_str_eq(http_header_get(&f.r.headers, "authorization"), "Bearer " VALUE);
    teardown(&f);
}

Test(inject, C04_what_the_client_sent_there_is_gone)
{
    struct fixture f;
    setup(&f, INJECT_HEADER, "X-Api-Key", "{}");
    request(&f, "/",
            "x-api-key: evil\r\nX-API-KEY: evil\r\nX_Api_Key: evil\r\nx_api-KEY: evil\r\n"
            "X-Api-Key2: other\r\n");
    cr_assert(sends(&f, "evil"), "control");
    cr_assert_eq(apply(&f), 1);
    cr_assert_not(sends(&f, "evil"));
    cr_assert(sends(&f, "other"));
    cr_assert_eq(http_header_count(&f.r.headers, "X-Api-Key"), 1);
    cr_assert_str_eq(http_header_get(&f.r.headers, "X-Api-Key"), VALUE);
    teardown(&f);
}

Test(inject, C02_only_towards_its_own_origin)
{
    struct fixture f;
    setup(&f, INJECT_HEADER, "Authorization", "Bearer {}");
    f.secret.methods = (struct text_list){methods, 2};
    f.secret.paths = (struct text_list){paths, 1};
    f.t.path = "/api/x";
    request(&f, "/", "X: " PLACEHOLDER "\r\n");
    cr_assert_eq(apply(&f), 1, "control");
    struct target good = f.t, bad[8];
    for (size_t i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].scheme = SCHEME_HTTP;
    bad[1].host = host("api.test.evil.test");
    bad[2].host = host("sub.api.test");
    bad[3].port = 8443;
    memcpy(bad[4].method, "DELETE", 7);
    bad[5].path = "/other";
    bad[6].path = "/api/../other";
    bad[7].path = NULL;
    for (size_t i = 0; i < 8; i++) {
        f.t = bad[i];
        request(&f, "/", "X: " PLACEHOLDER "\r\nAuthorization: Bearer " PLACEHOLDER "\r\n");
        cr_assert_eq(apply(&f), 0, "%zu", i);
        cr_assert_not(sends(&f, "s3cr3t"), "%zu", i);
        cr_assert(sends(&f, PLACEHOLDER));
        cr_assert_eq(inject_stray(&f.egress, &f.t, &f.r), 0, "%zu", i);
    }
    teardown(&f);
}

static void strip(struct fixture *f, const char *target, const char *headers, int count)
{
    char first[INJECT_NAME_MAX];
    request(f, target, headers);
    int n = inject_strip(&f->egress, NULL, &f->t, &f->r, first, &f->err);
    cr_assert_eq(n, count, "%s %s: %d", target, headers, n);
    cr_assert_eq(first[0] != 0, count > 0);
}

/* C-10 */
Test(inject, credentials_of_the_clients_own_are_taken_out)
{
    static const char *const own[] = {"Authorization",
                                      "X-Authorization",
                                      "Cookie",
                                      "X-Api-Key",
                                      "Api-Key",
                                      "APIKEY",
                                      "x_api_key",
                                      "X.Api.Key",
                                      "Private-Token",
                                      "Job-Token",
                                      "X-Auth-Token",
                                      "X-Auth-Email",
                                      "X-Amz-Security-Token",
                                      "X-Goog-Api-Key",
                                      "X-Goog-Iap-Jwt-Assertion",
                                      "DD-APPLICATION-KEY",
                                      "Ocp-Apim-Subscription-Key",
                                      "X-Shared-Secret",
                                      "X-Password",
                                      "Signature",
                                      "Signature-Input",
                                      "X-Hub-Signature-256",
                                      "Api-Sign",
                                      "CB-ACCESS-PASSPHRASE",
                                      "DPoP",
                                      "X-Client-Cert",
                                      "X-SSL-Client-Verify",
                                      "Remote-User",
                                      "X-WebAuth-User",
                                      "X-Session-Token",
                                      "X-Session-Id",
                                      "Macaroon",
                                      "X-Honeycomb-Team",
                                      "X-GitHub-OTP",
                                      "Impersonate-User",
                                      "Impersonate-Extra-Scopes",
                                      "Sudo",
                                      "X-On-Behalf-Of",
                                      "As-User",
                                      "Helicone-Auth"};
    static const char *const other[] = {
        "Accept",         "X-Author",         "Authority",    "Idempotency-Key",
        "Mcp-Session-Id", "X-Request-Id",     "X-Page-Token", "X-Max-Tokens",
        "If-None-Match",  "X-Goog-FieldMask", "X-Amz-Target", "X-Signal",
        "X-Keyboard",     "Traceparent",      "User-Agent",   "Anthropic-Version"};
    struct fixture f;
    char line[128];
    setup(&f, INJECT_HEADER, "X-Own", "{}");
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        snprintf(line, sizeof line, "%s: mine\r\n", own[i]);
        strip(&f, "/", line, 1);
        cr_assert_eq(f.r.headers.count, 1, "%s", own[i]);
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        snprintf(line, sizeof line, "%s: kept\r\n", other[i]);
        strip(&f, "/", line, 0);
        cr_assert_eq(f.r.headers.count, 2, "%s", other[i]);
    }
    strip(&f, "/", "X-Own: mine\r\n", 0);
    cr_assert_eq(f.r.headers.count, 1, "the secret's own place");
    f.t.port = 8443;
    f.t.scheme = SCHEME_HTTP;
    strip(&f, "/", "X-Api-Key: mine\r\n", 1);
    f.t.host = host("other.test");
    strip(&f, "/?token=mine", "X-Api-Key: mine\r\n", 0);
    teardown(&f);
}

Test(inject, own_members_of_the_query)
{
    static const struct {
        const char *target, *left;
        int count;
    } rows[] = {
        {"/p", "/p", 0},
        {"/p?", "/p?", 0},
        {"/p?a=1;b=2&&c", "/p?a=1;b=2&&c", 0},
        {"/p?token=x", "/p", 1},
        {"/p?a=1&token=x&b=2", "/p?a=1&b=2", 1},
        {"/p?token=x&a=1;b=2", "/p?a=1;b=2", 1},
        {"/p?a=1;access_token=x;b", "/p?a=1;b", 1},
        {"/p?api_key=x&key=y&sig=z&X-Amz-Signature=a&X-Goog-Credential=b", "/p", 5},
        {"/p?access%5ftoken=x&acc%65ssToken=y&access.token[]=z&+token=a", "/p", 4},
        {"/p?pageToken=1&next_token=2&max_tokens=3&keyword=4&sort_key=5&design=6",
         "/p?pageToken=1&next_token=2&max_tokens=3&keyword=4&sort_key=5&design=6", 0},
        {"/p?page_access_token=x&pagerdutyToken=y&syncUserToken=z&token_string=a", "/p", 4},
        {"/p?$skiptoken=1&access_page_token=2", "/p?$skiptoken=1&access_page_token=2", 0},
        {"/p?a=token=x", "/p?a=token=x", 0},
        /* Parameters of the path. */
        {"/a;v=1/b", "/a;v=1/b", 0},
        {"/a;jsessionid=x", "/a", 1},
        {"/a;JSESSIONID=x/b;v=1;access_token=y;w?q=;token", "/a/b;v=1;w?q=", 3},
        {"/a%3Bsid=x%3bv=2/b", "/a%3bv=2/b", 1},
        {"/a;token", "/a", 1},
        {"/token=x/b", "/token=x/b", 0},
    };
    struct fixture f;
    setup(&f, INJECT_HEADER, "X-Own", "{}");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        strip(&f, rows[i].target, "", rows[i].count);
        cr_assert_str_eq(f.r.target, rows[i].left);
    }
    teardown(&f);
}

Test(inject, a_placeholder_alone_stays)
{
    static const struct {
        const char *header;
        bool stays;
    } rows[] = {
        {"X-Api-Key: " PLACEHOLDER, true},
        {"Authorization: Bearer " PLACEHOLDER, true},
        {"Cookie: s=" PLACEHOLDER, true},
        {"Authorization: Basic bWU6YnJpZ19wbGFjZWhvbGRlcl8wMDExMjIzMw==", true},
        {"X-Api-Key: mine" PLACEHOLDER, false},
        {"X-Api-Key: " PLACEHOLDER "mine", false},
        {"Cookie: a=mine; s=" PLACEHOLDER, false},
        {"Authorization: Bearer mine " PLACEHOLDER, false},
        {"X-Api-Key: mine," PLACEHOLDER, false},
    };
    struct fixture f;
    setup(&f, INJECT_NONE, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s\r\n", rows[i].header);
        strip(&f, "/", line, !rows[i].stays);
    }
    teardown(&f);
}

/* Services look at the password alone, or at the user alone: beside the placeholder a key of the
 * client's own would be the one that counts. */
Test(inject, what_stands_beside_a_placeholder_inside_basic_is_no_key)
{
    static const struct {
        const char *plain;
        bool stays;
    } rows[] = {
        {PLACEHOLDER ":", true},
        {PLACEHOLDER ":x-oauth-basic", true},
        {PLACEHOLDER ":X", true},
        {PLACEHOLDER ":" PLACEHOLDER, true},
        {":" PLACEHOLDER, true},
        {"x-access-token:" PLACEHOLDER, true},
        {"x-bitbucket-api-token-auth:" PLACEHOLDER, true},
        {"gitlab+deploy-token-1234:" PLACEHOLDER, true},
        {"somebody.with.a.long.name@example.org:" PLACEHOLDER, true},
        {PLACEHOLDER ":ghp_0123456789abcdefghijklmnopqrstuvwxyz", false},
        {PLACEHOLDER ":mine", false},
        {"sk_live_0123456789abcdefghijklmn:" PLACEHOLDER, false},
        {"0123456789abcdef0123456789abcdef:" PLACEHOLDER, false},
    };
    struct fixture f;
    setup(&f, INJECT_HEADER, "Authorization", "Bearer {}");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf basic cleanup_buf;
        char line[512];
        buf_init(&basic, 400);
        basic_encode(rows[i].plain, strlen(rows[i].plain), &basic);
        snprintf(line, sizeof line, "Authorization: %s\r\n", buf_text(&basic));
        request(&f, "/", line);
        cr_assert_eq(apply(&f), 1);
        bool own = strcmp(http_header_get(&f.r.headers, "Authorization"), "Bearer " VALUE) != 0;
        cr_assert_eq(own, rows[i].stays, "%s", rows[i].plain);
        request(&f, "/", line);
        char first[INJECT_NAME_MAX];
        cr_assert_geq(inject_strip(&f.egress, NULL, &f.t, &f.r, first, &f.err), 0);
        cr_assert_eq(f.r.headers.count == 2, rows[i].stays, "%s", rows[i].plain);
    }
    teardown(&f);
}

Test(inject, what_the_rule_names_stays)
{
    char *names[] = {"Cookie", "?access_token"};
    struct egress_rule rule = {.pass = {names, 2}};
    struct fixture f;
    char first[INJECT_NAME_MAX];
    setup(&f, INJECT_HEADER, "X-Own", "{}");
    request(&f, "/?access_token=x&token=y", "cookie: a\r\nX-Api-Key: b\r\naccess_token: c\r\n");
    cr_assert_eq(inject_strip(&f.egress, &rule, &f.t, &f.r, first, &f.err), 3);
    cr_assert_str_eq(f.r.target, "/?access_token=x");
    cr_assert_eq(f.r.headers.count, 2);
    cr_assert_str_eq(first, "X-Api-Key");
    teardown(&f);
}

Test(inject, basic)
{
    struct fixture f;
    setup(&f, INJECT_BASIC, "user", NULL);
    request(&f, "/", "Authorization: Bearer evil\r\n");
    cr_assert_eq(apply(&f), 1);
    /* printf %s 'user:s3cr3t/v+l=&"\x' | base64 */
    cr_assert_str_eq(http_header_get(&f.r.headers, "Authorization"),
                     "Basic dXNlcjpzM2NyM3QvditsPSYiXHg=");
    cr_assert_eq(http_header_count(&f.r.headers, "Authorization"), 1);
    teardown(&f);
}

Test(inject, query)
{
    static const struct {
        const char *before, *after;
    } cases[] = {
        {"/p", "/p?api_key=V"},
        {"/p?", "/p?api_key=V"},
        {"/p?a=1&b=2", "/p?api_key=V&a=1&b=2"},
        {"/p?api_key=evil", "/p?api_key=V"},
        {"/p?a=1&api_key=evil&b=2&api_key=evil", "/p?api_key=V&a=1&b=2"},
        {"/p?a=1;api_key=evil;b=2", "/p?api_key=V&a=1;b=2"},
        {"/p?API_KEY=evil&%61pi_key=evil&api%5Fkey&api.key=evil&api+key=e&api_key[]=e&api_key%00x="
         "e",
         "/p?api_key=V"},
        {"/p?api_keys=1&xapi_key=2", "/p?api_key=V&api_keys=1&xapi_key=2"},
        {"/p?x=%", "/p?api_key=V&x=%"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        setup(&f, INJECT_QUERY, "api_key", NULL);
        request(&f, cases[i].before, "");
        cr_assert_eq(apply(&f), 1);
        char expected[512];
        const char *v = strchr(cases[i].after, 'V');
        snprintf(expected, sizeof expected, "%.*s%s%s", (int)(v - cases[i].after), cases[i].after,
                 "s3cr3t%2Fv%2Bl%3D%26%22%5Cx", v + 1);
        cr_assert_str_eq(f.r.target, expected);
        teardown(&f);
    }
}

Test(inject, placeholders_in_any_header)
{
    struct fixture f;
    setup(&f, INJECT_NONE, NULL, NULL);
    request(&f, "/",
            "X-A: a " PLACEHOLDER " b " PLACEHOLDER "\r\nPrivate-Token: " PLACEHOLDER "\r\n"
            "X-C: brig_placeholder_0011\r\n");
    cr_assert_eq(inject_stray(&f.egress, &f.t, &f.r), -1);
    cr_assert_eq(apply(&f), 1);
    cr_assert_str_eq(http_header_get(&f.r.headers, "X-A"), "a " VALUE " b " VALUE);
    cr_assert_str_eq(http_header_get(&f.r.headers, "Private-Token"), VALUE);
    cr_assert_str_eq(http_header_get(&f.r.headers, "X-C"), "brig_placeholder_0011");
    teardown(&f);
}

/* git: Authorization: Basic base64(x-access-token:PLACEHOLDER) */
#define GIT_BASIC "Basic eC1hY2Nlc3MtdG9rZW46YnJpZ19wbGFjZWhvbGRlcl8wMDExMjIzMw=="
#define GIT_REAL  "Basic eC1hY2Nlc3MtdG9rZW46czNjcjN0L3YrbD0mIlx4"

Test(inject, a_placeholder_inside_basic)
{
    static const enum inject_form forms[] = {INJECT_NONE, INJECT_HEADER, INJECT_BASIC};
    for (size_t i = 0; i < 3; i++) {
        struct fixture f;
        setup(&f, forms[i], forms[i] == INJECT_BASIC ? "user" : "Authorization", "Bearer {}");
        request(&f, "/", "Authorization: " GIT_BASIC "\r\n");
        cr_assert_eq(apply(&f), 1);
        cr_assert_str_eq(http_header_get(&f.r.headers, "Authorization"), GIT_REAL);
        cr_assert_eq(http_header_count(&f.r.headers, "Authorization"), 1);
        teardown(&f);
    }
}

Test(inject, C04_basic_of_the_clients_own_does_not_stay)
{
    /* user:evil; user:PLACEHOLDERx; two headers; a name that some servers fold. */
    static const char *const headers[] = {
        "Authorization: Basic dXNlcjpldmls\r\n",
        "Authorization: Basic dXNlcjpicmlnX3BsYWNlaG9sZGVyXzAwMTEyMjMzeA==\r\n",
        "Authorization: " GIT_BASIC "\r\nAuthorization: " GIT_BASIC "\r\n",
        "Authorization: Token " PLACEHOLDER "\r\n",
    };
    for (size_t i = 0; i < 4; i++) {
        struct fixture f;
        setup(&f, INJECT_HEADER, "Authorization", "Bearer {}");
        request(&f, "/", headers[i]);
        cr_assert_eq(apply(&f), 1);
        cr_assert_str_eq(http_header_get(&f.r.headers, "Authorization"), "Bearer " VALUE);
        cr_assert_eq(http_header_count(&f.r.headers, "Authorization"), 1);
        teardown(&f);
    }
}

Test(inject, C14_only_where_declared)
{
    struct fixture f;
    setup(&f, INJECT_NONE, NULL, NULL);
    request(&f, "/p?t=" PLACEHOLDER, "");
    cr_assert_eq(inject_stray(&f.egress, &f.t, &f.r), 0);
    cr_assert_eq(apply(&f), 0);
    cr_assert(sends(&f, PLACEHOLDER));
    f.secret.swap_header = false;
    request(&f, "/", "X: " PLACEHOLDER "\r\n");
    cr_assert_eq(inject_stray(&f.egress, &f.t, &f.r), 0);
    cr_assert_eq(apply(&f), 0);
    cr_assert_not(sends(&f, "s3cr3t"));
    request(&f, "/", "Authorization: " GIT_BASIC "\r\n");
    cr_assert_eq(inject_stray(&f.egress, &f.t, &f.r), 0);
    teardown(&f);
}

Test(inject, C10_without_a_value_nothing_is_sent)
{
    struct fixture f;
    struct secret *none = NULL;
    setup(&f, INJECT_HEADER, "Authorization", "Bearer {}");
    request(&f, "/", "");
    f.in.values = &none;
    cr_assert_lt(apply(&f), 0);
    f.in.values = &f.value;
    secret_set_lifetime(f.value, 1);
    usleep(5000);
    cr_assert_lt(apply(&f), 0);
    cr_assert_null(strstr(f.err.message, "s3cr3t"));
    cr_assert_not(sends(&f, "s3cr3t"));
    secret_set_lifetime(f.value, SECRET_FOREVER);
    cr_assert_eq(apply(&f), 1, "control");
    teardown(&f);
}

Test(inject, C05_the_response_stays_readable)
{
    struct fixture f;
    setup(&f, INJECT_HEADER, "Authorization", "Bearer {}");
    request(&f, "/",
            "Accept-Encoding: gzip, br\r\nRange: bytes=0-3\r\nIf-Range: x\r\n"
            "Sec-WebSocket-Extensions: permessage-deflate\r\n");
    cr_assert_eq(apply(&f), 1);
    cr_assert_str_eq(http_header_get(&f.r.headers, "Accept-Encoding"), "identity");
    cr_assert_eq(http_header_count(&f.r.headers, "Accept-Encoding"), 1);
    cr_assert_null(http_header_get(&f.r.headers, "Range"));
    cr_assert_null(http_header_get(&f.r.headers, "If-Range"));
    cr_assert_null(http_header_get(&f.r.headers, "Sec-WebSocket-Extensions"));
    f.t.port = 444;
    request(&f, "/", "Accept-Encoding: gzip\r\nRange: bytes=0-3\r\n");
    cr_assert_eq(apply(&f), 0);
    cr_assert_not_null(http_header_get(&f.r.headers, "Range"), "control: not bound, not touched");
    teardown(&f);
}

Test(inject, two_secrets_for_one_place_are_refused)
{
    struct fixture f;
    setup(&f, INJECT_HEADER, "Authorization", "Bearer {}");
    struct egress_secret both[2] = {f.secret, f.secret};
    struct secret *values[2] = {f.value, f.value};
    both[1].name = "OTHER";
    f.egress = (struct egress){.secrets = both, .secret_count = 2};
    f.in.values = values;
    request(&f, "/", "");
    cr_assert_lt(apply(&f), 0);
    both[1].inject_name = "X-Other";
    cr_assert_eq(apply(&f), 2, "control");
    teardown(&f);
}

Test(inject, a_head_that_would_grow_too_long_is_refused)
{
    struct fixture f;
    setup(&f, INJECT_NONE, NULL, NULL);
    char value[SECRET_MAX], header[4000] = "X: ";
    memset(value, 'v', sizeof value);
    secret_free(f.value);
    cr_assert_eq(secret_new(value, sizeof value, &f.value, NULL), 0);
    for (int i = 0; i < 20; i++)
        strncat(header, PLACEHOLDER, sizeof header - strlen(header) - 1);
    strncat(header, "\r\n", sizeof header - strlen(header) - 1);
    request(&f, "/", header);
    cr_assert_lt(apply(&f), 0);
    teardown(&f);
}

static void expect_body(const char *type, const char *expected)
{
    struct fixture f;
    setup(&f, INJECT_NONE, NULL, NULL);
    struct buf body cleanup_buf;
    buf_init(&body, INJECT_BODY_MAX);
    buf_str(&body, "a=" PLACEHOLDER "&b");
    cr_assert_not(inject_wants_body(&f.in, &f.t));
    cr_assert_eq(inject_body_as(&f.in, &f.t, type, &body, NULL), 0);
    cr_assert_str_eq(buf_text(&body), "a=" PLACEHOLDER "&b", "control: not declared");
    f.secret.swap_body = true;
    cr_assert(inject_wants_body(&f.in, &f.t));
    cr_assert_eq(inject_body_as(&f.in, &f.t, type, &body, NULL), 1);
    cr_assert_str_eq(buf_text(&body), expected);
    teardown(&f);
}

Test(inject, bodies)
{
    expect_body(NULL, "a=" VALUE "&b");
    expect_body("text/plain", "a=" VALUE "&b");
    expect_body("application/json; charset=utf-8", "a=s3cr3t/v+l=&\\\"\\\\x&b");
    expect_body("application/problem+json", "a=s3cr3t/v+l=&\\\"\\\\x&b");
    expect_body("application/x-www-form-urlencoded", "a=s3cr3t%2Fv%2Bl%3D%26%22%5Cx&b");
}

Test(inject, binds)
{
    struct fixture f;
    setup(&f, INJECT_NONE, NULL, NULL);
    struct host right = host("api.test"), wrong = host("x.api.test");
    cr_assert(inject_binds(&f.egress, &right, 443));
    cr_assert_not(inject_binds(&f.egress, &right, 444));
    cr_assert_not(inject_binds(&f.egress, &wrong, 443));
    teardown(&f);
}
