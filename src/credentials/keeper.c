/* The parent's side of the keeper, and the messages. */
#include "credentials/keeper.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "credentials/keeper_message.h"
#include "os/environ.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const struct keeper_transport *transport;

void keeper_use_transport(const struct keeper_transport *t)
{
    transport = t;
}

/* ---- messages ---- */

int keeper_send(int fd, enum keeper_type type, size_t index, uint64_t lifetime_ms, const void *data,
                size_t len)
{
    struct keeper_message m = {
        .magic = KEEPER_MAGIC,
        .type = type,
        .index = (uint32_t)index,
        .len = (uint32_t)len,
        .lifetime_ms = lifetime_ms,
    };
    if (len > sizeof m.payload)
        return -EMSGSIZE;
    if (len > 0)
        memcpy(m.payload, data, len);
    ssize_t sent;
    do
        sent = send(fd, &m, KEEPER_HEAD + len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    int result = sent < 0 ? -errno : 0;
    secret_wipe(&m, sizeof m);
    return result;
}

bool keeper_message_ok(const struct keeper_message *m, size_t got, bool from_keeper)
{
    if (got < KEEPER_HEAD || m->magic != KEEPER_MAGIC || m->index >= EGRESS_SECRETS_MAX ||
        m->len != got - KEEPER_HEAD)
        return false;
    switch (m->type) {
    case KEEPER_ASK:
        return !from_keeper && m->len == 0;
    case KEEPER_VALUE:
        return from_keeper && m->len >= SECRET_MIN && m->len <= SECRET_MAX;
    case KEEPER_FAILED:
    case KEEPER_BYE:
        return from_keeper && m->len == sizeof(struct err);
    default:
        return false;
    }
}

static void read_error(const struct keeper_message *m, struct err *err)
{
    struct err got;
    memcpy(&got, m->payload, sizeof got);
    got.message[sizeof got.message - 1] = '\0';
    got.hint[sizeof got.hint - 1] = '\0';
    if (got.code != ERR_NONE && !err_code_known(got.code))
        got.code = ERR_PROTOCOL;
    got.boundary = BOUNDARY_CREDENTIALS;
    if (err)
        *err = got;
}

static int read_value(const struct keeper_message *m, struct secret **ret, struct err *err)
{
    if (secret_new(m->payload, m->len, ret, err) < 0)
        return err_number(err);
    secret_set_lifetime(*ret, m->lifetime_ms);
    return 0;
}

/* ---- asking ---- */

int keeper_ask(int fd, size_t i, struct err *err)
{
    int r = keeper_send(fd, KEEPER_ASK, i, 0, NULL, 0);
    errno = -r;
    return r < 0 ? err_sys(err, "ask the keeper") : 0;
}

int keeper_answer(int fd, size_t *ret_index, struct secret **ret, struct err *err)
{
    struct keeper_message m;
    *ret = NULL;
    ssize_t got = recv(fd, &m, sizeof m, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return -EAGAIN;
    if (got <= 0 || !keeper_message_ok(&m, (size_t)got, true))
        return 0;
    int result = 1;
    *ret_index = m.index;
    if (m.type == KEEPER_VALUE)
        read_value(&m, ret, err); /* where it fails err says so, as if the source had */
    else
        read_error(&m, err);
    if (m.type == KEEPER_BYE)
        result = 0;
    secret_wipe(&m, sizeof m);
    return result;
}

void keeper_end(int fd)
{
    shutdown(fd, SHUT_WR);
}

/* ---- the environment ---- */

static const struct {
    const char *name;
    bool credential;
} vault_variables[] = {
    {"VAULT_ADDR", false}, {"VAULT_NAMESPACE", false}, {"VAULT_CACERT", false},
    {"VAULT_TOKEN", true}, {"VAULT_ROLE_ID", true},    {"VAULT_SECRET_ID", true},
};

static bool any_source(const struct egress *e, const char *prefix)
{
    for (size_t i = 0; i < e->secret_count; i++)
        if (text_begins(e->secrets[i].source, prefix))
            return true;
    return false;
}

static void each_variable(const struct egress *e, bool credentials_only,
                          void (*fn)(void *ctx, const char *name), void *ctx)
{
    for (size_t i = 0; i < e->secret_count; i++)
        if (text_begins(e->secrets[i].source, "env:"))
            fn(ctx, e->secrets[i].source + 4);
    for (size_t i = 0; any_source(e, "vault:") && i < ARRAY_LEN(vault_variables); i++)
        if (vault_variables[i].credential || !credentials_only)
            fn(ctx, vault_variables[i].name);
    if (any_source(e, "cmd:") && !credentials_only) {
        fn(ctx, "PATH");
        fn(ctx, "HOME");
    }
}

void keeper_variables(const struct egress *e, void (*fn)(void *ctx, const char *name), void *ctx)
{
    each_variable(e, false, fn, ctx);
}

/* PATH and HOME stay, because helper programs need them; nobody keeps a real secret there. */
static void wipe_one(void *ctx, const char *name)
{
    (void)ctx;
    if (strcmp(name, "PATH") != 0 && strcmp(name, "HOME") != 0)
        environment_wipe(name);
}

void keeper_wipe_environment(const struct egress *e)
{
    each_variable(e, true, wipe_one, NULL);
}

/* ---- the start ---- */

int keeper_start(const struct egress *e, pid_t *ret_pid, int *ret_fd, struct err *err)
{
    int pair[2];
    if (e->secret_count > EGRESS_SECRETS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d secrets", EGRESS_SECRETS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, "socketpair for the keeper");
    cleanup_fd int ours = pair[0];
    cleanup_fd int theirs = pair[1];
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, "the keeper's socket");
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, "fork the keeper");
    if (pid == 0)
        keeper_main(e, theirs, transport);
    keeper_wipe_environment(e);
    *ret_pid = pid;
    *ret_fd = fd_steal(&ours);
    return 0;
}
