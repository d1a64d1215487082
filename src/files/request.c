/* A file request as the outside writes it: from JSON, and into the block that crosses to the
 * worker. */
#include "files/files.h"
#include "files/worker_child.h"
#include "plan/plan.h"

#include "base/cleanup.h"

#include <string.h>

static const char *const names[FILES_OP_COUNT] = {
    [FILES_READ] = "read", [FILES_WRITE] = "write", [FILES_STAT] = "stat",
    [FILES_LIST] = "list", [FILES_MKDIR] = "mkdir", [FILES_REMOVE] = "remove",
    [FILES_MOVE] = "move", [FILES_WATCH] = "watch",
};

const char *files_op_name(enum files_op op)
{
    return op > FILES_NONE && op < FILES_OP_COUNT ? names[op] : "?";
}

enum files_op files_op_parse(const char *name)
{
    for (int op = FILES_NONE + 1; name && op < FILES_OP_COUNT; op++)
        if (strcmp(names[op], name) == 0)
            return (enum files_op)op;
    return FILES_NONE;
}

static int bad(struct err *err, const char *key, const char *what)
{
    return err_set(err, ERR_USAGE, "file request: %s %s", key, what);
}

static int read_path(const struct json *j, const char *key, const char **ret, struct err *err)
{
    char bytes[FILES_TEXT_MAX];
    const char *text = json_type(j) == JSON_STRING ? json_string(j) : NULL;
    if (!text || !text[0])
        return bad(err, key, "must be a path");
    if (strlen(text) > sizeof bytes || utf8_unescape(text, strlen(text), bytes) > FILES_PATH_MAX)
        return bad(err, key, "is too long");
    *ret = text;
    return 0;
}

static int read_number(const struct json *j, const char *key, int64_t max, int64_t *ret,
                       struct err *err)
{
    if (json_type(j) != JSON_INT || json_int(j) < 0)
        return bad(err, key, "must be a whole number");
    /* More than there can be is no more than that. */
    *ret = json_int(j) < max ? json_int(j) : max;
    return 0;
}

/* As a name of an attribute behind "user.e2b.", and as a header behind "X-Metadata-". */
static bool valid_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return strspn(name, allowed) == strlen(name);
}

static int read_metadata(const struct json *j, struct files_request *ret, struct err *err)
{
    size_t total = 0, count = json_count(j);
    if (json_type(j) != JSON_OBJECT || count > FILES_METADATA_MAX)
        return bad(err, "metadata", "must be an object of at most 16 strings");
    for (size_t i = 0; i < count; i++) {
        const char *name = json_key_at(j, i);
        const char *value = json_string(json_value_at(j, i));
        if (!value || !valid_name(name) || !files_metadata_fits(name, value))
            return bad(err, "metadata", "has a name or value that cannot be kept");
        total += strlen(name) + strlen(value) + 2;
        ret->metadata[i].name = name;
        ret->metadata[i].value = value;
    }
    if (total > sizeof((struct files_entry *)0)->metadata)
        return bad(err, "metadata", "is too large");
    ret->metadata_count = (unsigned)count;
    return 0;
}

static int read_member(const char *key, const struct json *j, struct files_request *ret,
                       struct err *err)
{
    int64_t n = 0;
    int got = 0;
    if (strcmp(key, "op") == 0)
        return (ret->op = files_op_parse(json_string(j))) ? 0 : bad(err, key, "is not known");
    if (strcmp(key, "path") == 0)
        return read_path(j, key, &ret->path, err);
    if (strcmp(key, "to") == 0)
        return read_path(j, key, &ret->to, err);
    if (strcmp(key, "metadata") == 0)
        return read_metadata(j, ret, err);
    if (strcmp(key, "limit") == 0) {
        got = read_number(j, key, INT64_MAX, &n, err);
        ret->limit = (uint64_t)n;
    } else if (strcmp(key, "depth") == 0) {
        got = read_number(j, key, FILES_DEPTH_MAX, &n, err);
        ret->depth = (uint32_t)n;
    } else if (strcmp(key, "user") == 0) {
        got = json_string(j) ? 0 : bad(err, key, "must be a name"); /* the warden's to judge */
    } else if (strcmp(key, "recursive") == 0) {
        ret->recursive = json_type(j) == JSON_BOOL && json_bool(j);
        got = json_type(j) == JSON_BOOL ? 0 : bad(err, key, "must be true or false");
    } else {
        got = bad(err, key, "is not known");
    }
    return got;
}

/* What only makes sense with one operation is refused with the others. */
static int check(struct files_request *r, struct err *err)
{
    if (r->op == FILES_NONE)
        return bad(err, "op", "is missing");
    if (!r->path)
        return bad(err, "path", "is missing");
    if ((r->op == FILES_MOVE) != (r->to != NULL))
        return bad(err, "to", r->to ? "is for a move only" : "is missing");
    if (r->op != FILES_WRITE && r->metadata_count)
        return bad(err, "metadata", "is for a write only");
    if (r->op == FILES_LIST && r->limit > FILES_ENTRIES_MAX)
        r->limit = FILES_ENTRIES_MAX;
    else if (r->limit > FILES_BYTES_MAX)
        r->limit = FILES_BYTES_MAX;
    return 0;
}

int files_request_read(const struct json *json, struct files_request *ret, struct err *err)
{
    *ret = (struct files_request){.home = FILES_HOME, .limit = UINT64_MAX, .depth = 1};
    if (!json || json_type(json) != JSON_OBJECT)
        return bad(err, "it", "must be an object");
    for (size_t i = 0; i < json_count(json); i++)
        if (read_member(json_key_at(json, i), json_value_at(json, i), ret, err) < 0)
            return -ERR_USAGE;
    return check(ret, err);
}

/* files_request_read has looked at its length. */
static const char *name_of(const char *text, char room[static FILES_PATH_MAX + 1])
{
    if (!text)
        return NULL;
    room[utf8_unescape(text, strlen(text), room)] = '\0';
    return room;
}

void files_request_plan(const struct files_request *r, struct plan *plan)
{
    char path[FILES_PATH_MAX + 1], to[FILES_PATH_MAX + 1];
    plan_add(plan, &(struct op){.kind = OP_FILE_WORK,
                                .a = name_of(r->path, path),
                                .b = name_of(r->to, to),
                                .num = {r->op, r->limit, r->depth, r->recursive},
                                .data = r->home,
                                .data_len = strlen(r->home) + 1});
    for (unsigned i = 0; i < r->metadata_count; i++)
        plan_str(plan, OP_FILE_META, r->metadata[i].name, r->metadata[i].value, 0);
}
