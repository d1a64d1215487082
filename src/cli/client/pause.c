/* brig pause, brig resume. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/client/boxes.h"

#include <stdio.h>
#include <string.h>

enum { OPT_TIMEOUT = 1 };

static const struct opt pause_items[] = {
    {.id = BOXES_ALL, .brief = 'a', .name = "all", .group = "Which", .help = "all of this key's"},
};
static const struct opt_table pause_table = {
    .items = pause_items, .count = ARRAY_LEN(pause_items), .next = &client_option_table};

static const struct opt resume_items[] = {
    {.id = OPT_TIMEOUT,
     .name = "timeout",
     .kind = OPT_VALUE,
     .value = "TIME",
     .group = "Which",
     .help = "how long it lives from now on; default 5m"},
    {.id = BOXES_ALL, .brief = 'a', .name = "all", .group = "Which", .help = "all of this key's"},
};
static const struct opt_table resume_table = {
    .items = resume_items, .count = ARRAY_LEN(resume_items), .next = &client_option_table};

struct resume {
    struct boxes boxes;
    uint64_t timeout_ms;
};

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct resume *r = ctx;
    if (!opt || opt->id != OPT_TIMEOUT)
        return 0;
    return num_parse_duration(value, &r->timeout_ms, err) < 0 ? err_number(err) : 1;
}

static int post(struct boxes *b, const char *id, const char *what, const char *body, size_t len,
                struct err *err)
{
    char path[128];
    cleanup_json struct json *none = NULL;
    snprintf(path, sizeof path, "/sandboxes/%s/%s", id, what);
    struct ask ask = {.method = "POST", .path = path, .body = body, .body_len = len};
    return client_json(&b->client, &ask, &none, err);
}

static int pause_one(struct boxes *b, const char *id, struct err *err)
{
    return post(b, id, "pause", "{}", 2, err);
}

static int resume_one(struct boxes *b, const char *id, struct err *err)
{
    const struct resume *r = b->ctx;
    uint64_t s = r->timeout_ms ? (r->timeout_ms + 999) / 1000 : 300;
    const char *body = JSON_SMALL(JSON_NUMBER("timeout", s));
    return post(b, id, "connect", body, strlen(body), err);
}

static int run_pause(struct boxes *b, struct err *err)
{
    return boxes_each(b, pause_one, err);
}

static int run_resume(struct boxes *b, struct err *err)
{
    return boxes_each(b, resume_one, err);
}

static int pause_main(const struct verb *verb, int argc, char *const argv[])
{
    struct boxes b = {0};
    return boxes_main(&b, verb, argc, argv, run_pause);
}

static int resume_main(const struct verb *verb, int argc, char *const argv[])
{
    struct resume r = {.boxes = {.own = own}};
    r.boxes.ctx = &r;
    return boxes_main(&r.boxes, verb, argc, argv, run_resume);
}

const struct verb verb_pause = {
    .name = "pause",
    .summary = "freeze sandboxes; their clock stands",
    .usage = "pause ID…\npause --all",
    .about = "Every process in it stops where it is. Its memory stays where it is too: a\n"
             "paused sandbox costs no CPU, but as much memory as before.",
    .examples = "brig pause 4k2m",
    .statuses = "0    frozen\n125  not there, already paused, or there is no daemon",
    .options = &pause_table,
    .main = pause_main,
};

const struct verb verb_resume = {
    .name = "resume",
    .summary = "let paused sandboxes go on",
    .usage = "resume ID… [--timeout TIME]\nresume --all [--timeout TIME]",
    .about = "What was running goes on as if nothing had happened. The time to live starts\n"
             "anew, and is never made shorter.",
    .examples = "brig resume 4k2m --timeout 1h",
    .statuses = "0    running\n125  not there, or there is no daemon",
    .options = &resume_table,
    .main = resume_main,
};
