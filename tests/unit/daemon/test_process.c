#include "daemon/box/process_internal.h"

#include "base/num.h"
#include "daemon/base/turn.h"
#include "world.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static struct box *box;

struct client {
    char text[1 << 16];
    size_t len;
    bool full;
    unsigned ends;
    int status;
    bool timed_out;
    struct process_client *handle;
    struct err oom;
    char denied[256];
};

static bool on_output(void *ctx, int stream, const void *data, size_t len)
{
    struct client *c = ctx;
    if (c->len + len + 1 < sizeof c->text && len < 4096) {
        c->text[c->len++] = (char)('0' + stream);
        memcpy(c->text + c->len, data, len);
        c->len += len;
    } else {
        c->len += len;
    }
    return !c->full;
}

static void on_end(void *ctx, const struct process_end *how)
{
    struct client *c = ctx;
    c->ends++;
    c->status = how->wait_status;
    c->timed_out = how->timed_out;
    if (how->oom)
        c->oom = *how->oom;
    if (how->denied)
        snprintf(c->denied, sizeof c->denied, "%s", how->denied);
}

static struct process_sink sink_of(struct client *c)
{
    return (struct process_sink){on_output, on_end, c};
}

struct started {
    struct process *process;
    struct err err;
    unsigned calls;
    struct client *attach;
};

static void on_started(void *ctx, struct process *p, const struct err *err)
{
    struct started *s = ctx;
    s->calls++;
    s->process = p;
    if (err)
        s->err = *err;
    if (p && s->attach) {
        struct process_sink sink = sink_of(s->attach);
        s->attach->handle = process_attach(p, &sink);
    }
}

static const char *const argv[] = {"/bin/bash", "-c", "secret words", NULL};

static struct process *start(struct client *c, const struct process_request *r)
{
    struct started s = {.attach = c};
    process_start(box, r, NULL, on_started, &s);
    settle();
    cr_assert_eq(s.calls, 1);
    cr_assert_not_null(s.process, "%s", s.err.message);
    return s.process;
}

static void begin(void)
{
    world_begin();
    box = make_box();
    box_set_timeout(box, 3600000, false);
}

static void say(int fd, const char *text)
{
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void end_process(const struct process *p, int status)
{
    set_end(&w.out, -1);
    set_end(&w.err, -1);
    ward_exited(ward_of(box), process_pid(p), status);
    settle();
}

Test(process, output_and_end_come_in_order, .init = begin, .fini = world_end)
{
    struct client c = {0};
    struct process *p = start(&c, &(struct process_request){.argv = argv, .tag = "job"});
    cr_assert_not_null(
        strstr(w.last_text, "\"argv\":[\"/bin/bash\",\"-c\",\"secret words\"],\"env\":{}"));
    cr_assert_eq(process_find(box, process_pid(p), NULL), p);
    cr_assert_eq(process_find(box, 0, "job"), p);
    cr_assert_null(process_find(box, 0, "other"));
    say(w.out, "one");
    settle();
    say(w.err, "two");
    settle();
    cr_assert_str_eq(c.text, "1one2two");
    say(w.out, "last");
    end_process(p, 3 << 8);
    cr_assert_str_eq(c.text, "1one2two1last");
    cr_assert_eq(c.ends, 1);
    cr_assert_eq(WEXITSTATUS(c.status), 3);
    cr_assert_null(process_find(box, process_pid(p), NULL));
    process_detach(c.handle);
    cr_assert_eq(recorded("process.started"), 1);
    cr_assert_eq(recorded("process.ended"), 1);
    cr_assert_null(strstr(w.records, "secret words"), "no arguments in the records");
}

Test(process, a_failure_is_told_after_what_was_refused_before_it, .init = begin, .fini = world_end)
{
    struct client good = {0}, told = {0}, never = {0}, ended = {0};
    struct ward *d = ward_of(box);
    w.hold[WIRE_SETTLE] = true;
    struct process *p = start(&good, &(struct process_request){.argv = argv});
    end_process(p, 0);
    cr_assert_eq(good.ends, 1, "a success waits for nothing");
    p = start(&told, &(struct process_request){.argv = argv});
    end_process(p, 6 << 8);
    pass(1000);
    cr_assert_eq(told.ends, 0);
    send_text(d->io.fd, WIRE_EVENT, 0, 0,
              "{\"boundary\":\"network\",\"kind\":\"denied\",\"what\":\"look up a.org\","
              "\"rule\":\"r\",\"hint\":\"h\",\"count\":1}",
              NULL, 0);
    ward_answer(d, WIRE_SETTLE, d->held[WIRE_SETTLE], "");
    settle();
    cr_assert_eq(told.ends, 1);
    cr_assert_not_null(strstr(told.denied, "look up a.org"), "%s", told.denied);
    p = start(&never, &(struct process_request){.argv = argv});
    end_process(p, 6 << 8);
    cr_assert_eq(never.ends, 0);
    pass(SETTLE_MS + 250);
    cr_assert(never.ends == 1 && !never.denied[0], "%s", never.denied);
    p = start(&ended, &(struct process_request){.argv = argv});
    end_process(p, 6 << 8);
    box_end(box, "deleted", NULL, NULL); /* with a question open */
    settle();
    cr_assert_eq(ended.ends, 1);
    struct client *const all[] = {&good, &told, &never, &ended};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        process_detach(all[i]->handle);
    settle();
}

Test(process, one_killed_for_want_of_memory_is_told_so, .init = begin, .fini = world_end)
{
    struct client c = {0}, other = {0};
    struct process *p = start(&c, &(struct process_request){.argv = argv});
    int64_t pid = process_pid(p);
    struct process *q = start(&other, &(struct process_request){.argv = argv});
    char text[64];
    snprintf(text, sizeof text, "{\"pid\":%lld,\"oom_killed\":true}", (long long)pid);
    send_text(ward_of(box)->io.fd, WIRE_EXITED, 0, SIGKILL, text, NULL, 0);
    settle();
    pass(250);
    cr_assert_eq(c.ends, 1);
    cr_assert(err_is_oom(&c.oom), "%s", c.oom.message);
    char limit[NUM_TEXT_SIZE];
    num_format_size(box_info(box)->memory, limit);
    cr_assert_not_null(strstr(c.oom.message, limit), "%s", c.oom.message);
    cr_assert_not_null(strstr(c.oom.hint, box_info(box)->template_name), "%s", c.oom.hint);
    cr_assert_not_null(strstr(w.records, "oom_killed"));
    cr_assert_not_null(strstr(w.records, "memory_limit"));
    cr_assert_eq(other.ends, 0, "the others live on");
    end_process(q, SIGKILL);
    cr_assert_eq(other.ends, 1);
    cr_assert_eq(other.oom.code, ERR_NONE, "a kill for other reasons is none");
    process_detach(c.handle);
    process_detach(other.handle);
}

Test(process, a_sink_given_at_the_start_works_as_well, .init = begin, .fini = world_end)
{
    struct client c = {0};
    struct started s = {0};
    struct process_sink sink = sink_of(&c);
    process_start(box, &(struct process_request){.argv = argv}, &sink, on_started, &s);
    settle();
    say(w.out, "x");
    settle();
    cr_assert_str_eq(c.text, "1x");
    process_detach(process_first(s.process));
    say(w.out, "y");
    end_process(s.process, 0);
    cr_assert_str_eq(c.text, "1x");
    cr_assert_eq(c.ends, 0);
}

Test(process, what_was_written_before_the_end_is_delivered_before_it, .init = begin,
     .fini = world_end)
{
    /* A child holds the pipe: no end of file comes. */
    struct client c = {0};
    struct process *p = start(&c, &(struct process_request){.argv = argv});
    say(w.out, "early");
    ward_exited(ward_of(box), process_pid(p), 0);
    settle();
    cr_assert_str_eq(c.text, "1early");
    cr_assert_eq(c.ends, 0, "the pipe is still open");
    say(w.out, "child");
    settle();
    pass(250);
    cr_assert_eq(c.ends, 1);
    cr_assert_str_eq(c.text, "1early1child");
    /* The child goes on; nobody hears it, and it does not die of it. */
    say(w.out, "later");
    settle();
    cr_assert_eq(fcntl(w.out, F_GETFD), FD_CLOEXEC);
    say(w.out, "and later");
    settle();
    cr_assert_str_eq(c.text, "1early1child");
    process_detach(c.handle);
}

Test(process, a_client_that_does_not_read_stops_the_reading, .init = begin, .fini = world_end)
{
    static char block[65536];
    struct client slow = {.full = true}, fast = {0};
    struct process *p = start(&slow, &(struct process_request){.argv = argv});
    struct process_sink sink = sink_of(&fast);
    fast.handle = process_attach(p, &sink);
    fcntl(w.out, F_SETFL, O_NONBLOCK);
    size_t written = 0;
    for (int i = 0; i < 100; i++) {
        ssize_t n = write(w.out, block, sizeof block);
        written += n > 0 ? (size_t)n : 0;
        settle();
    }
    cr_assert_lt(written, 100 * sizeof block, "the process has to wait");
    cr_assert_leq(slow.len, 2 * IO_SIZE);
    cr_assert_eq(slow.len, fast.len);
    slow.full = false;
    process_resume(slow.handle);
    settle();
    cr_assert_eq(slow.len, written);
    /* One that leaves does not hold the others up. */
    slow.full = true;
    cr_assert_gt(write(w.out, block, 100), 0);
    settle();
    size_t before = fast.len;
    process_detach(slow.handle);
    cr_assert_gt(write(w.out, block, 100), 0);
    settle();
    cr_assert_gt(fast.len, before);
    end_process(p, 0);
    cr_assert_eq(slow.ends, 0);
    cr_assert_eq(fast.ends, 1);
    process_detach(fast.handle);
}

Test(process, the_end_waits_for_a_slow_client, .init = begin, .fini = world_end)
{
    struct client c = {.full = true};
    struct process *p = start(&c, &(struct process_request){.argv = argv});
    say(w.out, "a");
    settle();
    say(w.out, "b");
    ward_exited(ward_of(box), process_pid(p), 0);
    pass(1000);
    cr_assert_eq(c.ends, 0);
    cr_assert_str_eq(c.text, "1a");
    c.full = false;
    process_resume(c.handle);
    settle();
    cr_assert_str_eq(c.text, "1a1b");
    cr_assert_eq(c.ends, 1);
    process_detach(c.handle);
}

Test(process, without_a_client_it_is_not_held_up, .init = begin, .fini = world_end)
{
    static char block[65536];
    struct process *p = start(NULL, &(struct process_request){.argv = argv});
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(write(w.out, block, sizeof block), (ssize_t)sizeof block);
        settle();
    }
    say(w.out, "the last words");
    settle();
    cr_assert_eq(p->log_len, LOG_MAX);
    cr_assert_leq(p->log_size, LOG_MAX);
    end_process(p, 0);
}

static char log_text[LOG_MAX + 1];
static struct process_log log_seen;
static unsigned log_count;
static void on_log(void *ctx, const struct process_log *log)
{
    (void)ctx;
    log_count++;
    log_seen = *log;
    memcpy(log_text, log->data, log->len);
    log_text[log->len] = '\0';
}

Test(process, its_last_output_is_remembered, .init = begin, .fini = world_end)
{
    struct process *p = start(NULL, &(struct process_request){.argv = argv});
    char expected[200000], line[32];
    size_t at = 0;
    for (int i = 0; i < 9000; i++) {
        int n = snprintf(line, sizeof line, "line %d\n", i);
        memcpy(expected + at, line, (size_t)n);
        at += (size_t)n;
        say(w.out, line);
        if (i % 100 == 0)
            settle();
    }
    settle();
    process_logs(box, on_log, NULL);
    cr_assert_eq(log_count, 1);
    cr_assert_eq(log_seen.len, LOG_MAX);
    cr_assert_eq(log_seen.lost, at - LOG_MAX);
    expected[at] = '\0';
    cr_assert_str_eq(log_text, expected + at - LOG_MAX);
    end_process(p, 0);
    log_count = 0;
    process_logs(box, on_log, NULL);
    cr_assert_eq(log_count, 1);
    cr_assert(log_seen.ended);
    for (int i = 0; i < 20; i++)
        end_process(start(NULL, &(struct process_request){.argv = argv}), 0);
    log_count = 0;
    process_logs(box, on_log, NULL);
    cr_assert_eq(log_count, ENDED_KEPT, "only so many are kept");
    cr_assert_lt(w.core->log_bytes, 65536, "and their memory is given back");
}

Test(process, is_killed_when_its_time_is_over, .init = begin, .fini = world_end)
{
    struct client c = {0};
    struct process *p = start(&c, &(struct process_request){.argv = argv, .timeout_ms = 5000});
    pass(4000);
    cr_assert_eq(w.signals, 0);
    pass(1500);
    cr_assert_eq(w.signals, 1);
    cr_assert_eq(w.last_signal, SIGKILL);
    cr_assert_eq(w.last_signal_pid, process_pid(p));
    end_process(p, SIGKILL);
    cr_assert_eq(c.ends, 1);
    cr_assert(c.timed_out);
    cr_assert_eq(WTERMSIG(c.status), SIGKILL);
    process_detach(c.handle);
}

/* ---- input ---- */

static unsigned taken;
static void on_taken(void *ctx)
{
    (void)ctx;
    taken++;
}

Test(process, input_arrives_and_its_end_does, .init = begin, .fini = world_end)
{
    struct process *p = start(NULL, &(struct process_request){.argv = argv, .has_stdin = true});
    char text[16] = "";
    cr_assert_eq(process_input(p, "hello", 5, on_taken, NULL), 0);
    cr_assert_eq(read(w.in, text, sizeof text), 5);
    cr_assert_str_eq(text, "hello");
    process_close_input(p);
    cr_assert_eq(read(w.in, text, sizeof text), 0);
    cr_assert_eq(process_input(p, "more", 4, on_taken, NULL), -EPIPE);
    cr_assert_eq(taken, 0);
}

Test(process, input_that_is_not_read_is_bounded, .init = begin, .fini = world_end)
{
    static char block[800000];
    struct process *p = start(NULL, &(struct process_request){.argv = argv, .has_stdin = true});
    int tag;
    cr_assert_eq(process_input(p, block, sizeof block, on_taken, NULL), -EAGAIN);
    cr_assert_eq(process_input(p, block, 200000, on_taken, NULL), -EAGAIN);
    cr_assert_eq(process_input(p, block, 200000, on_taken, &tag), -ENOBUFS);
    process_input_forget(p, &tag);
    process_close_input(p);
    size_t got = 0;
    for (ssize_t n; (n = read(w.in, block, sizeof block)) > 0; got += (size_t)n)
        settle();
    cr_assert_eq(got, 1000000, "all that was kept, and then the end");
    cr_assert_eq(taken, 2);
}

/* A reader that makes room all the time, or a pipe that holds all of it, keeps the front from
 * others no longer than another does. */
Test(process, input_goes_in_turns, .init = begin, .fini = world_end)
{
    static char block[900000];
    struct process *p = start(NULL, &(struct process_request){.argv = argv, .has_stdin = true});
    int there = 0, turns = 0;
    cr_assert_geq(fcntl(w.in, F_SETPIPE_SZ, 1 << 20), 1 << 20);
    cr_assert_eq(process_input(p, block, sizeof block, on_taken, NULL), -EAGAIN);
    cr_assert(ioctl(w.in, FIONREAD, &there) == 0 && there == TURN_BYTES, "%d at once", there);
    for (; there < (int)sizeof block && turns < 100; turns++) {
        struct loop_task end = {.fn = round_done};
        int before = there;
        loop_defer(w.loop, &end);
        cr_assert_eq(loop_run(w.loop), 0);
        cr_assert_eq(ioctl(w.in, FIONREAD, &there), 0);
        cr_expect_leq(there - before, (int)TURN_BYTES);
    }
    cr_expect_eq(there, sizeof block);
    settle();
    cr_expect_eq(taken, 1);
}

/* Whoever gave it has left: the rest of it is not kept, and what others gave stays as it was. */
Test(process, input_of_one_who_left_is_taken_back, .init = begin, .fini = world_end)
{
    static char block[300000];
    static const char letters[] = "abc";
    struct process *p = start(NULL, &(struct process_request){.argv = argv, .has_stdin = true});
    struct account *a = account_of(core_accounts(w.core), &owner);
    int tags[3];
    uint64_t before = a->used[ACCOUNT_BYTES];
    size_t count[256] = {0};
    for (int i = 0; i < 3; i++) {
        memset(block, letters[i], sizeof block);
        cr_assert_eq(process_input(p, block, sizeof block, on_taken, &tags[i]), -EAGAIN);
    }
    uint64_t held = a->used[ACCOUNT_BYTES];
    cr_expect_geq(held - before, 800000, "what waits is charged");
    process_input_forget(p, &tags[1]);
    process_close_input(p);
    for (ssize_t n; (n = read(w.in, block, sizeof block)) > 0;) {
        for (ssize_t i = 0; i < n; i++)
            count[(unsigned char)block[i]]++;
        settle();
    }
    cr_expect_eq(count['a'], 300000);
    cr_expect_eq(count['b'], 0);
    cr_expect_eq(count['c'], 300000);
    cr_expect_eq(taken, 2, "and the others are told");
    cr_expect_leq(a->used[ACCOUNT_BYTES], before);
}

Test(process, input_is_refused_where_its_key_has_no_room, .init = begin, .fini = world_end)
{
    static char block[300000];
    struct process *p = start(NULL, &(struct process_request){.argv = argv, .has_stdin = true});
    struct account *a = account_of(core_accounts(w.core), &owner);
    uint64_t room = account_room(a, ACCOUNT_BYTES) - 1000;
    cr_assert_eq(account_charge(a, ACCOUNT_BYTES, room, NULL), 0);
    cr_expect_eq(process_input(p, block, sizeof block, on_taken, NULL), -ENOBUFS);
    cr_expect_geq(a->refused[ACCOUNT_BYTES], 1);
    int there = 0;
    cr_expect(ioctl(w.in, FIONREAD, &there) == 0 && there == 0, "half of it was passed on: %d",
              there);
    cr_expect_eq(process_input(p, block, 4096, on_taken, NULL), 0, "what the pipe takes whole");
    cr_expect(ioctl(w.in, FIONREAD, &there) == 0 && there == 4096);
    account_return(a, ACCOUNT_BYTES, room);
    cr_expect_eq(process_input(p, block, sizeof block, on_taken, NULL), -EAGAIN);
}

Test(process, all_that_is_held_goes_with_the_box, .init = begin, .fini = world_end)
{
    static char block[300000];
    struct account *a = account_of(core_accounts(w.core), &owner);
    struct process *p = start(NULL, &(struct process_request){.argv = argv, .has_stdin = true});
    cr_assert_eq(process_input(p, block, sizeof block, on_taken, NULL), -EAGAIN);
    say(w.out, "something for the log");
    settle();
    cr_expect_geq(a->used[ACCOUNT_BYTES], 200000);
    cr_expect_eq(a->used[ACCOUNT_DESCRIPTORS], 3);
    cr_expect_gt(w.core->log_bytes, 0);
    box_end(box, "test", NULL, NULL);
    settle();
    for (int i = 0; i < ACCOUNT_KINDS; i++)
        cr_expect_eq(a->used[i], 0, "%s: %llu", account_kind_name((enum account_kind)i),
                     (unsigned long long)a->used[i]);
    cr_expect_eq(w.core->log_bytes, 0);
}

static unsigned gone_count;
static void on_dependent_gone(struct box_dependent *d)
{
    cr_expect_null(d->at, "it is off the list");
    gone_count++;
}

Test(process, dependents_are_told_once, .init = begin, .fini = world_end)
{
    struct box_dependent one = {.gone = on_dependent_gone}, two = one, three = one;
    box_depend(box, &one);
    box_depend(box, &two);
    box_depend(box, &three);
    box_undepend(&two);
    box_undepend(&two);
    box_end(box, "test", NULL, NULL);
    settle();
    cr_expect_eq(gone_count, 2);
}

Test(process, one_that_closes_its_input_is_no_harm, .init = begin, .fini = world_end)
{
    static char block[800000];
    struct process *p = start(NULL, &(struct process_request){.argv = argv, .has_stdin = true});
    cr_assert_eq(process_input(p, block, sizeof block, on_taken, NULL), -EAGAIN);
    set_end(&w.in, -1);
    settle();
    cr_assert_eq(taken, 1);
    cr_assert_eq(process_input(p, "x", 1, on_taken, NULL), -EPIPE);
    cr_assert_eq(box->info.state, BOX_RUNNING);
}

/* ---- races ---- */

Test(process, the_end_of_the_box_ends_all_of_it, .init = begin, .fini = world_end)
{
    static char block[800000];
    struct client c = {0};
    struct started pending = {0};
    struct process *p = start(&c, &(struct process_request){.argv = argv, .has_stdin = true});
    cr_assert_eq(process_input(p, block, sizeof block, on_taken, NULL), -EAGAIN);
    w.hold[WIRE_SPAWN] = true;
    process_start(box, &(struct process_request){.argv = argv}, NULL, on_started, &pending);
    settle();
    box_end(box, "asked", NULL, NULL);
    cr_assert_eq(c.ends, 1);
    cr_assert_eq(WTERMSIG(c.status), SIGKILL);
    cr_assert_eq(taken, 1);
    settle();
    cr_assert_eq(pending.calls, 1);
    cr_assert_null(pending.process);
    process_detach(c.handle); /* after the box is gone */
    settle();
}

Test(process, one_that_starts_too_late_is_killed, .init = begin, .fini = world_end)
{
    struct started s = {0};
    w.hold[WIRE_SPAWN] = true;
    process_start(box, &(struct process_request){.argv = argv}, NULL, on_started, &s);
    pass(31000);
    cr_assert_eq(s.calls, 1);
    cr_assert_eq(s.err.sys_errno, ETIMEDOUT);
    cr_assert_eq(w.signals, 0);
    struct ward *d = ward_of(box);
    ward_spawn(d, d->held[WIRE_SPAWN], "");
    settle();
    cr_assert_eq(w.signals, 1);
    cr_assert_eq(w.last_signal, SIGKILL);
    cr_assert_eq(w.last_signal_pid, w.pid);
    cr_assert_eq(s.calls, 1);
}

static void end_box(void *ctx, struct process *p, const struct err *err)
{
    (void)err;
    ++*(unsigned *)ctx;
    cr_assert_not_null(p);
    box_end(box, "asked", NULL, NULL);
}

Test(process, the_box_may_end_in_the_callback_of_a_start, .init = begin, .fini = world_end)
{
    unsigned calls = 0;
    process_start(box, &(struct process_request){.argv = argv}, NULL, end_box, &calls);
    settle();
    cr_assert_eq(calls, 1);
    cr_assert_eq(w.core->live, 0);
}

static bool detach_in_output(void *ctx, int stream, const void *data, size_t len)
{
    (void)stream, (void)data, (void)len;
    struct client *c = ctx;
    c->len++;
    process_detach(c->handle);
    box_end(box, "asked", NULL, NULL);
    return false;
}

Test(process, a_client_may_leave_and_end_the_box_while_it_is_told, .init = begin, .fini = world_end)
{
    struct client c = {0}, second = {0};
    struct process *p = start(NULL, &(struct process_request){.argv = argv});
    struct process_sink sink = {detach_in_output, on_end, &c}, plain = sink_of(&second);
    second.handle = process_attach(p, &plain);
    c.handle = process_attach(p, &sink);
    say(w.out, "x");
    settle();
    cr_assert_eq(c.len, 1);
    cr_assert_eq(c.ends, 0);
    cr_assert_eq(second.ends, 1);
    process_detach(second.handle);
    settle();
}

Test(process, not_in_a_box_that_is_paused, .init = begin, .fini = world_end)
{
    struct started s = {0};
    struct got g = {0};
    box_pause(box, on_done, &g);
    settle();
    process_start(box, &(struct process_request){.argv = argv}, NULL, on_started, &s);
    cr_assert_eq(s.calls, 1);
    cr_assert_eq(s.err.code, ERR_REFUSED);
    box_resume(box, 0, on_done, &g);
    settle();
    start(NULL, &(struct process_request){.argv = argv});
}

Test(process, there_is_a_limit_to_how_many, .init = begin, .fini = world_end)
{
    struct started s = {0};
    w.hold[WIRE_SPAWN] = true;
    for (unsigned i = 0; i < PROCESSES_MAX; i++)
        process_start(box, &(struct process_request){.argv = argv}, NULL, on_started, &s);
    cr_assert_eq(s.calls, 0);
    process_start(box, &(struct process_request){.argv = argv}, NULL, on_started, &s);
    cr_assert_eq(s.calls, 1);
    cr_assert_eq(s.err.code, ERR_LIMIT);
    box_end(box, "asked", NULL, NULL);
    settle();
    cr_assert_eq(s.calls, PROCESSES_MAX + 1);
}

/* ---- files ---- */

static struct {
    unsigned heads, ends, calls;
    int error, in;
    char data[64];
    size_t len;
    struct file_work *work;
    struct err err;
} file;

static void on_head(void *ctx, int error, uint64_t size)
{
    (void)ctx, (void)size;
    file.heads++;
    file.error = error;
}

static void on_data(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    memcpy(file.data + file.len, bytes, len);
    file.len += len;
}

static void on_file_end(void *ctx, int error)
{
    (void)ctx;
    file.ends++;
    file.error = error;
}

static void on_file(void *ctx, struct file_work *work, int in, const struct err *err)
{
    (void)ctx;
    file.calls++;
    file.work = work;
    file.in = in;
    if (err)
        file.err = *err;
}

static void start_file(const char *json, enum files_op op)
{
    struct files_sink sink = {.head = on_head, .data = on_data, .end = on_file_end};
    memset(&file, 0, sizeof file);
    file_start(box, json, strlen(json), op, &sink, on_file, NULL);
    settle();
}

static void frame(int fd, uint8_t type, const void *bytes, uint32_t len)
{
    char out[256] = {(char)type};
    memcpy(out + 4, &len, 4);
    memcpy(out + 8, bytes, len);
    cr_assert_eq(write(fd, out, 8 + len), (ssize_t)(8 + len));
}

Test(file, is_read_through_its_worker, .init = begin, .fini = world_end)
{
    struct files_head head = {.size = 5};
    start_file("{\"op\":\"read\",\"path\":\"/tmp/a\"}", FILES_READ);
    cr_assert_eq(file.calls, 1);
    cr_assert_eq(file.in, -1);
    cr_assert_eq(recorded("file.read"), 1);
    frame(w.out, FILES_HEAD, &head, sizeof head);
    frame(w.out, FILES_DATA, "hello", 5);
    settle();
    cr_assert_eq(file.heads, 1);
    cr_assert_str_eq(file.data, "hello");
    file_pause(file.work, true);
    frame(w.out, FILES_END, "", 0);
    set_end(&w.out, -1);
    settle();
    cr_assert_eq(file.ends, 0);
    file_pause(file.work, false);
    settle();
    cr_assert_eq(file.ends, 1);
    cr_assert_eq(file.error, 0);
    file_cancel(file.work);
}

Test(file, a_worker_that_speaks_nonsense_or_dies_is_an_error, .init = begin, .fini = world_end)
{
    start_file("{\"op\":\"read\",\"path\":\"/tmp/a\"}", FILES_READ);
    say(w.out, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    settle();
    cr_assert_eq(file.ends, 1);
    cr_assert_neq(file.error, 0);
    file_cancel(file.work);
    start_file("{\"op\":\"read\",\"path\":\"/tmp/a\"}", FILES_READ);
    set_end(&w.out, -1);
    settle();
    cr_assert_eq(file.ends, 1);
    cr_assert_neq(file.error, 0);
    file_cancel(file.work);
    cr_assert_eq(box->info.state, BOX_RUNNING);
    cr_assert_eq(box->work_count, 0);
}

Test(file, is_written_through_a_pipe, .init = begin, .fini = world_end)
{
    char text[8] = "";
    start_file("{\"op\":\"write\",\"path\":\"/tmp/a\"}", FILES_WRITE);
    cr_assert_geq(file.in, 0);
    cr_assert_eq(write(file.in, "abc", 3), 3);
    close(file.in);
    cr_assert_eq(read(w.in, text, 8), 3);
    cr_assert_eq(read(w.in, text, 8), 0);
    file_cancel(file.work);
    settle();
    cr_assert_eq(file.ends, 0, "no word after it was cancelled");
}

Test(file, the_end_of_the_box_ends_its_work, .init = begin, .fini = world_end)
{
    start_file("{\"op\":\"watch\",\"path\":\"/tmp\"}", FILES_WATCH);
    box_end(box, "asked", NULL, NULL);
    cr_assert_eq(file.ends, 1);
    cr_assert_neq(file.error, 0);
    settle();
    file_cancel(file.work); /* after the box */
    settle();
}

Test(file, waiting_work_fails_with_the_box, .init = begin, .fini = world_end)
{
    w.hold[WIRE_FILE] = true;
    start_file("{\"op\":\"stat\",\"path\":\"/tmp\"}", FILES_STAT);
    cr_assert_eq(file.calls, 0);
    box_end(box, "asked", NULL, NULL);
    settle();
    cr_assert_eq(file.calls, 1);
    cr_assert_null(file.work);
    cr_assert_neq(file.err.code, ERR_NONE);
}
