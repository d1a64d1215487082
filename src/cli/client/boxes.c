/* What the verbs on the daemon's sandboxes share: options, one sandbox or all of them, tables,
 * --watch. */
#include "cli/client/boxes.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "cli/term.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OUTPUT_MAX ((size_t)64 << 20)

static const struct opt watch_items[] = {
    {.id = BOXES_WATCH,
     .brief = 'w',
     .name = "watch",
     .group = "Output",
     .help = "again every second, until ^C"},
    {.id = BOXES_JSON, .name = "json", .group = "Output", .help = "print JSON"},
};
const struct opt_table boxes_watch_table = {
    .items = watch_items, .count = ARRAY_LEN(watch_items), .next = &client_option_table};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct boxes *b = ctx;
    int r = b->own ? b->own(b->ctx, opt, value, err) : 0;
    if (r != 0)
        return r < 0 ? r : 0;
    if (!opt && b->stop_at_operand && b->count == 1)
        return OPTIONS_STOP;
    if (!opt) {
        if (b->count == BOXES_MAX)
            return err_set(err, ERR_USAGE, "more than %d names", BOXES_MAX);
        b->words[b->count++] = value;
        return 0;
    }
    if (client_take(&b->client, opt, value))
        return 0;
    switch (opt->id) {
    case BOXES_JSON:
        b->json = true;
        return 0;
    case BOXES_WATCH:
        b->watch = true;
        return 0;
    case BOXES_ALL:
        b->all = true;
        return 0;
    default:
        return err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name);
    }
}

int boxes_parse(struct boxes *b, const struct verb *verb, int argc, char *const argv[], int *rest,
                struct err *err)
{
    int r = verb_parse(verb, argc, argv, take, b, rest, err);
    return r != 0 ? r : client_open(&b->client, err);
}

int boxes_main(struct boxes *b, const struct verb *verb, int argc, char *const argv[],
               int (*run)(struct boxes *b, struct err *err))
{
    struct err err = ERR_INIT;
    int rest = 0;
    int r = boxes_parse(b, verb, argc, argv, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && rest < argc)
        r = err_set(&err, ERR_USAGE, "unexpected argument '%.60s'", argv[rest]);
    if (r >= 0)
        r = run(b, &err);
    return r < 0 ? verb_fail(verb, &err, b->json || verb_wants_json(argc, argv)) : 0;
}

struct all {
    struct boxes *boxes;
    int (*fn)(struct boxes *b, const char *id, struct err *err);
};

static int one_of_all(void *ctx, const struct json *box, struct err *err)
{
    struct all *a = ctx;
    const char *id = json_text(box, "sandboxID");
    if (!id || !client_id_good(id))
        return 0;
    int r = a->fn(a->boxes, id, err);
    /* A sandbox that ended meanwhile does not make "all" fail. */
    return r < 0 && err->code != ERR_NOT_FOUND ? r : 0;
}

int boxes_each(struct boxes *b, int (*fn)(struct boxes *b, const char *id, struct err *err),
               struct err *err)
{
    int result = 0;
    if (b->all && b->count)
        return err_set(err, ERR_USAGE, "--all and names contradict each other");
    if (b->all)
        return client_boxes(&b->client, one_of_all, &(struct all){b, fn}, err);
    if (b->count == 0) {
        err_set(err, ERR_USAGE, "which sandbox?");
        return err_hint(err, "`brig ps` lists them");
    }
    for (unsigned i = 0; i < b->count; i++) {
        struct err one = ERR_INIT;
        char id[64];
        int r = client_find(&b->client, b->words[i], id, &one);
        if (r >= 0)
            r = fn(b, id, &one);
        if (r < 0 && result < 0)
            term_say("%s", one.message);
        else if (r < 0)
            *err = one;
        result = result < 0 ? result : r;
    }
    return result;
}

int boxes_print_json(const struct json *j, struct err *err)
{
    cleanup_buf struct buf out = {0};
    struct json_writer w;
    buf_init(&out, OUTPUT_MAX);
    jw_init(&w, &out, false);
    if (j)
        jw_json(&w, j);
    else
        jw_null(&w);
    buf_chr(&out, '\n');
    return term_print(&out, "the answer", err);
}

void boxes_age(int64_t ms, char out[static 24])
{
    int64_t s = ms < 0 ? 0 : ms / 1000;
    if (s < 120)
        snprintf(out, 24, "%" PRId64 "s", s);
    else if (s < 7200)
        snprintf(out, 24, "%" PRId64 "m", s / 60);
    else if (s < 172800)
        snprintf(out, 24, "%" PRId64 "h%" PRId64 "m", s / 3600, s / 60 % 60);
    else
        snprintf(out, 24, "%" PRId64 "d", s / 86400);
}

int64_t boxes_time(const char *text)
{
    struct tm tm = {0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    int64_t ms = 0;
    if (!end)
        return 0;
    if (*end == '.')
        for (int64_t unit = 100; *++end >= '0' && *end <= '9'; unit /= 10)
            ms += (*end - '0') * unit;
    return (int64_t)timegm(&tm) * 1000 + ms;
}

int boxes_watch_loop(struct boxes *b,
                     int (*draw)(struct boxes *b, struct buf *out, struct err *err),
                     struct err *err)
{
    for (;;) {
        cleanup_buf struct buf out = {0};
        buf_init(&out, OUTPUT_MAX);
        if (b->watch && isatty(STDOUT_FILENO))
            buf_str(&out, "\033[H\033[2J");
        int r = draw(b, &out, err);
        if (r < 0 || (r = term_print(&out, "the answer", err)) < 0)
            return r;
        if (!b->watch)
            return 0;
        const struct timespec pause = {.tv_sec = 1};
        nanosleep(&pause, NULL);
    }
}
