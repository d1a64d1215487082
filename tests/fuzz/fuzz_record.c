/* Any bytes as what a sender says, as a line of the log, and as lines of an export. What is
 * accepted is written in the one canonical form, which reads back as the same; no export of random
 * bytes is good. */
#include "audit/export.h"
#include "base/quote.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

/* The line that a record becomes: canonical, bounded, and stable when its detail is written again.
 */
static void check_line(const struct record *r)
{
    struct buf line, again;
    struct record back;
    struct json *tree = NULL;
    buf_init(&line, RECORD_MAX);
    buf_init(&again, 2 * RECORD_MAX);
    if (record_write(r, &line, NULL) < 0) {
        buf_done(&line);
        return;
    }
    require(line.len <= RECORD_MAX && !memchr(line.data, '\n', line.len));
    require(!text_has_control(line.data));
    require(record_parse(line.data, line.len, &tree, &back, NULL) == 0);
    require(back.seq == r->seq && strcmp(back.kind, r->kind) == 0);
    const struct json *detail = json_get(tree, "detail");
    require((detail != NULL) == (r->detail != NULL));
    if (detail) {
        require(record_detail_write(detail, NULL, &again, NULL) == 0);
        require(strcmp(buf_text(&again), r->detail) == 0);
    }
    json_free(tree);
    buf_done(&again);
    buf_done(&line);
}

static void as_sender(const char *data, size_t size)
{
    struct json *tree = NULL;
    struct record r;
    struct buf room;
    if (json_parse(data, size, NULL, &tree, NULL) < 0)
        return;
    buf_init(&room, RECORD_MAX);
    if (record_read(tree, &r, &room, NULL) == 0) {
        r.seq = 1;
        check_line(&r);
    }
    buf_done(&room);
    json_free(tree);
}

static bool no_signature(void *ctx, const char *line, size_t len,
                         const uint8_t signature[CHAIN_SIGNATURE])
{
    return false;
}

static void as_export(const char *data, size_t size)
{
    struct export_check *c = NULL;
    struct verify_result result;
    require(export_check_new(&c, no_signature, NULL, NULL) == 0);
    while (size > 0) {
        const char *end = memchr(data, '\n', size);
        size_t len = end ? (size_t)(end - data) : size;
        export_check_line(c, data, len);
        data += len + (end ? 1 : 0);
        size -= len + (end ? 1 : 0);
    }
    export_check_end(c, &result);
    require(!result.good || result.records == 0);
    require(strlen(result.why) < sizeof result.why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *tree = NULL;
    struct record r;
    struct checkpoint c;
    as_sender((const char *)data, size);
    as_export((const char *)data, size);
    if (record_parse((const char *)data, size, &tree, &r, NULL) == 0)
        require(r.seq > 0 && r.kind && r.boundary);
    json_free(tree);
    (void)checkpoint_parse((const char *)data, size, &c, NULL);
    return 0;
}
