/* What a server that claims to be Vault may answer: read without harm, and within the bounds that
 * the keeper relies on. */
#include "credentials/secret.h"
#include "credentials/vault_parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *reply = NULL;
    struct err err = ERR_INIT;
    struct vault_terms terms;
    const char *text;
    char number[VAULT_NUMBER_SIZE];
    if (vault_parse((const char *)data, size, &reply, &err) < 0) {
        require(err.code != ERR_NONE && !reply);
        return 0;
    }
    if (vault_parse_terms(reply, &terms, &err) == 0) {
        require(!terms.id || (terms.id[0] && strlen(terms.id) < VAULT_LEASE_MAX));
        require(terms.seconds < UINT64_MAX / 1000000);
        require(terms.id || (terms.seconds == 0 && !terms.renewable));
    }
    if (vault_parse_auth(reply, &text, &terms, &err) == 0)
        require(text[0] && terms.seconds < UINT64_MAX / 1000000);
    if (vault_parse_field(reply, "password", number, &text, &err) == 0)
        require(text && strlen(text) <= size + VAULT_NUMBER_SIZE);
    vault_json_wipe(reply);
    return 0;
}
