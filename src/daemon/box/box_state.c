/* The states of a box and everything that moves it from one to the next. No other file writes
 * info.state.
 *
 *   dormant ──► provisioning ──► idle ──► running ◄──► paused
 *                  │    └─────────────────►  │            │
 *                  │             │           │            │
 *                  └──────┬──────┴───────────┴────────────┘
 *                         ├──► error ──►┐
 *                         └────────────►└► ending ──► gone
 *
 * BX-1  Every transition is an audit record.
 * BX-2  There is no way back: nothing leads from error, ending or gone to a box that works.
 * BX-3  A box counts until the launcher said that its process is gone, so that what is counted is
 *       what exists.
 * BX-4  Every phase has an end: launch, provisioning, claim and teardown are bounded.
 * BX-5  Everything of a box ends with it (box_stop_work). */
#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/box/box_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define TO(s) (1u << BOX_##s)
static const unsigned table[BOX_STATE_COUNT] = {
    [BOX_DORMANT] = TO(PROVISIONING),
    [BOX_PROVISIONING] = TO(IDLE) | TO(RUNNING) | TO(ENDING) | TO(ERROR),
    [BOX_IDLE] = TO(RUNNING) | TO(ENDING) | TO(ERROR),
    [BOX_RUNNING] = TO(PAUSED) | TO(ENDING) | TO(ERROR),
    [BOX_PAUSED] = TO(RUNNING) | TO(ENDING) | TO(ERROR),
    [BOX_ERROR] = TO(ENDING),
    [BOX_ENDING] = TO(GONE),
    [BOX_GONE] = 0,
};
#undef TO

static bool is_over(const struct box *b)
{
    return b->info.state >= BOX_ENDING;
}

static void record(struct box *b, enum box_state from, enum box_state to, const char *reason)
{
    cleanup_buf struct buf detail = {0};
    struct json_writer w;
    jw_begin(&w, &detail, 4096);
    jw_kv_string(&w, "from", box_state_name(from));
    if (reason && *reason)
        jw_kv_string(&w, "reason", reason);
    jw_kv_string(&w, "template", b->tmpl->name);
    if (to == BOX_RUNNING && *b->policy_hash)
        jw_kv_string(&w, "policy_hash", b->policy_hash);
    if (to == BOX_GONE) {
        jw_kv_uint(&w, "cpu_usec", b->cpu_usec);
        jw_kv_uint(&w, "memory_peak", b->memory_peak);
        jw_kv_uint(&w, "denials", b->denials);
    }
    jw_object_end(&w);
    char kind[32];
    snprintf(kind, sizeof kind, "box.%s", box_state_name(to));
    box_record(b, kind, buf_text(&detail));
}

static void move(struct box *b, enum box_state next, const char *reason)
{
    enum box_state from = b->info.state;
    b->tmpl->boxes[from]--;
    b->tmpl->boxes[next]++;
    b->info.state = next;
    record(b, from, next, reason);
}

static void begin_end(struct box *b, const char *reason);

int box_enter(struct box *b, enum box_state next, const char *reason)
{
    if (table[b->info.state] & (1u << next)) {
        move(b, next, reason);
        return 0;
    }
    /* A bug: whatever this box is now, nobody may go on working with it. */
    box_record(b, "box.bug",
               JSON_SMALL(JSON_TEXT("from", box_state_name(b->info.state)),
                          JSON_TEXT("to", box_state_name(next))));
    if (!is_over(b))
        move(b, BOX_ERROR, "a bug in brig");
    if (b->info.state == BOX_ERROR)
        begin_end(b, "error");
    return -EINVAL;
}

/* ---- going up ---- */

void box_on_launched(struct box *b, int fd)
{
    struct err err = ERR_INIT;
    if (b->info.state != BOX_PROVISIONING) {
        close(fd); /* it is not wanted any more; its warden sees the end of the socket */
        return;
    }
    if (peer_open(&b->warden, fd, &err) < 0) {
        box_fail(b, &err);
        return;
    }
    uint64_t boot = b->own_policy ? b->tmpl->boot_most_ms : b->tmpl->boot_ms;
    loop_timer_set(b->core->loop, &b->timer, READY_MS + boot);
}

void box_on_launch_failed(struct box *b, const struct err *err)
{
    if (b->info.state == BOX_GONE)
        return;
    b->launched = false;
    box_fail(b, err);
    box_on_gone(b, 0);
}

static void take_interpreter(struct box *b, struct wire_msg *m, const struct json *tree)
{
    const struct json *name = json_get(tree, "interpreter");
    const char *language = name ? json_string(name) : NULL;
    if (m->fd_count < INTERP_ENDS || m->value <= 0 || !language)
        return;
    for (unsigned i = 0; i < INTERP_ENDS; i++)
        b->interp_fds[i] = wire_steal_fd(m, i);
    b->interp_pid = m->value;
    b->interp_language = interp_language_parse(language);
}

/* What it is held to, where that is not simply what its template says. */
static int take_policy(struct box *b, const struct json *policy, struct err *err)
{
    const char *hash = json_text(policy, "hash");
    if (!hash)
        return 0;
    snprintf(b->policy_hash, sizeof b->policy_hash, "%s", hash);
    b->info.cpus_milli = json_uint(policy, "cpus_milli");
    b->info.memory = json_uint(policy, "memory");
    b->info.disk = json_uint(policy, "disk");
    b->info.root = json_flag(policy, "root");
    b->info.root_beside = json_flag(policy, "root_beside");
    if (!json_get(policy, "commands"))
        return 0;
    if (!b->rules && !(b->rules = calloc(1, sizeof *b->rules)))
        return err_memory(err);
    return command_rules_read(b->rules, policy, err);
}

void box_on_ready(struct box *b, struct wire_msg *m, const struct json *tree)
{
    struct err err = ERR_INIT;
    if (b->info.state != BOX_PROVISIONING)
        return;
    /* Rules that cannot be read are no reason to have none. */
    if (take_policy(b, json_get(tree, "policy"), &err) < 0) {
        box_fail(b, &err);
        return;
    }
    fault_point(FAULT_READY);
    loop_timer_cancel(b->core->loop, &b->timer);
    core_observe(b->core, "provision", clock_us() - b->launched_us);
    const struct json *pumped = json_get(tree, "pumped");
    b->pumped = pumped && json_type(pumped) == JSON_BOOL && json_bool(pumped);
    take_interpreter(b, m, tree);
    if (b->create) {
        create_box_ready(b->create);
    } else if (box_enter(b, BOX_IDLE, NULL) == 0) {
        pool_add(b);
    }
}

void box_on_claimed(struct box *b)
{
    if (box_enter(b, BOX_RUNNING, b->pooled ? "from the pool" : NULL) < 0)
        return;
    b->info.from_pool = b->pooled;
    b->touched_ms = loop_now_ms(b->core->loop);
    fault_point(FAULT_CLAIMED);
}

void box_on_frozen(struct box *b)
{
    if (box_enter(b, BOX_PAUSED, NULL) == 0)
        box_time_stop(b);
}

void box_on_thawed(struct box *b)
{
    box_enter(b, BOX_RUNNING, "resumed");
}

/* ---- going down ---- */

static void tell_warden(struct box *b)
{
    cleanup_buf struct buf text = {0};
    struct json_writer w;
    if (!peer_is_open(&b->warden))
        return;
    jw_begin(&w, &text, 512);
    jw_kv_string(&w, "reason", b->reason);
    jw_object_end(&w);
    fault_point(FAULT_END_BEFORE);
    int r = peer_send(&b->warden, WIRE_END, 0, 0, buf_text(&text), text.len);
    fault_point(FAULT_END_SENT);
    if (r < 0 && r != -EPIPE) /* one that has gone may have left its last words */
        peer_close(&b->warden, NULL);
}

static void begin_end(struct box *b, const char *reason)
{
    struct err why = ERR_INIT;
    snprintf(b->reason, sizeof b->reason, "%s", reason);
    err_set(&why, ERR_NOT_FOUND, "sandbox %s ended (%s)", b->info.id, b->reason);
    if (b->in_pool)
        pool_left(b);
    move(b, BOX_ENDING, reason);
    loop_timer_set(b->core->loop, &b->timer, END_MS);
    tell_warden(b);
    box_stop_work(b, &why);
    struct create *cr = b->create;
    b->create = NULL;
    if (cr)
        create_box_failed(cr, &why);
}

void box_end(struct box *b, const char *reason, box_done_fn *fn, void *ctx)
{
    if (fn)
        waiters_add(&b->waiters, fn, ctx);
    if (!is_over(b))
        begin_end(b, reason);
}

/* The failure is what who waits for the box is told, not the end that follows from it. */
void box_fail(struct box *b, const struct err *err)
{
    if (is_over(b))
        return;
    struct create *cr = b->create;
    b->create = NULL;
    bool of_pool = b->in_pool && !cr;
    move(b, BOX_ERROR, err->message);
    if (of_pool)
        pool_failed(b);
    begin_end(b, "error");
    if (cr)
        create_box_failed(cr, err);
}

void box_on_ended(struct box *b, const char *reason)
{
    b->ended = true;
    /* The warden knows better why it failed. */
    if (b->info.state == BOX_ENDING && strcmp(b->reason, "error") == 0)
        snprintf(b->reason, sizeof b->reason, "%s", reason);
    if (b->info.state == BOX_RUNNING || b->info.state == BOX_PAUSED) {
        begin_end(b, reason);
    } else if (!is_over(b)) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_SYSTEM, "the sandbox ended before it could be used (%.60s)", reason);
        box_fail(b, &err);
    }
}

/* Bounded (L-08, LC-13): first its socket is closed, which a warden that runs cannot overlook; one
 * that waits for what the code inside controls is killed, by who may; then who waits is told. The
 * box counts until it is really gone. */
void box_end_is_late(struct box *b)
{
    struct err err = ERR_INIT;
    if (!b->end_late) {
        b->end_late = true;
        peer_close(&b->warden, NULL);
        loop_timer_set(b->core->loop, &b->timer, GONE_MS);
        return;
    }
    if (!b->killed) {
        const char *text = JSON_SMALL(JSON_TEXT("id", b->info.id));
        b->killed = true;
        box_record(b, "box.killed", NULL);
        peer_send(&b->core->launcher, WIRE_KILL, 0, 0, text, strlen(text));
        loop_timer_set(b->core->loop, &b->timer, KILLED_MS);
        return;
    }
    errno = ETIMEDOUT;
    err_sys(&err, "sandbox %s does not end", b->info.id);
    box_record(b, "box.stuck", NULL);
    waiters_tell(&b->waiters, &err);
}

static void explain_status(int64_t status, struct err *err)
{
    int s = (int)status;
    if (WIFSIGNALED(s))
        err_set(err, ERR_SYSTEM, "the sandbox's warden was killed by signal %d", WTERMSIG(s));
    else
        err_set(err, ERR_SYSTEM, "the sandbox's warden ended with status %d", WEXITSTATUS(s));
    err->sys_errno = ECONNRESET;
}

static void settle_accounts(struct box *b)
{
    struct core *c = b->core;
    core_count(c, COUNT_ENDED, 1);
    metrics_reason(c, b->reason);
    if (!b->info.owner)
        return;
    usual_see(b->tmpl, box_who(b), USUAL_DENIALS, (double)b->denials);
    if (b->ended) {
        usual_see(b->tmpl, box_who(b), USUAL_MEMORY, (double)b->memory_peak);
        usual_see(b->tmpl, box_who(b), USUAL_CPU, (double)b->cpu_usec);
    }
    quota_drop(c, b->info.owner);
}

void box_on_gone(struct box *b, int64_t wait_status)
{
    struct core *c = b->core;
    struct err err = ERR_INIT;
    if (b->info.state == BOX_GONE)
        return;
    /* The launcher's word may overtake the warden's last ones. */
    if (peer_is_open(&b->warden))
        peer_drain(&b->warden);
    explain_status(wait_status, &err);
    box_fail(b, &err); /* if it was not on its way out */
    if (b->info.state == BOX_ERROR)
        begin_end(b, "error");
    peer_close(&b->warden, &err);
    if (box_enter(b, BOX_GONE, b->reason) < 0)
        return;
    fault_point(FAULT_GONE);
    core_put(c, "boxes", b->info.id, NULL);
    settle_accounts(b);
    box_unlist(b);
    core_tidy_soon(c);
    while (b->waiters) /* somebody may ask for the end of it once more */
        waiters_tell(&b->waiters, NULL);
    create_slot_free(c);
    if (c->ready && !c->draining)
        pool_poke(b->tmpl);
    core_check_drained(c);
}
