/* ClientHellos: built piece by piece, cut, spread over records, spoiled. */
#include "network/hello_parse.h"

#include "base/buf.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct hello h;
static struct err err;

static void put(struct buf *b, size_t bytes, size_t value)
{
    while (bytes--)
        buf_chr(b, (char)(value >> (8 * bytes)));
}

static void extension(struct buf *b, unsigned type, const void *data, size_t len)
{
    put(b, 2, type);
    put(b, 2, len);
    buf_add(b, data, len);
}

static void server_name(struct buf *b, const char *name)
{
    struct buf ext;
    buf_init(&ext, 65536);
    put(&ext, 2, strlen(name) + 3);
    put(&ext, 1, 0);
    put(&ext, 2, strlen(name));
    buf_str(&ext, name);
    extension(b, 0, ext.data, ext.len);
    buf_done(&ext);
}

/* The handshake message around some extensions; NULL: none at all. */
static void message(struct buf *b, const struct buf *extensions)
{
    size_t body = 2 + 32 + 1 + 32 + 2 + 4 + 2 + (extensions ? 2 + extensions->len : 0);
    put(b, 1, 1);
    put(b, 3, body);
    put(b, 2, 0x0303);
    for (int i = 0; i < 32; i++)
        put(b, 1, 7);
    put(b, 1, 32);
    for (int i = 0; i < 32; i++)
        put(b, 1, 9);
    put(b, 2, 4);
    put(b, 4, 0x13011302);
    put(b, 2, 0x0100);
    if (!extensions)
        return;
    put(b, 2, extensions->len);
    buf_add(b, extensions->data, extensions->len);
}

/* Cut into records of at most `size` bytes. */
static void records(struct buf *out, const struct buf *msg, size_t size)
{
    for (size_t at = 0; at < msg->len; at += size) {
        size_t part = msg->len - at < size ? msg->len - at : size;
        put(out, 1, 22);
        put(out, 2, 0x0301);
        put(out, 2, part);
        buf_add(out, msg->data + at, part);
    }
}

static int parse(const void *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (len)
        memcpy(copy, data, len);
    int r = hello_parse(copy, len, &h, &err);
    free(copy);
    return r;
}

static struct buf ext, msg, wire;

static void setup(void)
{
    buf_init(&ext, 1 << 20);
    buf_init(&msg, 1 << 20);
    buf_init(&wire, 1 << 20);
}

static void teardown(void)
{
    buf_done(&ext);
    buf_done(&msg);
    buf_done(&wire);
}

TestSuite(hello, .init = setup, .fini = teardown);

static int parse_extensions(void)
{
    buf_reset(&msg);
    buf_reset(&wire);
    message(&msg, &ext);
    records(&wire, &msg, 16384);
    int r = parse(wire.data, wire.len);
    buf_reset(&ext);
    return r;
}

Test(hello, name_and_protocols)
{
    server_name(&ext, "Www.Example.ORG");
    extension(&ext, 16, "\x00\x0c\x02h2\x08http/1.1", 14);
    cr_assert_eq(parse_extensions(), 1, "%s", err.message);
    cr_assert(h.has_sni && !h.has_ech && h.offers_http11 && h.offers_h2);
    cr_assert_str_eq(h.sni.text, "www.example.org");
}

Test(hello, protocols)
{
    extension(&ext, 16, "\x00\x03\x02h2", 5);
    cr_assert_eq(parse_extensions(), 1);
    cr_assert(h.offers_h2 && !h.offers_http11 && !h.has_sni);
    cr_assert_eq(parse_extensions(), 1, "an empty list of extensions");
    cr_assert(h.offers_http11 && !h.offers_h2);
    static const struct {
        const char *data;
        size_t len;
    } bad[] = {{"", 0},
               {"\x00\x00", 2},
               {"\x00\x01\x00", 3},
               {"\x00\x02\x02h", 4},
               {"\x00\x03\x02h2x", 6},
               {"\x00\x04\x02h2", 5}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        extension(&ext, 16, bad[i].data, bad[i].len);
        cr_expect_lt(parse_extensions(), 0, "case %zu", i);
    }
}

Test(hello, encrypted_hellos_are_seen)
{
    server_name(&ext, "a.test");
    extension(&ext, 0xfe0d, "\x00\x01", 2);
    cr_assert_eq(parse_extensions(), 1);
    cr_assert(h.has_ech && h.has_sni);
    extension(&ext, 0xffce, "", 0);
    cr_assert_eq(parse_extensions(), 1);
    cr_assert(h.has_ech && !h.has_sni);
}

Test(hello, no_extensions_at_all)
{
    message(&msg, NULL);
    records(&wire, &msg, 16384);
    cr_assert_eq(parse(wire.data, wire.len), 1);
    cr_assert(!h.has_sni && h.offers_http11);
}

Test(hello, every_prefix_asks_for_more)
{
    server_name(&ext, "a.test");
    message(&msg, &ext);
    static const size_t sizes[] = {16384, 50, 3, 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        buf_reset(&wire);
        records(&wire, &msg, sizes[i]);
        for (size_t len = 0; len < wire.len; len++)
            cr_assert_eq(parse(wire.data, len), 0, "%zu of records of %zu", len, sizes[i]);
        cr_assert_eq(parse(wire.data, wire.len), 1, "records of %zu", sizes[i]);
        cr_assert_str_eq(h.sni.text, "a.test");
        buf_str(&wire, "\x17\x03\x03 early data");
        cr_assert_eq(parse(wire.data, wire.len), 1, "what follows the record is not looked at");
    }
}

Test(hello, something_behind_it_in_its_record)
{
    server_name(&ext, "a.test");
    message(&msg, &ext);
    size_t whole = msg.len;
    put(&msg, 1, 1);
    records(&wire, &msg, 16384);
    cr_assert_lt(parse(wire.data, wire.len), 0);
    buf_reset(&wire);
    records(&wire, &msg, whole);
    cr_assert_eq(parse(wire.data, wire.len), 1, "the control: in a record of its own");
}

Test(hello, names_that_are_refused)
{
    static const char *const bad[] = {"",       "10.0.0.1", "a.test.",  "a..test", "a b",
                                      "a/b",    "a%00",     "\xc3\xa9", "::1",     "[::1]",
                                      "0x7f.1", "127.1",    "a@b",      "*.test"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        server_name(&ext, bad[i]);
        cr_expect_lt(parse_extensions(), 0, "\"%s\"", bad[i]);
    }
    server_name(&ext, "a.test");
    cr_assert_eq(parse_extensions(), 1);
}

Test(hello, malformed_server_names)
{
    static const struct {
        const char *data;
        size_t len;
    } bad[] = {
        {"", 0},
        {"\x00\x00", 2},
        {"\x00\x04\x01\x00\x01"
         "a",
         6}, /* another kind */
        {"\x00\x08\x00\x00\x01"
         "a\x00\x00\x01"
         "b",
         10}, /* two names */
        {"\x00\x04\x00\x00\x01"
         "ab",
         7}, /* something behind */
        {"\x00\x05\x00\x00\x01"
         "ab",
         7}, /* something within */
        {"\x00\x04\x00\x00\x02"
         "a",
         6}, /* too short */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        extension(&ext, 0, bad[i].data, bad[i].len);
        cr_expect_lt(parse_extensions(), 0, "case %zu", i);
    }
    extension(&ext, 0,
              "\x00\x04\x00\x00\x01"
              "a",
              6);
    cr_assert_eq(parse_extensions(), 1);
}

Test(hello, an_extension_stands_once)
{
    server_name(&ext, "a.test");
    server_name(&ext, "b.test");
    cr_assert_lt(parse_extensions(), 0);
    extension(&ext, 43, "", 0);
    extension(&ext, 43, "", 0);
    cr_assert_lt(parse_extensions(), 0);
    for (unsigned i = 0; i < 96; i++)
        extension(&ext, 100 + i, "", 0);
    cr_assert_eq(parse_extensions(), 1);
    for (unsigned i = 0; i < 97; i++)
        extension(&ext, 100 + i, "", 0);
    cr_assert_lt(parse_extensions(), 0);
}

Test(hello, not_tls)
{
    static const char *const bad[] = {
        "G",    "GET / HTTP/1.1\r\n", "SSH-2.0-x",    "\x80\x2e\x01\x00\x02",
        "\x17", "\x16\x02",           "\x16\x03\x09", "\x15\x03\x03\x00\x02"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_lt(parse(bad[i], strlen(bad[i])), 0, "case %zu", i);
    cr_assert_lt(parse("\x16\x03\x01\x00\x00", 5), 0, "an empty record");
    cr_assert_lt(parse("\x16\x03\x01\x40\x01", 5), 0, "too long a record");
    cr_assert_lt(parse("\x16\x03\x01\x00\x04\x02", 6), 0, "another message");
    cr_assert_lt(parse("\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9), 0, "too long a message");
    cr_assert_eq(parse("\x16\x03\x01\x00\x04\x01\x00\x01\x00", 9), 0);
}

Test(hello, it_must_end)
{
    message(&msg, &ext);
    msg.data[2] = 0x3f; /* says that it has 16 KiB */
    records(&wire, &msg, 1);
    while (wire.len < HELLO_MAX)
        buf_add(&wire, "\x16\x03\x01\x00\x01x", 6);
    cr_assert_lt(parse(wire.data, HELLO_MAX), 0);
    cr_assert_eq(parse(wire.data, HELLO_MAX - 1), 0);
}

Test(hello, fields_that_do_not_fit)
{
    server_name(&ext, "a.test");
    message(&msg, &ext);
    static const struct {
        size_t at;
        uint8_t value;
        const char *what;
    } cases[] = {
        {4, 2, "version"},     {38, 33, "session id"},    {72, 3, "odd cipher suites"},
        {72, 0, "no suites"},  {77, 0, "no compression"}, {80, 1, "length of extensions"},
        {79, 200, "too long"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char saved = msg.data[cases[i].at];
        msg.data[cases[i].at] = (char)cases[i].value;
        buf_reset(&wire);
        records(&wire, &msg, 16384);
        cr_expect_lt(parse(wire.data, wire.len), 0, "%s", cases[i].what);
        msg.data[cases[i].at] = saved;
    }
    buf_reset(&wire);
    records(&wire, &msg, 16384);
    cr_assert_eq(parse(wire.data, wire.len), 1);
}
