/* Errors in the forms that clients expect. */
#include "daemon/server/connection.h"
#include "http/connect.h"

#include <criterion/criterion.h>
#include <string.h>

static struct buf out;

static struct failure fail(enum error_style style, int status)
{
    buf_reset(&out);
    return failure_write(style, status, "it \"broke\"", &out);
}

Test(failure, control_plane)
{
    buf_init(&out, 4096);
    struct failure f = fail(ERRORS_API, 404);
    cr_assert_eq(f.status, 404);
    cr_assert_str_eq(f.type, "application/json");
    cr_assert_str_eq(buf_text(&out), "{\"code\":404,\"message\":\"it \\\"broke\\\"\"}");
    buf_done(&out);
}

Test(failure, connect)
{
    static const struct {
        int status;
        const char *code;
    } codes[] = {
        {400, "invalid_argument"},  {401, "unauthenticated"},    {403, "permission_denied"},
        {404, "not_found"},         {409, "already_exists"},     {429, "resource_exhausted"},
        {500, "internal"},          {501, "unimplemented"},      {503, "unavailable"},
        {504, "deadline_exceeded"}, {413, "resource_exhausted"},
    };
    buf_init(&out, 4096);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct failure f = fail(ERRORS_CONNECT, codes[i].status);
        cr_assert_eq(f.status, codes[i].status);
        cr_assert(strstr(buf_text(&out), codes[i].code), "%d: %s", codes[i].status, out.data);
    }
    buf_done(&out);
}

Test(failure, connect_streams_say_it_in_the_last_frame)
{
    struct connect_frame frame;
    buf_init(&out, 4096);
    struct failure f = fail(ERRORS_CONNECT_STREAM, 404);
    cr_assert_eq(f.status, 200);
    cr_assert_str_eq(f.type, "application/connect+json");
    cr_assert_eq(connect_frame_parse(out.data, out.len, 4096, &frame, NULL), (ssize_t)out.len);
    cr_assert_eq(frame.flags, CONNECT_END);
    cr_assert(strstr(frame.data, "\"error\":{\"code\":\"not_found\""));
    f = fail(ERRORS_CONNECT_STREAM, 502);
    cr_assert_eq(f.status, 502, "the status alone says that the sandbox is gone");
    buf_done(&out);
}

Test(failure, others)
{
    buf_init(&out, 4096);
    struct failure f = fail(ERRORS_TEXT, 400);
    cr_assert_eq(f.status, 400);
    cr_assert_str_eq(buf_text(&out), "it \"broke\"");
    f = fail(ERRORS_DIFY, 503);
    cr_assert_eq(f.status, 503);
    cr_assert_str_eq(buf_text(&out),
                     "{\"code\":-503,\"message\":\"it \\\"broke\\\"\",\"data\":null}");
    buf_done(&out);
}

Test(failure, every_code_has_a_status)
{
    for (int code = ERR_USAGE; code < ERR_CODE_END; code++)
        cr_assert(failure_status((enum err_code)code) >= 400);
    cr_assert_eq(failure_status(ERR_USAGE), 400);
    cr_assert_eq(failure_status(ERR_NOT_FOUND), 404);
    cr_assert_eq(failure_status(ERR_MEMORY), 503);
    cr_assert_eq(failure_status((enum err_code)99), 500);
}
