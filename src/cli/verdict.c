/* The lines that `brig run` prints on stderr at the end: limits that were reached, signals,
 * denials, reviews. */
#include "cli/verdict.h"

#include "base/cleanup.h"
#include "cli/term.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

struct limit {
    const char *name; /* as in run_result.limit_hit */
    enum policy_field field;
    const char *before; /* the sentence, around the value */
    const char *after;
    const char *option;
};

/* clang-format off */
static const struct limit limits[] = {
    {"timeout",    FIELD_TIMEOUT,    "timed out after ",        "",                       "--timeout"},
    {"cpu_time",   FIELD_CPU_TIME,   "killed: ",                " of CPU time used up",   "--cpu-time"},
    {"memory",     FIELD_MEMORY,     "killed: memory limit ",   " reached",               "-m"},
    {"pids",       FIELD_PIDS,       "limit of ",               " processes reached",     "--pids"},
    {"output",     FIELD_OUTPUT,     "output cut off after ",   "",                       "--output"},
    {"disk",       FIELD_DISK,       "disk limit ",             " reached",               "--disk"},
    {"inodes",     FIELD_INODES,     "limit of ",               " files on disk reached", "--inodes"},
    {"open_files", FIELD_OPEN_FILES, "limit of ",               " open files reached",    "--open-files"},
};
/* clang-format on */

static void say_limit(const struct policy *policy, const char *name)
{
    cleanup_buf struct buf value;
    buf_init(&value, 64);
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        const struct limit *l = &limits[i];
        if (strcmp(l->name, name) != 0)
            continue;
        policy_field_text(policy, l->field, &value);
        term_say("%s%s%s (%s; %s to change)", l->before, buf_text(&value), l->after,
                 policy_field_path(l->field), l->option);
        return;
    }
    term_say("limit reached: %s", name);
}

static void say_limits(const struct policy *policy, const struct run_result *r)
{
    const char *hit = r->limit_hit ? r->limit_hit : "";
    if (hit[0])
        say_limit(policy, hit);
    if (r->timed_out && strcmp(hit, "timeout") != 0 && strcmp(hit, "cpu_time") != 0)
        say_limit(policy, "timeout");
    if (r->oom_killed && strcmp(hit, "memory") != 0)
        say_limit(policy, "memory");
    if ((r->stdout_truncated || r->stderr_truncated) && strcmp(hit, "output") != 0)
        say_limit(policy, "output");
}

/* As a shell would: not for ^C, nor for a reader that went away. */
static void say_signal(const struct run_result *r)
{
    if (r->signal == 0 || r->signal == SIGINT || r->signal == SIGPIPE)
        return;
    if (r->limit_hit || r->timed_out || r->oom_killed || r->ended_because)
        return;
    term_say("the command died of signal %d (%s)", r->signal, strsignal(r->signal));
}

static void say_denials(const struct denial_list *list)
{
    cleanup_buf struct buf line;
    buf_init(&line, 2048);
    for (size_t i = 0; i < list->count; i++) {
        buf_reset(&line);
        denial_line(&list->items[i], &line);
        term_say("%s", buf_text(&line));
    }
    if (list->dropped)
        term_say("denied: %" PRIu64 " further attempts of other kinds", list->dropped);
}

static void say_review(const struct run_result *r)
{
    if (r->review_pending)
        term_say("changes wait: brig diff %s, then brig apply %s or brig discard %s", r->sandbox_id,
                 r->sandbox_id, r->sandbox_id);
    else if (r->reviewed)
        term_say("nothing was changed: there is nothing to review");
}

void verdict_notices(const struct run_result *result)
{
    for (unsigned i = 0; i < result->notice_count; i++)
        term_say("%s", result->notices[i]);
    if (result->ended_because)
        term_say("the sandbox was ended because %s", result->ended_because);
}

void verdict_say(const struct policy *policy, const struct run_result *result, bool verbose)
{
    verdict_notices(result);
    say_limits(policy, result);
    say_signal(result);
    say_denials(&result->denials);
    say_review(result);
    if (verbose)
        term_say("%s: level %s, tier %s, %.1f ms, %.1f ms CPU, peak memory %" PRIu64 " KiB",
                 result->sandbox_id, level_name(result->level), tier_name(result->tier),
                 result->duration_ms, result->cpu_ms, result->peak_memory_bytes / 1024);
}

void verdict_held(const char *id, const char *what, const char *reason)
{
    term_say("waiting for a person: %s", what);
    term_say("  because: %s", reason);
    term_say("  brig approve %s, or brig deny %s; without an answer it is denied", id, id);
}
