/* A run's network: its brig-proxy from the start to the last event. */
#include "sandbox/egress.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "network/decide.h"
#include "sandbox/internal.h"
#include "trust/stores.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTEN_BACKLOG 512

/* The run's own copy of the rules: the policy belongs to the caller, the placeholders to this run.
 */
static int copy_egress(struct sandbox *s, struct err *err)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    struct json *root = NULL;
    buf_init(&text, 4u << 20);
    jw_init(&w, &text, false);
    egress_write_json(&s->request->policy->egress, &w);
    if (text.failed || json_parse(text.data, text.len, &json_default_limits, &root, err) < 0)
        return err_set(err, ERR_LIMIT, "the rules are too long");
    int r = egress_read_json(&s->egress, root, err);
    json_free(root);
    if (r == 0 && s->session) {
        s->egress.live = true;
        s->egress.asks = false; /* nobody would see the question */
    }
    return r < 0 ? r : egress_make_placeholders(&s->egress, err);
}

/* Tools that try again for a minute and more, though nothing can come of it; and what they do by
 * themselves, for when rules come while the sandbox lives. */
void sandbox_retry_variables(bool offline,
                             void (*set)(void *ctx, const char *name, const char *value), void *ctx)
{
    set(ctx, "npm_config_fetch_retries", offline ? "0" : "2");
    set(ctx, "PIP_RETRIES", offline ? "0" : "5");
}

/* Programs that know proxies use ours; the others are caught without knowing. */
void sandbox_proxy_variables(uint16_t port,
                             void (*set)(void *ctx, const char *name, const char *value), void *ctx)
{
    static const char *const proxies[] = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"};
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++)
        set(ctx, proxies[i], url);
    set(ctx, "NO_PROXY", "localhost,127.0.0.1,::1");
    set(ctx, "no_proxy", "localhost,127.0.0.1,::1");
}

void sandbox_egress_variables(const struct sandbox *s,
                              void (*set)(void *ctx, const char *name, const char *value),
                              void *ctx)
{
    sandbox_proxy_variables(s->network.proxy_port, set, ctx);
    if (s->session)
        sandbox_retry_variables(false, set, ctx);
    /* Without a network namespace there is no UDP: names are asked for over TCP. */
    if (!s->network.namespaced)
        set(ctx, "RES_OPTIONS", "use-vc");
}

/* v4-mapped v6 counts as v4. False: no address that could be meant. */
static bool read_asked(const struct sockaddr *sa, socklen_t len,
                       char address[static INET6_ADDRSTRLEN], uint16_t *port)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
    const void *bytes;
    int family = sa->sa_family;
    if (family == AF_INET && len >= sizeof *in) {
        bytes = &in->sin_addr;
        *port = ntohs(in->sin_port);
    } else if (family == AF_INET6 && len >= sizeof *in6) {
        bool mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
        family = mapped ? AF_INET : AF_INET6;
        bytes = mapped ? &in6->sin6_addr.s6_addr[12] : in6->sin6_addr.s6_addr;
        *port = ntohs(in6->sin6_port);
    } else {
        return false;
    }
    return inet_ntop(family, bytes, address, INET6_ADDRSTRLEN) && *port;
}

/* Process tier: what the code wanted to connect to, and our end of what it got instead. */
static int on_connected(void *ctx, int fd, const struct sockaddr *asked, socklen_t len)
{
    struct sandbox *s = ctx;
    char address[INET6_ADDRSTRLEN];
    uint16_t port;
    if (!read_asked(asked, len, address, &port))
        return -1;
    return link_connection(&s->link, fd, network_kind(&s->network, address, port), address, port);
}

/* Container tier: the kernel inside says "connection refused"; the log should say more. */
static bool is_unserved(void *ctx, const struct sockaddr *asked, socklen_t len)
{
    struct sandbox *s = ctx;
    char address[INET6_ADDRSTRLEN];
    uint16_t port;
    return read_asked(asked, len, address, &port) && !network_serves(&s->network, address, port);
}

static void on_refused(void *ctx, const struct sockaddr *asked, socklen_t len)
{
    struct sandbox *s = ctx;
    char address[INET6_ADDRSTRLEN];
    uint16_t port;
    if (!read_asked(asked, len, address, &port))
        return;
    if (s->network.allowlist) {
        link_refused(&s->link, address, port);
        return;
    }
    char what[96];
    struct target t = {.port = port};
    struct err ignored = ERR_INIT;
    snprintf(what, sizeof what, "connect to %s port %u", address, port);
    if (host_parse(address, strlen(address), false, &t.host, &ignored) == 0)
        sandbox_deny_place(s, what, &t);
}

static void set_variable(void *ctx, const char *name, const char *value)
{
    credentials_set(ctx, name, value);
}

static int open_network(struct sandbox *s, struct err *err)
{
    const struct policy *p = s->request->policy;
    return s->session && !s->stem
               ? network_open_prepared(&s->network, p, err)
               : network_open(&s->network, p, tier_namespaced(s->kernel.tier), err);
}

int sandbox_egress_open(struct sandbox *s, struct err *err)
{
    if (open_network(s, err) < 0)
        return err_number(err);
    struct network *n = &s->network;
    bool rules = n->allowlist || n->prepared;
    n->hears_names = !rules && n->namespaced && !s->stem;
    s->filesystem.resolver = rules || n->hears_names;
    s->kernel.unserved = is_unserved;
    s->kernel.refused = on_refused;
    s->kernel.connected_ctx = s;
    if (!n->allowlist && !s->stem)
        sandbox_retry_variables(true, set_variable, &s->credentials);
    if (!rules)
        return 0;
    if (copy_egress(s, err) < 0)
        return err_at(err, BOUNDARY_NETWORK);
    s->kernel.connected = on_connected;
    s->credentials.egress = &s->egress;
    if (s->network.allowlist)
        sandbox_egress_variables(s, set_variable, &s->credentials);
    return 0;
}

static int start_proxy(struct sandbox *s, struct err *err)
{
    /* As root a uid that is nobody's: not the sandbox's, and not one that other proxies share. */
    uid_t uid = s->kernel.privileged ? s->kernel.host_uid | KERNEL_UID_PROXY : 0;
    uint64_t cpus = s->request->policy->cpus_milli;
    struct link_config c = {.egress = &s->egress,
                            .values = s->request->values,
                            .cpus_milli = cpus < 1000 ? (uint32_t)cpus : 0,
                            .resolver = s->request->policy->resolver,
                            .uid = uid,
                            .learn = s->learner != NULL};
    int r = netlog_new(&s->netlog, err);
    if (r >= 0)
        r = link_start(&s->link, &c, err);
    run_values_wipe(s->request->values);
    if (r < 0)
        return err_number(err);
    if (s->learner)
        netlog_hear(s->netlog, learner_hear, s->learner);
    s->network.proxy_pid = s->link.pid;
    s->lifecycle.helpers[HELPER_PROXY] = s->link.pid;
    return 0;
}

int sandbox_egress_start(struct sandbox *s, struct err *err)
{
    if (!s->network.allowlist)
        return 0;
    if (start_proxy(s, err) < 0)
        return err_number(err);
    /* A session's network is seen and changed through the daemon. */
    if (!s->session)
        netrecord_open(&s->netrecord, s->id);
    return 0;
}

/* Where the proxy looks into TLS, its authority joins those that the sandbox trusts. */
int sandbox_egress_trust(struct sandbox *s, struct err *err)
{
    if (!s->network.allowlist || !egress_needs_ca(&s->egress))
        return 0;
    if (link_await(&s->link, s->signal_fd, err) < 0)
        return err_number(err);
    if (trust_build(buf_text(&s->link.ca), &s->trust_bundle, &s->trust_java, err) < 0)
        return err_at(err, BOUNDARY_CREDENTIALS);
    struct filesystem *fs = &s->filesystem;
    const struct buf *files[] = {&s->trust_bundle, &s->link.ca, &s->trust_java};
    static const char *const names[] = {"ca-bundle.pem", "authority.pem", "cacerts"};
    const char *paths[3];
    for (size_t i = 0; i < 3; i++)
        if (!(paths[i] = filesystem_show(fs, names[i], files[i]->data, files[i]->len, err)))
            return err_number(err);
    const char *place;
    bool java_covered = false;
    for (size_t i = 0; (place = trust_bundle_place(i)); i++)
        filesystem_cover(fs, paths[0], place);
    for (size_t i = 0; (place = trust_java_place(i)); i++)
        java_covered |= filesystem_cover(fs, paths[2], place);
    trust_environment(set_variable, &s->credentials, paths[0], paths[1],
                      java_covered ? NULL : paths[2]);
    return 0;
}

int sandbox_egress_await(struct sandbox *s, struct err *err)
{
    if (!s->network.allowlist)
        return 0;
    if (link_await(&s->link, s->signal_fd, err) < 0)
        return err_number(err);
    return s->session ? sandbox_egress_serve(s, err) : 0;
}

static int keep_quiet(struct sandbox *s, int fd, int32_t value, struct err *err)
{
    int copy = s->quiet_count < ARRAY_LEN(s->quiet) ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (copy < 0)
        return err_sys(err, "keep a socket of the sandbox");
    s->quiet[s->quiet_count++] = (struct quiet_socket){copy, value};
    return 0;
}

int sandbox_egress_serve(struct sandbox *s, struct err *err)
{
    int result = 0;
    for (; s->quiet_count; close(s->quiet[s->quiet_count].fd)) {
        const struct quiet_socket *q = &s->quiet[--s->quiet_count];
        enum channel_listener kind = (enum channel_listener)(q->value >> 16);
        if (kind != LISTENER_DNS_UDP && listen(q->fd, LISTEN_BACKLOG) < 0)
            result = err_sys(err, "listen inside the sandbox");
        else if (link_listener(&s->link, q->fd, kind, (uint16_t)q->value) < 0)
            result = err_set(err, ERR_SYSTEM, "brig-proxy died");
    }
    return result;
}

int sandbox_egress_listener(struct sandbox *s, int fd, int32_t value, struct err *err)
{
    if (network_take(&s->network, fd, value, err) < 0)
        return err_number(err);
    if (s->session)
        return keep_quiet(s, fd, value, err);
    if (s->network.hears_names) {
        s->names_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return s->names_fd < 0 ? err_sys(err, "keep a socket of the sandbox") : 0;
    }
    int r = link_listener(&s->link, fd, (enum channel_listener)(value >> 16), (uint16_t)value);
    /* It is gone: it may have said why. */
    return r < 0 ? link_await(&s->link, s->signal_fd, err) : 0;
}

static void on_message(void *ctx, const struct channel_msg *msg)
{
    struct sandbox *s = ctx;
    struct json *root = NULL;
    if (s->proxy_said)
        s->proxy_said(s->proxy_said_ctx, msg);
    if (msg->type == CH_EVENT) {
        netlog_add(s->netlog, msg->text, msg->text_len, &s->result->denials);
    } else if (msg->type == CH_REPLACED) {
        s->netrecord.written_us = 0;
        netrecord_write(&s->netrecord, s->netlog, &s->egress, false);
        netrecord_answer(&s->netrecord, true, msg->value, NULL);
    } else if (msg->type == CH_ASK) {
        sandbox_ask_begin(s, msg);
    } else if (msg->type == CH_FAIL) {
        netrecord_answer(&s->netrecord, false, 0, msg->err.message);
    } else if (msg->type == CH_BYE &&
               json_parse(msg->text, msg->text_len, &json_default_limits, &root, NULL) == 0) {
        const struct json *lost = json_get(root, "lost_events");
        if (lost && json_type(lost) == JSON_INT && json_int(lost) > 0)
            netlog_lost(s->netlog, (uint64_t)json_int(lost));
        json_free(root);
    }
}

/* A dead proxy is no way out: the listeners that it held are closed with it. */
static void on_death(struct sandbox *s)
{
    s->lifecycle.helpers[HELPER_PROXY] = 0; /* its number may be given to somebody else */
    denial_add(&s->result->denials, BOUNDARY_NETWORK, "every connection: brig-proxy died",
               "no proxy, no network", "run it again; if it happens again, report it");
    netrecord_answer(&s->netrecord, false, 0, "brig-proxy died");
}

static void hear_proxy(struct sandbox *s)
{
    int r = 0;
    for (int i = 0; i < 64 && (r = link_next(&s->link)) > 0; i++)
        on_message(s, s->link.msg);
    if (r < 0)
        on_death(s);
    if (netlog_changed(s->netlog))
        netrecord_write(&s->netrecord, s->netlog, &s->egress, false);
}

/* LC-11: each refusal is told by brig-proxy and read here. */
void sandbox_egress_events(struct sandbox *s)
{
    uint64_t before = clock_cpu_us();
    hear_proxy(s);
    s->lifecycle.helped_usec += clock_cpu_us() - before;
}

/* New rules from `brig net`: the secrets of the run stay, and so do their placeholders. */
void sandbox_egress_change(struct sandbox *s)
{
    struct egress fresh;
    struct err err = ERR_INIT;
    if (netrecord_accept(&s->netrecord, &fresh) <= 0)
        return;
    /* No rules at all: nothing from now on, asked or not. */
    if (fresh.rule_count > 0 && egress_ask_copy(&fresh, &s->egress, &err) < 0) {
        egress_done(&fresh);
        netrecord_answer(&s->netrecord, false, 0, err.message);
        return;
    }
    struct egress_secret *secrets = fresh.secrets;
    size_t count = fresh.secret_count;
    fresh.secrets = s->egress.secrets;
    fresh.secret_count = s->egress.secret_count;
    struct link_config c = {.egress = &fresh};
    if (s->link.fd < 0 || link_replace(&s->link, &c, &err) < 0) {
        netrecord_answer(&s->netrecord, false, 0, "brig-proxy does not take new rules");
        fresh.secrets = secrets;
        fresh.secret_count = count;
        egress_done(&fresh);
        return;
    }
    struct egress old = s->egress;
    s->egress = fresh;
    old.secrets = secrets;
    old.secret_count = count;
    egress_done(&old);
}

/* The secrets of the run stay, and so do their placeholders. */
static void take_rules(struct sandbox *s, struct egress *fresh)
{
    struct egress old = s->egress;
    struct egress_secret *secrets = fresh->secrets;
    size_t count = fresh->secret_count;
    fresh->secrets = old.secrets;
    fresh->secret_count = old.secret_count;
    s->egress = *fresh;
    old.secrets = secrets;
    old.secret_count = count;
    egress_done(&old);
    egress_init(fresh);
}

static int start_late(struct sandbox *s, struct err *err)
{
    if (start_proxy(s, err) < 0 || link_await(&s->link, s->signal_fd, err) < 0)
        return err_number(err);
    s->network.allowlist = true;
    return sandbox_egress_serve(s, err);
}

int sandbox_egress_replace(struct sandbox *s, struct egress *fresh, struct err *err)
{
    if (egress_needs_ca(fresh) && !s->trust_bundle.len) {
        err_set(err, ERR_UNSUPPORTED,
                "rules with methods or paths of https need the template to have some from the "
                "start: programs inside would not trust the certificates");
        err_hint(err, "name the host alone, or put the rule into the template");
        return err_at(err, BOUNDARY_NETWORK);
    }
    if (s->network.allowlist && s->link.fd < 0) {
        err_set(err, ERR_SYSTEM, "brig-proxy died: the sandbox has no network any more");
        return err_at(err, BOUNDARY_NETWORK);
    }
    bool late = !s->network.allowlist;
    if (late && fresh->rule_count == 0)
        return 0;
    take_rules(s, fresh);
    s->network.rules = (unsigned)s->egress.rule_count;
    struct link_config c = {.egress = &s->egress};
    return late ? start_late(s, err) : link_replace(&s->link, &c, err);
}

void sandbox_egress_end(struct sandbox *s)
{
    sandbox_ask_end(s);
    if (s->names_fd >= 0) /* the last ones, whose asker did not wait */
        sandbox_names_answer(s, s->names_fd);
    if (!s->network.allowlist || !s->netlog)
        return;
    link_end(&s->link, on_message, s);
    if (s->link.died)
        on_death(s);
    netrecord_answer(&s->netrecord, false, 0, "the run has ended");
    if (s->session || s->state.entered_us[STATE_EXECUTING])
        netrecord_write(&s->netrecord, s->netlog, &s->egress, true);
    else
        netrecord_forget(&s->netrecord);
}

void sandbox_egress_teardown(struct sandbox *s)
{
    sandbox_ask_end(s);
    while (s->quiet_count)
        close(s->quiet[--s->quiet_count].fd);
    if (s->names_fd >= 0)
        close(s->names_fd);
    s->names_fd = -1;
    link_done(&s->link);
    netrecord_done(&s->netrecord);
    credentials_teardown(&s->credentials);
    netlog_free(s->netlog);
    s->netlog = NULL;
    egress_done(&s->egress);
    buf_done(&s->trust_bundle);
    buf_done(&s->trust_java);
}
