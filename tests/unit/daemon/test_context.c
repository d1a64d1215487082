#include "daemon/box/context_internal.h"

#include "world.h"

#include <signal.h>

static struct box *box;

struct made {
    struct context *context;
    struct err err;
    unsigned calls;
};

static void on_context(void *ctx, struct context *c, const struct err *err)
{
    struct made *m = ctx;
    m->calls++;
    m->context = c;
    if (err)
        m->err = *err;
}

struct run {
    char text[8192];
    size_t len;
    bool full;
    unsigned more; /* a word is taken after so many times */
    unsigned ends;
    struct err err;
    struct execution *execution;
};

static bool on_output(void *ctx, int stream, const void *data, size_t len)
{
    struct run *r = ctx;
    if (r->len + len + 2 < sizeof r->text)
        r->len += (size_t)snprintf(r->text + r->len, sizeof r->text - r->len, "%d%.*s;", stream,
                                   (int)len, (const char *)data);
    return !r->full;
}

static enum sink_took on_said(void *ctx, const struct interp_said *s)
{
    struct run *r = ctx;
    static const char letters[] = "RCrex";
    r->len += (size_t)snprintf(r->text + r->len, sizeof r->text - r->len, "%c;", letters[s->word]);
    if (s->word != INTERP_RESULT || !r->more)
        return SINK_ALL;
    cr_assert_str_eq(json_text(s->data, "text"), "here");
    return --r->more ? SINK_MORE : SINK_FULL;
}

static void on_denied(void *ctx, const char *words)
{
    struct run *r = ctx;
    cr_assert_not_null(strstr(words, "look up a.org"), "%s", words);
    r->len += (size_t)snprintf(r->text + r->len, sizeof r->text - r->len, "d;");
}

static void on_end(void *ctx, const struct err *err)
{
    struct run *r = ctx;
    r->ends++;
    r->len += (size_t)snprintf(r->text + r->len, sizeof r->text - r->len, "end");
    if (err)
        r->err = *err;
}

static void execute(struct context *c, const char *code, struct run *r)
{
    struct execution_sink sink = {on_output, on_said, on_end, r, on_denied};
    struct err err = ERR_INIT;
    cr_assert_eq(execution_start(c, code, strlen(code), NULL, &sink, &r->execution, &err), 0, "%s",
                 err.message);
    settle();
}

static void frame(const char *json)
{
    uint32_t len = (uint32_t)strlen(json);
    cr_assert_eq(write(w.channel, &len, 4), 4);
    cr_assert_eq(write(w.channel, json, len), (ssize_t)len);
}

static void say(int fd, const char *text)
{
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* What the driver was asked, or "". */
static const char *asked(void)
{
    static char text[65536];
    ssize_t n = read(w.requests, text, sizeof text - 1);
    text[n > 4 ? n : 4] = '\0';
    return n > 4 ? text + 4 : "";
}

#define READY_WORD "{\"type\":\"ready\",\"language\":\"python\",\"version\":\"3\",\"pid\":5}"

static struct context *make(void)
{
    struct made m = {0};
    context_create(box, INTERP_PYTHON, "/tmp", on_context, &m);
    settle();
    cr_assert_eq(m.calls, 0, "not before it said so");
    frame(READY_WORD);
    settle();
    cr_assert_eq(m.calls, 1);
    cr_assert_not_null(m.context, "%s", m.err.message);
    return m.context;
}

static void begin(void)
{
    world_begin();
    box = make_box();
    box_set_timeout(box, 3600000, false);
}

Test(context, is_made_found_and_removed, .init = begin, .fini = world_end)
{
    struct context *c = make();
    cr_assert_not_null(strstr(w.last_text, "\"cwd\":\"/tmp\""));
    cr_assert_not_null(strstr(w.last_text, "\"interpreter\":\"python\""));
    cr_assert_eq(context_find(box, context_info(c)->id), c);
    cr_assert_eq(strlen(context_info(c)->id), 36);
    char id[40];
    memcpy(id, context_info(c)->id, 40);
    context_remove(c);
    settle();
    cr_assert_null(context_find(box, id));
    cr_assert_eq(w.last_signal, SIGKILL);
    cr_assert_eq(box->context_count, 0);
}

Test(context, output_comes_before_the_words_that_followed_it, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0};
    execute(c, "print(1)", &r);
    cr_assert_not_null(strstr(asked(), "\"code\":\"print(1)\""));
    /* All at once: nothing tells the core which of the three descriptors came first. */
    say(w.out, "out");
    say(w.err, "err");
    frame("{\"type\":\"count\",\"id\":1,\"value\":1}");
    frame("{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"text\":\"2\"}}");
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_str_eq(r.text, "C;1out;2err;r;end");
    cr_assert_eq(r.err.code, ERR_NONE);
    cr_assert_eq(recorded("execution.ended"), 1);
    cr_assert_null(strstr(w.records, "print"), "no code in the records");
    struct run again = {0};
    execute(c, "x", &again);
    frame("{\"type\":\"error\",\"id\":2,\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
    frame("{\"type\":\"end\",\"id\":2}");
    settle();
    cr_assert_str_eq(again.text, "e;end");
}

#define REFUSAL                                                                                    \
    "{\"boundary\":\"network\",\"kind\":\"denied\",\"what\":\"look up a.org\",\"rule\":\"r\","     \
    "\"hint\":\"h\",\"count\":1}"

/* The refusals come another way than the words do, and perhaps later. */
Test(context, an_error_waits_for_what_was_refused_before_it, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct ward *d = ward_of(box);
    struct run told = {0}, never = {0}, cancelled = {0};
    w.hold[WIRE_SETTLE] = true;
    execute(c, "x", &told);
    frame("{\"type\":\"error\",\"id\":1,\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    execution_resume(told.execution); /* its client takes more: that is not what it waits for */
    settle();
    cr_assert_str_eq(told.text, "");
    send_text(d->io.fd, WIRE_EVENT, 0, 0, REFUSAL, NULL, 0);
    ward_answer(d, WIRE_SETTLE, d->held[WIRE_SETTLE], "");
    settle();
    cr_assert_str_eq(told.text, "d;e;end");
    /* A warden that does not answer holds nobody up for long, and what was another's is not told.
     */
    execute(c, "x", &never);
    frame("{\"type\":\"error\",\"id\":2,\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
    frame("{\"type\":\"end\",\"id\":2}");
    settle();
    cr_assert_str_eq(never.text, "");
    pass(SETTLE_MS + 250);
    cr_assert_str_eq(never.text, "e;end");
    /* Nobody waits for it any more. */
    execute(c, "x", &cancelled);
    frame("{\"type\":\"error\",\"id\":3,\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
    settle();
    execution_cancel(cancelled.execution);
    frame("{\"type\":\"end\",\"id\":3}");
    pass(250);
    ward_answer(d, WIRE_SETTLE, d->held[WIRE_SETTLE], "");
    settle();
    cr_assert_str_eq(cancelled.text, "");
    cr_assert(!c->running && !c->first);
}

/* It may be the first, of which nobody knows here yet, or a repeated one, which is told late. */
Test(context, a_good_end_waits_for_what_was_refused_before_it, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct ward *d = ward_of(box);
    struct run first = {0}, quiet = {0}, told = {0};
    w.hold[WIRE_SETTLE] = true;
    execute(c, "x", &first);
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_str_eq(first.text, "");
    send_text(d->io.fd, WIRE_EVENT, 0, 0, REFUSAL, NULL, 0);
    ward_answer(d, WIRE_SETTLE, d->held[WIRE_SETTLE], "");
    settle();
    cr_assert_str_eq(first.text, "d;end");
    execute(c, "x", &quiet);
    frame("{\"type\":\"end\",\"id\":2}");
    settle();
    cr_assert_str_eq(quiet.text, "");
    ward_answer(d, WIRE_SETTLE, d->held[WIRE_SETTLE], "");
    settle();
    cr_assert_str_eq(quiet.text, "end", "what was refused before it is not its own");
    execute(c, "x", &told);
    frame("{\"type\":\"end\",\"id\":3}");
    settle();
    send_text(d->io.fd, WIRE_EVENT, 0, 0, REFUSAL, NULL, 0);
    ward_answer(d, WIRE_SETTLE, d->held[WIRE_SETTLE], "");
    settle();
    cr_assert_str_eq(told.text, "d;end");
}

Test(context, one_at_a_time_and_the_others_wait, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r[3] = {0};
    for (int i = 0; i < 3; i++)
        execute(c, i == 0 ? "first" : i == 1 ? "second" : "third", &r[i]);
    cr_assert_not_null(strstr(asked(), "first"));
    cr_assert_str_eq(asked(), "");
    execution_cancel(r[1].execution); /* one that waits leaves without a word */
    say(w.out, "a");
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_str_eq(r[0].text, "1a;end");
    cr_assert_eq(r[1].len, 0);
    cr_assert_eq(w.signals, 0);
    cr_assert_not_null(strstr(asked(), "third"));
    frame("{\"type\":\"end\",\"id\":1}"); /* out of turn */
    frame("{\"type\":\"end\",\"id\":2}");
    settle();
    cr_assert_eq(r[2].ends, 0);
    frame("{\"type\":\"end\",\"id\":3}");
    settle();
    cr_assert_eq(r[2].ends, 1);
}

Test(context, the_queue_is_bounded, .init = begin, .fini = world_end)
{
    struct context *c = make();
    static struct run r[QUEUE_MAX + 1];
    struct execution_sink sink = {on_output, on_said, on_end, &r[QUEUE_MAX]};
    struct err err = ERR_INIT;
    for (unsigned i = 0; i < QUEUE_MAX; i++)
        execute(c, "x", &r[i]);
    cr_assert_lt(execution_start(c, "x", 1, NULL, &sink, &r[QUEUE_MAX].execution, &err), 0);
    cr_assert_eq(err.code, ERR_LIMIT);
    context_remove(c);
    for (unsigned i = 0; i < QUEUE_MAX; i++) {
        cr_assert_eq(r[i].ends, 1);
        cr_assert_eq(r[i].err.code, ERR_NOT_FOUND);
    }
}

Test(context, an_interrupt_is_a_signal_and_the_context_stays, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r[2] = {0};
    w.hold[WIRE_SIGNAL] = true;
    execute(c, "loop", &r[0]);
    execute(c, "next", &r[1]);
    cr_assert_not_null(strstr(asked(), "loop"));
    execution_cancel(r[0].execution);
    settle();
    cr_assert_eq(w.last_signal, SIGINT);
    cr_assert_eq(w.last_signal_pid, w.pid);
    say(w.out, "nobody hears this");
    frame("{\"type\":\"error\",\"id\":1,\"name\":\"KeyboardInterrupt\",\"value\":\"\","
          "\"traceback\":\"\"}");
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_eq(r[0].len, 0, "no callback after it was cancelled");
    cr_assert_str_eq(asked(), "", "the signal may still be on its way");
    struct ward *d = ward_of(box);
    ward_answer(d, WIRE_SIGNAL, d->held[WIRE_SIGNAL], "");
    settle();
    cr_assert_not_null(strstr(asked(), "next"));
    frame("{\"type\":\"end\",\"id\":2}");
    settle();
    cr_assert_eq(r[1].ends, 1);
    cr_assert_eq(c->state, CONTEXT_READY);
}

Test(context, code_that_does_not_heed_the_signal_loses_its_context, .init = begin,
     .fini = world_end)
{
    struct context *c = make();
    struct run r[2] = {0};
    execute(c, "loop", &r[0]);
    execute(c, "next", &r[1]);
    execution_cancel(r[0].execution);
    pass(60000);
    cr_assert_eq(w.last_signal, SIGKILL);
    cr_assert_geq(w.signals, INTERRUPTS);
    cr_assert_eq(r[0].ends, 0);
    cr_assert_eq(r[1].ends, 1);
    cr_assert_eq(r[1].err.code, ERR_INTERRUPTED);
    cr_assert_eq(box->context_count, 0);
    cr_assert_eq(box->info.state, BOX_RUNNING);
}

Test(context, nonsense_costs_the_driver_its_context_and_nothing_else, .init = begin,
     .fini = world_end)
{
    struct context *good = make();
    int good_channel = dup(w.channel), good_requests = dup(w.requests);
    int good_out = dup(w.out), good_err = dup(w.err);
    struct context *bad = make();
    struct run r[2] = {0};
    execute(bad, "evil", &r[0]);
    frame("{\"type\":\"launch missiles\"}");
    settle();
    cr_assert_eq(r[0].ends, 1);
    cr_assert_neq(r[0].err.code, ERR_NONE);
    cr_assert_eq(box->context_count, 1);
    cr_assert_eq(w.last_signal, SIGKILL);
    set_end(&w.channel, good_channel);
    set_end(&w.requests, good_requests);
    execute(good, "fine", &r[1]);
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_str_eq(r[1].text, "end");
    close(good_out);
    close(good_err);
}

Test(context, a_frame_that_is_too_long_is_nonsense, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0};
    execute(c, "evil", &r);
    say(w.channel, "\xff\xff\xff\xff");
    settle();
    cr_assert_eq(r.ends, 1);
    cr_assert_eq(box->context_count, 0);
}

Test(context, its_last_words_are_heard_before_its_end, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0};
    execute(c, "os._exit(3)", &r);
    say(w.out, "bye");
    set_end(&w.channel, -1);
    settle();
    cr_assert_eq(r.ends, 0);
    ward_exited(ward_of(box), w.pid, 3 << 8);
    settle();
    pass(10);
    cr_assert_str_eq(r.text, "1bye;end");
    cr_assert_not_null(strstr(r.err.message, "status 3"), "%s", r.err.message);
    cr_assert_eq(box->context_count, 0);
}

Test(context, one_that_only_closes_its_channel_ends_too, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0};
    execute(c, "x", &r);
    set_end(&w.channel, -1);
    settle();
    pass(FAREWELL_MS - 100);
    cr_assert_eq(r.ends, 0, "the word that it exited may be on its way");
    pass(200);
    pass(10); /* for what it printed last */
    cr_assert_eq(r.ends, 1);
    cr_assert_neq(r.err.code, ERR_NONE);
    cr_assert_not_null(strstr(w.last_text, "\"signal\":9"), "it lives, and nobody hears it: %s",
                       w.last_text);
}

/* What ran is told why, the context stays, and the next execution has a fresh interpreter. */
Test(context, one_killed_for_want_of_memory_begins_again, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0}, waits = {0}, next = {0};
    char text[64], id[40];
    snprintf(id, sizeof id, "%s", context_info(c)->id);
    execute(c, "x = bytearray(1 << 40)", &r);
    execute(c, "print(x)", &waits);
    snprintf(text, sizeof text, "{\"pid\":%lld,\"oom_killed\":true}", (long long)w.pid);
    set_end(&w.channel, -1);
    send_text(ward_of(box)->io.fd, WIRE_EXITED, 0, SIGKILL, text, NULL, 0);
    settle();
    pass(10);
    cr_assert_eq(r.ends, 1);
    cr_assert(err_is_oom(&r.err), "%s", r.err.message);
    cr_assert_not_null(strstr(r.err.message, "the python interpreter"), "%s", r.err.message);
    cr_assert_eq(waits.ends, 1, "what it built on is gone");
    cr_assert(err_is_oom(&waits.err));
    cr_assert_eq(box->context_count, 1);
    cr_assert_eq(context_find(box, id), c);
    cr_assert_not_null(strstr(w.records, "oom_killed"));
    execute(c, "1", &next);
    frame(READY_WORD);
    settle();
    cr_assert_not_null(strstr(asked(), "\"code\":\"1\""));
    frame("{\"type\":\"end\",\"id\":3}");
    settle();
    cr_assert_eq(next.ends, 1);
    cr_assert_eq(next.err.code, ERR_NONE, "%s", next.err.message);
    /* One that is killed before it works is not tried for ever. */
    struct made m = {0};
    context_restart(c, on_context, &m);
    settle();
    snprintf(text, sizeof text, "{\"pid\":%lld,\"oom_killed\":true}", (long long)w.pid);
    set_end(&w.channel, -1);
    send_text(ward_of(box)->io.fd, WIRE_EXITED, 0, SIGKILL, text, NULL, 0);
    settle();
    pass(10);
    cr_assert_eq(m.calls, 1);
    cr_assert(err_is_oom(&m.err), "%s", m.err.message);
    cr_assert_eq(box->context_count, 0);
}

static void exited(void)
{
    char text[64];
    snprintf(text, sizeof text, "{\"pid\":%lld}", (long long)w.pid);
    set_end(&w.channel, -1);
    send_text(ward_of(box)->io.fd, WIRE_EXITED, 0, 0, text, NULL, 0);
    settle();
    pass(10);
}

/* As a shell does after `exit`. */
Test(context, what_was_sent_to_one_that_ended_is_not_lost, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run last = {0}, next = {0}, begun = {0}, waits = {0};
    execute(c, "exit", &last);
    frame("{\"type\":\"count\",\"id\":1,\"value\":1}");
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_str_eq(last.text, "C;end");
    execute(c, "next", &next);
    exited();
    cr_assert_eq(next.ends, 0, "%s", next.err.message);
    frame(READY_WORD);
    settle();
    cr_assert_not_null(strstr(asked(), "\"code\":\"next\""));
    frame("{\"type\":\"count\",\"id\":2,\"value\":1}");
    frame("{\"type\":\"end\",\"id\":2}");
    settle();
    cr_assert(next.ends == 1 && next.err.code == ERR_NONE, "%s", next.err.message);
    /* What has begun is not done twice. */
    execute(c, "begun", &begun);
    frame("{\"type\":\"count\",\"id\":3,\"value\":2}");
    settle();
    execute(c, "waits", &waits);
    exited();
    cr_assert(begun.ends == 1 && begun.err.code == ERR_INTERRUPTED && waits.ends == 1);
    cr_assert_eq(box->context_count, 0);
}

Test(context, one_that_never_says_a_word_is_given_up, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0};
    execute(c, "x", &r);
    exited();
    cr_assert(r.ends == 1 && r.err.code == ERR_INTERRUPTED, "%s", r.err.message);
    cr_assert_eq(box->context_count, 0);
}

Test(context, one_that_hears_nothing_any_more_ends_too, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0};
    set_end(&w.requests, -1);
    execute(c, "x", &r);
    pass(FAREWELL_MS + 100);
    cr_assert_eq(r.ends, 1);
    cr_assert_neq(r.err.code, ERR_NONE);
}

Test(context, a_client_that_does_not_read_stops_it, .init = begin, .fini = world_end)
{
    static char block[4000];
    struct context *c = make();
    struct run r = {.full = true};
    execute(c, "flood", &r);
    memset(block, 'x', sizeof block);
    fcntl(w.out, F_SETFL, O_NONBLOCK);
    size_t written = 0;
    for (int i = 0; i < 200; i++) {
        ssize_t n = write(w.out, block, sizeof block);
        written += n > 0 ? (size_t)n : 0;
        settle();
    }
    cr_assert_lt(written, 200 * sizeof block);
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_eq(r.ends, 0);
    r.full = false;
    execution_resume(r.execution);
    pass(20);
    cr_assert_eq(r.ends, 1);
}

Test(context, a_thread_that_prints_without_end_holds_no_word_up, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0};
    execute(c, "x", &r);
    say(w.out, "before");
    frame("{\"type\":\"end\",\"id\":1}");
    /* More arrives while what came before the word is read. */
    settle();
    say(w.out, "after");
    settle();
    cr_assert_str_eq(r.text, "1before;end");
}

Test(context, the_default_one_is_made_once, .init = begin, .fini = world_end)
{
    struct made one = {0}, two = {0}, three = {0};
    context_default(box, INTERP_PYTHON, on_context, &one);
    context_default(box, INTERP_PYTHON, on_context, &two);
    settle();
    frame(READY_WORD);
    settle();
    cr_assert_eq(one.calls, 1);
    cr_assert_eq(two.context, one.context);
    context_default(box, INTERP_PYTHON, on_context, &three);
    cr_assert_eq(three.context, one.context);
    cr_assert_eq(box->context_count, 1);
}

struct seen {
    unsigned count;
    struct context *of[INTERP_COUNT];
};

static void on_seen(void *ctx, struct context *c)
{
    struct seen *s = ctx;
    s->count++;
    s->of[context_info(c)->language] = c;
}

static struct seen look(void)
{
    struct seen s = {0};
    context_name_defaults(box);
    context_each(box, on_seen, &s);
    return s;
}

Test(context, the_default_ones_have_names_before_they_run, .init = begin, .fini = world_end)
{
    struct made m = {0};
    struct seen first = look(), second = look();
    cr_assert_eq(first.count, 2);
    cr_assert_eq(second.count, 2, "once");
    struct context *python = first.of[INTERP_PYTHON];
    cr_assert(python && first.of[INTERP_JAVASCRIPT]);
    cr_assert_eq(context_find(box, context_info(python)->id), python);
    settle();
    cr_assert_null(strstr(w.last_text, "\"interpreter\""), "nothing was started");
    context_default(box, INTERP_PYTHON, on_context, &m);
    settle();
    frame(READY_WORD);
    settle();
    cr_assert_eq(m.context, python, "the one that was named");
    context_remove(first.of[INTERP_JAVASCRIPT]);
    settle();
    cr_assert_eq(box->context_count, 1);
}

Test(context, one_that_sleeps_is_woken_by_code, .init = begin, .fini = world_end)
{
    struct run r = {0};
    struct context *c = look().of[INTERP_PYTHON];
    execute(c, "x", &r);
    cr_assert_str_eq(asked(), "", "not before it is there");
    frame(READY_WORD);
    settle();
    cr_assert_not_null(strstr(asked(), "\"code\":\"x\""));
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_str_eq(r.text, "end");
}

Test(context, one_that_sleeps_can_be_restarted, .init = begin, .fini = world_end)
{
    struct made m = {0};
    struct context *c = look().of[INTERP_PYTHON];
    context_restart(c, on_context, &m);
    settle();
    frame(READY_WORD);
    settle();
    cr_assert_eq(m.context, c);
}

Test(context, a_restart_keeps_the_id_and_nothing_else, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {0}, after = {0};
    struct made m = {0};
    int64_t old = c->pid;
    execute(c, "x", &r);
    context_restart(c, on_context, &m);
    cr_assert_eq(r.ends, 1);
    settle();
    cr_assert_eq(w.last_signal_pid, old);
    frame(READY_WORD);
    settle();
    cr_assert_eq(m.context, c);
    cr_assert_neq(c->pid, old);
    ward_exited(ward_of(box), old, SIGKILL);
    execute(c, "y", &after);
    frame("{\"type\":\"end\",\"id\":2}");
    settle();
    cr_assert_str_eq(after.text, "end");
}

Test(context, an_interpreter_that_does_not_start_is_not_waited_for, .init = begin,
     .fini = world_end)
{
    struct made m = {0};
    context_create(box, INTERP_PYTHON, NULL, on_context, &m);
    pass(61000);
    cr_assert_eq(m.calls, 1);
    cr_assert_null(m.context);
    cr_assert_eq(m.err.sys_errno, ETIMEDOUT);
    cr_assert_eq(w.last_signal, SIGKILL);
    context_create(box, INTERP_NONE, NULL, on_context, &m);
    cr_assert_eq(m.calls, 2);
    cr_assert_eq(m.err.code, ERR_USAGE);
}

Test(context, the_end_of_the_box_ends_all, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r[2] = {0};
    struct made pending = {0}, spawning = {0};
    execute(c, "x", &r[0]);
    execute(c, "y", &r[1]);
    context_create(box, INTERP_BASH, NULL, on_context, &pending);
    settle();
    w.hold[WIRE_SPAWN] = true;
    context_create(box, INTERP_BASH, NULL, on_context, &spawning);
    settle();
    box_end(box, "asked", NULL, NULL);
    cr_assert(r[0].ends == 1 && r[1].ends == 1);
    cr_assert(pending.calls == 1 && spawning.calls == 1);
    settle();
    cr_assert(pending.calls == 1 && spawning.calls == 1);
}

/* ---- the interpreter that waited ---- */

static void begin_warm(void)
{
    struct core_config config = {.max_boxes = 20};
    world_begin_with(&config, "[" BASE "]");
    w.with_interpreter = true;
}

Test(context, the_interpreter_that_waited_is_the_default, .init = begin_warm, .fini = world_end)
{
    struct json *env = NULL;
    struct got g = {0};
    cr_assert_eq(json_parse("{\"A\":\"box\",\"B\":\"box\"}", 21, NULL, &env, NULL), 0);
    struct box_request q = {.template_name = "base", .owner = &owner, .timeout_ms = 1000};
    q.env = env;
    box_create(w.core, &q, on_box, &g);
    settle();
    json_free(env);
    box = g.box;
    struct made m = {0};
    struct run r = {0};
    frame(READY_WORD); /* said long ago */
    context_default(box, INTERP_PYTHON, on_context, &m);
    cr_assert_eq(m.calls, 1, "at once");
    struct execution_sink sink = {on_output, on_said, on_end, &r};
    cr_assert_eq(json_parse("{\"B\":\"mine\"}", 12, NULL, &env, NULL), 0);
    cr_assert_eq(execution_start(m.context, "1", 1, env, &sink, &r.execution, NULL), 0);
    json_free(env);
    settle();
    const char *told = asked();
    cr_assert_not_null(strstr(told, "\"env\":{\"E2B_SANDBOX\":\"true\",\"E2B_SANDBOX_ID\":\""));
    cr_assert_not_null(strstr(told, "\"E2B_TEMPLATE_ID\":\"base\",\"A\":\"box\",\"B\":\"mine\"}"));
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_str_eq(r.text, "end");
    static struct made other_one; /* it is told by the end of the world */
    context_create(box, INTERP_PYTHON, NULL, on_context, &other_one);
    settle();
    cr_assert_not_null(strstr(w.last_text, "\"interpreter\""), "another one is started");
}

Test(context, the_interpreter_that_waited_is_the_one_that_was_named, .init = begin_warm,
     .fini = world_end)
{
    struct json *env = NULL;
    struct got g = {0};
    cr_assert_eq(json_parse("{\"A\":\"box\"}", 11, NULL, &env, NULL), 0);
    struct box_request q = {.template_name = "base", .owner = &owner, .timeout_ms = 1000};
    q.env = env;
    box_create(w.core, &q, on_box, &g);
    settle();
    json_free(env);
    box = g.box;
    struct run r = {0};
    frame(READY_WORD);
    execute(look().of[INTERP_PYTHON], "1", &r);
    cr_assert_not_null(strstr(asked(), "\"E2B_TEMPLATE_ID\":\"base\",\"A\":\"box\"}"),
                       "with the box's environment");
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    cr_assert_str_eq(r.text, "end");
}

Test(context, one_that_did_not_wait_is_replaced, .init = begin_warm, .fini = world_end)
{
    box = make_box();
    ward_exited(ward_of(box), w.pid, 9);
    settle();
    struct made m = {0};
    context_default(box, INTERP_PYTHON, on_context, &m);
    settle();
    cr_assert_eq(m.calls, 0);
    frame(READY_WORD);
    settle();
    cr_assert_eq(m.calls, 1);
    cr_assert_not_null(m.context);
}

#define RESULT "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"text\":\"here\"}}"

Test(context, a_word_is_said_until_all_of_it_is_taken, .init = begin, .fini = world_end)
{
    struct context *c = make();
    struct run r = {.more = 3};
    execute(c, "x", &r);
    frame("{\"type\":\"count\",\"id\":1,\"value\":1}");
    frame(RESULT);
    frame("{\"type\":\"end\",\"id\":1}");
    settle();
    pass(10);
    cr_expect_str_eq(r.text, "C;r;r;r;", "nothing comes behind it before it is done");
    execution_resume(r.execution);
    pass(10);
    cr_expect_str_eq(r.text, "C;r;r;r;r;end");
    /* One whose execution is given up meanwhile goes away. */
    struct run gone = {.more = 1};
    execute(c, "y", &gone);
    frame("{\"type\":\"result\",\"id\":2,\"main\":true,\"data\":{\"text\":\"here\"}}");
    pass(10);
    cr_expect_str_eq(gone.text, "r;");
    execution_cancel(gone.execution);
    frame("{\"type\":\"end\",\"id\":2}");
    pass(10);
    struct run next = {0};
    execute(c, "z", &next);
    frame("{\"type\":\"end\",\"id\":3}");
    pass(10);
    cr_expect_eq(next.ends, 1, "and the next one runs");
}

Test(context, what_its_key_has_no_room_for_is_left_out_and_said, .init = begin, .fini = world_end)
{
    static char text[200000];
    struct context *c = make();
    struct account *a = account_of(core_accounts(w.core), &owner);
    struct run r = {0};
    execute(c, "x", &r);
    uint64_t before = a->used[ACCOUNT_BYTES];
    uint64_t taken = account_room(a, ACCOUNT_BYTES) - 50000;
    cr_assert_eq(account_charge(a, ACCOUNT_BYTES, taken, NULL), 0);
    int len = snprintf(
        text, sizeof text,
        "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"text\":\"%0150000d\"}}", 1);
    cr_assert_lt(len, (int)sizeof text);
    uint32_t size = (uint32_t)len;
    cr_assert_eq(write(w.channel, &size, 4), 4);
    cr_assert_eq(fd_nonblocking(w.channel), 0);
    for (int at = 0; at < len;) {
        ssize_t n = write(w.channel, text + at, (size_t)(len - at));
        cr_assert(n > 0 || errno == EAGAIN);
        at += n > 0 ? (int)n : 0;
        settle();
    }
    frame("{\"type\":\"end\",\"id\":1}");
    pass(10);
    cr_expect(strstr(r.text, "bytes of a result were left out: key k_owner has"), "%.300s", r.text);
    cr_expect_eq(r.ends, 1, "the execution goes on");
    cr_expect_eq(r.err.code, ERR_NONE);
    cr_expect_geq(a->refused[ACCOUNT_BYTES], 1);
    account_return(a, ACCOUNT_BYTES, taken);
    cr_expect_leq(a->used[ACCOUNT_BYTES], before);
    box_end(box, "test", NULL, NULL);
    settle();
    cr_expect_eq(a->used[ACCOUNT_BYTES], 0, "all of it goes with the box");
    cr_expect_eq(a->used[ACCOUNT_DESCRIPTORS], 0);
}
