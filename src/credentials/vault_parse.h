/* What Vault answers: JSON that is read strictly, field by field. Texts point into the tree. */
#pragma once

#include "base/json.h"

#define VAULT_NUMBER_SIZE 24
#define VAULT_LEASE_MAX   512

struct vault_terms {
    const char *id;   /* of the lease, or NULL: there is none */
    uint64_t seconds; /* 0: no end is given */
    bool renewable;
};

int vault_parse(const char *text, size_t len, struct json **ret, struct err *err);
int vault_parse_terms(const struct json *reply, struct vault_terms *ret, struct err *err);
/* Of a login, or of the renewal of a token: terms.id is NULL. */
int vault_parse_auth(const struct json *reply, const char **ret_token, struct vault_terms *ret,
                     struct err *err);
/* The field of a secret, of KV v2 (data.data) or of any other kind (data). A whole number is
 * written into `number`. */
int vault_parse_field(const struct json *reply, const char *field,
                      char number[static VAULT_NUMBER_SIZE], const char **ret, struct err *err);
/* Overwrites every text of the tree, then frees it. */
void vault_json_wipe(struct json *reply);
