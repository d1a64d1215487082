#include "http/multipart.h"

#include "base/buf.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TYPE "multipart/form-data; boundary=XyZ"

/* name|filename|content; one per line. NULL: refused. `step` bytes at a time. */
static char *parse(const char *type, const char *body, size_t len, size_t step)
{
    struct multipart *m = malloc(sizeof *m);
    struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, 1u << 20);
    bool good = multipart_init(m, type, &err) >= 0;
    for (size_t at = 0; good && at < len;) {
        enum multipart_event event;
        size_t piece = len - at < step ? len - at : step;
        ssize_t n = multipart_read(m, body + at, piece, &event, &err);
        if (n < 0) {
            good = false;
            break;
        }
        at += (size_t)n;
        if (event == MULTIPART_PART)
            buf_fmt(&out, "%s|%s|", m->name, m->has_filename ? m->filename : "-");
        if (event == MULTIPART_DATA)
            buf_add(&out, m->data, m->data_len);
        if (event == MULTIPART_END)
            buf_chr(&out, '\n');
        if (event == MULTIPART_DONE)
            break;
        cr_assert(n || event != MULTIPART_MORE, "no progress");
    }
    good = good && multipart_complete(m);
    free(m);
    char *text = good ? strdup(buf_text(&out)) : NULL;
    buf_done(&out);
    return text;
}

static void gives(const char *body, const char *expected)
{
    for (size_t step = 1; step < 40; step++) {
        char *text = parse(TYPE, body, strlen(body), step);
        cr_assert(text, "refused at step %zu", step);
        cr_assert_str_eq(text, expected);
        free(text);
    }
}

static bool refused(const char *body)
{
    bool first = false;
    for (size_t step = 1; step < 40; step += 19) {
        char *text = parse(TYPE, body, strlen(body), step);
        if (step == 1)
            first = !text;
        cr_assert_eq(first, !text, "the verdict depends on the pieces");
        free(text);
    }
    return first;
}

#define PART(head, data) "--XyZ\r\n" head "\r\n\r\n" data "\r\n"
#define FORM             "Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\""

Test(multipart, parts)
{
    gives(PART(FORM, "hello") "--XyZ--\r\n", "file|a.txt|hello\n");
    gives(PART(FORM, "") PART("Content-Disposition: form-data; name=\"b\"", "2") "--XyZ--\r\n",
          "file|a.txt|\nb|-|2\n");
}

Test(multipart, what_looks_like_a_delimiter)
{
    gives(PART(FORM, "\r\n--Xy\r\n--XyA\r\n-\r\r\n--X") "--XyZ--\r\n",
          "file|a.txt|\r\n--Xy\r\n--XyA\r\n-\r\r\n--X\n");
}

Test(multipart, names_are_not_paths_here)
{
    gives(PART("Content-Disposition: form-data; name=\"file\"; filename=\"../../etc/x\"",
               "1") "--XyZ--\r\n",
          "file|../../etc/x|1\n");
}

Test(multipart, nonsense_is_refused)
{
    cr_assert(!refused(PART(FORM, "x") "--XyZ--\r\n"));
    cr_assert(refused(PART(FORM, "x")), "not complete");
    cr_assert(refused(PART(FORM, "x") "--XyZ"));
    cr_assert(refused(PART("Content-Type: text/plain", "x") "--XyZ--\r\n"));
    cr_assert(refused(PART("Content-Disposition: attachment; name=\"x\"", "x") "--XyZ--\r\n"));
    cr_assert(refused("--XyZ\n" FORM "\n\nx\n--XyZ--\n"), "LF alone");
}

Test(multipart, boundaries)
{
    struct multipart *m = malloc(sizeof *m);
    cr_assert_lt(multipart_init(m, "multipart/form-data", NULL), 0);
    cr_assert_lt(multipart_init(m, "multipart/form-data; boundary=", NULL), 0);
    cr_assert_lt(multipart_init(m, "text/plain; boundary=x", NULL), 0);
    cr_assert_eq(multipart_init(m, "multipart/form-data; boundary=\"a:b\"", NULL), 0);
    char type[128] = "multipart/form-data; boundary=";
    size_t at = strlen(type);
    memset(type + at, 'b', MULTIPART_BOUNDARY_MAX);
    cr_assert_eq(multipart_init(m, type, NULL), 0);
    type[at + MULTIPART_BOUNDARY_MAX] = 'b';
    cr_assert_lt(multipart_init(m, type, NULL), 0);
    free(m);
}
