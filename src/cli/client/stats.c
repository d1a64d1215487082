/* brig stats: what sandboxes use. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/client/boxes.h"

#include <stdio.h>
#include <string.h>

static void size_text(int64_t bytes, char out[static NUM_TEXT_SIZE])
{
    if (bytes < 0)
        snprintf(out, NUM_TEXT_SIZE, "-");
    else if (bytes < 10 << 20)
        snprintf(out, NUM_TEXT_SIZE, "%lldK", (long long)bytes / 1024);
    else
        snprintf(out, NUM_TEXT_SIZE, "%lldM", (long long)(bytes >> 20));
}

static void line(const char *id, const struct json *j, struct buf *out)
{
    char used[NUM_TEXT_SIZE], total[NUM_TEXT_SIZE], disk[NUM_TEXT_SIZE], room[NUM_TEXT_SIZE];
    size_text(member_int(j, "memUsed", -1), used);
    size_text(member_int(j, "memTotal", -1), total);
    size_text(member_int(j, "diskUsed", -1), disk);
    size_text(member_int(j, "diskTotal", -1), room);
    buf_fmt(out, "%-20.40s  %6.1f%%  %8s / %-8s  %8s / %-8s\n", id,
            json_real(json_get(j, "cpuUsedPct")), used, total, disk, room);
}

static int one(struct boxes *b, const char *id, struct err *err)
{
    struct buf *out = b->ctx;
    char path[128];
    cleanup_json struct json *list = NULL;
    snprintf(path, sizeof path, "/sandboxes/%s/metrics", id);
    struct ask ask = {.method = "GET", .path = path};
    if (client_json(&b->client, &ask, &list, err) < 0)
        return err_number(err);
    const struct json *last = list && json_count(list) ? json_at(list, json_count(list) - 1) : NULL;
    if (!b->json) {
        if (last)
            line(id, last, out);
        else
            buf_fmt(out, "%-20.40s  not measured yet\n", id);
        return 0;
    }
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "sandboxID", id);
    jw_key(&w, "metrics");
    if (last)
        jw_json(&w, last);
    else
        jw_null(&w);
    jw_object_end(&w);
    buf_chr(out, '\n');
    return 0;
}

static int draw(struct boxes *b, struct buf *out, struct err *err)
{
    b->ctx = out;
    b->all = b->count == 0;
    if (!b->json)
        buf_fmt(out, "%-20s  %7s  %19s  %19s\n", "ID", "CPU", "MEMORY", "DISK");
    return boxes_each(b, one, err);
}

static int run(struct boxes *b, struct err *err)
{
    return boxes_watch_loop(b, draw, err);
}

static int stats_main(const struct verb *verb, int argc, char *const argv[])
{
    struct boxes b = {0};
    return boxes_main(&b, verb, argc, argv, run);
}

const struct verb verb_stats = {
    .name = "stats",
    .summary = "what sandboxes use: CPU, memory, disk",
    .usage = "stats [ID…] [--watch] [--json]",
    .about = "Without ID: all of this key's. CPU is the share of the sandbox's own limit.",
    .examples = "brig stats\nbrig stats 4k2m --watch",
    .statuses = "0    printed\n125  no such sandbox, or there is no daemon",
    .options = &boxes_watch_table,
    .main = stats_main,
};
