/* Arbitrary command lines against the option parser, and the words in them against what the
 * parser's neighbours do with words. Input: arguments, separated by NUL bytes. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/options.h"
#include "cli/path.h"
#include "cli/term.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 64

static const struct opt items[] = {
    {.id = 1, .brief = 'f', .name = "flag"},
    {.id = 2, .brief = 'm', .name = "memory", .kind = OPT_VALUE, .value = "SIZE"},
    {.id = 3, .brief = 'e', .name = "env", .kind = OPT_LIST, .value = "KEY"},
    {.id = 4, .name = "level", .kind = OPT_VALUE, .value = "L", .words = "low medium high"},
    {.id = 5, .name = "noexec", .means = "false"},
};
static const struct opt_table table = {items, ARRAY_LEN(items), NULL};

struct seen {
    const char *memory;
    bool stop;
};

static void require(bool truth)
{
    if (!truth)
        abort();
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct seen *s = ctx;
    if (!opt)
        return s->stop ? OPTIONS_STOP : 0;
    require(opt >= items && opt < items + ARRAY_LEN(items));
    require(opt->kind == OPT_FLAG ? value == opt->means : value && value[0]);
    if (opt->id == 2) {
        require(!s->memory); /* a second one either agrees or is refused */
        s->memory = value;
    }
    if (opt->id == 4)
        require(!strcmp(value, "low") || !strcmp(value, "medium") || !strcmp(value, "high"));
    return 0;
}

static void check_words(const char *word)
{
    cleanup_buf struct buf out;
    buf_init(&out, 4096);
    path_join("/base", word, &out);
    if (!out.failed) {
        const char *path = buf_text(&out);
        require(path[0] == '/' && !strstr(path, "//") && !strstr(path, "/./") &&
                !strstr(path, "/../"));
        require(path[1] == '\0' || path[out.len - 1] != '/');
    }
    buf_reset(&out);
    term_clean(&out, word);
    for (size_t i = 0; i < out.len; i++)
        require((unsigned char)out.data[i] >= 0x20 && out.data[i] != 0x7f);
}

static void check_parse(int argc, char **argv, bool stop)
{
    struct seen seen = {.stop = stop};
    struct err err = ERR_INIT;
    int rest = -1;
    int r = options_parse(&table, argc, argv, take, &seen, &rest, &err);
    if (r < 0)
        require(err.code == ERR_USAGE && err.message[0]);
    else
        require(rest >= 0 && rest <= argc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argv[ARGS_MAX + 1];
    int argc = 0;
    cleanup_free char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t at = 0; at < size && argc < ARGS_MAX; at += strlen(text + at) + 1) {
        argv[argc++] = text + at;
        check_words(text + at);
    }
    argv[argc] = NULL;
    check_parse(argc, argv, false);
    check_parse(argc, argv, true);
    return 0;
}
