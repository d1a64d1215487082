/* Which tools may be called, and with what. */
#include "helpers.h"

#include "policy/tools/internal.h"

#include <criterion/criterion.h>

static const char rules[] = "tools:\n"
                            "  allow:\n"
                            "    - list_*\n"
                            "    - read_file:path=/data/**\n"
                            "    - name: copy\n"
                            "      arguments: {from: [/data/**, /etc/hosts], \"to*\": /out/*}\n"
                            "    - run\n"
                            "    - name: \"ns:tool\"\n"
                            "  ask: [\"run:command=**rm **\", remove_*]\n"
                            "  deny: [list_secrets, \"*:**=/etc/shadow\", \"copy:from=*.key\"]\n";

static enum tool_verdict decide(const struct policy *p, const char *name, const char *arguments)
{
    struct json *j = NULL;
    struct err err = ERR_INIT;
    if (arguments)
        cr_assert_eq(json_parse(arguments, strlen(arguments), NULL, &j, &err), 0, "%s",
                     err.message);
    enum tool_verdict v = tools_decide(&p->tools, name, j).verdict;
    json_free(j);
    return v;
}

#define DECIDES(verdict, name, arguments)                                                          \
    cr_expect_str_eq(tool_verdict_name(decide(&p, name, arguments)), verdict, "%s(%s)", name,      \
                     arguments ? arguments : "")

Test(tools, without_a_section_everything_is_allowed)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    DECIDES("allow", "anything", "{\"a\":1}");
    cr_assert(tools_shows(&p.tools, "anything"));
}

Test(tools, an_empty_section_allows_nothing)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, "tools: {}\n");
    DECIDES("deny", "anything", NULL);
    cr_assert(!tools_shows(&p.tools, "anything"));
}

Test(tools, names)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, rules);
    DECIDES("allow", "list_files", NULL);
    DECIDES("allow", "list_a/b", "{}");
    DECIDES("deny", "list_secrets", NULL);
    DECIDES("deny", "LIST_files", NULL);
    DECIDES("deny", "xlist_files", NULL);
    DECIDES("deny", "", NULL);
    DECIDES("allow", "ns:tool", NULL);
    DECIDES("ask", "remove_it", "{\"x\":1}");
}

Test(tools, every_part_of_an_argument_must_match_to_be_granted)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, rules);
    DECIDES("allow", "read_file", "{\"path\":\"/data/a/b\",\"other\":\"/etc/passwd\"}");
    DECIDES("allow", "read_file", "{\"path\":[\"/data/a\",\"/data/b\"]}");
    DECIDES("deny", "read_file", "{\"path\":[\"/data/a\",\"/etc/passwd\"]}");
    DECIDES("deny", "read_file", "{\"path\":[]}");
    DECIDES("deny", "read_file", "{\"path\":{\"a\":\"/data/a\"}}");
    DECIDES("deny", "read_file", "{\"Path\":\"/data/a\"}");
    DECIDES("deny", "read_file", "{\"path\":null}");
    DECIDES("deny", "read_file", "{}");
    DECIDES("deny", "read_file", NULL);
    DECIDES("deny", "read_file", "{\"path\":\"/data/../etc/passwd\"}");
    DECIDES("deny", "read_file", "{\"path\":\"/data/..\"}");
    DECIDES("deny", "read_file", "{\"path\":\"/data/x\\\\..\\\\..\\\\y\"}");
    DECIDES("allow", "read_file", "{\"path\":\"/data/a..b/...\"}");
    DECIDES("deny", "read_file", "{\"path\":\"/database\"}");
}

Test(tools, several_arguments_and_patterns_of_their_names)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, rules);
    DECIDES("allow", "copy", "{\"from\":\"/data/a/b\",\"to\":\"/out/b\"}");
    DECIDES("allow", "copy", "{\"from\":\"/etc/hosts\",\"to\":\"/out/b\"}");
    DECIDES("deny", "copy", "{\"from\":\"/data/a\"}");
    DECIDES("deny", "copy", "{\"from\":\"/data/a\",\"to\":\"/out/b/c\"}");
    DECIDES("deny", "copy", "{\"from\":\"/data/a\",\"to\":\"/out/b\",\"too\":\"/etc/x\"}");
}

Test(tools, one_part_is_enough_to_deny_or_to_ask)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, rules);
    DECIDES("deny", "list_files", "{\"x\":\"/etc/shadow\"}");
    DECIDES("deny", "list_files", "{\"x\":{\"y\":[1,\"/etc/./a/..//shadow\"]}}");
    DECIDES("deny", "list_files", "{\"x\":{\"/etc/shadow\":1}}");
    DECIDES("allow", "list_files", "{\"x\":\"/etc/shadows\"}");
    DECIDES("allow", "run", "{\"command\":\"ls -l\"}");
    DECIDES("ask", "run", "{\"command\":\"cd /x; rm -r y\"}");
    DECIDES("ask", "run", "{\"command\":[\"ls\",\"rm x\"]}");
    DECIDES("allow", "run", NULL);
}

Test(tools, numbers_are_compared_as_they_are_written)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, "tools: {allow: [\"a:n=5\", \"b:n=true\", \"c:n=1.5\", \"d:n=null\"]}\n");
    DECIDES("allow", "a", "{\"n\":5}");
    DECIDES("allow", "a", "{\"n\":\"5\"}");
    DECIDES("deny", "a", "{\"n\":50}");
    DECIDES("allow", "b", "{\"n\":true}");
    DECIDES("allow", "c", "{\"n\":1.5}");
    DECIDES("allow", "d", "{\"n\":null}");
}

Test(tools, a_hidden_tool_is_one_that_can_never_be_called)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, rules);
    cr_expect(tools_shows(&p.tools, "read_file"));
    cr_expect(tools_shows(&p.tools, "remove_x"));
    cr_expect(tools_shows(&p.tools, "copy"));
    cr_expect(!tools_shows(&p.tools, "list_secrets"));
    cr_expect(!tools_shows(&p.tools, "write_file"));
}

Test(tools, the_decision_names_its_rule)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, rules);
    struct tool_decision d = tools_decide(&p.tools, "list_secrets", NULL);
    cr_assert_str_eq(d.rule->text, "list_secrets");
    cr_assert_eq(d.rule->origin.line, 10);
    d = tools_decide(&p.tools, "read_file", NULL);
    cr_assert_null(d.rule);
    cr_assert_str_eq(d.near->text, "read_file:path=/data/**");
    d = tools_decide(&p.tools, "nothing", NULL);
    cr_assert(!d.rule && !d.near);
}

/* ---- patterns, against the simplest matcher there is ---- */

static bool slow(const char *p, const char *t)
{
    if (*p == '\0')
        return *t == '\0';
    if (*p == '*') {
        bool two = p[1] == '*';
        if (slow(p + 1 + two, t))
            return true;
        return *t && (two || *t != '/') && slow(p, t + 1);
    }
    if (*p == '\\')
        p++;
    return *t == *p && slow(p + 1, t + 1);
}

Test(tools, patterns_match_as_the_simplest_matcher_does)
{
    unsigned long long seed = 12345;
    for (int round = 0; round < 200000; round++) {
        char pattern[10];
        char text[12];
        size_t n = 0;
        for (size_t i = 0; i < 8; i++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            pattern[i] = "ab/**"[(seed >> 33) % 5];
        }
        pattern[(seed >> 40) % 9] = '\0';
        pattern[8] = '\0';
        /* Three stars are a `**` and a `*`. */
        for (size_t i = 0; i < 10; i++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            text[n++] = "ab/"[(seed >> 33) % 3];
        }
        text[(seed >> 40) % 11] = '\0';
        text[10] = '\0';
        cr_assert_eq(tool_value_grants(pattern, text), slow(pattern, text), "'%s' '%s'", pattern,
                     text);
    }
}

Test(tools, a_star_can_be_meant)
{
    cr_expect(tool_value_grants("a\\*b", "a*b"));
    cr_expect(!tool_value_grants("a\\*b", "axb"));
    cr_expect(tool_value_grants("a\\\\*", "a\\b"));
    cr_expect(tool_name_match("a\\*", "a*"));
}

Test(tools, a_long_value_is_no_trap)
{
    static char value[1 << 20];
    memset(value, 'a', sizeof value - 1);
    cr_expect(!tool_value_grants("**a*a*a*a*a*b", value));
    cr_expect(tool_value_grants("*a*a*a*a", value));
}

/* ---- documents ---- */

#define REFUSES(text, part)                                                                        \
    do {                                                                                           \
        cleanup_policy struct policy p;                                                            \
        struct err err = ERR_INIT;                                                                 \
        policy_init(&p, LEVEL_HIGH);                                                               \
        cr_expect_lt(load(&p, text, &err), 0, "%s", text);                                         \
        cr_expect(has(err.message, part), "%s: %s", text, err.message);                            \
    } while (0)

Test(tools, mistakes_are_named_with_their_place)
{
    REFUSES("tools: []\n", "p.yaml:1:8: tools: expected keys and values");
    REFUSES("tools: {alow: [a]}\n",
            "p.yaml:1:9: unknown key \"alow\" in tools, did you mean allow");
    REFUSES("tools: {allow: a}\n", "tools.allow: expected a list");
    REFUSES("tools: {allow: [5]}\n", "p.yaml:1:17: tools.allow: expected the name of a tool");
    REFUSES("tools: {allow: [\"\"]}\n", "expected NAME or NAME:ARGUMENT=PATTERN");
    REFUSES("tools: {allow: [\"a:b\"]}\n", "expected NAME or NAME:ARGUMENT=PATTERN");
    REFUSES("tools: {allow: [\"a:=b\"]}\n", "expected NAME or NAME:ARGUMENT=PATTERN");
    REFUSES("tools: {ask: [{arguments: {a: b}}]}\n", "tools.ask: name is missing");
    REFUSES("tools: {deny: [{name: a, argument: b}]}\n", "did you mean arguments");
    REFUSES("tools: {deny: [{name: a, arguments: {}}]}\n", "arguments is empty");
    REFUSES("tools: {deny: [{name: a, arguments: {b: []}}]}\n", "the list is empty");
    REFUSES("tools: {deny: [{name: a, arguments: {b: 5}}]}\n", "expected a pattern in quotes");
    REFUSES("tools: {deny: [\"a\\\\b\"]}\n", "a backslash stands before");
    REFUSES("tools: {deny: [\"a\\u0007b\"]}\n", "control characters");
    REFUSES("tools: {callbacks: [all]}\n", "expected roots, sampling or elicitation");
}

Test(tools, the_same_rules_in_another_order_are_the_same_policy)
{
    cleanup_policy struct policy a;
    cleanup_policy struct policy b;
    cleanup_policy struct policy c;
    char ha[72], hb[72], hc[72], none[72];
    policy_init(&a, LEVEL_HIGH);
    policy_hash(&a, none);
    policy_init(&b, LEVEL_HIGH);
    policy_init(&c, LEVEL_HIGH);
    must_load(&a, "tools: {allow: [b, a, a, {name: c, arguments: {z: [q, p], x: \"1\"}}]}\n");
    must_load(&b, "tools: {allow: [{name: c, arguments: {x: [\"1\"], z: [p, q]}}, a, b]}\n");
    must_load(&c, "tools: {ask: [{name: c, arguments: {x: [\"1\"], z: [p, q]}}, a, b]}\n");
    policy_hash(&a, ha);
    policy_hash(&b, hb);
    policy_hash(&c, hc);
    cr_assert_str_eq(ha, hb);
    cr_assert_str_neq(ha, hc);
    cr_assert_str_neq(ha, none);
}

Test(tools, what_is_shown_reads_back)
{
    cleanup_policy struct policy p;
    char before[72];
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, rules);
    p.tools.callbacks = CALLBACK_ROOTS | CALLBACK_ELICITATION;
    policy_hash(&p, before);
    for (int yaml = 0; yaml < 2; yaml++) {
        cleanup_policy struct policy again;
        cleanup_buf struct buf text;
        char after[72];
        buf_init(&text, 65536);
        policy_init(&again, LEVEL_HIGH);
        (yaml ? policy_show_yaml : policy_show_json)(&p, &text);
        must_load(&again, buf_text(&text));
        policy_hash(&again, after);
        cr_assert_str_eq(before, after, "%s", buf_text(&text));
    }
}

Test(tools, explain_says_where_each_rule_came_from)
{
    cleanup_policy struct policy p;
    cleanup_buf struct buf text;
    struct err err = ERR_INIT;
    struct origin o = option("--tool");
    buf_init(&text, 65536);
    policy_init(&p, LEVEL_HIGH);
    policy_explain(&p, &text);
    cr_assert(!has(buf_text(&text), "tools."));
    must_load(&p, "tools:\n  allow: [read_*]\n");
    cr_assert_eq(policy_tool(&p, TOOL_ALLOW, "more", &o, &err), 0);
    buf_reset(&text);
    policy_explain(&p, &text);
    cr_assert(has(buf_text(&text), "tools.allow"), "%s", buf_text(&text));
    cr_assert(has(buf_text(&text), "p.yaml:2:11"), "%s", buf_text(&text));
    cr_assert(has(buf_text(&text), "option --tool"), "%s", buf_text(&text));
    cr_assert_lt(policy_tool(&p, TOOL_ALLOW, "a:b", &o, &err), 0);
    cr_assert(has(err.message, "--tool: "), "%s", err.message);
}

/* ---- requests ---- */

#define TIGHTENS(have, want, expected)                                                             \
    do {                                                                                           \
        cleanup_policy struct policy p;                                                            \
        cleanup_policy struct policy request;                                                      \
        struct err err = ERR_INIT;                                                                 \
        policy_init(&p, LEVEL_HIGH);                                                               \
        policy_init(&request, LEVEL_HIGH);                                                         \
        must_load(&p, have);                                                                       \
        must_load(&request, want);                                                                 \
        cr_expect_eq(policy_tighten(&p, &request, &err) == 0, expected, "%s\n%s\n%s", have, want,  \
                     err.message);                                                                 \
    } while (0)

Test(tools, a_request_may_only_tighten)
{
    TIGHTENS("level: high\n", "tools: {allow: [a]}\n", true);
    TIGHTENS("tools: {allow: [a]}\n", "level: high\n", true);
    TIGHTENS("tools: {allow: [a*]}\n", "tools: {allow: [ab, \"a*\", \"ab*\"]}\n", true);
    TIGHTENS("tools: {allow: [a]}\n", "tools: {allow: [b]}\n", false);
    TIGHTENS("tools: {allow: [a]}\n", "tools: {ask: [b]}\n", false);
    TIGHTENS("tools: {allow: [a]}\n", "tools: {deny: [b]}\n", true);
    TIGHTENS("tools: {allow: [ab*]}\n", "tools: {allow: [\"a*\"]}\n", false);
    TIGHTENS("tools: {deny: [a]}\n", "tools: {allow: [a]}\n", false);
    TIGHTENS("tools: {ask: [a]}\n", "tools: {allow: [a]}\n", true);
    TIGHTENS("tools: {allow: [\"a:p=/d/**\"]}\n", "tools: {allow: [a]}\n", false);
    TIGHTENS("tools: {allow: [\"a:p=/d/**\"]}\n", "tools: {allow: [\"a:p=/d/x\"]}\n", true);
    TIGHTENS("tools: {allow: [\"a:p=/d/**\"]}\n", "tools: {allow: [\"a:p=/d/x/**\"]}\n", true);
    TIGHTENS("tools: {allow: [\"a:p=/d/**\"]}\n", "tools: {allow: [\"a:p=**\"]}\n", false);
    TIGHTENS("tools: {allow: [\"a:p=/d/*\"]}\n", "tools: {allow: [\"a:p=/d/**\"]}\n", false);
    TIGHTENS("tools: {allow: [\"a:p=/d/**\"]}\n", "tools: {allow: [\"a:p=/d/../e\"]}\n", false);
    TIGHTENS("tools: {allow: [\"a:p=/d/**\"]}\n", "tools: {allow: [\"a:q=/d/x\"]}\n", false);
    TIGHTENS("tools: {callbacks: [roots]}\n", "tools: {callbacks: [roots]}\n", true);
    TIGHTENS("tools: {callbacks: [roots]}\n", "tools: {callbacks: [sampling]}\n", false);
    TIGHTENS("level: high\n", "tools: {callbacks: [sampling]}\n", false);
}

Test(tools, what_the_operator_denies_or_asks_about_stays_so)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    policy_init(&request, LEVEL_HIGH);
    must_load(&p, "tools: {allow: [\"*\"], ask: [rm*], deny: [x*]}\n");
    must_load(&request, "tools: {allow: [rm_all, xa, c], deny: [c]}\n");
    cr_assert_eq(policy_tighten(&p, &request, &err), 0, "%s", err.message);
    DECIDES("ask", "rm_all", NULL);
    DECIDES("deny", "xa", NULL);
    DECIDES("deny", "c", NULL);
    DECIDES("deny", "d", NULL);
}
