/* The network of a living sandbox: nothing, until there are rules; then brig-proxy. */
#include "base/cleanup.h"
#include "base/container.h"
#include "policy/egress/live.h"
#include "warden/session.h"

#include <string.h>
#include <sys/socket.h>

static void set_variable(void *ctx, const char *name, const char *value)
{
    struct warden *w = ctx;
    environment_set(&w->env, name, value);
}

/* Without rules nobody is there to ask; an answer at once is better than a time-out. */
static void on_question(struct loop_io *io, uint32_t events)
{
    struct warden *w = container_of(io, struct warden, dns);
    (void)events;
    sandbox_names_answer(w->s, io->fd);
    watch_tell(w, false);
}

/* Those that asked no later than this. */
static void settled(struct warden *w, uint32_t sync)
{
    unsigned kept = 0;
    watch_tell(w, true);
    for (unsigned i = 0; i < w->settle_count; i++)
        if ((int32_t)(w->settles[i].sync - sync) <= 0)
            warden_done(w, w->settles[i].request, 0, NULL, 0, NULL, 0);
        else
            w->settles[kept++] = w->settles[i];
    w->settle_count = kept;
}

/* Refused calls and names are told by this process itself, before the code goes on; what brig-proxy
 * decides comes over a socket, in its order. So does its answer to this. How long that may take is
 * the front's to say. */
void rules_settle(struct warden *w, uint32_t request)
{
    struct settle *next = &w->settles[w->settle_count];
    if (w->settle_count == SETTLES_MAX || link_sync(&w->s->link, ++w->last_sync) < 0) {
        watch_tell(w, true);
        warden_done(w, request, 0, NULL, 0, NULL, 0);
        return;
    }
    *next = (struct settle){w->last_sync, request};
    w->settle_count++;
}

static void on_proxy(struct loop_io *io, uint32_t events)
{
    struct warden *w = container_of(io, struct warden, proxy);
    (void)events;
    sandbox_egress_events(w->s);
    watch_tell(w, false);
    if (w->s->link.fd >= 0)
        return;
    loop_forget(w->loop, io); /* brig-proxy died */
    settled(w, w->last_sync);
    if (w->network_pending) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_SYSTEM, "brig-proxy died");
        w->network_pending = false;
        warden_fail(w, w->network_request, &err);
    }
}

static void on_said(void *ctx, const struct channel_msg *msg)
{
    struct warden *w = ctx;
    if (msg->type == CH_EVENT)
        watch_allowed(w, msg->text, msg->text_len);
    if (msg->type == CH_SYNCED)
        settled(w, msg->value);
    if (!w->network_pending || (msg->type != CH_REPLACED && msg->type != CH_FAIL))
        return;
    w->network_pending = false;
    if (msg->type == CH_REPLACED)
        warden_done(w, w->network_request, msg->value, NULL, 0, NULL, 0);
    else
        warden_fail(w, w->network_request, &msg->err);
}

void rules_watch(struct warden *w)
{
    struct sandbox *s = w->s;
    int dns = -1;
    for (unsigned i = 0; i < s->quiet_count; i++)
        if (s->quiet[i].value >> 16 == LISTENER_DNS_UDP)
            dns = s->quiet[i].fd;
    loop_forget(w->loop, &w->dns);
    warden_watch(w, &w->dns, dns, on_question);
    loop_forget(w->loop, &w->proxy);
    warden_watch(w, &w->proxy, s->link.fd, on_proxy);
    s->proxy_said = on_said;
    s->proxy_said_ctx = w;
}

/* True: brig-proxy has been told and will answer. */
static int replace(struct warden *w, const struct json *network, bool *ret_told, struct err *err)
{
    struct sandbox *s = w->s;
    struct egress fresh;
    egress_init(&fresh);
    int result = egress_live(&s->request->policy->egress, network, &fresh, err);
    *ret_told = s->network.allowlist;
    loop_forget(w->loop, &w->dns); /* before its socket changes hands */
    w->dns.fd = -1;
    if (result == 0)
        result = sandbox_egress_replace(s, &fresh, err);
    egress_done(&fresh);
    rules_watch(w);
    if (result == 0 && s->network.allowlist)
        sandbox_egress_variables(s, set_variable, w);
    return result < 0 ? err_at(err, BOUNDARY_NETWORK) : 0;
}

static bool is_null(const struct json *j)
{
    return !j || json_type(j) == JSON_NULL;
}

int rules_claim(struct warden *w, const struct json *network, struct err *err)
{
    bool told;
    /* As the template says, or nothing. */
    return is_null(network) ? 0 : replace(w, network, &told, err);
}

int rules_change(struct warden *w, const struct wire_msg *msg, const struct json *j,
                 struct err *err)
{
    bool told;
    if (w->network_pending)
        return err_set(err, ERR_REFUSED, "other rules are on their way");
    if (replace(w, j, &told, err) < 0)
        return err_number(err);
    w->network_pending = told;
    w->network_request = msg->request;
    if (!told)
        warden_done(w, msg->request, 0, NULL, 0, NULL, 0);
    return 0;
}
