/* brig ps: the sandboxes that the daemon has. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/wall.h"
#include "cli/client/boxes.h"
#include "cli/term.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void metadata_text(const struct json *m, struct buf *out)
{
    for (size_t i = 0; m && json_type(m) == JSON_OBJECT && i < json_count(m); i++) {
        const char *value = json_string(json_value_at(m, i));
        if (i)
            buf_chr(out, ' ');
        term_clean(out, json_key_at(m, i));
        buf_chr(out, '=');
        term_clean(out, value ? value : "");
    }
}

static void line(const struct json *j, int64_t now, struct buf *out)
{
    char up[24], left[24];
    const char *id = json_text(j, "sandboxID"), *state = json_text(j, "state");
    const char *template = json_text(j, "templateID");
    int64_t end = boxes_time(json_text(j, "endAt"));
    boxes_age(now - boxes_time(json_text(j, "startedAt")), up);
    boxes_age(end - now, left);
    buf_fmt(out, "%-20.40s  %-16.40s  %-8.16s  %6s  %6s  ", id ? id : "?",
            template ? template : "?", state ? state : "?", up,
            state && strcmp(state, "paused") == 0 ? "-" : left);
    metadata_text(json_get(j, "metadata"), out);
    buf_chr(out, '\n');
}

struct table {
    struct buf *out;
    struct json_writer w;
    int64_t now;
    bool json;
    size_t count;
};

static int add(void *ctx, const struct json *box, struct err *err)
{
    struct table *t = ctx;
    (void)err;
    if (t->json)
        jw_json(&t->w, box);
    else if (t->count == 0)
        buf_fmt(t->out, "%-20s  %-16s  %-8s  %6s  %6s  %s\n", "ID", "TEMPLATE", "STATE", "UP",
                "LEFT", "METADATA");
    if (!t->json)
        line(box, t->now, t->out);
    t->count++;
    return 0;
}

static int draw(struct boxes *b, struct buf *out, struct err *err)
{
    struct table t = {.out = out, .json = b->json};
    t.now = wall_ms();
    jw_init(&t.w, out, false);
    if (b->json)
        jw_array_begin(&t.w);
    if (client_boxes(&b->client, add, &t, err) < 0)
        return err_number(err);
    if (b->json) {
        jw_array_end(&t.w);
        buf_chr(out, '\n');
    } else if (t.count == 0) {
        buf_str(out, "no sandboxes; `brig create` makes one\n");
    }
    return 0;
}

static int run(struct boxes *b, struct err *err)
{
    if (b->count)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", b->words[0]);
    return boxes_watch_loop(b, draw, err);
}

static int ps_main(const struct verb *verb, int argc, char *const argv[])
{
    struct boxes b = {0};
    return boxes_main(&b, verb, argc, argv, run);
}

const struct verb verb_ps = {
    .name = "ps",
    .summary = "the sandboxes of the daemon",
    .usage = "ps [--watch] [--json]",
    .about = "One line for each sandbox that this key may see: since when it is up, how long\n"
             "it has left, and the metadata that it was made with. A paused one has no time\n"
             "limit: its clock stands.",
    .examples = "brig ps\nbrig ps --watch",
    .statuses = "0    printed\n125  there is no daemon, or it does not know the key",
    .options = &boxes_watch_table,
    .main = ps_main,
};
