/* Any bytes as a policy document: a message with a place, or a policy that survives being written
 * and read back in both languages, and that no request made of itself can widen. */
#include "policy/egress/internal.h"
#include "policy/policy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define cleanup_policy __attribute__((cleanup(policy_done)))

static void require(int condition)
{
    if (!condition)
        abort();
}

typedef void (*writer)(const struct policy *, struct buf *);

static void reads_back(const struct policy *p, writer write)
{
    cleanup_policy struct policy again;
    cleanup_buf struct buf text;
    struct err err = ERR_INIT;
    char before[72], after[72];
    buf_init(&text, 64 << 20);
    write(p, &text);
    /* Escapes can take a document that just fits over the reader's limit. */
    require(policy_init(&again, LEVEL_HIGH) == 0);
    if (text.failed || text.len > 1 << 20)
        return;
    require(policy_load(&again, "again", buf_text(&text), text.len, &err) == 0);
    require(policy_hash(p, before) == 0 && policy_hash(&again, after) == 0);
    require(strcmp(before, after) == 0);
}

static void explains(const struct policy *p)
{
    cleanup_buf struct buf text;
    buf_init(&text, 64 << 20);
    policy_explain(p, &text);
    for (size_t i = 0; i < text.len; i++)
        require((unsigned char)text.data[i] >= 0x20 || text.data[i] == '\n');
    policy_explain_json(p, &text);
}

static void only_tightens(const struct policy *request)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    char before[72], after[72];
    require(policy_init(&p, LEVEL_HIGH) == 0);
    policy_hash(&p, before);
    if (policy_tighten(&p, request, &err) < 0) {
        policy_hash(&p, after);
        require(strcmp(before, after) == 0);
        require(err.message[0] != '\0');
        return;
    }
    require(p.level >= LEVEL_HIGH && p.tier >= TIER_CONTAINER && p.grant_count == 0);
    require(p.memory <= 512UL << 20 && p.pids <= 256 && p.timeout_ms <= 300000 && !p.project);
}

/* ---- the network of an operator, and a request about it ---- */

static const char operators[] =
    "network:\n"
    "  allow: [a.org, \"**.b.org:443\", \"x.org:8443\", \"db.internal:5432=10.0.0.5\",\n"
    "    {host: c.org, scheme: https, methods: [GET, PUT], paths: [/v1/**, /x], upload: 10M},\n"
    "    {host: \"*.example.org\", scheme: https, methods: [GET, POST], paths: [/v1/**]}]\n"
    "  block: [z.org]\n"
    "credentials: {secrets: [\"T=env:T@https://s.org\"]}\n"
    "tools:\n"
    "  allow: [\"list_*\", \"read:path=/data/**\", {name: copy, arguments: {from: [/a/*, /b]}}]\n"
    "  ask: [\"run:cmd=**rm**\", run]\n"
    "  deny: [list_keys, \"*:**=/etc/shadow\"]\n";

static const struct {
    const char *name;
    const char *arguments;
} calls[] = {
    {"list_a", "{}"},
    {"list_keys", "{}"},
    {"read", "{\"path\":\"/data/x\"}"},
    {"read", "{\"path\":\"/etc/x\"}"},
    {"read", "{\"path\":\"/data/../etc/x\"}"},
    {"read", "{\"path\":[\"/data/x\",\"/etc/shadow\"]}"},
    {"copy", "{\"from\":\"/a/b\"}"},
    {"copy", "{\"from\":\"/a/b/c\"}"},
    {"run", "{\"cmd\":\"rm x\"}"},
    {"run", "{\"cmd\":{\"x\":[1,true]}}"},
    {"other", "{\"n\":1}"},
};

/* No call is easier than it was: the verdicts are in the order of their strictness. */
static void frees_no_call(const struct tools *before, const struct tools *now)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct json *j = NULL;
        require(json_parse(calls[i].arguments, strlen(calls[i].arguments), NULL, &j, NULL) == 0);
        enum tool_verdict then = tools_decide(before, calls[i].name, j).verdict;
        enum tool_verdict is = tools_decide(now, calls[i].name, j).verdict;
        require(is >= then);
        require(is == TOOL_DENY || tools_shows(now, calls[i].name));
        json_free(j);
    }
    require((now->callbacks & ~before->callbacks) == 0);
}

static int path_is_in(const struct text_list *have, const char *path)
{
    for (size_t i = 0; i < have->count; i++) {
        if (strcmp(have->items[i], path) == 0 || path_pattern_match(have->items[i], path))
            return 1;
    }
    return have->count == 0;
}

/* Everything that `now` lets through, `before` let through. */
static int is_within(const struct egress_rule *before, const struct egress_rule *now)
{
    if (before->port != now->port || !pattern_covers(&before->host, &now->host) ||
        (before->scheme != now->scheme && before->scheme != SCHEME_ANY) ||
        before->pinned != now->pinned || !host_equal(&before->address, &now->address) ||
        now->upload > before->upload || now->requests > before->requests ||
        now->max_connections > before->max_connections)
        return 0;
    if ((before->methods.count && !now->methods.count) ||
        (before->paths.count && !now->paths.count))
        return 0;
    for (size_t i = 0; i < now->methods.count; i++) {
        if (before->methods.count && !list_has(&before->methods, now->methods.items[i]))
            return 0;
    }
    for (size_t i = 0; i < now->paths.count; i++) {
        if (!path_is_in(&before->paths, now->paths.items[i]))
            return 0;
    }
    for (size_t i = 0; i < now->pass.count; i++) {
        if (!list_has(&before->pass, now->pass.items[i]))
            return 0;
    }
    /* However many are made of it, they count as one. */
    return !rule_is_counted(before) || strcmp(rule_budget(before), rule_budget(now)) == 0;
}

static void opens_nothing(const struct policy *request)
{
    cleanup_policy struct policy before;
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    require(policy_init(&before, LEVEL_LOW) == 0 && policy_init(&p, LEVEL_LOW) == 0);
    require(policy_load(&before, "o", operators, sizeof operators - 1, &err) == 0);
    require(policy_load(&p, "o", operators, sizeof operators - 1, &err) == 0);
    if (policy_tighten(&p, request, &err) < 0)
        return;
    frees_no_call(&before.tools, &p.tools);
    for (size_t i = 0; i < p.egress.rule_count; i++) {
        int found = 0;
        for (size_t k = 0; k < before.egress.rule_count; k++)
            found |= is_within(&before.egress.rules[k], &p.egress.rules[i]);
        require(found);
    }
    require(p.egress.blocked_count >= 1 && p.egress.secret_count <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    require(policy_init(&p, LEVEL_MEDIUM) == 0);
    if (policy_load(&p, "f", (const char *)data, size, &err) < 0) {
        require(strncmp(err.message, "f:", 2) == 0);
        require(err.code == ERR_POLICY || err.code == ERR_UNSUPPORTED || err.code == ERR_LIMIT);
        return 0;
    }
    policy_validate(&p, &err);
    reads_back(&p, policy_show_json);
    reads_back(&p, policy_show_yaml);
    explains(&p);
    only_tightens(&p);
    opens_nothing(&p);
    return 0;
}
