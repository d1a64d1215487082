/* The certificate authority of one run: makes its key and the certificates of intercepted hosts, in
 * memory only. */
#include "proxy/ca.h"

#include "base/cleanup.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#define HOUR           3600L
#define BACKDATE       HOUR /* clocks inside may be late */
#define AUTHORITY_LIFE (30 * 24 * HOUR)
#define LEAF_LIFE      (24 * HOUR)
#define LEAF_RENEW     (12 * HOUR) /* a certificate this old is not given out again */
#define LEAVES_MAX     256
#define COMMON_NAME    "brig run authority"
#define COMMON_MAX     64 /* X.520's bound for a common name */

struct leaf {
    struct host host;
    X509 *cert;
    time_t made;
    uint64_t used;
};

struct authority {
    EVP_PKEY *key;
    EVP_PKEY *leaf_key;
    X509 *cert;
    char *pem;
    struct leaf *leaves; /* grows to LEAVES_MAX, then the least used one makes room */
    size_t count;
    uint64_t clock;
};

/* ---- the parts of a certificate ---- */

static bool set_serial(X509 *x)
{
    uint8_t bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40); /* positive, and always of the same length */
    BIGNUM *n = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
    BN_free(n);
    return ok;
}

static bool set_common_name(X509_NAME *name, const char *text)
{
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, (const uint8_t *)text,
                                      -1, -1, 0) == 1;
}

static bool set_validity(X509 *x, long life)
{
    return X509_gmtime_adj(X509_getm_notBefore(x), -BACKDATE) &&
           X509_gmtime_adj(X509_getm_notAfter(x), life);
}

static bool add_extension(X509 *x, int nid, void *value, bool critical)
{
    return value && X509_add1_ext_i2d(x, nid, value, critical, X509V3_ADD_DEFAULT) == 1;
}

static bool add_basic(X509 *x, bool ca)
{
    BASIC_CONSTRAINTS *basic = BASIC_CONSTRAINTS_new();
    bool ok = basic != NULL;
    if (ok && ca) {
        basic->ca = 0xff;
        basic->pathlen = ASN1_INTEGER_new();
        ok = basic->pathlen && ASN1_INTEGER_set(basic->pathlen, 0);
    }
    ok = ok && add_extension(x, NID_basic_constraints, basic, true);
    BASIC_CONSTRAINTS_free(basic);
    return ok;
}

#define USAGE_SIGNATURE 0 /* bits of KeyUsage */
#define USAGE_CERT_SIGN 5
#define USAGE_CRL_SIGN  6

static bool add_usage(X509 *x, bool ca)
{
    ASN1_BIT_STRING *usage = ASN1_BIT_STRING_new();
    bool ok = usage;
    if (ca)
        ok = ok && ASN1_BIT_STRING_set_bit(usage, USAGE_CERT_SIGN, 1) &&
             ASN1_BIT_STRING_set_bit(usage, USAGE_CRL_SIGN, 1);
    else
        ok = ok && ASN1_BIT_STRING_set_bit(usage, USAGE_SIGNATURE, 1);
    ok = ok && add_extension(x, NID_key_usage, usage, true);
    ASN1_BIT_STRING_free(usage);
    return ok;
}

static bool add_server_auth(X509 *x)
{
    EXTENDED_KEY_USAGE *usage = EXTENDED_KEY_USAGE_new();
    bool ok = usage && sk_ASN1_OBJECT_push(usage, OBJ_nid2obj(NID_server_auth)) > 0 &&
              add_extension(x, NID_ext_key_usage, usage, false);
    EXTENDED_KEY_USAGE_free(usage);
    return ok;
}

/* A name for the key of `of`, as subject or authority key identifier. */
static ASN1_OCTET_STRING *key_id(X509 *of)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len;
    if (X509_pubkey_digest(of, EVP_sha256(), digest, &len) != 1)
        return NULL;
    ASN1_OCTET_STRING *id = ASN1_OCTET_STRING_new();
    if (id && ASN1_OCTET_STRING_set(id, digest, 20) == 1)
        return id;
    ASN1_OCTET_STRING_free(id);
    return NULL;
}

static bool add_subject_key(X509 *x)
{
    ASN1_OCTET_STRING *id = key_id(x);
    bool ok = add_extension(x, NID_subject_key_identifier, id, false);
    ASN1_OCTET_STRING_free(id);
    return ok;
}

static bool add_issuer_key(X509 *x, X509 *issuer)
{
    AUTHORITY_KEYID *id = AUTHORITY_KEYID_new();
    bool ok = id && (id->keyid = key_id(issuer)) &&
              add_extension(x, NID_authority_key_identifier, id, false);
    AUTHORITY_KEYID_free(id);
    return ok;
}

static GENERAL_NAME *host_name(const struct host *host)
{
    bool is_name = host->kind == HOST_NAME;
    const void *bytes = is_name ? (const void *)host->text : host->addr;
    int len = is_name ? (int)strlen(host->text) : host->kind == HOST_IPV4 ? 4 : 16;
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = is_name ? ASN1_IA5STRING_new() : ASN1_OCTET_STRING_new();
    if (name && value && ASN1_STRING_set(value, bytes, len) == 1) {
        GENERAL_NAME_set0_value(name, is_name ? GEN_DNS : GEN_IPADD, value);
        return name;
    }
    GENERAL_NAME_free(name);
    ASN1_STRING_free(value);
    return NULL;
}

static bool add_host(X509 *x, const struct host *host)
{
    GENERAL_NAME *name = host_name(host);
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    if (!name || !names || sk_GENERAL_NAME_push(names, name) <= 0) {
        GENERAL_NAME_free(name);
        GENERAL_NAMES_free(names);
        return false;
    }
    bool ok = add_extension(x, NID_subject_alt_name, names, false);
    GENERAL_NAMES_free(names);
    return ok;
}

/* ---- the authority ---- */

static bool make_certificate(struct authority *a)
{
    X509 *x = a->cert = X509_new();
    if (!x || !X509_set_version(x, X509_VERSION_3) || !set_serial(x) ||
        !set_validity(x, AUTHORITY_LIFE) || X509_set_pubkey(x, a->key) != 1)
        return false;
    X509_NAME *name = X509_get_subject_name(x);
    return set_common_name(name, COMMON_NAME) && X509_set_issuer_name(x, name) == 1 &&
           add_basic(x, true) && add_usage(x, true) && add_subject_key(x) &&
           X509_sign(x, a->key, EVP_sha256()) > 0;
}

static bool make_pem(struct authority *a)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    if (bio && PEM_write_bio_X509(bio, a->cert) == 1) {
        long len = BIO_get_mem_data(bio, &text);
        a->pem = len > 0 ? strndup(text, (size_t)len) : NULL;
    }
    BIO_free(bio);
    return a->pem;
}

int authority_new(struct authority **ret, struct err *err)
{
    struct authority *a = calloc(1, sizeof *a);
    if (!a)
        return err_memory(err);
    a->key = EVP_EC_gen("P-256");
    a->leaf_key = a->key ? EVP_EC_gen("P-256") : NULL;
    if (!a->leaf_key || !make_certificate(a) || !make_pem(a)) {
        authority_free(a);
        return err_set(err, ERR_INTERNAL, "the authority of the run could not be made");
    }
    *ret = a;
    return 0;
}

void authority_free(struct authority *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->count; i++)
        X509_free(a->leaves[i].cert);
    free(a->leaves);
    X509_free(a->cert);
    EVP_PKEY_free(a->leaf_key); /* private numbers are wiped by it */
    EVP_PKEY_free(a->key);
    free(a->pem);
    free(a);
}

const char *authority_pem(const struct authority *a)
{
    return a->pem;
}

EVP_PKEY *authority_leaf_key(const struct authority *a)
{
    return a->leaf_key;
}

size_t authority_leaf_count(const struct authority *a)
{
    return a->count;
}

/* ---- leaves ---- */

static bool fill_leaf(struct authority *a, X509 *x, const struct host *host)
{
    bool short_name = strlen(host->text) <= COMMON_MAX;
    return X509_set_version(x, X509_VERSION_3) && set_serial(x) && set_validity(x, LEAF_LIFE) &&
           X509_set_pubkey(x, a->leaf_key) == 1 &&
           X509_set_issuer_name(x, X509_get_subject_name(a->cert)) == 1 &&
           set_common_name(X509_get_subject_name(x), short_name ? host->text : "brig run") &&
           add_basic(x, false) && add_usage(x, false) && add_server_auth(x) && add_host(x, host) &&
           add_subject_key(x) && add_issuer_key(x, a->cert) &&
           X509_sign(x, a->key, EVP_sha256()) > 0;
}

static X509 *make_leaf(struct authority *a, const struct host *host)
{
    X509 *x = X509_new();
    if (x && fill_leaf(a, x, host))
        return x;
    X509_free(x);
    return NULL;
}

static struct leaf *find_leaf(struct authority *a, const struct host *host)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->leaves[i].host.kind == host->kind && strcmp(a->leaves[i].host.text, host->text) == 0)
            return &a->leaves[i];
    return NULL;
}

/* A free entry; if there is none, the one that was not used for the longest time. */
static struct leaf *take_place(struct authority *a)
{
    if (a->count < LEAVES_MAX) {
        if ((a->count & (a->count - 1)) == 0) { /* 0, 1, 2, 4, …: the array is full */
            size_t room = a->count ? a->count * 2 : 1;
            struct leaf *leaves = reallocarray(a->leaves, room, sizeof(*leaves));
            if (!leaves)
                return NULL;
            a->leaves = leaves;
        }
        a->leaves[a->count] = (struct leaf){0};
        return &a->leaves[a->count++];
    }
    struct leaf *oldest = &a->leaves[0];
    for (size_t i = 1; i < a->count; i++)
        if (a->leaves[i].used < oldest->used)
            oldest = &a->leaves[i];
    return oldest;
}

X509 *authority_leaf(struct authority *a, const struct host *host)
{
    time_t now = time(NULL);
    struct leaf *leaf = find_leaf(a, host);
    if (leaf && now >= leaf->made && now - leaf->made < LEAF_RENEW) {
        leaf->used = ++a->clock;
        return leaf->cert;
    }
    X509 *cert = make_leaf(a, host);
    if (!cert)
        return NULL;
    if (!leaf)
        leaf = take_place(a);
    if (!leaf) {
        X509_free(cert);
        return NULL;
    }
    X509_free(leaf->cert);
    *leaf = (struct leaf){.host = *host, .cert = cert, .made = now, .used = ++a->clock};
    return cert;
}
