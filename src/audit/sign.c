#include "audit/sign.h"

#include "base/cleanup.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW_FILE    "signing.new"
#define MESSAGE_MAX (sizeof CHAIN_SIGN_DOMAIN + CHAIN_CHECKPOINT_MAX)

struct signer {
    EVP_PKEY *key;
};
struct verifier {
    EVP_PKEY *key;
};

static void free_bio(BIO **b)
{
    BIO_free(*b);
}
#define cleanup_bio __attribute__((cleanup(free_bio)))

static void free_context(EVP_MD_CTX **c)
{
    EVP_MD_CTX_free(*c);
}
#define cleanup_context __attribute__((cleanup(free_context)))

int sign_prepare(struct err *err)
{
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return err_set(err, ERR_INTERNAL, "OpenSSL does not start");
    /* Fetches the algorithms now. */
    EVP_PKEY *probe = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (!probe)
        return err_set(err, ERR_INTERNAL, "OpenSSL has no Ed25519");
    EVP_PKEY_free(probe);
    return 0;
}

/* ---- files ---- */

/* Whole or not at all: a crash leaves no half of a key behind. */
static int write_file(int dir, const char *name, BIO *pem, mode_t mode, struct err *err)
{
    char *text = NULL;
    long len = BIO_get_mem_data(pem, &text);
    unlinkat(dir, NEW_FILE, 0);
    cleanup_fd int fd =
        openat(dir, NEW_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0 || fchmod(fd, mode) < 0)
        return err_sys(err, "make %s", name);
    if (write(fd, text, (size_t)len) != len || fsync(fd) < 0)
        return err_sys(err, "write %s", name);
    /* A link takes no other file's place. */
    if (linkat(dir, NEW_FILE, dir, name, 0) < 0)
        return err_sys(err, "put %s in its place", name);
    if (unlinkat(dir, NEW_FILE, 0) < 0 || fsync(dir) < 0)
        return err_sys(err, "put %s in its place", name);
    return 0;
}

static ssize_t read_file(int dir, const char *name, char out[SIGN_PEM_MAX], struct err *err)
{
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(err, "open %s", name);
    ssize_t n = read(fd, out, SIGN_PEM_MAX - 1);
    if (n < 0)
        return err_sys(err, "read %s", name);
    out[n] = '\0';
    return n;
}

static int write_key(int dir, EVP_PKEY *key, struct err *err)
{
    /* The memory of a secure BIO is wiped when it is freed. */
    cleanup_bio BIO *pem = BIO_new(BIO_s_secmem());
    if (!pem || PEM_write_bio_PKCS8PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL) != 1)
        return err_set(err, ERR_INTERNAL, "the signing key cannot be written down");
    return write_file(dir, SIGN_KEY_FILE, pem, 0600, err);
}

static BIO *public_pem(EVP_PKEY *key)
{
    BIO *pem = BIO_new(BIO_s_mem());
    if (!pem || PEM_write_bio_PUBKEY(pem, key) != 1) {
        BIO_free(pem);
        return NULL;
    }
    return pem;
}

/* The public half follows from the key: it is written again if it is gone, but another one in its
 * place is no accident. */
static int keep_public(int dir, EVP_PKEY *key, struct err *err)
{
    char there[SIGN_PEM_MAX], *text = NULL;
    cleanup_bio BIO *pem = public_pem(key);
    if (!pem)
        return err_set(err, ERR_INTERNAL, "the public key cannot be written down");
    ssize_t n = read_file(dir, SIGN_PUBLIC_FILE, there, err);
    if (n < 0 && err->sys_errno == ENOENT)
        return write_file(dir, SIGN_PUBLIC_FILE, pem, 0644, err);
    if (n < 0)
        return (int)n;
    long len = BIO_get_mem_data(pem, &text);
    if (n == len && memcmp(there, text, (size_t)n) == 0)
        return 0;
    err_set(err, ERR_ATTEST, "%s does not belong to %s", SIGN_PUBLIC_FILE, SIGN_KEY_FILE);
    return err_hint(err, "somebody changed one of them: look before you remove %s",
                    SIGN_PUBLIC_FILE);
}

/* ---- signer ---- */

static int load_key(int dir, EVP_PKEY **ret, struct err *err)
{
    char text[SIGN_PEM_MAX];
    struct stat st;
    if (fstatat(dir, SIGN_KEY_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "open %s", SIGN_KEY_FILE);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(err, ERR_REFUSED, "%s must be a file of ours that nobody else can read",
                       SIGN_KEY_FILE);
    ssize_t n = read_file(dir, SIGN_KEY_FILE, text, err);
    if (n < 0)
        return (int)n;
    cleanup_bio BIO *pem = BIO_new_mem_buf(text, (int)n);
    *ret = pem ? PEM_read_bio_PrivateKey(pem, NULL, NULL, NULL) : NULL;
    OPENSSL_cleanse(text, sizeof text);
    if (!*ret || EVP_PKEY_get_id(*ret) != EVP_PKEY_ED25519)
        return err_set(err, ERR_ATTEST, "%s is not an Ed25519 key", SIGN_KEY_FILE);
    return 0;
}

static int find_key(int dir, bool fresh, EVP_PKEY **ret, struct err *err)
{
    int r = load_key(dir, ret, err);
    if (r >= 0 || err->sys_errno != ENOENT)
        return r;
    if (!fresh) {
        err_set(err, ERR_ATTEST, "%s is gone, and there are records that it signed", SIGN_KEY_FILE);
        return err_hint(err, "put it back, or move the folder `audit` away to begin a new log");
    }
    *ret = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (!*ret)
        return err_set(err, ERR_INTERNAL, "no Ed25519 key could be made");
    return write_key(dir, *ret, err);
}

int signer_open(struct signer **ret, int dir, bool fresh, struct err *err)
{
    struct signer *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_SYSTEM, "out of memory");
    /* Of a start that was cut off. */
    unlinkat(dir, NEW_FILE, 0);
    int r = find_key(dir, fresh, &s->key, err);
    if (r >= 0)
        r = keep_public(dir, s->key, err);
    if (r < 0) {
        signer_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void signer_free(struct signer *s)
{
    if (s)
        EVP_PKEY_free(s->key);
    free(s);
}

static size_t message(char out[MESSAGE_MAX], const char *line, size_t len)
{
    size_t head = sizeof CHAIN_SIGN_DOMAIN - 1;
    if (len > CHAIN_CHECKPOINT_MAX)
        return 0;
    memcpy(out, CHAIN_SIGN_DOMAIN, head);
    memcpy(out + head, line, len);
    return head + len;
}

int signer_sign(struct signer *s, const char *line, size_t len, uint8_t ret[CHAIN_SIGNATURE],
                struct err *err)
{
    char text[MESSAGE_MAX];
    size_t size = CHAIN_SIGNATURE, n = message(text, line, len);
    cleanup_context EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (!n || !c || EVP_DigestSignInit(c, NULL, NULL, NULL, s->key) != 1 ||
        EVP_DigestSign(c, ret, &size, (const uint8_t *)text, n) != 1 || size != CHAIN_SIGNATURE)
        return err_set(err, ERR_INTERNAL, "a checkpoint could not be signed");
    return 0;
}

/* ---- verifier ---- */

int verifier_new(struct verifier **ret, const char *pem, size_t len, struct err *err)
{
    struct verifier *v = calloc(1, sizeof *v);
    cleanup_bio BIO *bio = len < SIGN_PEM_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
    if (v && bio)
        v->key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    if (!v || !v->key || EVP_PKEY_get_id(v->key) != EVP_PKEY_ED25519) {
        verifier_free(v);
        return err_set(err, ERR_POLICY, "that is no Ed25519 public key in PEM form");
    }
    *ret = v;
    return 0;
}

int verifier_open(struct verifier **ret, int dir, struct err *err)
{
    char text[SIGN_PEM_MAX];
    ssize_t n = read_file(dir, SIGN_PUBLIC_FILE, text, err);
    if (n < 0)
        return (int)n;
    int r = verifier_new(ret, text, (size_t)n, err);
    return r < 0 ? err_wrap(err, "%s", SIGN_PUBLIC_FILE) : 0;
}

void verifier_free(struct verifier *v)
{
    if (v)
        EVP_PKEY_free(v->key);
    free(v);
}

bool verifier_check(void *ctx, const char *line, size_t len,
                    const uint8_t signature[CHAIN_SIGNATURE])
{
    struct verifier *v = ctx;
    char text[MESSAGE_MAX];
    size_t n = message(text, line, len);
    cleanup_context EVP_MD_CTX *c = EVP_MD_CTX_new();
    return n && c && EVP_DigestVerifyInit(c, NULL, NULL, NULL, v->key) == 1 &&
           EVP_DigestVerify(c, signature, CHAIN_SIGNATURE, (const uint8_t *)text, n) == 1;
}
