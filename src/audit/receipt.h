/* A receipt: what was in force, what was decided, what was used and how it ended, of one run or of
 * one sandbox of the daemon; and the proof of it.
 *
 *   {…the body, in canonical form…,"signature":{…},"signed":true}
 *   {…the body…,"signed":false,"why_not_signed":"…"}
 *
 * The body's digest is SHA-256 over its canonical text: members in the order of their names,
 * without blanks. A record of the audit chain holds that digest; the checkpoint of that record,
 * signed with the installation's key, is the signature of the receipt. So nothing is ever signed
 * that is not a place in the chain:
 *
 *   "signature":{"algorithm":"ed25519",
 *     "checkpoint":{"hash":HEX,"seq":N,"time":T},     what was signed, see audit/chain.h
 *     "key":"sha256:HEX",                             of the public key (DER)
 *     "previous":HEX,                                 the hash of record N-1
 *     "record":{"boundary","box","detail":{"receipt":"sha256:HEX",…},"kind","seq":N,"time"},
 *     "value":HEX}
 *
 * RC-1  A receipt verifies only if every value in it is what was signed: the body, its place in the
 *       chain, the key.
 * RC-2  There is no receipt of a kind that can be signed without a record in the chain.
 * RC-3  Verification needs the public key and the file, and nothing else. */
#pragma once

#include "audit/chain.h"

#define RECEIPT_MAX     ((size_t)1 << 20)
#define RECEIPT_VERSION 2
#define RECEIPT_RUN     "run.receipt" /* kinds of record */
#define RECEIPT_BOX     "box.receipt"
#define RECEIPT_ID_SIZE 32

struct receipt {
    struct json *tree; /* the body */
    struct buf body;   /* its canonical text */
    uint8_t digest[32];
    bool is_signed;
    char why_not[256]; /* as it says */
    /* With a signature. */
    uint8_t key[32], previous[32], value[CHAIN_SIGNATURE];
    struct buf record, checkpoint; /* lines */
};
void receipt_init(struct receipt *r);
void receipt_done(struct receipt *r);
/* receipt_parse.c. Strictly: duplicate members, strange members of the signature, numbers with a
 * fraction, anything after the end are refused. Blanks and the order of members are not looked at:
 * they say nothing. */
int receipt_parse(const char *text, size_t len, struct receipt *ret, struct err *err);
/* The body alone, as it is to be signed; `tree` must outlive nothing. */
int receipt_body_read(const char *text, size_t len, struct receipt *ret, struct err *err);

/* RC-1. key: the digest of the public key that verify_fn uses. 0: good; else why not. */
int receipt_check(const struct receipt *r, const uint8_t key[32], chain_verify_fn *verify,
                  void *ctx, struct err *err);
/* A record of this kind and box may stand for this receipt. */
struct record;
int receipt_is_of(const struct record *record, const struct receipt *r, struct err *err);

/* What goes into the chain for it: the detail of its record. */
int receipt_detail(const struct receipt *r, struct buf *out, struct err *err);
/* The member `signature`. */
struct receipt_proof {
    uint8_t key[32], previous[32], value[CHAIN_SIGNATURE];
    const char *record, *checkpoint; /* lines */
};
void receipt_proof_write(const struct receipt_proof *p, struct buf *out);
/* The whole: the body with what `signature` holds (JSON), or, NULL, why there is none. */
void receipt_write_signed(struct buf *out, const char *body, size_t len, const char *signature,
                          const char *why_not);
