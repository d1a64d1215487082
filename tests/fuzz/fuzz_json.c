/* The JSON reader and writer. What we accept jansson must accept with the same tree; what we write
 * from it must read back as that tree. */
#include "../lib/oracle/jansson_oracle.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(const struct json *tree, bool pretty)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 64 << 20);
    jw_init(&w, &out, pretty);
    jw_json(&w, tree);
    if (out.failed || !oracle_agrees(out.data, out.len, tree))
        abort();
    buf_done(&out);
}

/* Any bytes at all come out as one string that our own reader takes, once it has no NUL. */
static void check_bytes(const uint8_t *data, size_t size)
{
    struct buf out;
    struct json_writer w;
    struct json *tree = NULL;
    buf_init(&out, 64 << 20);
    jw_init(&w, &out, false);
    jw_bytes(&w, data, size);
    if (out.failed)
        abort();
    if (!memchr(data, 0, size) && json_parse(out.data, out.len, NULL, &tree, NULL) < 0 &&
        out.len <= json_default_limits.max_bytes)
        abort();
    json_free(tree);
    buf_done(&out);
}

/* In place, and written in pieces: the same. */
static void check_in_place(const uint8_t *data, size_t size, const struct json *tree)
{
    char *place = malloc(size ? size : 1);
    struct json *again = NULL;
    struct buf out;
    if (!place)
        abort();
    memcpy(place, data, size);
    if (json_parse_in_place(place, size, NULL, &again, NULL) < 0 ? tree != NULL : !tree)
        abort();
    if (tree) {
        struct json_pieces *p = json_pieces_new(again);
        buf_init(&out, 64 << 20);
        while (!json_pieces_next(p, &out, 1 + size % 100))
            ;
        if (out.failed || !oracle_agrees(out.data, out.len, tree))
            abort();
        json_pieces_free(p);
        buf_done(&out);
    }
    json_free(again);
    free(place);
}

/* Read in pieces: the same, and the same is said of what is refused. */
static void check_pieces(const uint8_t *data, size_t size, const struct json *tree,
                         const struct err *said)
{
    char *place = malloc(size ? size : 1);
    struct json *again = NULL;
    struct err err = ERR_INIT;
    struct buf out;
    int rc = 0;
    if (!place)
        abort();
    memcpy(place, data, size);
    struct json_parser *p = json_parser_new(place, size, NULL, &err);
    while (p && (rc = json_parser_next(p, 1 + size % 50, &again, &err)) == 0)
        ;
    if ((rc > 0) != (tree != NULL) || (!tree && strcmp(err.message, said->message) != 0))
        abort();
    if (tree) {
        struct json_writer w;
        buf_init(&out, 64 << 20);
        jw_init(&w, &out, false);
        jw_json(&w, again);
        if (out.failed || !oracle_agrees(out.data, out.len, tree))
            abort();
        buf_done(&out);
    }
    json_parser_free(p);
    json_free(again);
    free(place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct err err = ERR_INIT;
    struct json *tree = NULL;
    if (size)
        check_bytes(data, size);
    if (json_parse(text, size, NULL, &tree, &err) < 0) {
        if (tree || err.code == ERR_NONE || !err.message[0])
            abort();
        check_in_place(data, size, NULL);
        check_pieces(data, size, NULL, &err);
        return 0;
    }
    check_in_place(data, size, tree);
    check_pieces(data, size, tree, &err);
    if (!oracle_agrees(text, size, tree))
        abort();
    check_written(tree, false);
    check_written(tree, true);
    json_free(tree);
    return 0;
}
