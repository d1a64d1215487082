/* The records of a review: whatever is read from them, no path leads out of the project. */
#include "review/journal.h"
#include "review/review.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* What was written is read as it was. */
static void journal_again(const struct review_journal *j, size_t len)
{
    struct review_journal again;
    struct buf out;
    buf_init(&out, 16 * len + 4096);
    review_journal_begin(&out, j->staging);
    for (size_t i = 0; i < j->count; i++)
        review_journal_add(&out, &j->ops[i]);
    review_journal_end(&out);
    require(review_journal_parse(buf_text(&out), out.len, &again, NULL) == 0);
    require(again.count == j->count);
    for (size_t i = 0; i < j->count; i++)
        require(again.ops[i].stamped && again.ops[i].new_size == j->ops[i].new_size &&
                again.ops[i].new_mtime_ns == j->ops[i].new_mtime_ns &&
                strcmp(again.ops[i].path, j->ops[i].path) == 0);
    review_journal_done(&again);
    buf_done(&out);
}

static void journal(const char *text, size_t len)
{
    struct review_journal j;
    if (review_journal_parse(text, len, &j, NULL) < 0)
        return;
    journal_again(&j, len);
    require(strncmp(j.staging, REVIEW_STAGING, strlen(REVIEW_STAGING)) == 0);
    require(!strchr(j.staging, '/'));
    for (size_t i = 0; i < j.count; i++) {
        const char *path = j.ops[i].path;
        require(j.ops[i].kind < REVIEW_OP_COUNT && path[0] && path[0] != '/');
        require(strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 && !strstr(path, "/../"));
    }
    review_journal_done(&j);
}

static void base(char *text, size_t len)
{
    struct review_base b;
    if (review_base_parse(text, len, &b, NULL) < 0)
        return;
    for (size_t i = 0; i < b.count; i++)
        require(review_base_find(&b, b.items[i].path) != NULL);
    review_base_done(&b);
}

static void meta(const char *text, size_t len)
{
    struct review_meta m, again;
    struct buf out;
    if (review_meta_parse(text, len, &m, NULL) < 0)
        return;
    buf_init(&out, 16 * len + 4096);
    review_meta_write(&m, &out);
    require(review_meta_parse(buf_text(&out), out.len, &again, NULL) == 0);
    require(strcmp(m.source, again.source) == 0 && m.ino == again.ino);
    review_meta_done(&again);
    review_meta_done(&m);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    meta(text, size);
    journal(text, size);
    base(text, size);
    review_trust(text);
    review_link_escapes(text, text);
    free(text);
    return 0;
}
