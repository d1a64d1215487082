/* brig logs: the last output of a sandbox's processes. */
#include "base/cleanup.h"
#include "base/num.h"
#include "cli/client/boxes.h"
#include "cli/term.h"

#include <stdio.h>
#include <unistd.h>

static const struct opt_table logs_table = {.next = &client_option_table};

static int run(struct boxes *b, struct err *err)
{
    char id[64], path[160];
    uint64_t pid = 0;
    cleanup_buf struct buf text = {0};
    if (b->count == 0 || b->count > 2)
        return err_set(err, ERR_USAGE, b->count ? "one process at a time" : "which sandbox?");
    if ((b->count == 2 && num_parse_uint(b->words[1], &pid, err) < 0) ||
        client_find(&b->client, b->words[0], id, err) < 0)
        return err_number(err);
    if (b->count == 2)
        snprintf(path, sizeof path, "/sandboxes/%s/logs?pid=%llu", id, (unsigned long long)pid);
    else
        snprintf(path, sizeof path, "/sandboxes/%s/logs?format=text", id);
    struct ask ask = {.method = "GET", .path = path};
    if (client_text(&b->client, &ask, &text, err) < 0)
        return err_number(err);
    if (!isatty(STDOUT_FILENO))
        return term_print(&text, "the log", err);
    /* What a program printed must not command the terminal. */
    cleanup_buf struct buf clean = {0};
    buf_init(&clean, text.len * 2 + 1);
    for (const char *at = buf_text(&text), *end; *at; at = *end ? end + 1 : end) {
        cleanup_buf struct buf one = {0};
        for (end = at; *end && *end != '\n'; end++)
            ;
        buf_init(&one, (size_t)(end - at) + 1);
        buf_add(&one, at, (size_t)(end - at));
        term_clean(&clean, buf_text(&one));
        if (*end)
            buf_chr(&clean, '\n');
    }
    return term_print(&clean, "the log", err);
}

static int logs_main(const struct verb *verb, int argc, char *const argv[])
{
    struct boxes b = {0};
    return boxes_main(&b, verb, argc, argv, run);
}

const struct verb verb_logs = {
    .name = "logs",
    .summary = "the last output of a sandbox's processes",
    .usage = "logs ID [PID]",
    .about = "The daemon keeps the last 64 KiB of what each process wrote, for as long as the\n"
             "process is known to it.",
    .examples = "brig logs 4k2m\nbrig logs 4k2m 17",
    .statuses = "0    printed\n125  no such sandbox or process, or there is no daemon",
    .options = &logs_table,
    .main = logs_main,
};
