/* The boundary's verbs on the host: plans the namespace and its listeners, takes them over, and
 * attests that there is no other way out. */
#include "network/network.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/landlock.h"
#include "os/procfs.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define LOCALHOST    "127.0.0.1"
#define GATEWAY_PORT 80
#define HTTPS_PORT   443
#define PROXY_PORT   3128

static bool has_port(const struct network *n, uint16_t port)
{
    for (unsigned i = 0; i < n->port_count; i++)
        if (n->ports[i] == port)
            return true;
    return false;
}

static void drop_port(struct network *n, uint16_t port)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < n->port_count; i++)
        if (n->ports[i] != port)
            n->ports[kept++] = n->ports[i];
    n->port_count = kept;
}

int network_open(struct network *n, const struct policy *p, bool namespaced, struct err *err)
{
    *n = (struct network){.namespaced = namespaced,
                          .allowlist = p->network_mode == NETWORK_ALLOWLIST};
    if (!n->allowlist)
        return 0;
    size_t count = egress_ports(&p->egress, n->ports, NETWORK_PORTS_MAX - 1);
    if (count > NETWORK_PORTS_MAX - 1) {
        err_set(err, ERR_LIMIT, "the rules name %zu different ports, at most %d can be served",
                count, NETWORK_PORTS_MAX - 1);
        return err_at(err, BOUNDARY_NETWORK);
    }
    n->port_count = (unsigned)count;
    n->rules = (unsigned)p->egress.rule_count;
    /* brig itself answers DNS on this port, whatever the rules say. */
    drop_port(n, NETWORK_DNS_PORT);
    if (!has_port(n, GATEWAY_PORT))
        n->ports[n->port_count++] = GATEWAY_PORT;
    for (n->proxy_port = PROXY_PORT; has_port(n, n->proxy_port);)
        n->proxy_port++;
    return 0;
}

int network_open_prepared(struct network *n, const struct policy *p, struct err *err)
{
    if (network_open(n, p, true, err) < 0)
        return err_number(err);
    n->prepared = true;
    if (!n->allowlist) {
        n->ports[n->port_count++] = GATEWAY_PORT;
        n->proxy_port = PROXY_PORT;
    }
    if (!has_port(n, HTTPS_PORT))
        n->ports[n->port_count++] = HTTPS_PORT;
    return 0;
}

static void listen_on(struct network *n, struct plan *plan, enum channel_listener kind,
                      const char *address, uint16_t port, bool udp)
{
    plan_add(plan, &(struct op){.kind = OP_NETWORK_LISTEN,
                                .a = address,
                                .num = {kind, port, udp, n->prepared}});
    n->listeners++;
}

static void plan_listeners(struct network *n, struct plan *plan)
{
    n->listeners = 0;
    plan_op(plan, OP_NETWORK_LOCAL);
    listen_on(n, plan, LISTENER_PROXY, LOCALHOST, n->proxy_port, false);
    listen_on(n, plan, LISTENER_DNS_UDP, NULL, NETWORK_DNS_PORT, true);
    listen_on(n, plan, LISTENER_DNS_TCP, NULL, NETWORK_DNS_PORT, false);
    for (unsigned i = 0; i < n->port_count; i++)
        listen_on(n, plan, LISTENER_TRANSPARENT, NULL, n->ports[i], false);
}

static void plan_names(struct network *n, struct plan *plan)
{
    n->listeners = 0;
    listen_on(n, plan, LISTENER_DNS_UDP, LOCALHOST, NETWORK_DNS_PORT, true);
}

int network_plan(struct network *n, enum plan_stage stage, struct plan *plan, struct err *err)
{
    (void)err;
    if (guard_left_out(GUARD_NS_NET))
        return 0;
    if (stage == STAGE_BIRTH && n->namespaced)
        plan_num(plan, OP_NETWORK_START, n->socket_buffer, 0, 0);
    if (stage == STAGE_RESTRICT && n->namespaced) {
        plan_op(plan, OP_NETWORK_JOIN);
        if (n->allowlist || n->prepared)
            plan_listeners(n, plan);
        else if (n->hears_names)
            plan_names(n, plan);
    }
    return 0;
}

void network_plan_guest(const struct network *n, struct plan *plan)
{
    struct network guest = *n; /* what is counted is what the supervisor is handed */
    guest.prepared = false;    /* there init listens from the beginning, and carries what comes */
    if (n->allowlist || n->prepared)
        plan_listeners(&guest, plan);
    else if (n->hears_names)
        plan_names(&guest, plan);
}

static int refuse(const char *what, struct err *err)
{
    err_set(err, ERR_ATTEST, "the sandbox's network namespace has %s", what);
    return err_at(err, BOUNDARY_NETWORK);
}

/* A socket belongs for ever to the namespace in which it was made; kernels before 5.14 do not say
 * to which. */
bool network_is_ours(int fd)
{
    uint64_t theirs, own;
    socklen_t len = sizeof theirs;
    cleanup_fd int mine = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &theirs, &len) == 0 && mine >= 0 &&
           getsockopt(mine, SOL_SOCKET, SO_NETNS_COOKIE, &own, &len) == 0 && theirs == own;
}

int network_take(struct network *n, int fd, int32_t value, struct err *err)
{
    unsigned kind = (uint32_t)value >> 16;
    if (!(n->allowlist || n->prepared || n->hears_names) || fd < 0 || kind >= LISTENER_KIND_COUNT ||
        n->listeners_seen >= n->listeners) {
        err_set(err, ERR_PROTOCOL, "init sent a listener that was not planned");
        return err_at(err, BOUNDARY_NETWORK);
    }
    if (network_is_ours(fd))
        return refuse("a listener that stands in the host's", err);
    n->listeners_seen++;
    return 0;
}

enum channel_listener network_kind(const struct network *n, const char *address, uint16_t port)
{
    if (port == n->proxy_port && strcmp(address, LOCALHOST) == 0)
        return LISTENER_PROXY;
    return port == NETWORK_DNS_PORT ? LISTENER_DNS_TCP : LISTENER_TRANSPARENT;
}

bool network_serves(const struct network *n, const char *address, uint16_t port)
{
    bool loopback = text_begins(address, "127.") || strcmp(address, "::1") == 0;
    return loopback || (n->allowlist && (port == NETWORK_DNS_PORT || has_port(n, port)));
}

/* "Inter-| …", " face |…", then one line per interface. */
static bool only_loopback(const char *text)
{
    const char *line = strchr(text, '\n');
    line = line ? strchr(line + 1, '\n') : NULL;
    for (; line && line[1]; line = strchr(line + 1, '\n')) {
        const char *name = line + 1 + strspn(line + 1, " ");
        if (!text_begins(name, "lo:"))
            return false;
    }
    return true;
}

/* N-1, seen from outside: one interface, and no route (the local table does not show here). */
static int attest_namespace(struct network *n, pid_t pid, struct err *err)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/net/dev", pid);
    if (file_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return refuse("an unreadable list of interfaces", err);
    if (!only_loopback(text))
        return refuse("an interface other than loopback", err);
    snprintf(path, sizeof path, "/proc/%d/net/route", pid);
    if (file_read(AT_FDCWD, path, text, sizeof text) < 0)
        return refuse("an unreadable list of routes", err);
    const char *second = strchr(text, '\n');
    if (second && second[1])
        return refuse("a route", err);
    return n->listeners_seen == n->listeners ? 0 : refuse("listeners missing", err);
}

/* What brig-proxy said of itself, looked at from outside: it must have given everything away. */
static int attest_proxy(struct network *n, struct evidence *out, struct err *err)
{
    struct proc_status st;
    if (procfs_status(n->proxy_pid, &st, err) < 0)
        return err_at(err, BOUNDARY_NETWORK);
    if (!st.no_new_privs || st.seccomp != 2 || st.cap_eff || st.cap_prm) {
        err_set(err, ERR_ATTEST, "brig-proxy is not sealed (seccomp %u, no-new-privs %u)",
                (unsigned)st.seccomp, (unsigned)st.no_new_privs);
        return err_at(err, BOUNDARY_NETWORK);
    }
    jw_key(out->w, "proxy");
    jw_object_begin(out->w);
    evidence_bool(out, "no_new_privs", true);
    evidence_string(out, "seccomp", "filter");
    evidence_uint(out, "capabilities", 0);
    evidence_uint(out, "uid", st.uid[1]);
    jw_object_end(out->w);
    return 0;
}

/* Exactly what the container tier has and this one has not. */
static void write_weaker(struct evidence *out)
{
    evidence_string(out, "second_layer",
                    landlock_abi() >= 4 ? "Landlock refuses TCP to the code itself"
                                        : "none: this kernel's Landlock does not know TCP");
    evidence_string(out, "weaker",
                    "no network namespace: TCP only, no listening; the system call "
                    "filter keeps the code off the host's network");
}

int network_attest(struct network *n, pid_t pid, struct evidence *out, struct err *err)
{
    if (n->namespaced && !guard_unattested(GUARD_NS_NET) && attest_namespace(n, pid, err) < 0)
        return err_number(err);
    evidence_string(out, "mode", n->allowlist ? "allowlist" : "off");
    evidence_string(out, "interfaces",
                    n->namespaced  ? "lo"
                    : n->allowlist ? "none usable: each connection is made by the supervisor"
                                   : "none usable: no network socket can be made");
    evidence_uint(out, "routes", 0);
    if (n->prepared && !n->allowlist)
        evidence_uint(out, "sockets_nobody_listens_on", n->listeners_seen);
    if (!n->allowlist)
        return 0;
    evidence_uint(out, "rules", n->rules);
    evidence_uint(out, "listeners", n->listeners_seen);
    if (!n->namespaced)
        write_weaker(out);
    return attest_proxy(n, out, err);
}
