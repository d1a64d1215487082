/* Reads Vault's answers: tokens, terms of leases, fields of secrets. Wipes the texts afterwards. */
#include "credentials/vault_parse.h"

#include <stdio.h>
#include <string.h>

#define SECONDS_MAX (100ll * 365 * 24 * 3600)

int vault_parse(const char *text, size_t len, struct json **ret, struct err *err)
{
    static const struct json_limits limits = {
        .max_bytes = 256 * 1024, .max_depth = 16, .max_nodes = 4096};
    struct err why = ERR_INIT;
    /* The parser's message could repeat a part of the secret: do not pass it on. */
    if (json_parse(text, len, &limits, ret, &why) < 0)
        return err_set(err, ERR_PROTOCOL, "Vault's answer is not JSON");
    if (json_type(*ret) == JSON_OBJECT)
        return 0;
    vault_json_wipe(*ret);
    *ret = NULL;
    return err_set(err, ERR_PROTOCOL, "Vault's answer is not an object");
}

static const struct json *member(const struct json *object, const char *key, enum json_type type)
{
    const struct json *j =
        object && json_type(object) == JSON_OBJECT ? json_get(object, key) : NULL;
    return j && json_type(j) == type ? j : NULL;
}

static int read_terms(const struct json *from, struct vault_terms *ret, struct err *err)
{
    const struct json *seconds = member(from, "lease_duration", JSON_INT);
    const struct json *renewable = member(from, "renewable", JSON_BOOL);
    int64_t value = seconds ? json_int(seconds) : 0;
    if (value < 0 || value > SECONDS_MAX)
        return err_set(err, ERR_PROTOCOL, "Vault's lease has an impossible length");
    *ret = (struct vault_terms){.seconds = (uint64_t)value,
                                .renewable = renewable && json_bool(renewable)};
    return 0;
}

int vault_parse_terms(const struct json *reply, struct vault_terms *ret, struct err *err)
{
    if (read_terms(reply, ret, err) < 0)
        return err_number(err);
    const struct json *id = member(reply, "lease_id", JSON_STRING);
    if (!id || json_string(id)[0] == '\0') {
        /* KV v1 names a duration that nothing enforces. */
        ret->seconds = 0;
        ret->renewable = false;
        return 0;
    }
    if (strlen(json_string(id)) >= VAULT_LEASE_MAX)
        return err_set(err, ERR_PROTOCOL, "the name of Vault's lease is too long");
    ret->id = json_string(id);
    return 0;
}

int vault_parse_auth(const struct json *reply, const char **ret_token, struct vault_terms *ret,
                     struct err *err)
{
    const struct json *auth = member(reply, "auth", JSON_OBJECT);
    const struct json *token = member(auth, "client_token", JSON_STRING);
    if (!token || json_string(token)[0] == '\0')
        return err_set(err, ERR_PROTOCOL, "Vault's answer holds no token");
    *ret_token = json_string(token);
    return read_terms(auth, ret, err);
}

int vault_parse_field(const struct json *reply, const char *field,
                      char number[static VAULT_NUMBER_SIZE], const char **ret, struct err *err)
{
    const struct json *data = member(reply, "data", JSON_OBJECT);
    const struct json *inner = member(data, "data", JSON_OBJECT);
    if (inner && member(data, "metadata", JSON_OBJECT))
        data = inner;
    else if (data && json_get(data, "metadata") && json_get(data, "data"))
        return err_set(err, ERR_REFUSED, "the secret was deleted");
    const struct json *value = data ? json_get(data, field) : NULL;
    if (!value)
        return err_set(err, ERR_REFUSED, "the secret has no such field");
    if (json_type(value) == JSON_INT) {
        snprintf(number, VAULT_NUMBER_SIZE, "%lld", (long long)json_int(value));
        *ret = number;
        return 0;
    }
    if (json_type(value) != JSON_STRING)
        return err_set(err, ERR_REFUSED, "the field is neither a text nor a whole number");
    *ret = json_string(value);
    return 0;
}

/* The tree is const for everyone else; here it is about to be freed. */
static void wipe_texts(const struct json *j)
{
    if (json_type(j) == JSON_STRING)
        explicit_bzero((char *)json_string(j), strlen(json_string(j)));
    for (size_t i = 0; i < json_count(j); i++)
        wipe_texts(json_type(j) == JSON_OBJECT ? json_value_at(j, i) : json_at(j, i));
}

void vault_json_wipe(struct json *reply)
{
    if (reply)
        wipe_texts(reply);
    json_free(reply);
}
