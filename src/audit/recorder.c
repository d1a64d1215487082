/* The recorder's process: receives, queues, writes, and says what it kept. See recorder.h. */
#include "audit/recorder.h"

#include "audit/receipt.h"
#include "audit/recorder_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/wall.h"
#include "os/seal.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DETAIL_MAX    (RECORD_MAX - 1024)
#define END_TRIES     8
#define FD_SOCKET     3
#define FD_FOLDER     4
#define MESSAGES_TURN 4096 /* before the clock is looked at again */

/* ---- messages ---- */

static void queue_merged(void *ctx, const struct record *record)
{
    queue_record(ctx, record);
}

/* A message that is no valid record is recorded as such instead of being lost. */
static void refuse(struct recorder *r, const struct err *why)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    struct json *detail = NULL;
    buf_init(&text, 2048);
    jw_init(&w, &text, false);
    jw_object_begin(&w);
    jw_key(&w, "what");
    jw_bytes(&w, why->message, strlen(why->message));
    jw_object_end(&w);
    struct record record = {.time_us = wall_us(),
                            .boundary = "audit",
                            .kind = "record.refused",
                            .detail = buf_text(&text)};
    if (json_parse(text.data, text.len, &json_default_limits, &detail, NULL) >= 0)
        merge_add(r->merge, &record, detail, clock_us(), queue_merged, r);
    json_free(detail);
}

static void add_own(struct recorder *r, const char *kind, const char *detail)
{
    struct record record = {
        .time_us = wall_us(), .boundary = "audit", .kind = kind, .detail = detail};
    queue_record(r, &record);
}

/* The daemon's last word is written here, in our words. */
static bool is_last_word(struct recorder *r, const char *kind)
{
    bool stopped = strcmp(kind, "daemon.stopped") == 0;
    if (stopped)
        add_own(r, "daemon.stopped", NULL);
    if (stopped || strcmp(kind, "daemon.stopping") == 0)
        r->stopping = true;
    return stopped;
}

static int read_record(struct recorder *r, const struct json *j, struct record *ret,
                       struct err *err)
{
    int result = record_read(j, ret, &r->detail, err);
    if (result >= 0 || err->code != ERR_LIMIT)
        return result;
    /* Too long: better its head than nothing. */
    buf_reset(&r->detail);
    buf_str(&r->detail, "{\"cut\":true}");
    ret->detail = buf_text(&r->detail);
    return 0;
}

static void take_record(struct recorder *r, const struct json *j)
{
    struct record record;
    struct err err = ERR_INIT;
    if (read_record(r, j, &record, &err) < 0) {
        refuse(r, &err);
        return;
    }
    if (is_last_word(r, record.kind))
        return;
    /* Records about keys are written by the recorder itself when a row changes, because
     * verification relies on them (AU-4). */
    if (text_begins(record.kind, "key.")) {
        err_set(&err, ERR_PROTOCOL, "records of keys are the recorder's own");
        refuse(r, &err);
        return;
    }
    record.time_us = wall_us();
    const struct json *detail = json_get(j, "detail");
    bool object = detail && json_type(detail) == JSON_OBJECT;
    if (merge_wants(record.kind))
        merge_add(r->merge, &record, object ? detail : NULL, clock_us(), queue_merged, r);
    else
        queue_record(r, &record);
}

/* Text from a warden is checked before it is queued: one bad record must not make a whole batch
 * fail. */
static void take_receipt(struct recorder *r, const struct json *j)
{
    struct err err = ERR_INIT;
    struct receipt receipt;
    struct json_writer w;
    const struct json *key = json_get(j, "key");
    struct record record = {.time_us = wall_us(),
                            .boundary = "lifecycle",
                            .kind = RECEIPT_BOX,
                            .box = json_text(j, "box"),
                            .key = key ? json_string(key) : NULL};
    buf_reset(&r->text);
    jw_init(&w, &r->text, false);
    jw_json(&w, json_get(j, "receipt"));
    receipt_init(&receipt);
    if (!record.box || r->text.failed)
        err_set(&err, ERR_PROTOCOL, "a receipt without its sandbox");
    else if (receipt_body_read(r->text.data, r->text.len, &receipt, &err) >= 0 &&
             receipt_is_of(&record, &receipt, &err) >= 0)
        queue_receipt(r, &record, buf_text(&receipt.body));
    if (err.code)
        refuse(r, &err);
    receipt_done(&receipt);
}

static bool is_table(const char *name)
{
    return name && (strcmp(name, "keys") == 0 || strcmp(name, "boxes") == 0 ||
                    strcmp(name, "settings") == 0);
}

static int take_put(struct recorder *r, const struct json *j, struct err *err)
{
    const struct json *table = json_get(j, "table"), *key = json_get(j, "key");
    const struct json *value = json_get(j, "value");
    const char *name = key ? json_string(key) : NULL;
    size_t len = name ? strlen(name) : 0;
    if (!table || !is_table(json_string(table)) || len == 0 || len > STORE_NAME_MAX || !value ||
        (json_type(value) != JSON_NULL && json_type(value) != JSON_OBJECT))
        return err_set(err, ERR_PROTOCOL, "that is no row of the daemon's state");
    buf_reset(&r->text);
    if (json_type(value) == JSON_OBJECT) {
        struct json_writer w;
        jw_init(&w, &r->text, false);
        jw_json(&w, value);
    }
    if (r->text.failed || r->text.len > WIRE_TEXT_MAX - 1024)
        return err_set(err, ERR_LIMIT, "the row is too long");
    return queue_put(r, json_string(table), name, r->text.len ? buf_text(&r->text) : NULL,
                     r->msg.request, err);
}

static void wait_for_disk(struct recorder *r, uint32_t request)
{
    struct err err = ERR_INIT;
    if (r->answer_count < ANSWERS_MAX) {
        r->answers[r->answer_count++] = request;
        return;
    }
    err_set(&err, ERR_LIMIT, "too many wait for the disk");
    recorder_fail(r, request, &err);
}

static void take_json(struct recorder *r, const struct json *j)
{
    struct err err = ERR_INIT;
    uint32_t request = r->msg.request;
    if (r->msg.type == WIRE_RECORD) {
        take_record(r, j);
    } else if (r->msg.type == WIRE_RECEIPT) {
        take_receipt(r, j);
    } else if (r->msg.type == WIRE_QUERY) {
        recorder_query(r, request, j);
    } else if (take_put(r, j, &err) < 0) {
        refuse(r, &err);
        if (request)
            recorder_fail(r, request, &err);
    } else if (request) {
        wait_for_disk(r, request);
    }
}

static void take(struct recorder *r)
{
    struct err err = ERR_INIT;
    struct json *j = NULL;
    wire_close_fds(&r->msg);
    switch (r->msg.type) {
    case WIRE_SYNC:
        merge_flush(r->merge, clock_us(), true, queue_merged, r);
        wait_for_disk(r, r->msg.request);
        return;
    case WIRE_RECORD:
    case WIRE_PUT:
    case WIRE_QUERY:
    case WIRE_RECEIPT:
        break;
    default:
        err_set(&err, ERR_PROTOCOL, "the recorder takes no message %s",
                wire_type_name(r->msg.type));
        refuse(r, &err);
        return;
    }
    if (json_parse(r->msg.text, r->msg.text_len, &json_default_limits, &j, &err) >= 0 &&
        json_type(j) == JSON_OBJECT) {
        take_json(r, j);
    } else {
        err_set(&err, ERR_PROTOCOL, "a message to the recorder is not an object");
        refuse(r, &err);
        if (r->msg.request)
            recorder_fail(r, r->msg.request, &err);
    }
    json_free(j);
}

/* Takes what has arrived, up to one batch. While the disk cannot be written this goes on, and the
 * queue counts what it cannot hold. */
static void receive(struct recorder *r)
{
    for (int i = 0; i < MESSAGES_TURN && (r->trouble.on || r->items < BATCH_RECORDS); i++) {
        int n = wire_receive(r->sock, &r->msg, MSG_DONTWAIT);
        if (n == -EAGAIN)
            return;
        if (n <= 0) {
            r->ended = true;
            return;
        }
        take(r);
    }
}

/* ---- the loop ---- */

static void earliest(uint64_t *due, uint64_t at)
{
    if (at && (!*due || at < *due))
        *due = at;
}

static int timeout_ms(const struct recorder *r)
{
    uint64_t due = 0, now = clock_us();
    if (r->verify)
        return 0;
    earliest(&due, merge_due_us(r->merge));
    if (r->trouble.on) {
        earliest(&due, r->trouble.retry_us);
    } else {
        earliest(&due, r->batch_us);
        earliest(&due, r->check_us);
    }
    if (!due)
        return -1;
    return due <= now ? 0 : (int)((due - now + 999) / 1000);
}

static bool must_write(const struct recorder *r)
{
    uint64_t now = clock_us();
    if (r->trouble.on)
        return now >= r->trouble.retry_us;
    return r->answer_count || r->keys_waiting || r->items >= BATCH_RECORDS ||
           (r->batch_us && now >= r->batch_us) || (r->check_us && now >= r->check_us);
}

/* While the disk takes nothing, nobody is left waiting. */
static void answer_trouble(struct recorder *r)
{
    for (size_t i = 0; r->trouble.on && i < r->answer_count; i++)
        recorder_fail(r, r->answers[i], &r->trouble.why);
    if (r->trouble.on)
        r->answer_count = 0;
}

static void read_signal(struct recorder *r)
{
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) == (ssize_t)sizeof info)
        r->keys_waiting = true;
}

/* Negative: the records are not ours alone any more. */
static int turn(struct recorder *r, struct err *err)
{
    struct pollfd fds[] = {{.fd = r->sock, .events = POLLIN}, {.fd = r->signals, .events = POLLIN}};
    if (poll(fds, 2, timeout_ms(r)) < 0 && errno != EINTR)
        return err_sys(err, "poll");
    if (fds[1].revents)
        read_signal(r);
    if (fds[0].revents)
        receive(r);
    if (r->verify)
        recorder_verify_step(r);
    uint64_t due = merge_due_us(r->merge);
    if (due && clock_us() >= due)
        merge_flush(r->merge, clock_us(), false, queue_merged, r);
    if (must_write(r) && queue_write(r, false, err) < 0 && err->code == ERR_ATTEST)
        return err_number(err);
    answer_trouble(r);
    return 0;
}

/* ---- start and end ---- */

/* The first records of a start are signed with it: what is put behind the last word of a daemon
 * that stopped cannot look like one of ours. */
static int write_start(struct recorder *r, bool landlock, struct err *err)
{
    const char *last = store_last_kind(r->store);
    if (store_seq(r->store) && strcmp(last, "daemon.stopped") != 0 &&
        strcmp(last, "daemon.crashed") != 0) {
        add_own(r, "daemon.crashed",
                JSON_SMALL(JSON_NUMBER("last", store_seq(r->store)),
                           JSON_TEXT("what", "the daemon ended without a word")));
    }
    add_own(r, "audit.opened",
            JSON_SMALL(JSON_FLAG("landlock", landlock), JSON_NUMBER("uid", geteuid()),
                       JSON_TEXT("version", BRIG_VERSION)));
    r->keys_waiting = true;
    return queue_write(r, true, err);
}

static int restore_all(struct recorder *r, struct err *err)
{
    if (store_each(r->store, NULL, recorder_restore, r, err) < 0)
        return err_number(err);
    recorder_done(r, 0, NULL);
    return 0;
}

static void finish(struct recorder *r)
{
    struct err err = ERR_INIT;
    merge_flush(r->merge, clock_us(), true, queue_merged, r);
    bool said = !r->items && strcmp(store_last_kind(r->store), "daemon.stopped") == 0;
    if (r->stopping && !said)
        add_own(r, "daemon.stopped", NULL);
    else if (!r->stopping)
        add_own(r, "daemon.crashed", "{\"what\":\"the front ended without a word\"}");
    for (int i = 0; i < END_TRIES; i++) {
        if (queue_write(r, true, &err) >= 0)
            return;
        struct timespec pause = {.tv_nsec = RETRY_US * 1000L};
        nanosleep(&pause, NULL);
    }
    dprintf(STDERR_FILENO, "brig serve: %zu audit records could not be written: %s\n", r->items,
            err.message);
}

/* ---- main ---- */

/* The two descriptors at their places, and no other: we are a fork of the front. */
int recorder_keep_descriptors(int sock, int folder, struct err *err)
{
    cleanup_fd int a = fcntl(sock, F_DUPFD_CLOEXEC, 16), b = fcntl(folder, F_DUPFD_CLOEXEC, 16);
    if (a < 0 || b < 0 || dup3(a, FD_SOCKET, O_CLOEXEC) < 0 || dup3(b, FD_FOLDER, O_CLOEXEC) < 0)
        return err_sys(err, "the recorder's descriptors");
    fd_steal(&a);
    fd_steal(&b);
    if (sys_close_range(FD_FOLDER + 1, ~0u, 0) < 0)
        return err_sys(err, "close what the recorder does not need");
    int flags = fcntl(FD_SOCKET, F_GETFL);
    if (flags < 0 || fcntl(FD_SOCKET, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return err_sys(err, "the recorder's socket");
    return 0;
}

/* The recorder ends when the front closes its socket and not before: ^C on the terminal, or SIGTERM
 * to the group, is for the front to handle. */
static int own_signals(struct recorder *r, struct err *err)
{
    sigset_t set;
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_SETMASK, &set, NULL);
    r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->signals < 0 ? err_sys(err, "signalfd") : 0;
}

static int start(struct recorder *r, struct err *err)
{
    bool landlock = false;
    if (own_signals(r, err) < 0 || sign_prepare(err) < 0 || store_prepare(err) < 0 ||
        recorder_seal(FD_FOLDER, &landlock, err) < 0)
        return err_number(err);
    if (store_open(&r->store, FD_FOLDER, true, err) < 0 ||
        store_open(&r->reader, FD_FOLDER, false, err) < 0 || merge_new(&r->merge, err) < 0)
        return err_number(err);
    if (write_start(r, landlock, err) < 0)
        return err_number(err);
    return restore_all(r, err);
}

static int run(struct recorder *r, struct err *err)
{
    r->sock = FD_SOCKET;
    r->last = &r->first;
    buf_init(&r->detail, DETAIL_MAX);
    buf_init(&r->text, WIRE_TEXT_MAX);
    if (start(r, err) < 0)
        return err_number(err);
    while (!r->ended) {
        if (turn(r, err) < 0)
            return err_number(err);
    }
    finish(r);
    return 0;
}

int recorder_main(int sock, int state_dir)
{
    struct err err = ERR_INIT;
    struct recorder *r = calloc(1, sizeof *r);
    prctl(PR_SET_NAME, "brig-recorder");
    umask(077);
    cleanup_fd int folder = r ? recorder_folder(state_dir, &err) : -ENOMEM;
    int result = folder < 0 ? folder : recorder_keep_descriptors(sock, folder, &err);
    fd_steal(&folder);
    if (result >= 0)
        result = run(r, &err);
    else if (r)
        r->sock = sock;
    if (result < 0 && r) {
        recorder_fail(r, 0, &err);
        dprintf(STDERR_FILENO, "brig serve: the recorder: %s\n", err.message);
    }
    if (r) {
        if (r->verify)
            store_verify_end(r->verify, &(struct verify_result){.good = false});
        store_close(r->reader);
        store_close(r->store);
    }
    seal_exit(result < 0 ? 1 : 0);
    return 1;
}
