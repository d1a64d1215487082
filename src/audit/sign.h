/* The installation's Ed25519 key: signs checkpoints, and checks them with the public half alone.
 * The only file that sees OpenSSL is sign.c. */
#pragma once

#include "audit/chain.h"

#include <stdbool.h>

#define SIGN_KEY_FILE    "signing.key" /* PEM, PKCS #8, 0600 */
#define SIGN_PUBLIC_FILE "signing.pub" /* PEM, 0644: what an auditor needs */
#define SIGN_PEM_MAX     4096

/* Once, before a filter is in force: it reads no configuration and no other file. */
int sign_prepare(struct err *err);

struct signer;
/* In the folder `dir`. fresh: there is no record yet, so a missing key is made; without it a
 * missing key is an error, since nothing that it signed could be continued. */
int signer_open(struct signer **ret, int dir, bool fresh, struct err *err);
void signer_free(struct signer *s);
/* Signs CHAIN_SIGN_DOMAIN ‖ line. */
int signer_sign(struct signer *s, const char *line, size_t len, uint8_t ret[CHAIN_SIGNATURE],
                struct err *err);

/* SHA-256 of the public key in its DER form: what a receipt names it by. */
int signer_key(const struct signer *s, uint8_t ret[32], struct err *err);

struct verifier;
int verifier_new(struct verifier **ret, const char *pem, size_t len, struct err *err);
/* SIGN_PUBLIC_FILE of the folder. */
int verifier_open(struct verifier **ret, int dir, struct err *err);
void verifier_free(struct verifier *v);
int verifier_key(const struct verifier *v, uint8_t ret[32], struct err *err);
/* A chain_verify_fn; ctx is the verifier. */
bool verifier_check(void *ctx, const char *line, size_t len,
                    const uint8_t signature[CHAIN_SIGNATURE]);
/* SIGN_PUBLIC_FILE of the folder, as it stands. */
int sign_public(int dir, char ret[static SIGN_PEM_MAX], struct err *err);
