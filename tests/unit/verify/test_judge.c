/* Verdicts: what holds, what fails, and what proves nothing. */
#include "verify/judge.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int never(struct attempt *a)
{
    (void)a;
    return 0;
}

static bool unseen(const struct sight *s, char *seen, size_t size)
{
    (void)s, (void)seen, (void)size;
    return false;
}

static const struct row plain = {.id = "K-00", .boundary = BOUNDARY_KERNEL, .attack = never};

/* The control worked, the attack was refused. */
static struct evidence_of_row refused(void)
{
    return (struct evidence_of_row){.control_ran = true,
                                    .control = {.reported = true, .worked = true},
                                    .inside = {.reported = true, .code = EPERM}};
}

static enum verdict_kind kind_of(const struct row *r, const struct evidence_of_row *e)
{
    struct ruling ruling;
    judge_row(r, e, &ruling);
    cr_assert(ruling.text[0]);
    return ruling.kind;
}

Test(judge, a_refused_attack_whose_control_worked_is_held)
{
    struct evidence_of_row e = refused();
    cr_assert_eq(kind_of(&plain, &e), ROW_HELD);
}

Test(judge, an_attack_that_worked_has_failed_whatever_the_control_says)
{
    struct evidence_of_row e = refused();
    e.inside = (struct outcome){.reported = true, .worked = true};
    cr_assert_eq(kind_of(&plain, &e), ROW_FAILED);
    e.control_ran = false;
    cr_assert_eq(kind_of(&plain, &e), ROW_FAILED);
}

Test(judge, what_is_seen_outside_counts_more_than_what_is_said_inside)
{
    struct evidence_of_row e = refused();
    e.seen = true;
    snprintf(e.what, sizeof e.what, "the canary noticed");
    struct ruling ruling;
    judge_row(&plain, &e, &ruling);
    cr_assert_eq(ruling.kind, ROW_FAILED);
    cr_assert_str_eq(ruling.text, "the canary noticed");
    e = refused();
    e.token = true;
    cr_assert_eq(kind_of(&plain, &e), ROW_FAILED);
}

Test(judge, without_a_control_that_works_nothing_is_proved)
{
    struct evidence_of_row e = refused();
    e.control_ran = false;
    cr_assert_eq(kind_of(&plain, &e), ROW_NOT_APPLICABLE);
    e = refused();
    e.control = (struct outcome){.reported = true, .code = ENOSYS};
    struct ruling ruling;
    judge_row(&plain, &e, &ruling);
    cr_assert_eq(ruling.kind, ROW_NOT_APPLICABLE);
    cr_assert(strstr(ruling.text, strerror(ENOSYS)));
}

Test(judge, an_attack_that_never_answered_has_not_been_held)
{
    struct evidence_of_row e = refused();
    e.inside = (struct outcome){0};
    cr_assert_eq(kind_of(&plain, &e), ROW_FAILED);
    struct row silent = plain;
    silent.flags = ROW_SILENT;
    cr_assert_eq(kind_of(&silent, &e), ROW_HELD);
    e.shared = true;
    cr_assert_eq(kind_of(&silent, &e), ROW_FAILED, "nothing may end where others are tried");
    e.shared = false;
    e.limited = true;
    cr_assert_eq(kind_of(&plain, &e), ROW_HELD);
    e.seen = true;
    cr_assert_eq(kind_of(&plain, &e), ROW_FAILED);
}

Test(judge, a_row_that_is_looked_at_must_have_been_looked_at)
{
    struct row looked = {.id = "K-00", .look = unseen};
    struct evidence_of_row e = refused();
    e.inside = (struct outcome){0};
    cr_assert_eq(kind_of(&looked, &e), ROW_FAILED);
    e.looked = true;
    cr_assert_eq(kind_of(&looked, &e), ROW_HELD);
}

Test(judge, of_a_row_about_a_token_only_the_token_counts)
{
    struct row token = plain;
    token.flags = ROW_TOKEN;
    struct evidence_of_row e = refused();
    e.inside = (struct outcome){.reported = true, .worked = true, .detail = "a placeholder"};
    cr_assert_eq(kind_of(&token, &e), ROW_HELD);
    e.token = true;
    cr_assert_eq(kind_of(&token, &e), ROW_FAILED);
}

Test(judge, an_excuse_is_given_as_it_is)
{
    struct evidence_of_row e = refused();
    struct ruling ruling;
    e.excuse = "there is none";
    judge_row(&plain, &e, &ruling);
    cr_assert_eq(ruling.kind, ROW_NOT_APPLICABLE);
    cr_assert_str_eq(ruling.text, "there is none");
}

Test(judge, the_status_is_that_of_the_worst_row)
{
    struct ruling rulings[3] = {
        {.kind = ROW_HELD}, {.kind = ROW_NOT_APPLICABLE}, {.kind = ROW_HELD}};
    cr_assert_eq(judge_status(rulings, 3), 0);
    rulings[1].kind = ROW_FAILED;
    cr_assert_eq(judge_status(rulings, 3), 1);
    cr_assert_eq(judge_status(rulings, 0), 0);
}

/* A kernel in user space answers with its own things: that is no way to the host's. A token, and
 * what is seen outside, stay what they are. */
Test(judge, what_a_sentry_gives_of_its_own_proves_nothing)
{
    const struct row answered = {
        .id = "K-00", .boundary = BOUNDARY_KERNEL, .attack = never, .flags = ROW_ANSWERED};
    struct evidence_of_row e = refused();
    cr_assert_eq(kind_of(&answered, &e), ROW_HELD);
    e.inside = (struct outcome){.reported = true, .worked = true};
    cr_assert_eq(kind_of(&answered, &e), ROW_FAILED);
    e.sentry = true;
    cr_assert_eq(kind_of(&answered, &e), ROW_NOT_APPLICABLE);
    struct ruling ruling;
    e.guest = true;
    judge_row(&answered, &e, &ruling);
    cr_assert(ruling.kind == ROW_NOT_APPLICABLE && strstr(ruling.text, "guest's kernel"));
    cr_assert_eq(kind_of(&plain, &e), ROW_FAILED);
    e.token = true;
    cr_assert_eq(kind_of(&answered, &e), ROW_FAILED);
    e.token = false;
    e.seen = true;
    cr_assert_eq(kind_of(&answered, &e), ROW_FAILED);
}

static bool unnoticed(const struct canaries *c)
{
    (void)c;
    return false;
}

Test(judge, behind_a_sentry_the_canary_is_believed_and_not_the_code)
{
    const struct row watched = {
        .id = "F-00", .boundary = BOUNDARY_FILESYSTEM, .attack = never, .check = unnoticed};
    struct evidence_of_row e = refused();
    e.inside = (struct outcome){.reported = true, .worked = true};
    cr_assert_eq(kind_of(&watched, &e), ROW_FAILED);
    e.sentry = true;
    cr_assert_eq(kind_of(&watched, &e), ROW_HELD);
    e.seen = true;
    cr_assert_eq(kind_of(&watched, &e), ROW_FAILED);
}

static const struct row by_module = {
    .id = "W-00", .boundary = BOUNDARY_KERNEL, .scene = SCENE_MODULE, .flags = ROW_MODULE};

Test(judge, what_a_module_reports_counts)
{
    struct evidence_of_row e = refused();
    cr_assert_eq(kind_of(&by_module, &e), ROW_HELD);
    e.inside = (struct outcome){.reported = true, .worked = true};
    cr_assert_eq(kind_of(&by_module, &e), ROW_FAILED);
    e = refused();
    e.control = (struct outcome){.reported = true, .code = EIO};
    cr_assert_eq(kind_of(&by_module, &e), ROW_NOT_APPLICABLE);
}

Test(judge, a_module_that_was_not_run_has_failed)
{
    struct evidence_of_row e = refused();
    e.control = e.inside = (struct outcome){0};
    cr_assert_eq(kind_of(&by_module, &e), ROW_FAILED);
}

Test(judge, a_module_that_is_refused_is_held_if_another_one_runs)
{
    struct row r = by_module;
    struct evidence_of_row e = refused();
    r.flags |= ROW_REFUSED;
    e.inside = (struct outcome){0};
    cr_assert_eq(kind_of(&r, &e), ROW_FAILED, "it ended, and nobody knows why");
    e.refused = true;
    cr_assert_eq(kind_of(&r, &e), ROW_HELD);
    e.control = (struct outcome){0};
    cr_assert_eq(kind_of(&r, &e), ROW_FAILED);
}
