/* brig kill: a signal for processes of a sandbox. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/client/boxes.h"

#include <stdio.h>
#include <string.h>

enum { OPT_SIGNAL = 1 };

static const struct opt kill_items[] = {
    {.id = OPT_SIGNAL,
     .brief = 's',
     .name = "signal",
     .kind = OPT_VALUE,
     .value = "NAME",
     .words = "TERM KILL",
     .group = "What",
     .help = "default KILL"},
};
static const struct opt_table kill_table = {
    .items = kill_items, .count = ARRAY_LEN(kill_items), .next = &client_option_table};

struct kill_verb {
    struct boxes boxes;
    const char *signal;
};

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct kill_verb *k = ctx;
    if (!opt || opt->id != OPT_SIGNAL)
        return 0;
    k->signal = value;
    return 1;
}

static int send_signal(struct boxes *b, const char *id, int64_t pid, struct err *err)
{
    const struct kill_verb *k = b->ctx;
    char signal[64];
    cleanup_json struct json *none = NULL;
    cleanup_buf struct buf body = {0};
    struct json_writer w;
    snprintf(signal, sizeof signal, "SIGNAL_SIG%s", k->signal ? k->signal : "KILL");
    buf_init(&body, 1024);
    process_begin(&w, &body, pid);
    jw_kv_string(&w, "signal", signal);
    jw_object_end(&w);
    struct ask ask = {.method = "POST",
                      .path = "/process.Process/SendSignal",
                      .box = id,
                      .body = buf_text(&body),
                      .body_len = body.len};
    return client_json(&b->client, &ask, &none, err);
}

static int send_to_all(struct boxes *b, const char *id, struct err *err)
{
    cleanup_json struct json *list = NULL;
    struct ask ask = {
        .method = "POST", .path = "/process.Process/List", .box = id, .body = "{}", .body_len = 2};
    if (client_json(&b->client, &ask, &list, err) < 0)
        return err_number(err);
    const struct json *all = list ? json_get(list, "processes") : NULL;
    for (size_t i = 0; all && i < json_count(all); i++) {
        int64_t pid = member_int(json_at(all, i), "pid", 0);
        if (pid > 0 && send_signal(b, id, pid, err) < 0 && err->code != ERR_NOT_FOUND)
            return err_number(err);
    }
    return 0;
}

static int run(struct boxes *b, struct err *err)
{
    char id[64];
    if (b->count == 0)
        return err_set(err, ERR_USAGE, "which sandbox?");
    if (client_find(&b->client, b->words[0], id, err) < 0)
        return err_number(err);
    if (b->count == 1)
        return send_to_all(b, id, err);
    for (unsigned i = 1; i < b->count; i++) {
        uint64_t pid;
        if (num_parse_uint(b->words[i], &pid, err) < 0 || send_signal(b, id, (int64_t)pid, err) < 0)
            return err_number(err);
    }
    return 0;
}

static int kill_main(const struct verb *verb, int argc, char *const argv[])
{
    struct kill_verb k = {.boxes = {.own = own}};
    k.boxes.ctx = &k;
    return boxes_main(&k.boxes, verb, argc, argv, run);
}

const struct verb verb_kill = {
    .name = "kill",
    .summary = "a signal for the processes of a sandbox",
    .usage = "kill ID [PID…] [--signal TERM|KILL]",
    .about = "Without PID: every process that was started in it from outside. The sandbox\n"
             "itself stays; `brig rm` ends it.",
    .examples = "brig kill 4k2m\nbrig kill 4k2m 17 --signal TERM",
    .statuses = "0    sent\n125  no such sandbox or process, or there is no daemon",
    .options = &kill_table,
    .main = kill_main,
};
