/* The request as it arrives in the worker. No heap, no I/O: it runs inside, and its fuzzer is
 * tests/fuzz/fuzz_files_decode.c. */
#include "files/files.h"
#include "files/worker_child.h"
#include "plan/plan.h"

#include <string.h>

static int bad(struct err *err, const char *what)
{
    int failed = err_set(err, ERR_PROTOCOL, "file request with %s", what);
    err_at(err, BOUNDARY_FILESYSTEM);
    return failed;
}

static bool fits(const char *text)
{
    return text && text[0] && strlen(text) <= FILES_PATH_MAX;
}

static int read_work(const struct op *op, struct files_request *ret, struct err *err)
{
    const char *home = op->data;
    if (op->num[0] == FILES_NONE || op->num[0] >= FILES_OP_COUNT)
        return bad(err, "an unknown operation");
    if (!fits(op->a) || (op->num[0] == FILES_MOVE) != (op->b != NULL) || (op->b && !fits(op->b)))
        return bad(err, "a malformed path");
    if (op->data_len < 2 || op->data_len > FILES_PATH_MAX || home[0] != '/' ||
        memchr(home, '\0', op->data_len) != home + op->data_len - 1)
        return bad(err, "a malformed home");
    if (op->num[2] > FILES_DEPTH_MAX || op->num[3] > 1)
        return bad(err, "a malformed number");
    *ret = (struct files_request){.op = (enum files_op)op->num[0],
                                  .path = op->a,
                                  .to = op->b,
                                  .home = home,
                                  .limit = op->num[1],
                                  .depth = (uint32_t)op->num[2],
                                  .recursive = op->num[3]};
    return 0;
}

static int read_meta(const struct op *op, struct files_request *ret, struct err *err)
{
    if (ret->op != FILES_WRITE || ret->metadata_count == FILES_METADATA_MAX)
        return bad(err, "too many attributes");
    if (!op->a || !op->b || !files_metadata_fits(op->a, op->b))
        return bad(err, "a malformed attribute");
    ret->metadata[ret->metadata_count].name = op->a;
    ret->metadata[ret->metadata_count++].value = op->b;
    return 0;
}

bool files_metadata_fits(const char *name, const char *value)
{
    size_t len = strlen(name);
    return len > 0 && len <= FILES_META_NAME_MAX && strlen(value) <= FILES_META_VALUE_MAX;
}

int files_request_decode(const void *bytes, size_t len, struct files_request *ret, struct err *err)
{
    struct plan_reader reader;
    struct op op;
    *ret = (struct files_request){.op = FILES_NONE};
    int got = plan_read_begin(&reader, bytes, len, err);
    while (got >= 0 && (got = plan_read_next(&reader, &op, err)) > 0) {
        if (op.kind == OP_FILE_WORK && ret->op == FILES_NONE)
            got = read_work(&op, ret, err);
        else if (op.kind == OP_FILE_META)
            got = read_meta(&op, ret, err);
        else
            got = bad(err, "an operation out of place");
    }
    if (got == 0 && ret->op == FILES_NONE)
        return bad(err, "nothing to do");
    return got;
}
