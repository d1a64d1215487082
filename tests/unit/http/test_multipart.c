#include "http/multipart.h"

#include "base/buf.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TYPE "multipart/form-data; boundary=XyZ"
#define PART "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/tmp/a\"\r\n\r\n"

/* What was found, as text: "[name|filename]" data "." for each part, "$" at the end. */
static int read_in_pieces(const char *text, size_t len, size_t step, struct buf *out)
{
    struct multipart *m = malloc(sizeof(*m));
    struct err err = ERR_INIT;
    int result = multipart_init(m, TYPE, &err);
    for (size_t at = 0; result == 0 && at < len;) {
        size_t n = len - at < step ? len - at : step;
        /* A copy of its own, so that reading beyond it is seen. */
        char *piece = malloc(n);
        memcpy(piece, text + at, n);
        enum multipart_event event;
        ssize_t taken = multipart_read(m, piece, n, &event, &err);
        if (taken < 0) {
            result = -1;
        } else if (event == MULTIPART_PART) {
            buf_fmt(out, "[%s|%s]", m->name, m->has_filename ? m->filename : "-");
        } else if (event == MULTIPART_DATA) {
            buf_add(out, m->data, m->data_len);
        } else if (event == MULTIPART_END) {
            buf_chr(out, '.');
        } else if (event == MULTIPART_DONE) {
            buf_chr(out, '$');
        }
        at += taken > 0 ? (size_t)taken : 0;
        free(piece);
    }
    if (result == 0 && !multipart_complete(m))
        result = -2;
    free(m);
    return result;
}

static void reads(const char *text, const char *expected)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        struct buf out;
        buf_init(&out, 4096);
        cr_assert_eq(read_in_pieces(text, strlen(text), step, &out), 0, "step %zu: %s", step, text);
        cr_assert_str_eq(buf_text(&out), expected, "step %zu: %s", step, buf_text(&out));
        buf_done(&out);
    }
}

static void refuses(const char *text)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        struct buf out;
        buf_init(&out, 4096);
        cr_assert_lt(read_in_pieces(text, strlen(text), step, &out), 0, "step %zu: %s", step, text);
        buf_done(&out);
    }
}

Test(multipart, one_and_several_parts)
{
    reads(PART "hello\r\n--XyZ--", "[file|/tmp/a]hello.$");
    reads(PART "\r\n--XyZ--", "[file|/tmp/a].$");
    reads(PART "a\r\n" PART "b\r\n--XyZ--", "[file|/tmp/a]a.[file|/tmp/a]b.$");
    reads("--XyZ\r\ncontent-type: text/plain\r\nContent-Disposition:form-data;name=x\r\n\r\n"
          "v\r\n--XyZ--",
          "[x|-]v.$");
}

Test(multipart, what_looks_like_a_delimiter_is_data)
{
    reads(PART "\r\r\n-\r\n--\r\n--Xy\r\n--XyA\r\n--XyZ--",
          "[file|/tmp/a]\r\r\n-\r\n--\r\n--Xy\r\n--XyA.$");
    reads(PART "a--XyZ\r\n--XyZ--", "[file|/tmp/a]a--XyZ.$");
    reads(PART "\n--\r--Xy\n\r--Xy\r\n--XyZ--", "[file|/tmp/a]\n--\r--Xy\n\r--Xy.$");
}

/* Some readers go by lines, however these end: to them the part would end here. */
Test(multipart, a_delimiter_behind_another_end_of_line_is_refused)
{
    refuses(PART "--XyZ\r\n--XyZ--");
    refuses(PART "a\n--XyZ\r\nX: y\r\n\r\n\r\n--XyZ--");
    refuses(PART "a\r--XyZ--\r\n--XyZ--");
    refuses(PART "a\r\n--Xy\n--XyZb\r\n--XyZ--");
}

Test(multipart, names_are_unescaped_as_browsers_escape_them)
{
    reads(
        "--XyZ\r\nContent-Disposition: form-data; name=\"a%22b\"; filename=\"c%0d%0Ad%25\"\r\n\r\n"
        "\r\n--XyZ--",
        "[a\"b|c\r\nd%25].$");
    reads("--XyZ\r\nContent-Disposition: form-data; name=\"a\\\"b\"; filename=\"c\\\\d\\e\"\r\n\r\n"
          "\r\n--XyZ--",
          "[a\"b|c\\d\\e].$");
}

Test(multipart, malformed_bodies_are_refused)
{
    refuses("hello");
    refuses("\r\n" PART "hello\r\n--XyZ--");
    refuses("--XyZ");
    refuses("--XyZx\r\n");
    refuses(PART);
    refuses(PART "hello");
    refuses(PART "hello\r\n--XyZ");
    refuses(PART "hello\r\n--XyZ--x");
    refuses(PART "hello\r\n--XyZ  \r\n");
    refuses("--XyZ\r\n\r\nhello\r\n--XyZ--");
    refuses("--XyZ\r\nContent-Disposition: attachment; name=a\r\n\r\n\r\n--XyZ--");
    refuses("--XyZ\r\nContent-Disposition: form-data\r\n\r\n\r\n--XyZ--");
    refuses("--XyZ\r\nContent-Disposition: form-data; name=\"a\r\n\r\n\r\n--XyZ--");
    refuses("--XyZ\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n\r\n--XyZ--");
    refuses("--XyZ\r\nContent-Disposition: form-data; name=a\r\n"
            "Content-Disposition: form-data; name=b\r\n\r\n\r\n--XyZ--");
    refuses("--XyZ\r\nContent-Disposition : form-data; name=a\r\n\r\n\r\n--XyZ--");
    refuses("--XyZ\r\nContent-Disposition: form-data; name=a\nX: y\r\n\r\n\r\n--XyZ--");
}

Test(multipart, heads_and_names_are_bounded)
{
    struct buf text, out;
    buf_init(&text, 1 << 20);
    buf_init(&out, 1 << 20);
    buf_str(&text, "--XyZ\r\nX: ");
    for (int i = 0; i < MULTIPART_HEAD_MAX; i++)
        buf_chr(&text, 'x');
    cr_assert_lt(read_in_pieces(text.data, text.len, 100, &out), 0);
    buf_done(&text);
    buf_done(&out);
}

Test(multipart, the_boundary_is_checked)
{
    static const char *const bad[] = {
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=a b",
        "multipart/form-data; boundary=a,b",
        "multipart/form-data; xboundary=b; boundary=a",
        "multipart/form-data; boundary=a; x=\"boundary=b\"",
        "multipart/form-data; Boundary=boundary",
        "multipart/form-data; boundary=aboundary=b",
        "multipart/form-data; boundary=\"a\r\n\"",
        "multipart/form-data; boundary=\"a",
        "multipart/mixed; boundary=a",
        "multipart/form-data; charset",
        "multipart/form-data; boundary=0123456789012345678901234567890"
        "1234567890123456789012345678901234567890"};
    struct multipart *m = malloc(sizeof(*m));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_lt(multipart_init(m, bad[i], NULL), 0, "%s", bad[i]);
    static const char *const good[] = {
        "Multipart/Form-Data; charset=utf-8; boundary=\"a:b\"",
        "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
        "multipart/form-data; boundary=----=_Part_0_1234.5678",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_assert_eq(multipart_init(m, good[i], NULL), 0, "%s", good[i]);
    free(m);
}
