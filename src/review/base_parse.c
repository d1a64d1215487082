/* What a copy of a project was made of: one entry after the other, ten numbers and a path, which
 * ends with a NUL because it may hold anything else. */
#include "review/review.h"

#include "base/hex.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void review_base_done(struct review_base *b)
{
    free(b->items);
    *b = (struct review_base){0};
}

static void add_stamp(struct buf *out, const struct review_stamp *s)
{
    buf_fmt(out, "%" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx32 " ", s->ino, s->size,
            (uint64_t)s->mtime_ns, (uint64_t)s->ctime_ns, s->mode);
}

void review_base_add(struct buf *out, const char *path, const struct review_stamp *host,
                     const struct review_stamp *layer)
{
    add_stamp(out, host);
    add_stamp(out, layer);
    buf_add(out, path, strlen(path) + 1);
}

static int take_number(const char **at, const char *end, uint64_t *ret)
{
    uint64_t value = 0;
    int digits = 0;
    for (; *at < end && **at != ' '; (*at)++) {
        int digit = hex_digit_lower(**at);
        if (digit < 0 || ++digits > 16)
            return -1;
        value = value << 4 | (uint64_t)digit;
    }
    if (*at >= end || digits == 0)
        return -1;
    (*at)++;
    *ret = value;
    return 0;
}

static int take_stamp(const char **at, const char *end, struct review_stamp *ret)
{
    uint64_t n[5];
    for (int i = 0; i < 5; i++)
        if (take_number(at, end, &n[i]) < 0)
            return -1;
    if (n[4] > UINT32_MAX)
        return -1;
    *ret = (struct review_stamp){n[0], n[1], (int64_t)n[2], (int64_t)n[3], (uint32_t)n[4]};
    return 0;
}

static int take_entry(const char **at, const char *end, struct review_base_entry *e)
{
    *e = (struct review_base_entry){0};
    if (take_stamp(at, end, &e->host) < 0 || take_stamp(at, end, &e->layer) < 0)
        return -1;
    const char *stop = memchr(*at, '\0', (size_t)(end - *at));
    if (!stop || stop == *at)
        return -1;
    e->path = *at;
    *at = stop + 1;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct review_base_entry *)a)->path,
                  ((const struct review_base_entry *)b)->path);
}

int review_base_parse(char *text, size_t len, struct review_base *ret, struct err *err)
{
    const char *at = text, *end = text + len;
    size_t count = 0;
    *ret = (struct review_base){0};
    for (size_t i = 0; i < len; i++)
        count += text[i] == '\0';
    ret->items = calloc(count + 1, sizeof *ret->items);
    if (!ret->items)
        return err_memory(err);
    while (at < end) {
        if (ret->count > count || take_entry(&at, end, &ret->items[ret->count]) < 0) {
            review_base_done(ret);
            return err_set(err, ERR_PROTOCOL, "the record of the copy is damaged");
        }
        ret->count++;
    }
    qsort(ret->items, ret->count, sizeof *ret->items, by_path);
    return 0;
}

struct review_base_entry *review_base_find(const struct review_base *b, const char *path)
{
    struct review_base_entry key = {.path = path};
    return b->count ? bsearch(&key, b->items, b->count, sizeof key, by_path) : NULL;
}
