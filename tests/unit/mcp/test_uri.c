/* Addresses of resources. */
#include "mcp/uri.h"

#include <criterion/criterion.h>
#include <string.h>

static void taken(const char *text, const char *session, const char *path)
{
    struct mcp_uri uri;
    struct err err = ERR_INIT;
    cr_assert_eq(uri_parse(text, &uri, &err), 0, "%s: %s", text, err.message);
    cr_expect_str_eq(uri.session, session);
    cr_expect_str_eq(uri.path, path);
}

static void refused(const char *text)
{
    struct mcp_uri uri;
    struct err err = ERR_INIT;
    cr_expect_lt(uri_parse(text, &uri, &err), 0, "taken: %.80s", text);
    cr_expect(err.message[0]);
}

Test(uri, taken)
{
    taken("brig://abc123/home/user/a.txt", "abc123", "/home/user/a.txt");
    taken("brig://a/", "a", "/");
    taken("brig://a/%C3%BC%20b%25", "a", "/ü b%");
    taken("brig://a/../x", "a", "/../x"); /* inside, where it leads nowhere else */
}

Test(uri, refused)
{
    char text[6000];
    refused("");
    refused("brig://");
    refused("brig://a");
    refused("brig:///x");
    refused("BRIG://a/x");
    refused("file:///etc/passwd");
    refused("brig://A/x");
    refused("brig://a@b/x");
    refused("brig://a:1/x");
    refused("brig://../x");
    refused("brig://a/x?y");
    refused("brig://a/x#y");
    refused("brig://a/x y");
    refused("brig://a/ü");
    refused("brig://a/%");
    refused("brig://a/%4");
    refused("brig://a/%zz");
    refused("brig://a/%00");
    refused("brig://a/%ff");
    memset(text, 'a', sizeof text);
    memcpy(text, "brig://a/", 9);
    text[sizeof text - 1] = '\0';
    refused(text);
    memcpy(text, "brig://aa", 9);
    refused(text);
}

Test(uri, written)
{
    struct buf out cleanup_buf = {0};
    buf_init(&out, 1024);
    uri_write(&out, "abc", "/a b/ü%?#\n");
    cr_expect_str_eq(buf_text(&out), "brig://abc/a%20b/%C3%BC%25%3F%23%0A");
}
