#include "approvals/approval.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what is shown ---- */

static const struct {
    const char *text, *shown;
} shown[] = {
    {"plain text", "plain text"},
    {"", ""},
    {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
    {"\x1b[31mred", "\\x1b[31mred"},
    {"back\\slash", "back\\\\slash"},
    {"\x7f\x01", "\\x7f\\x01"},
    {"\xc2\x9b"
     "2J",
     "\\u{9b}2J"},
    {"\xff\xfe", "\\xff\\xfe"},
    {"\xc3", "\\xc3"},
    {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
    {"\xe4\xb8\xad", "\xe4\xb8\xad"},
    {"a\xe2\x80\xae"
     "b",
     "a\\u{202e}b"},
    {"a\xe2\x80\x8b"
     "b",
     "a\\u{200b}b"},
    {"a\xe2\x81\xa6"
     "b",
     "a\\u{2066}b"},
    {"a\xef\xbb\xbf", "a\\u{feff}"},
    {"a\xcc\xb6", "a\\u{336}"},
    {"a\xc2\xa0"
     "b",
     "a\\u{a0}b"},
    {"a\xe3\x80\x80", "a\\u{3000}"},
    {"a\xf3\xa0\x81\x81", "a\\u{e0041}"},
};

Test(approval, text_is_made_fit_to_be_shown)
{
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        cleanup_buf struct buf out;
        buf_init(&out, 1000);
        approval_show_text(&out, shown[i].text, strlen(shown[i].text), 500);
        cr_expect_str_eq(buf_text(&out), shown[i].shown);
    }
}

Test(approval, long_texts_show_both_ends)
{
    cleanup_buf struct buf text, out;
    buf_init(&text, 100000);
    buf_init(&out, 1000);
    buf_str(&text, "begin");
    for (int i = 0; i < 20000; i++)
        buf_str(&text, "\xc3\xbc");
    buf_str(&text, "end");
    approval_show_text(&out, buf_text(&text), text.len, 300);
    cr_expect(out.len <= 300);
    cr_expect(strncmp(buf_text(&out), "begin", 5) == 0);
    cr_expect_str_eq(buf_text(&out) + out.len - 3, "end");
    cr_expect(strstr(buf_text(&out), "bytes are not shown") != NULL);
}

Test(approval, commands_are_quoted)
{
    cleanup_buf struct buf out;
    char *const argv[] = {(char[]){"echo"}, (char[]){"a b"}, (char[]){"it's"},
                          (char[]){""},     (char[]){"x\n"}, NULL};
    buf_init(&out, 1000);
    approval_show_argv(&out, argv, 500);
    cr_expect_str_eq(buf_text(&out), "echo 'a b' 'it'\\\\''s' '' 'x\\n'");
}

Test(approval, names)
{
    cr_expect(approval_is_id("ask-0123abcd"));
    cr_expect(!approval_is_id("ask-0123abc"));
    cr_expect(!approval_is_id("ask-0123abcde"));
    cr_expect(!approval_is_id("ask-0123abcg"));
    cr_expect(!approval_is_id("ask-../../x"));
    cr_expect(!approval_is_id(""));
}

/* ---- asking and answering ---- */

static char folder[64];

static void own_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/test-approval-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    setenv("XDG_STATE_HOME", folder, 1);
}

static void remove_folder(void)
{
    char path[128];
    static const char *const parts[] = {"/brig/approvals", "/brig/.brig-state", "/brig", ""};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        snprintf(path, sizeof path, "%s%s", folder, parts[i]);
        remove(path);
    }
}

static struct approval *ask(uint64_t timeout_ms)
{
    struct approval *a = NULL;
    struct err err = ERR_INIT;
    struct approval_question q = {.kind = APPROVAL_TOOL,
                                  .run = "brig-0123",
                                  .text = "delete\x1b everything",
                                  .reason = "tools.ask: delete",
                                  .timeout_ms = timeout_ms};
    cr_assert(approval_ask(&a, &q, &err) == 0, "%s", err.message);
    return a;
}

/* Another process answers: its status is 0 if the answer counted. */
static pid_t answer_from_elsewhere(const char *id, bool allow)
{
    pid_t pid = fork();
    if (pid == 0) {
        close_range(3, ~0u, 0); /* the asker's own: it could not hang up */
        _exit(approval_answer(id, allow, NULL) == 0 ? 0 : 1);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(approval, an_answer_counts_once, .init = own_folder, .fini = remove_folder)
{
    for (int allow = 0; allow < 2; allow++) {
        struct approval *a = ask(60000);
        char id[APPROVAL_ID_SIZE], by[32];
        snprintf(id, sizeof id, "%s", approval_id(a));
        snprintf(by, sizeof by, "uid %u", geteuid());
        cr_expect(approval_step(a) == APPROVAL_PENDING);
        pid_t pid = answer_from_elsewhere(id, allow);
        cr_expect(approval_wait(a, -1) == (allow ? APPROVAL_ALLOWED : APPROVAL_DENIED));
        cr_expect(status_of(pid) == 0);
        cr_expect_str_eq(approval_by(a), by);
        cr_expect(status_of(answer_from_elsewhere(id, !allow)) == 1);
        cr_expect(approval_step(a) == (allow ? APPROVAL_ALLOWED : APPROVAL_DENIED));
        approval_free(a);
    }
}

Test(approval, of_many_answers_one_counts, .init = own_folder, .fini = remove_folder)
{
    struct approval *a = ask(60000);
    pid_t pids[8];
    int counted = 0, allowed = 0;
    for (int i = 0; i < 8; i++)
        pids[i] = answer_from_elsewhere(approval_id(a), i % 2);
    enum approval_answer answer = approval_wait(a, -1);
    approval_free(a);
    for (int i = 0; i < 8; i++) {
        bool mine = status_of(pids[i]) == 0;
        counted += mine;
        allowed += mine && i % 2;
    }
    cr_expect(counted == 1);
    cr_expect((answer == APPROVAL_ALLOWED) == (allowed == 1));
}

Test(approval, time_is_over, .init = own_folder, .fini = remove_folder)
{
    struct approval *a = ask(1);
    char id[APPROVAL_ID_SIZE];
    snprintf(id, sizeof id, "%s", approval_id(a));
    cr_expect(approval_wait(a, -1) == APPROVAL_TIMED_OUT);
    cr_expect_str_eq(approval_by(a), "time");
    cr_expect(status_of(answer_from_elsewhere(id, true)) == 1);
    approval_free(a);
}

/* An answer that was sent in time, but is looked at after it, does not count either. */
Test(approval, an_answer_after_the_time_does_not_count, .init = own_folder, .fini = remove_folder)
{
    struct approval *a = ask(50);
    pid_t pid = answer_from_elsewhere(approval_id(a), true);
    while (approval_wait_ms(a) > 0)
        usleep(1000);
    cr_expect(approval_step(a) == APPROVAL_TIMED_OUT);
    cr_expect(status_of(pid) == 1);
    approval_free(a);
}

Test(approval, an_interruption_is_a_denial, .init = own_folder, .fini = remove_folder)
{
    struct approval *a = ask(60000);
    int ends[2];
    cr_assert(pipe(ends) == 0);
    close(ends[1]);
    cr_expect(approval_wait(a, ends[0]) == APPROVAL_DENIED);
    close(ends[0]);
    approval_free(a);
}

struct found {
    unsigned count;
    char id[APPROVAL_ID_SIZE];
    char json[4096];
};

static void find(void *ctx, const char *id, const char *json)
{
    struct found *f = ctx;
    f->count++;
    snprintf(f->id, sizeof f->id, "%s", id);
    snprintf(f->json, sizeof f->json, "%s", json ? json : "silent");
}

Test(approval, is_described_by_the_asker_and_gone_with_it, .init = own_folder,
     .fini = remove_folder)
{
    int said[2];
    struct found f = {0};
    char c;
    cr_assert(pipe(said) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct approval *a = ask(60000);
        (void)!write(said[1], "x", 1);
        approval_wait(a, -1);
        _exit(0);
    }
    cr_assert(read(said[0], &c, 1) == 1);
    approval_list(find, &f);
    cr_expect(f.count == 1);
    struct json *j = NULL;
    cr_assert(json_parse(f.json, strlen(f.json), &json_default_limits, &j, NULL) == 0);
    cr_expect_str_eq(json_text(j, "text"), "delete\\x1b everything");
    cr_expect_str_eq(json_text(j, "kind"), "tool");
    cr_expect_str_eq(json_text(j, "run"), "brig-0123");
    cr_expect(json_int(json_get(j, "pid")) == pid);
    json_free(j);
    /* One that cannot answer just now is not left out. */
    kill(pid, SIGSTOP);
    cr_expect(waitpid(pid, NULL, WUNTRACED) == pid);
    f.count = 0;
    approval_list(find, &f);
    cr_expect(f.count == 1);
    cr_expect_str_eq(f.json, "silent");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    cr_expect(approval_answer(f.id, true, NULL) < 0);
    f.count = 0;
    approval_list(find, &f);
    cr_expect(f.count == 0);
}

Test(approval, nobody_to_ask)
{
    struct approval *a = NULL;
    struct err err = ERR_INIT;
    struct approval_question q = {.kind = APPROVAL_COMMAND, .text = "x"};
    setenv("XDG_STATE_HOME", "/proc", 1);
    cr_expect(approval_ask(&a, &q, &err) < 0);
    cr_expect(err.code == ERR_REFUSED);
    cr_expect(a == NULL);
}
