/* A Dockerfile, a word with variables, or an ignore file: the first byte chooses which. What is
 * taken is within its bounds, and an error says something. */
#include "images/build/mounts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
    if (!holds)
        abort();
}

static const char *find(void *ctx, const char *name)
{
    (void)ctx;
    return name[0] == 'A' ? "value $B \"" : NULL;
}

static void try_word(const char *word)
{
    struct err err = ERR_INIT;
    struct buf out;
    buf_init(&out, 1u << 20);
    if (docker_expand(word, '\\', find, NULL, &out, &err) < 0)
        expect(err.message[0]);
    buf_done(&out);
}

/* Where it lies is a place below the root, and not one of the sandbox's own for a bind. */
static void try_mounts(const struct instruction *in)
{
    struct run_mounts m = {.count = 0};
    struct err err = ERR_INIT;
    for (size_t n = 0; n < in->flags.count; n++) {
        const char *text = strchr(in->flags.items[n], '=');
        if (!text)
            continue;
        if (mounts_add(&m, text + 1, "/work", &err) < 0) {
            expect(err.message[0]);
            break;
        }
        const struct run_mount *one = &m.items[m.count - 1];
        expect(one->target[0] == '/' && one->target[1] && !strstr(one->target, "/../"));
        expect(one->kind != MOUNT_BIND || !one->own);
        expect(one->kind == MOUNT_BIND || (!one->source && !one->from));
    }
    mounts_done(&m);
}

static void try_file(const char *text, size_t size)
{
    struct dockerfile d;
    struct err err = ERR_INIT;
    if (dockerfile_parse(text, size, &d, &err) < 0) {
        expect(err.message[0]);
        return;
    }
    expect(d.count <= INSTRUCTIONS_MAX && (d.escape == '\\' || d.escape == '`'));
    for (size_t i = 0; i < d.count; i++) {
        const struct instruction *in = &d.items[i];
        expect(in->text && in->line && !strchr(in->text, '\n'));
        for (size_t n = 0; n < in->args.count; n++)
            try_word(in->args.items[n]);
        bool pairs = in->op == DOCKER_ENV || in->op == DOCKER_LABEL || in->op == DOCKER_ARG;
        expect(!pairs || in->args.count % 2 == 0);
        instruction_flag(in, "from");
        try_mounts(in);
    }
    dockerfile_done(&d);
}

static void try_ignore(const char *text, size_t size)
{
    struct ignore ignore;
    struct err err = ERR_INIT;
    if (ignore_parse(text, size, &ignore, &err) < 0) {
        expect(err.message[0]);
        return;
    }
    expect(ignore.patterns.count <= WORDS_MAX);
    static const char *const paths[] = {"a", "a/b/c", "a/a/a/a/a/a/a/a/a", "x.log", ""};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        ignore_has(&ignore, paths[i]);
    ignore_done(&ignore);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    char *text = strndup((const char *)data + 1, size - 1);
    if (data[0] % 3 == 0)
        try_file((const char *)data + 1, size - 1);
    else if (data[0] % 3 == 1)
        try_ignore((const char *)data + 1, size - 1);
    else if (text)
        try_word(text);
    free(text);
    return 0;
}
