/* Starts brig-unpack in a sandbox: container tier, no network, an empty root, no folder but the one
 * that it fills, a limit for its memory and its time. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "images/load/load.h"
#include "os/beside.h"
#include "sandbox/sandbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROGRAM "brig-unpack"

static int make_policy(struct policy *p, struct err *err)
{
    static const struct {
        enum policy_field field;
        const char *value;
    } fields[] = {{FIELD_TIER, "container"},
                  {FIELD_TIMEOUT, "1h"},
                  {FIELD_UNIX_SOCKETS, "off"},
                  {FIELD_PIDS, "8"},
                  {FIELD_SAMPLING, "accept"}};
    const struct origin origin = {.kind = ORIGIN_OPTION, .name = "brig image"};
    if (policy_init(p, LEVEL_HIGH) < 0)
        return err_memory(err);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (policy_set(p, fields[i].field, fields[i].value, &origin, err) < 0)
            return err_number(err);
    return policy_validate(p, err);
}

/* What it says is as little trusted as what it read. */
static int read_failure(const struct json *doc, struct err *err)
{
    struct quoted q;
    int64_t code = json_number(doc, "code");
    bool limit = code == ERR_LIMIT || code == ERR_SYSTEM;
    char message[400];
    const char *text = json_shown(doc, "message");
    snprintf(message, sizeof message, "%s", text_has_control(text) ? quote(&q, text) : text);
    err_set(err, limit ? ERR_LIMIT : ERR_REFUSED, "%s", message);
    const char *hint = json_shown(doc, "hint");
    return hint[0] && !text_has_control(hint) ? err_hint(err, "%.200s", hint) : err_number(err);
}

static int read_answer(const struct run_result *r, bool hashed, struct unpacked *ret,
                       struct err *err)
{
    struct json *doc = NULL;
    if (r->limit_hit)
        return err_set(err, ERR_LIMIT, "it goes beyond the limit for %s", r->limit_hit);
    if (json_parse(buf_text(&r->out), r->out.len, &json_default_limits, &doc, err) < 0)
        return err_set(err, ERR_REFUSED, "brig-unpack ended with status %d and no answer",
                       r->exit_status);
    int result = 0;
    if (r->exit_status != 0)
        result = read_failure(doc, err);
    else if (hashed && !digest_valid(json_text(doc, "diff_id")))
        result = err_set(err, ERR_PROTOCOL, "brig-unpack gave no answer");
    if (result == 0) {
        ret->bytes = json_uint(doc, "bytes");
        ret->entries = json_uint(doc, "entries");
        ret->left_out = json_uint(doc, "left_out");
        if (hashed)
            snprintf(ret->diff_id, sizeof ret->diff_id, "%s", json_text(doc, "diff_id"));
    }
    json_free(doc);
    return result;
}

int unpack_run(int archive, enum unpack_kind kind, const char *folder, const char *empty,
               uint64_t max_bytes, uint64_t max_entries, struct unpacked *ret, struct err *err)
{
    static const char *const kinds[] = {
        [UNPACK_ARCHIVE] = "archive", [UNPACK_LAYER] = "layer", [UNPACK_PLAIN] = "plain"};
    char program[PATH_MAX], bytes[24], entries[24];
    struct policy policy;
    struct run_result result;
    *ret = (struct unpacked){.bytes = 0};
    stream_hash_init(&ret->given);
    if (program_beside(PROGRAM, program, sizeof program, err) < 0)
        return err_number(err);
    snprintf(bytes, sizeof bytes, "%" PRIu64, max_bytes);
    snprintf(entries, sizeof entries, "%" PRIu64, max_entries);
    char *argv[] = {(char *)run_tool_path(TIER_CONTAINER, program), (char *)kinds[kind], bytes,
                    entries, NULL};
    struct run_request request = {.policy = &policy,
                                  .argv = argv,
                                  .tool = program,
                                  .root = empty,
                                  .output = folder,
                                  .stdin_fd = archive,
                                  .stdin_hash = &ret->given,
                                  .stdout_fd = -1,
                                  .stderr_fd = -1,
                                  .capture = true};
    run_result_init(&result);
    int r = make_policy(&policy, err);
    if (r >= 0)
        r = sandbox_run(&request, &result, err);
    if (r >= 0)
        r = read_answer(&result, kind == UNPACK_LAYER, ret, err);
    else
        err_wrap(err, "the sandbox in which images are unpacked");
    run_result_done(&result);
    policy_done(&policy);
    return r;
}
