/* The journal of an apply: what is about to be changed, so that an apply that was killed can be
 * finished or undone. Written by brig, and read strictly. */
#include "review/journal.h"

#include "base/hex.h"
#include "base/text.h"
#include "review/review.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEAD     "brig-journal-2 "
#define OLD_HEAD "brig-journal-1 " /* without new_size and new_mtime_ns */
#define END      "end"

#define NUMBERS     9
#define OLD_NUMBERS 7

void review_journal_done(struct review_journal *j)
{
    free(j->ops);
    *j = (struct review_journal){0};
}

void review_journal_begin(struct buf *out, const char *staging)
{
    buf_str(out, HEAD);
    buf_add(out, staging, strlen(staging) + 1);
}

void review_journal_add(struct buf *out, const struct review_op *op)
{
    buf_fmt(out, "%x %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx32 " %" PRIx32 " ",
            (unsigned)op->kind, op->new_ino, op->old_ino, op->old_size, (uint64_t)op->old_mtime_ns,
            op->old_mode, op->new_mode);
    buf_fmt(out, "%" PRIx64 " %" PRIx64 " ", op->new_size, (uint64_t)op->new_mtime_ns);
    buf_add(out, op->path, strlen(op->path) + 1);
}

void review_journal_end(struct buf *out)
{
    buf_add(out, END, sizeof END);
}

bool review_path_ok(const char *path)
{
    if (!*path || strlen(path) > REVIEW_PATH_MAX)
        return false;
    for (;;) {
        size_t len = strcspn(path, "/");
        if (len == 0 || (len == 1 && path[0] == '.') || (len == 2 && memcmp(path, "..", 2) == 0))
            return false;
        if (!path[len])
            return true;
        path += len + 1;
    }
}

static bool staging_ok(const char *name)
{
    size_t prefix = strlen(REVIEW_STAGING);
    return strlen(name) < REVIEW_STAGING_SIZE && strncmp(name, REVIEW_STAGING, prefix) == 0 &&
           name[prefix] && strspn(name + prefix, HEX_DIGITS) == strlen(name + prefix);
}

static const char *take_number(const char *at, uint64_t *ret)
{
    uint64_t value = 0;
    int digits = 0;
    for (; *at && *at != ' '; at++) {
        int digit = hex_digit_lower(*at);
        if (digit < 0 || ++digits > 16)
            return NULL;
        value = value << 4 | (uint64_t)digit;
    }
    *ret = value;
    return *at == ' ' && digits ? at + 1 : NULL;
}

static bool take_op(const char *at, int numbers, struct review_op *op)
{
    uint64_t n[NUMBERS] = {0};
    for (int i = 0; i < numbers; i++)
        if (!(at = take_number(at, &n[i])))
            return false;
    if (n[0] >= REVIEW_OP_COUNT || n[5] > UINT32_MAX || n[6] > UINT32_MAX || !review_path_ok(at))
        return false;
    *op = (struct review_op){.kind = (enum review_op_kind)n[0],
                             .new_ino = n[1],
                             .old_ino = n[2],
                             .old_size = n[3],
                             .old_mtime_ns = (int64_t)n[4],
                             .old_mode = (uint32_t)n[5],
                             .new_mode = (uint32_t)n[6],
                             .path = at,
                             .new_size = n[7],
                             .new_mtime_ns = (int64_t)n[8],
                             .stamped = numbers == NUMBERS};
    return true;
}

/* How many numbers an operation has; 0: it is no journal. Both beginnings are as long. */
static int take_head(const char *text, size_t len)
{
    if (len == 0 || text[len - 1] != '\0')
        return 0;
    return text_begins(text, HEAD) ? NUMBERS : text_begins(text, OLD_HEAD) ? OLD_NUMBERS : 0;
}

static int damaged(struct review_journal *j, struct err *err)
{
    review_journal_done(j);
    return err_set(err, ERR_PROTOCOL, "the journal of the review is damaged");
}

int review_journal_parse(const char *text, size_t len, struct review_journal *ret, struct err *err)
{
    size_t entries = 0, head = strlen(HEAD);
    int numbers = take_head(text, len);
    *ret = (struct review_journal){0};
    if (!numbers || !staging_ok(text + head))
        return damaged(ret, err);
    memcpy(ret->staging, text + head, strlen(text + head) + 1);
    for (size_t i = 0; i < len; i++)
        entries += text[i] == '\0';
    ret->ops = calloc(entries, sizeof *ret->ops);
    if (!ret->ops)
        return err_memory(err);
    const char *at = text + strlen(text) + 1, *end = text + len;
    for (; at < end && strcmp(at, END) != 0; at += strlen(at) + 1)
        if (ret->count >= entries || !take_op(at, numbers, &ret->ops[ret->count++]))
            return damaged(ret, err);
    return at < end && at + sizeof END == end ? 0 : damaged(ret, err);
}
