/* What passes between a client and a wrapped server, line by line. */
#include "mcp/wrap.h"
#include "policy/policy.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct lab {
    struct policy policy;
    struct wrap wrap;
    uint32_t asked; /* the last ticket */
    uint32_t withdrawn;
    bool nobody;
    char text[4096];
    char note[1024];
};

static int ask(void *ctx, uint32_t ticket, const char *text, const char *reason, struct err *err)
{
    struct lab *l = ctx;
    if (l->nobody)
        return err_set(err, ERR_SYSTEM, "nobody");
    l->asked = ticket;
    snprintf(l->text, sizeof l->text, "%s | %s", text, reason);
    return 0;
}

static void withdraw(void *ctx, uint32_t ticket)
{
    struct lab *l = ctx;
    l->withdrawn = ticket;
}

static void note(void *ctx, const char *text)
{
    struct lab *l = ctx;
    snprintf(l->note, sizeof l->note, "%s", text);
}

static void lab_init(struct lab *l, const char *rules)
{
    struct err err = ERR_INIT;
    *l = (struct lab){0};
    cr_assert_eq(policy_init(&l->policy, LEVEL_HIGH), 0);
    if (rules)
        cr_assert_eq(policy_load(&l->policy, "p.yaml", rules, strlen(rules), &err), 0, "%s",
                     err.message);
    struct wrap_hooks hooks = {.ctx = l, .ask = ask, .withdraw = withdraw, .note = note};
    wrap_init(&l->wrap, &l->policy.tools, &hooks);
}

static void lab_done(struct lab *l)
{
    wrap_done(&l->wrap);
    policy_done(&l->policy);
}
#define LAB(rules)                                                                                 \
    __attribute__((cleanup(lab_done))) struct lab l;                                               \
    lab_init(&l, rules)

static void client(struct lab *l, const char *line)
{
    wrap_client_line(&l->wrap, line, strlen(line));
}

static void server(struct lab *l, const char *line)
{
    wrap_server_line(&l->wrap, line, strlen(line));
}

/* All that was written since the last look. */
#define SAYS(buffer, expected)                                                                     \
    do {                                                                                           \
        cr_expect_str_eq(buf_text(&l.wrap.buffer), expected);                                      \
        buf_reset(&l.wrap.buffer);                                                                 \
    } while (0)
#define HAS(buffer, part)                                                                          \
    cr_expect(strstr(buf_text(&l.wrap.buffer), part), "%s", buf_text(&l.wrap.buffer))
#define FORGET(buffer) buf_reset(&l.wrap.buffer)

#define CALL(id, name)                                                                             \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" name    \
    "\"}}"

static const char rules[] = "tools:\n"
                            "  allow: [read, list]\n"
                            "  ask: [write]\n"
                            "  deny: [drop]\n";

Test(wrap, an_allowed_call_passes_and_its_answer_comes_back_once)
{
    LAB(rules);
    client(&l, " {\"id\":7, \"params\":{\"name\":\"re\\u0061d\",\"arguments\":{\"a\":1.0}},"
               "\"method\":\"tools/call\",\"jsonrpc\":\"2.0\",\"extra\":1}");
    SAYS(to_server, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":"
                    "\"read\",\"arguments\":{\"a\":1.0}}}\n");
    SAYS(to_client, "");
    cr_assert(wrap_owes(&l.wrap));
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[]}}");
    SAYS(to_client, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[]}}\n");
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[]}}");
    SAYS(to_client, "");
    cr_assert_eq(l.wrap.dropped, 1);
    cr_assert(!wrap_owes(&l.wrap));
}

Test(wrap, a_denied_call_is_answered_here_and_nobody_else_can_answer_it)
{
    LAB(rules);
    client(&l, CALL("1", "drop"));
    SAYS(to_server, "");
    HAS(to_client,
        "\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"denied by brig: "
        "tool \\\"drop\\\": tools.deny \\\"drop\\\" (p.yaml:4:10). Hint: ");
    HAS(to_client, "\"isError\":true,\"_meta\":{\"brig/denial\":{\"what\":\"tool \\\"drop\\\"\"");
    cr_expect(!strstr(buf_text(&l.wrap.to_client), "resultType"));
    FORGET(to_client);
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}");
    SAYS(to_client, "");
    cr_assert_eq(l.wrap.denials.count, 1);
}

Test(wrap, in_the_modern_era_a_denial_has_a_type)
{
    LAB(rules);
    client(&l,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"drop\","
           "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}");
    HAS(to_client, "\"resultType\":\"complete\"");
}

Test(wrap, what_no_rule_names_is_denied)
{
    LAB(rules);
    client(&l, CALL("1", "other"));
    SAYS(to_server, "");
    HAS(to_client, "no rule of tools.allow or tools.ask names it");
}

Test(wrap, without_rules_everything_passes)
{
    LAB(NULL);
    client(&l, CALL("1", "other"));
    HAS(to_server, "\"other\"");
}

Test(wrap, a_call_must_be_a_call)
{
    LAB(rules);
    client(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}");
    HAS(to_client, "-32602");
    FORGET(to_client);
    client(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":[]}}");
    HAS(to_client, "-32602");
    FORGET(to_client);
    client(&l,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read\","
           "\"arguments\":[1]}}");
    HAS(to_client, "-32602");
    FORGET(to_client);
    client(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"read\"}}");
    SAYS(to_client, "");
    SAYS(to_server, "");
}

Test(wrap, other_spellings_of_a_call_do_not_pass)
{
    static const char *const methods[] = {"tools/call ", "Tools/Call",     "tools//call",
                                          "tool/call",   "rpc.tools/call", "x"};
    LAB(rules);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char line[200];
        snprintf(line, sizeof line,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{\"name\":\"drop\"}}",
                 methods[i]);
        client(&l, line);
        SAYS(to_server, "");
        HAS(to_client, "-32601");
        FORGET(to_client);
    }
}

Test(wrap, a_key_that_stands_twice_is_refused)
{
    LAB(rules);
    client(&l,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read\","
           "\"name\":\"drop\"}}");
    SAYS(to_server, "");
    HAS(to_client, "\"id\":null,\"error\":{\"code\":-32700");
}

Test(wrap, batches_are_refused)
{
    LAB(rules);
    client(&l, "[" CALL("1", "read") "]");
    SAYS(to_server, "");
    HAS(to_client, "batches");
    FORGET(to_client);
    client(&l, CALL("1", "read"));
    server(&l, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]");
    SAYS(to_client, "");
}

/* ---- the list ---- */

Test(wrap, tools_that_can_never_be_called_are_not_in_the_list)
{
    LAB(rules);
    client(&l, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/list\"}");
    SAYS(to_server, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/list\"}\n");
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"nextCursor\":\"x\",\"tools\":["
               "{\"name\":\"read\",\"description\":\"r\"},{\"name\":\"drop\"},5,{\"name\":7},{},"
               "{\"name\":\"write\"},{\"name\":\"read\",\"description\":\"other\"}]}}");
    SAYS(to_client, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"nextCursor\":\"x\",\"tools\":["
                    "{\"name\":\"read\",\"description\":\"r\"},{\"name\":\"write\"}]}}\n");
}

Test(wrap, a_list_cannot_come_in_by_another_door)
{
    LAB(rules);
    client(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    /* Another id, another type of id, no id, and a notification. */
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[{\"name\":\"drop\"}]}}");
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{\"tools\":[{\"name\":\"drop\"}]}}");
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{\"tools\":[{\"name\":\"drop\"}]}}");
    server(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\",\"params\":{}}");
    SAYS(to_client, "");
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":{\"name\":\"drop\"}}}");
    HAS(to_client, "\"id\":1,\"error\"");
}

/* ---- ask ---- */

Test(wrap, a_call_waits_for_a_person)
{
    LAB(rules);
    client(&l,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"write\","
           "\"arguments\":{\"path\":\"/x\"}}}");
    SAYS(to_server, "");
    SAYS(to_client, "");
    cr_assert_str_eq(l.text, "write {\"path\":\"/x\"} | tools.ask \"write\" (p.yaml:3:9)");
    /* It has not been asked, so it cannot answer. */
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}");
    SAYS(to_client, "");
    wrap_answer(&l.wrap, l.asked + 1, WRAP_ANSWER_ALLOW);
    SAYS(to_server, "");
    wrap_answer(&l.wrap, l.asked, WRAP_ANSWER_ALLOW);
    HAS(to_server, "\"path\":\"/x\"");
    FORGET(to_server);
    wrap_answer(&l.wrap, l.asked, WRAP_ANSWER_DENY);
    SAYS(to_client, "");
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}");
    HAS(to_client, "\"content\":[]");
}

Test(wrap, no_and_no_answer_are_denials)
{
    LAB(rules);
    client(&l, CALL("1", "write"));
    wrap_answer(&l.wrap, l.asked, WRAP_ANSWER_DENY);
    HAS(to_client, "\"by\":\"person\"");
    FORGET(to_client);
    client(&l, CALL("1", "write"));
    wrap_answer(&l.wrap, l.asked, WRAP_ANSWER_TIME);
    HAS(to_client, "\"by\":\"time\"");
    SAYS(to_server, "");
    FORGET(to_client);
    l.nobody = true;
    client(&l, CALL("2", "write"));
    HAS(to_client, "\"by\":\"nobody\"");
    SAYS(to_server, "");
    cr_assert(!wrap_owes(&l.wrap));
}

Test(wrap, a_cancelled_call_is_not_asked_about_any_more)
{
    LAB(rules);
    client(&l, CALL("1", "write"));
    client(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
               "cancelled\",\"params\":{\"requestId\":1}}");
    cr_assert_eq(l.withdrawn, l.asked);
    wrap_answer(&l.wrap, l.asked, WRAP_ANSWER_ALLOW);
    SAYS(to_server, "");
    SAYS(to_client, "");
}

Test(wrap, what_is_shown_is_shown_whole)
{
    LAB(rules);
    static char line[70000];
    static char big[9001];
    memset(big, 'x', 9000);
    snprintf(
        line, sizeof line,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"write\","
        "\"arguments\":{\"text\":\"%s\",\"path\":\"/etc/behind\"}}}",
        big);
    client(&l, line);
    cr_assert(strstr(l.text, "[9000 bytes in all]\",\"path\":\"/etc/behind\"}"), "%s", l.text);
    l.asked = 0;
    /* Many small ones cannot be cut: nobody is asked about what cannot be seen. */
    size_t n = (size_t)snprintf(line, sizeof line,
                                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":"
                                "\"tools/call\",\"params\":{\"name\":\"write\","
                                "\"arguments\":{\"a\":[");
    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, "\"some text\",");
    snprintf(line + n, sizeof line - n, "1]}}}");
    client(&l, line);
    cr_assert_eq(l.asked, 0);
    HAS(to_client, "\"id\":2,\"result\"");
    HAS(to_client, "\"by\":\"nobody\"");
}

/* ---- ids ---- */

Test(wrap, an_id_in_use_cannot_be_used_again)
{
    LAB(rules);
    client(&l, CALL("1", "read"));
    FORGET(to_server);
    client(&l, CALL("1", "list"));
    SAYS(to_server, "");
    HAS(to_client, "\"id\":null,\"error\"");
    FORGET(to_client);
    /* A refused message with this id must not answer the call either. */
    client(&l, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}");
    HAS(to_client, "\"id\":null,\"error\"");
    FORGET(to_client);
    client(&l, CALL("\"1\"", "list"));
    HAS(to_server, "\"id\":\"1\"");
}

Test(wrap, requests_that_wait_are_bounded)
{
    LAB(rules);
    for (unsigned i = 0; i <= WRAP_CALLS_MAX; i++) {
        char line[100];
        snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"}", i);
        client(&l, line);
    }
    HAS(to_client, "\"id\":1024,\"error\"");
    cr_assert_eq(l.wrap.call_count, WRAP_CALLS_MAX);
}

/* ---- what the server asks ---- */

#define ASKS(method) "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"" method "\",\"params\":{}}"

Test(wrap, the_server_asks_for_nothing_by_itself)
{
    LAB(rules);
    static const char *const asks[] = {ASKS("sampling/createMessage"), ASKS("roots/list"),
                                       ASKS("elicitation/create"), ASKS("tools/call"), ASKS("x")};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        server(&l, asks[i]);
        SAYS(to_client, "");
        HAS(to_server, "\"id\":9,\"error\":{\"code\":-32601");
        FORGET(to_server);
    }
    server(&l, ASKS("ping"));
    HAS(to_client, "\"ping\"");
}

Test(wrap, what_the_policy_names_may_be_asked_for)
{
    LAB("tools: {allow: [read], callbacks: [roots]}\n");
    server(&l, ASKS("roots/list"));
    HAS(to_client, "roots/list");
    FORGET(to_client);
    server(&l, ASKS("elicitation/create"));
    SAYS(to_client, "");
    FORGET(to_server);
    client(&l, "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}");
    SAYS(to_server, "");
    client(&l, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"roots\":[]}}");
    SAYS(to_server, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"roots\":[]}}\n");
    client(&l, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"roots\":[]}}");
    SAYS(to_server, "");
}

Test(wrap, the_server_is_not_told_of_what_it_may_not_ask_for)
{
    LAB("tools: {allow: [read], callbacks: [roots]}\n");
    client(&l,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"capabilities\":{"
           "\"sampling\":{},\"roots\":{},\"elicitation\":{},\"experimental\":{}}}}");
    HAS(to_server, "\"capabilities\":{\"roots\":{},\"experimental\":{}}");
    FORGET(to_server);
    client(&l, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
               "\"io.modelcontextprotocol/clientCapabilities\":{\"sampling\":{},\"roots\":{}}}}}");
    HAS(to_server, "clientCapabilities\":{\"roots\":{}}");
}

Test(wrap, a_question_in_a_result_is_a_question)
{
    LAB("tools: {allow: [read], callbacks: [elicitation]}\n");
    client(&l, CALL("1", "read"));
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"input_required\","
               "\"inputRequests\":{\"a\":{\"method\":\"elicitation/create\"},"
               "\"b\":{\"method\":\"sampling/createMessage\"}}}}");
    HAS(to_client, "\"isError\":true");
    cr_expect(!strstr(buf_text(&l.wrap.to_client), "input_required"));
    FORGET(to_client);
    client(&l, CALL("1", "read"));
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"input_required\","
               "\"inputRequests\":{\"a\":{\"method\":\"elicitation/create\"}}}}");
    HAS(to_client, "input_required");
}

Test(wrap, an_error_that_is_a_question_loses_it)
{
    LAB(rules);
    client(&l, CALL("1", "read"));
    server(&l,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32042,\"message\":\"m\",\"data\":{"
           "\"elicitations\":[{\"url\":\"http://evil\"}]}}}");
    HAS(to_client, "\"id\":1,\"error\"");
    cr_expect(!strstr(buf_text(&l.wrap.to_client), "evil"));
}

/* ---- notifications ---- */

Test(wrap, progress_belongs_to_a_call)
{
    LAB(rules);
    client(&l,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read\","
           "\"_meta\":{\"progressToken\":\"t\"}}}");
    server(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
               "\"progressToken\":\"u\",\"progress\":1}}");
    SAYS(to_client, "");
    server(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
               "\"progressToken\":\"t\",\"progress\":1}}");
    HAS(to_client, "\"progressToken\":\"t\"");
}

Test(wrap, cancelling_reaches_the_server_for_what_it_knows)
{
    LAB(rules);
    client(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
               "cancelled\",\"params\":{\"requestId\":1}}");
    SAYS(to_server, "");
    client(&l, CALL("1", "read"));
    FORGET(to_server);
    client(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
               "cancelled\",\"params\":{\"requestId\":1}}");
    HAS(to_server, "notifications/cancelled");
    cr_assert(!wrap_owes(&l.wrap));
}

Test(wrap, unknown_notifications_go_nowhere)
{
    LAB(rules);
    server(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}");
    client(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\"}");
    SAYS(to_client, "");
    SAYS(to_server, "");
    server(&l, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
    HAS(to_client, "list_changed");
}

/* ---- lines that are none ---- */

Test(wrap, chatter_of_the_server_goes_nowhere)
{
    LAB(rules);
    client(&l, CALL("1", "read"));
    server(&l, "Server listening\x1b[2J");
    SAYS(to_client, "");
    cr_assert(wrap_owes(&l.wrap));
    cr_assert(strstr(l.note, "a line of the server was dropped"));
}

Test(wrap, an_answer_that_cannot_be_read_is_an_error_of_the_only_call)
{
    LAB(rules);
    client(&l, CALL("1", "read"));
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":\"\\u0000\"}}");
    HAS(to_client, "\"id\":1,\"error\"");
    FORGET(to_client);
    client(&l, CALL("1", "read"));
    client(&l, CALL("2", "read"));
    server(&l, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":\"\\u0000\"}}");
    SAYS(to_client, "");
    cr_assert_eq(l.wrap.call_count, 2);
}

Test(wrap, notes_are_bounded)
{
    LAB(rules);
    for (int i = 0; i < 1000; i++)
        server(&l, "x");
    cr_assert_eq(l.wrap.dropped, 1000);
    l.note[0] = '\0';
    server(&l, "x");
    cr_assert_eq(l.note[0], '\0');
}
