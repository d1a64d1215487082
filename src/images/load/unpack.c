/* Starts brig-unpack in a sandbox: container tier, no network, an empty root, no folder but the one
 * that it fills, a limit for its memory and its time. */
#include "base/cleanup.h"
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
    if (r >= 0 && result.limit_hit)
        r = err_set(err, ERR_LIMIT, "it goes beyond the limit for %s", result.limit_hit);
    else if (r >= 0)
        r = unpack_report_read(buf_text(&result.out), result.out.len, result.exit_status,
                               kind == UNPACK_LAYER, ret, err);
    else
        err_wrap(err, "the sandbox in which images are unpacked");
    run_result_done(&result);
    policy_done(&policy);
    return r;
}
