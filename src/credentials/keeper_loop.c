/* The keeper itself. One thing after another: answers questions, and renews in time what has an
 * end. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "credentials/keeper_message.h"
#include "credentials/source.h"
#include "credentials/vault.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define RETRY_MS 5000
#define NEVER    UINT64_MAX

struct slot {
    struct secret *value; /* env: and vault: sources; else it is fetched when it is asked for */
    struct vault_lease *lease; /* shared by all slots of one path */
    bool asked;                /* once: news are told */
    bool lost;                 /* and that was told */
    uint64_t due_ms;           /* to be renewed at */
    uint64_t ends_ms;          /* what the parent has ends at */
    struct err env_error;      /* why there is no value of a variable */
};

struct keeper {
    const struct egress *e;
    struct vault *vault;
    struct err vault_error;
    struct slot slots[EGRESS_SECRETS_MAX];
};

static uint64_t now_ms(void)
{
    return clock_us() / 1000;
}

static const char *after(const char *source, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(source, prefix, len) == 0 ? source + len : NULL;
}

/* ---- telling ---- */

static void tell_value(struct keeper *k, size_t i, const struct secret *value)
{
    struct slot *s = &k->slots[i];
    size_t len;
    const char *bytes = secret_expose(value, &len);
    uint64_t left = secret_lifetime_left(value);
    s->lost = false;
    s->due_ms = left == SECRET_FOREVER ? NEVER : now_ms() + left / 3 * 2;
    s->ends_ms = left == SECRET_FOREVER ? NEVER : now_ms() + left;
    keeper_send(KEEPER_FD, KEEPER_VALUE, i, left, bytes, len);
}

static void tell_failure(struct keeper *k, size_t i, const struct err *why)
{
    k->slots[i].lost = true;
    k->slots[i].ends_ms = NEVER;
    keeper_send(KEEPER_FD, KEEPER_FAILED, i, 0, why, sizeof *why);
}

/* ---- fetching ---- */

static uint64_t lifetime_of(const struct keeper *k, size_t i)
{
    const struct vault_lease *lease = k->slots[i].lease;
    uint64_t ttl = k->e->secrets[i].ttl_ms, lease_ms = lease ? lease->lifetime_ms : SECRET_FOREVER;
    return ttl < lease_ms ? ttl : lease_ms;
}

static int fetch_env(struct keeper *k, size_t i, struct err *err)
{
    struct slot *s = &k->slots[i];
    if (!s->value) {
        *err = s->env_error;
        return err_number(err);
    }
    if (!secret_expired(s->value)) {
        tell_value(k, i, s->value);
        s->due_ms = NEVER;
        return 0;
    }
    secret_free(s->value);
    s->value = NULL;
    err_set(&s->env_error, ERR_REFUSED,
            "the time of the value is over, and a variable cannot be read again");
    *err = s->env_error;
    return err_number(err);
}

static int fetch_plain(struct keeper *k, size_t i, struct err *err)
{
    const char *source = k->e->secrets[i].source, *rest;
    cleanup_secret struct secret *value = NULL;
    int r = (rest = after(source, "file:"))  ? source_file(rest, &value, err)
            : (rest = after(source, "cmd:")) ? source_cmd(rest, KEEPER_FD, &value, err)
                                             : err_set(err, ERR_REFUSED, "unknown source");
    if (r < 0)
        return r;
    secret_set_lifetime(value, lifetime_of(k, i));
    tell_value(k, i, value);
    return 0;
}

/* "PATH#FIELD" */
static size_t path_len(const char *place)
{
    return strcspn(place, "#");
}

static bool same_path(const struct keeper *k, size_t i, const char *place)
{
    const char *other = after(k->e->secrets[i].source, "vault:");
    return other && path_len(other) == path_len(place) &&
           strncmp(other, place, path_len(place)) == 0;
}

static int take_field(struct keeper *k, size_t i, const struct json *reply, struct err *err)
{
    const char *place = after(k->e->secrets[i].source, "vault:"), *text;
    const char *field = place + path_len(place);
    char number[VAULT_NUMBER_SIZE];
    struct secret *value;
    if (*field != '#')
        return err_set(err, ERR_REFUSED, "no field is named");
    if (vault_parse_field(reply, field + 1, number, &text, err) < 0 ||
        secret_new(text, strlen(text), &value, err) < 0)
        return err_number(err);
    secret_set_lifetime(value, lifetime_of(k, i));
    secret_free(k->slots[i].value);
    k->slots[i].value = value;
    return 0;
}

static int read_path(struct keeper *k, const char *place, struct json **ret,
                     struct vault_lease **ret_lease, struct err *err)
{
    cleanup_free char *path = strndup(place, path_len(place));
    if (!path)
        return err_memory(err);
    for (const char *c = path; *c; c++)
        if (*c <= ' ' || *c >= 0x7f || strchr("?%\\", *c))
            return err_set(err, ERR_REFUSED, "a path that cannot be asked for");
    return vault_fetch(k->vault, path, ret, ret_lease, err);
}

/* All secrets of one path come from one answer: a user name and its password belong together. Those
 * that were asked for before are told. */
static int fetch_vault(struct keeper *k, size_t i, struct err *err)
{
    const char *place = after(k->e->secrets[i].source, "vault:");
    struct vault_lease *lease, *old = k->slots[i].lease;
    struct json *reply;
    int result = 0;
    if (!k->vault) {
        *err = k->vault_error;
        return err_number(err);
    }
    if (read_path(k, place, &reply, &lease, err) < 0)
        return err_number(err);
    for (size_t n = 0; n < k->e->secret_count; n++) {
        struct err why = ERR_INIT;
        if (!same_path(k, n, place))
            continue;
        k->slots[n].lease = lease;
        int r = take_field(k, n, reply, &why);
        if (r < 0)
            err_wrap(&why, "%s", k->e->secrets[n].source);
        if (n == i && r < 0) {
            *err = why;
            result = r;
        } else if (n == i || k->slots[n].asked) {
            r < 0 ? tell_failure(k, n, &why) : tell_value(k, n, k->slots[n].value);
        }
    }
    vault_json_wipe(reply);
    if (old)
        vault_revoke(k->vault, old, NULL);
    return result;
}

/* The first question for the second field of a path that was read already. */
static bool tell_from_same_path(struct keeper *k, size_t i)
{
    struct slot *s = &k->slots[i];
    if (s->asked || !s->value || secret_expired(s->value))
        return false;
    tell_value(k, i, s->value);
    return true;
}

/* Tells the value, or says why not. */
static int fetch(struct keeper *k, size_t i, struct err *err)
{
    const char *source = k->e->secrets[i].source;
    if (after(source, "env:"))
        return fetch_env(k, i, err);
    if (after(source, "vault:"))
        return tell_from_same_path(k, i) ? 0 : fetch_vault(k, i, err);
    return fetch_plain(k, i, err);
}

static void answer(struct keeper *k, size_t i)
{
    struct err why = ERR_INIT;
    if (fetch(k, i, &why) < 0) {
        tell_failure(k, i, &why);
        k->slots[i].due_ms = NEVER; /* whoever wants it asks again */
    }
    k->slots[i].asked = true;
}

/* ---- renewing ---- */

/* The same value for longer. False: a new one is needed. */
static bool renew_lease(struct keeper *k, size_t i)
{
    struct vault_lease *lease = k->slots[i].lease;
    if (!k->vault || !lease || !lease->renewable || vault_outlived(k->vault, lease) ||
        k->e->secrets[i].ttl_ms < lease->lifetime_ms || !k->slots[i].value ||
        vault_renew(k->vault, lease, NULL) < 0)
        return false;
    /* Near the most that Vault allows it gives less and less. */
    if (lease->lifetime_ms / 1000 <= lease->asked_s / 2)
        return false;
    for (size_t n = 0; n < k->e->secret_count; n++) {
        struct slot *s = &k->slots[n];
        if (s->lease != lease || !s->value)
            continue;
        secret_set_lifetime(s->value, lifetime_of(k, n));
        if (s->asked)
            tell_value(k, n, s->value);
    }
    return true;
}

static void renew(struct keeper *k, size_t i)
{
    struct slot *s = &k->slots[i];
    struct err why = ERR_INIT;
    if (renew_lease(k, i))
        return;
    int r = after(k->e->secrets[i].source, "vault:") ? fetch_vault(k, i, &why)
                                                     : fetch_plain(k, i, &why);
    if (r == 0)
        return;
    uint64_t now = now_ms();
    if (now >= s->ends_ms) {
        tell_failure(k, i, &why);
        secret_free(s->value);
        s->value = NULL;
    }
    /* Again soon, and once more when it ends. */
    s->due_ms = now + RETRY_MS < s->ends_ms || s->ends_ms <= now ? now + RETRY_MS : s->ends_ms;
}

static uint64_t next_due(const struct keeper *k)
{
    uint64_t due = vault_due_ms(k->vault);
    for (size_t i = 0; i < k->e->secret_count; i++)
        if (k->slots[i].asked && k->slots[i].due_ms < due)
            due = k->slots[i].due_ms;
    return due;
}

static void renew_all(struct keeper *k)
{
    if (vault_due_ms(k->vault) <= now_ms())
        vault_renew_token(k->vault);
    bool old = false;
    for (size_t i = 0; i < k->e->secret_count; i++) {
        struct slot *s = &k->slots[i];
        if (s->asked && (s->due_ms <= now_ms() || (s->lease && vault_outlived(k->vault, s->lease))))
            renew(k, i);
        old |= s->lease && vault_outlived(k->vault, s->lease);
    }
    if (k->vault && !old)
        vault_drop_old(k->vault);
}

/* ---- life ---- */

static void detach(int fd)
{
    static const int ignored[] = {SIGINT, SIGHUP, SIGQUIT, SIGTERM, SIGPIPE};
    sigset_t none;
    setsid(); /* a terminal that goes, or its interrupt key, must not end it: there is work at the
                 end */
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (fd != KEEPER_FD && dup2(fd, KEEPER_FD) < 0)
        _exit(1);
    fcntl(KEEPER_FD, F_SETFD, FD_CLOEXEC);
    /* A parent that does not read must not keep it from its work. */
    struct timeval patience = {.tv_sec = 2};
    setsockopt(KEEPER_FD, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        _exit(1);
    if (sys_close_range(KEEPER_FD + 1, ~0u, 0) < 0)
        _exit(1);
}

/* Root without capabilities still reads what belongs to root, which is all that it reads. */
static void hide(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct nothing[2] = {{0}};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &head, nothing) < 0)
        _exit(1);
    prctl(PR_SET_NAME, "brig-keeper");
}

/* Everything that is in the environment is read now, and then it is gone. */
static void read_environment(struct keeper *k, const struct keeper_transport *t)
{
    for (size_t i = 0; i < k->e->secret_count; i++) {
        const char *source = k->e->secrets[i].source, *name = after(source, "env:");
        if (name && source_env(name, &k->slots[i].value, &k->slots[i].env_error) == 0)
            secret_set_lifetime(k->slots[i].value, k->e->secrets[i].ttl_ms);
        if (after(source, "vault:") && !k->vault && k->vault_error.code == ERR_NONE)
            vault_new(t, KEEPER_FD, &k->vault, &k->vault_error);
    }
    keeper_wipe_environment(k->e);
}

/* One question. False: there are no more. */
static bool serve(struct keeper *k)
{
    struct keeper_message m;
    ssize_t got = recv(KEEPER_FD, &m, sizeof m, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0 || !keeper_message_ok(&m, (size_t)got, false) || m.index >= k->e->secret_count)
        return false;
    answer(k, m.index);
    return true;
}

static void run(struct keeper *k)
{
    for (;;) {
        uint64_t now = now_ms(), due = next_due(k);
        int wait = due == NEVER        ? -1
                   : due <= now        ? 0
                   : due - now > 60000 ? 60000
                                       : (int)(due - now);
        struct pollfd p = {KEEPER_FD, POLLIN, 0};
        int r = poll(&p, 1, wait);
        if (r < 0 && errno != EINTR)
            return;
        if (r > 0 && !serve(k))
            return;
        renew_all(k);
    }
}

void keeper_main(const struct egress *e, int fd, const struct keeper_transport *t)
{
    struct keeper k = {.e = e};
    struct err why = ERR_INIT;
    detach(fd);
    hide();
    read_environment(&k, t);
    run(&k);
    for (size_t i = 0; i < e->secret_count; i++)
        secret_free(k.slots[i].value);
    vault_end(k.vault, &why);
    keeper_send(KEEPER_FD, KEEPER_BYE, 0, 0, &why, sizeof why);
    _exit(0);
}
