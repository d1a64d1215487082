/* What run_code writes down of an interpreter's results: in pieces, whole or not at all. */
#include "daemon/mcp/run.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define LARGE (900u << 10)

static struct mcp_call call;
static struct mcp_run run;
static struct interp_said said;

static void say(const char *text)
{
    struct err err = ERR_INIT;
    json_free((struct json *)(uintptr_t)said.data);
    struct json *tree = NULL;
    cr_assert_eq(json_parse(text, strlen(text), NULL, &tree, &err), 0, "%s", err.message);
    said.data = tree;
}

/* A figure of so many digits, its name first. */
static void say_figure(size_t len)
{
    static const char head[] = "{\"text\":\"<Figure>\",\"png\":\"",
                      tail[] = "\",\"extra\":{\"a\":[1,2]}}";
    cleanup_free char *text = malloc(sizeof head + len + sizeof tail);
    cr_assert_not_null(text);
    memcpy(text, head, sizeof head - 1);
    memset(text + sizeof head - 1, 'A', len);
    memcpy(text + sizeof head - 1 + len, tail, sizeof tail);
    say(text);
}

static void begin(void)
{
    hold_init(&call.activity.hold, NULL);
    run.c = &call;
    said = (struct interp_said){.word = INTERP_RESULT, .main = true};
    buf_init(&run.result, LARGE);
    buf_init(&run.results, LARGE);
    buf_init(&run.images, 2 * LARGE);
}

static unsigned take(void)
{
    unsigned turns = 1;
    while (run_take_result(&run, &said) == SINK_MORE)
        turns++;
    return turns;
}

Test(run_code, a_large_picture_is_written_down_in_pieces, .init = begin)
{
    size_t most = 0, before;
    say_figure(LARGE);
    for (bool more = true; more;) {
        before = run.images.len;
        more = run_take_result(&run, &said) == SINK_MORE;
        size_t now = run.images.len - before;
        most = now > most ? now : most;
    }
    cr_expect_leq(most, 128u << 10, "%zu bytes in one turn", most);
    cr_expect_gt(run.images.len, LARGE);
    cr_expect_str_eq(buf_text(&run.results), "{\"text\":\"<Figure>\",\"extra\":{\"a\":[1,2]}}");
    cr_expect_str_eq(buf_text(&run.result), "<Figure>");
    cr_expect_not(run.cut);
}

Test(run_code, pictures_and_members_come_whole, .init = begin)
{
    say("{\"png\":\"QQ==\",\"pdf\":\"UUU=\",\"jpeg\":\"Qg==\",\"html\":\"<b>\"}");
    cr_expect_eq(take(), 1, "small ones at once");
    say("{\"png\":{\"no\":1},\"text\":\"x\"}");
    take();
    cr_expect_str_eq(buf_text(&run.images),
                     ",{\"type\":\"image\",\"data\":\"QQ==\",\"mimeType\":\"image/png\"}"
                     ",{\"type\":\"image\",\"data\":\"Qg==\",\"mimeType\":\"image/jpeg\"}");
    cr_expect_str_eq(buf_text(&run.results), "{\"html\":\"<b>\"},{\"text\":\"x\"}");
}

Test(run_code, what_does_not_fit_is_left_out_as_a_whole, .init = begin)
{
    run.images.cap = 100u << 10;
    say("{\"text\":\"first\",\"png\":\"QQ==\"}");
    take();
    size_t images = run.images.len, results = run.results.len;
    say_figure(LARGE);
    take();
    cr_expect(run.cut && run.images.len == images && run.results.len == results);
    say("{\"text\":\"last\"}");
    take();
    cr_expect_str_eq(buf_text(&run.results), "{\"text\":\"first\"},{\"text\":\"last\"}");
}

Test(run_code, what_is_broken_off_is_left_out, .init = begin)
{
    say_figure(LARGE);
    cr_assert_eq(run_take_result(&run, &said), SINK_MORE);
    run_drop_half(&run);
    cr_expect(run.cut && run.images.len == 0 && run.results.len == 0);
    cr_expect_null(run.taking.pieces);
}
