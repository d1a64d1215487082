/* The keeper's client of HashiCorp Vault: logs in, fetches secrets, renews leases and revokes them
 * at the end. */
#include "credentials/vault.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quote.h"
#include "credentials/swap.h"
#include "credentials/vault_http.h"
#include "http/url.h"

#include <string.h>

#define LEASES_MAX 128
#define END_MS     7000
#define BODY_MAX   (256u * 1024)

struct vault {
    struct vault_server server;
    struct secret *token;
    struct secret *role_id, *secret_id; /* AppRole; else NULL */
    unsigned login;                     /* how many there were */
    struct secret *old_token;           /* of the login before */
    uint64_t token_due_ms;
    bool token_renewable;
    struct vault_lease leases[LEASES_MAX];
};

static uint64_t now_ms(void)
{
    return clock_us() / 1000;
}

/* ---- calls ---- */

/* Vault's own words are left out: they could repeat what was sent. */
static int status_error(int status, const char *path, struct err *err)
{
    struct quoted q;
    const char *where = quote(&q, path);
    if (status < 0)
        return err_number(err);
    if (status >= 300 && status < 400) {
        err_set(err, ERR_REFUSED, "Vault answers with a redirect, which is not followed");
        return err_hint(err, "let VAULT_ADDR name the active server");
    }
    switch (status) {
    case 400:
        return err_set(err, ERR_REFUSED, "Vault does not accept the request for %s", where);
    case 403:
        err_set(err, ERR_REFUSED, "Vault's token has no right to %s", where);
        return err_hint(err, "its policy must allow that path");
    case 404:
        return err_set(err, ERR_REFUSED, "Vault has nothing at %s", where);
    case 503:
        return err_set(err, ERR_SYSTEM, "Vault is sealed or not ready");
    default:
        return err_set(err, ERR_SYSTEM, "Vault answers %s with status %d", where, status);
    }
}

/* One call; the reply as a tree where ret is not NULL. */
static int call(struct vault *v, const char *method, const char *path, const struct secret *token,
                const struct buf *body, struct json **ret, struct err *err)
{
    struct buf reply cleanup_wiped;
    buf_init(&reply, BODY_MAX);
    buf_room(&reply, 16384);
    struct vault_request q = {
        .method = method,
        .path = path,
        .token = token,
        .body = body ? buf_text(body) : NULL,
        .body_len = body ? body->len : 0,
    };
    int status = vault_call(&v->server, &q, &reply, err);
    if (status < 200 || status > 299) {
        status_error(status, path, err);
        return status == 403 ? -403 : -1;
    }
    return ret ? vault_parse(buf_text(&reply), reply.len, ret, err) : 0;
}

static const struct buf *empty_object(void)
{
    static char text[] = "{}";
    static struct buf body = {.data = text, .len = 2};
    return &body;
}

static void add_secret(struct json_writer *w, const char *key, const struct secret *s)
{
    size_t len;
    const char *bytes = secret_expose(s, &len);
    jw_key(w, key);
    jw_bytes(w, bytes, len);
}

/* ---- the token ---- */

static int take_token(struct vault *v, const struct json *reply, struct err *err)
{
    const char *text;
    struct vault_terms terms;
    struct secret *token;
    if (vault_parse_auth(reply, &text, &terms, err) < 0 ||
        secret_new(text, strlen(text), &token, err) < 0)
        return err_number(err);
    secret_free(v->token);
    v->token = token;
    v->token_renewable = terms.renewable;
    v->token_due_ms = terms.seconds ? now_ms() + terms.seconds * 1000 * 2 / 3 : UINT64_MAX;
    return 0;
}

static int log_in(struct vault *v, struct err *err)
{
    struct buf body cleanup_wiped;
    buf_init(&body, 4 * SECRET_MAX);
    buf_room(&body, 2 * SECRET_MAX);
    struct json_writer w;
    jw_init(&w, &body, false);
    jw_object_begin(&w);
    add_secret(&w, "role_id", v->role_id);
    add_secret(&w, "secret_id", v->secret_id);
    jw_object_end(&w);
    struct json *reply = NULL;
    int r = call(v, "POST", "auth/approle/login", NULL, &body, &reply, err);
    struct secret *before = v->token;
    v->token = NULL;
    if (r == 0)
        r = take_token(v, reply, err);
    vault_json_wipe(reply);
    if (r < 0) {
        v->token = before;
    } else {
        secret_free(v->old_token);
        v->old_token = before;
        v->login++;
    }
    return r < 0 ? err_wrap(err, "log in to Vault") : 0;
}

/* Was the token itself refused, and not only this path? */
static bool token_is_dead(struct vault *v)
{
    return call(v, "GET", "auth/token/lookup-self", v->token, NULL, NULL, NULL) == -403;
}

/* With a token; a login's that is no longer known is replaced once. */
static int call_as_us(struct vault *v, const char *method, const char *path, const struct buf *body,
                      struct json **ret, struct err *err)
{
    bool fresh = !v->token;
    if (fresh && log_in(v, err) < 0)
        return err_number(err);
    int r = call(v, method, path, v->token, body, ret, err);
    if (r == -403 && v->role_id && !fresh && token_is_dead(v)) {
        if (log_in(v, err) < 0)
            return err_number(err);
        r = call(v, method, path, v->token, body, ret, err);
    }
    return r;
}

uint64_t vault_due_ms(const struct vault *v)
{
    return v && v->role_id ? v->token_due_ms : UINT64_MAX;
}

void vault_renew_token(struct vault *v)
{
    struct json *reply = NULL;
    int r = -1;
    if (v->token && v->token_renewable)
        r = call(v, "POST", "auth/token/renew-self", v->token, empty_object(), &reply, NULL);
    if (r == 0)
        r = take_token(v, reply, NULL);
    vault_json_wipe(reply);
    /* Leases of the old token end with it; see vault_outlived. */
    if (r < 0 && log_in(v, NULL) < 0)
        v->token_due_ms = now_ms() + 5000;
}

bool vault_outlived(const struct vault *v, const struct vault_lease *lease)
{
    return lease->used && lease->login != v->login;
}

void vault_drop_old(struct vault *v)
{
    if (!v->old_token)
        return;
    int r = call(v, "POST", "auth/token/revoke-self", v->old_token, empty_object(), NULL, NULL);
    secret_free(v->old_token);
    v->old_token = NULL;
    if (r != 0 && r != -403)
        return; /* its leases stay on the list */
    for (size_t i = 0; i < LEASES_MAX; i++)
        if (vault_outlived(v, &v->leases[i]))
            v->leases[i].used = false;
}

/* ---- leases ---- */

static struct vault_lease *free_lease(struct vault *v)
{
    for (size_t i = 0; i < LEASES_MAX; i++)
        if (!v->leases[i].used)
            return &v->leases[i];
    return NULL;
}

static void keep_lease(struct vault_lease *to, const struct vault_terms *terms)
{
    *to = (struct vault_lease){
        .used = true,
        .renewable = terms->renewable,
        .asked_s = terms->seconds,
        .lifetime_ms = terms->seconds ? terms->seconds * 1000 : SECRET_FOREVER,
    };
    memcpy(to->id, terms->id, strlen(terms->id) + 1);
}

int vault_fetch(struct vault *v, const char *path, struct json **ret,
                struct vault_lease **ret_lease, struct err *err)
{
    struct vault_terms terms;
    struct vault_lease *lease = free_lease(v);
    *ret = NULL;
    *ret_lease = NULL;
    if (!lease)
        return err_set(err, ERR_LIMIT, "too many leases that could not be revoked");
    if (call_as_us(v, "GET", path, NULL, ret, err) < 0)
        return err_number(err);
    if (vault_parse_terms(*ret, &terms, err) < 0) {
        vault_json_wipe(*ret);
        *ret = NULL;
        return err_number(err);
    }
    if (terms.id) {
        keep_lease(lease, &terms);
        lease->login = v->login;
        *ret_lease = lease;
    }
    return 0;
}

static void lease_body(struct buf *body, const struct vault_lease *lease, bool renew)
{
    struct json_writer w;
    jw_init(&w, body, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "lease_id", lease->id);
    if (renew)
        jw_kv_uint(&w, "increment", lease->asked_s);
    else
        jw_kv_bool(&w, "sync", true);
    jw_object_end(&w);
}

int vault_renew(struct vault *v, struct vault_lease *lease, struct err *err)
{
    struct buf body cleanup_buf;
    struct json *reply = NULL;
    struct vault_terms terms;
    buf_init(&body, 4096);
    lease_body(&body, lease, true);
    int r = call_as_us(v, "PUT", "sys/leases/renew", &body, &reply, err);
    if (r == 0)
        r = vault_parse_terms(reply, &terms, err);
    if (r == 0 && terms.id) {
        lease->lifetime_ms = terms.seconds * 1000;
        lease->renewable = terms.renewable;
    }
    vault_json_wipe(reply);
    return r;
}

int vault_revoke(struct vault *v, struct vault_lease *lease, struct err *err)
{
    struct buf body cleanup_buf;
    buf_init(&body, 4096);
    lease_body(&body, lease, false);
    /* Never log in anew for this: the leases belong to the token that we have. */
    int r = v->token ? call(v, "PUT", "sys/leases/revoke", v->token, &body, NULL, err) : -1;
    if (r == 0)
        lease->used = false;
    return r;
}

/* ---- the beginning and the end ---- */

static int read_address(struct vault *v, struct err *err)
{
    const char *text = getenv("VAULT_ADDR");
    struct url url;
    if (!text || !*text) {
        err_set(err, ERR_REFUSED, "VAULT_ADDR is not set");
        return err_hint(err, "export VAULT_ADDR=https://HOST:8200");
    }
    struct err why = ERR_INIT;
    if (url_parse(text, strlen(text), &url, &why) < 0 || url.query ||
        (url.path_len > 0 && !(url.path_len == 1 && url.path[0] == '/')))
        return err_set(err, ERR_REFUSED, "VAULT_ADDR is not an address such as https://HOST:8200");
    v->server.tls = url.scheme == SCHEME_HTTPS;
    v->server.host = url.host;
    v->server.port = url.port;
    return 0;
}

static int copy_variable(const char *name, char **ret, struct err *err)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return 0;
    if (text_has_control(text))
        return err_set(err, ERR_REFUSED, "%s holds control characters", name);
    *ret = strdup(text);
    return *ret ? 0 : err_memory(err);
}

static int secret_variable(const char *name, struct secret **ret, struct err *err)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return 0;
    return secret_new(text, strlen(text), ret, err) < 0 ? err_wrap(err, "%s", name) : 0;
}

static int read_environment(struct vault *v, struct err *err)
{
    if (read_address(v, err) < 0 || copy_variable("VAULT_NAMESPACE", &v->server.ns, err) < 0 ||
        copy_variable("VAULT_CACERT", &v->server.ca_file, err) < 0 ||
        secret_variable("VAULT_TOKEN", &v->token, err) < 0)
        return err_number(err);
    if (v->token)
        return 0;
    if (secret_variable("VAULT_ROLE_ID", &v->role_id, err) < 0 ||
        secret_variable("VAULT_SECRET_ID", &v->secret_id, err) < 0)
        return err_number(err);
    if (v->role_id && v->secret_id)
        return 0;
    err_set(err, ERR_REFUSED, "there is nothing to log in to Vault with");
    return err_hint(err, "export VAULT_TOKEN, or VAULT_ROLE_ID and VAULT_SECRET_ID");
}

static void vault_free(struct vault *v)
{
    secret_free(v->token);
    secret_free(v->old_token);
    secret_free(v->role_id);
    secret_free(v->secret_id);
    free(v->server.ns);
    free(v->server.ca_file);
    free(v);
}

int vault_new(const struct keeper_transport *t, int control_fd, struct vault **ret, struct err *err)
{
    struct vault *v = calloc(1, sizeof *v);
    if (!v)
        return err_memory(err);
    v->server.transport = t;
    v->server.control_fd = control_fd;
    v->server.deadline_ms = UINT64_MAX;
    v->token_due_ms = UINT64_MAX;
    if (read_environment(v, err) < 0) {
        vault_free(v);
        return err_number(err);
    }
    *ret = v;
    return 0;
}

/* Revoke the token only if our own login made it; leases that are left end with it. */
static int revoke_token(struct vault *v, struct err *err)
{
    if (!v->role_id || !v->token)
        return 0;
    return call(v, "POST", "auth/token/revoke-self", v->token, empty_object(), NULL, err);
}

int vault_end(struct vault *v, struct err *err)
{
    if (!v)
        return 0;
    unsigned left = 0;
    struct err why = ERR_INIT;
    v->server.control_fd = -1;
    v->server.deadline_ms = now_ms() + END_MS;
    vault_drop_old(v);
    for (size_t i = 0; i < LEASES_MAX; i++)
        if (v->leases[i].used && vault_revoke(v, &v->leases[i], &why) < 0)
            left++;
    int token = revoke_token(v, &why);
    for (size_t i = 0; token == 0 && v->role_id && i < LEASES_MAX; i++)
        if (v->leases[i].used && v->leases[i].login == v->login)
            left--; /* gone with the token */
    vault_free(v);
    if (left == 0 && token == 0)
        return 0;
    err_set(err, ERR_SYSTEM, "%u leases of Vault%s could not be revoked (%s)", left,
            token < 0 ? " and the token of the login" : "", why.message);
    return err_hint(err, "they end by themselves when their time is over");
}
