/* A loop that runs for a moment, and a text of what happened in it, a letter each. */
#pragma once

#include "os/loop.h"

#include <criterion/criterion.h>
#include <string.h>

static struct loop *loop;
static char seen[256];

static void note(char c)
{
    size_t len = strlen(seen);
    cr_assert_lt(len, sizeof seen - 1);
    seen[len] = c;
}

static void stop(struct loop_timer *t)
{
    (void)t;
    loop_stop(loop);
}

static void run_for(unsigned ms)
{
    struct loop_timer end = {.fn = stop};
    loop_timer_set(loop, &end, ms);
    cr_assert_eq(loop_run(loop), 0);
    loop_timer_cancel(loop, &end);
}

static void begin(void)
{
    cr_assert_eq(loop_new(&loop, NULL), 0);
}
