/* Any bytes as a policy document: a message with a place, or a policy that survives being written
 * and read back in both languages, and that no request made of itself can widen. */
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
    if (text.failed || text.len > 1 << 20)
        return;
    require(policy_init(&again, LEVEL_HIGH) == 0);
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
    return 0;
}
