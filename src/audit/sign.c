/* The Ed25519 key of the installation: makes and loads its files, signs, and verifies. The only
 * file of audit/ that sees OpenSSL. */
#include "audit/sign.h"

#include "base/base64.h"
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
#define KEY_SIZE    32
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
    const uint64_t flags = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT |
                           OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS |
                           OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS;
    if (OPENSSL_init_crypto(flags, NULL) != 1)
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
static int write_file(int dir, const char *name, const struct buf *pem, mode_t mode,
                      struct err *err)
{
    unlinkat(dir, NEW_FILE, 0);
    cleanup_fd int fd =
        openat(dir, NEW_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0 || fchmod(fd, mode) < 0)
        return err_sys(err, "make %s", name);
    if (write(fd, pem->data, pem->len) != (ssize_t)pem->len || fsync(fd) < 0)
        return err_sys(err, "write %s", name);
    /* linkat never replaces an existing file. */
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

/* ---- the text of keys ---- */

/* An Ed25519 key in DER is these bytes and then its own 32 (RFC 8410). Read and written here:
 * OpenSSL's decoders would load every algorithm that there is first, which takes longer than many a
 * run. */
struct form {
    const char *begin, *end;
    uint8_t before[16];
    size_t len;
};
static const struct form private_form = {
    "-----BEGIN PRIVATE KEY-----\n",
    "\n-----END PRIVATE KEY-----\n",
    {0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20},
    16,
};
static const struct form public_form = {
    "-----BEGIN PUBLIC KEY-----\n",
    "\n-----END PUBLIC KEY-----\n",
    {0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0},
    12,
};

static bool key_read(const struct form *f, const char *text, size_t len, uint8_t ret[KEY_SIZE])
{
    size_t head = strlen(f->begin), tail = strlen(f->end);
    struct buf der;
    if (len < head + tail || strncmp(text, f->begin, head) != 0 ||
        strncmp(text + len - tail, f->end, tail) != 0)
        return false;
    buf_init(&der, 64);
    bool good = base64_decode(text + head, len - head - tail, &der, NULL) >= 0 &&
                der.len == f->len + KEY_SIZE && memcmp(der.data, f->before, f->len) == 0;
    if (good)
        memcpy(ret, der.data + f->len, KEY_SIZE);
    if (der.data)
        OPENSSL_cleanse(der.data, der.size);
    buf_done(&der);
    return good;
}

static void key_write(const struct form *f, const uint8_t key[KEY_SIZE], struct buf *out)
{
    uint8_t der[16 + KEY_SIZE];
    memcpy(der, f->before, f->len);
    memcpy(der + f->len, key, KEY_SIZE);
    buf_str(out, f->begin);
    base64_encode(der, f->len + KEY_SIZE, out);
    buf_str(out, f->end);
    OPENSSL_cleanse(der, sizeof der);
}

static int write_key(int dir, EVP_PKEY *key, struct err *err)
{
    uint8_t raw[KEY_SIZE];
    size_t size = sizeof raw;
    struct buf pem;
    buf_init(&pem, SIGN_PEM_MAX);
    buf_room(&pem, 256); /* so that it is never moved, and wiping it wipes all of it */
    if (EVP_PKEY_get_raw_private_key(key, raw, &size) != 1 || size != sizeof raw)
        return err_set(err, ERR_INTERNAL, "the signing key cannot be written down");
    key_write(&private_form, raw, &pem);
    OPENSSL_cleanse(raw, sizeof raw);
    int r = write_file(dir, SIGN_KEY_FILE, &pem, 0600, err);
    OPENSSL_cleanse(pem.data, pem.size);
    buf_done(&pem);
    return r;
}

static int public_of(const EVP_PKEY *key, uint8_t ret[KEY_SIZE], struct err *err)
{
    size_t size = KEY_SIZE;
    if (EVP_PKEY_get_raw_public_key(key, ret, &size) == 1 && size == KEY_SIZE)
        return 0;
    return err_set(err, ERR_INTERNAL, "the public key cannot be written down");
}

/* The public half follows from the key: it is written again if it is gone, but another one in its
 * place is no accident. */
static int keep_public(int dir, EVP_PKEY *key, struct err *err)
{
    char there[SIGN_PEM_MAX];
    uint8_t raw[KEY_SIZE];
    cleanup_buf struct buf pem;
    buf_init(&pem, SIGN_PEM_MAX);
    if (public_of(key, raw, err) < 0)
        return err_number(err);
    key_write(&public_form, raw, &pem);
    ssize_t n = read_file(dir, SIGN_PUBLIC_FILE, there, err);
    if (n < 0 && err->sys_errno == ENOENT)
        return write_file(dir, SIGN_PUBLIC_FILE, &pem, 0644, err);
    if (n < 0)
        return (int)n;
    if ((size_t)n == pem.len && memcmp(there, pem.data, pem.len) == 0)
        return 0;
    err_set(err, ERR_ATTEST, "%s does not belong to %s", SIGN_PUBLIC_FILE, SIGN_KEY_FILE);
    return err_hint(err, "somebody changed one of them: look before you remove %s",
                    SIGN_PUBLIC_FILE);
}

/* ---- signer ---- */

static int load_key(int dir, EVP_PKEY **ret, struct err *err)
{
    char text[SIGN_PEM_MAX];
    uint8_t raw[KEY_SIZE];
    struct stat st;
    if (fstatat(dir, SIGN_KEY_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "open %s", SIGN_KEY_FILE);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(err, ERR_REFUSED, "%s must be a file of ours that nobody else can read",
                       SIGN_KEY_FILE);
    ssize_t n = read_file(dir, SIGN_KEY_FILE, text, err);
    if (n < 0)
        return (int)n;
    *ret = NULL;
    if (key_read(&private_form, text, (size_t)n, raw))
        *ret = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, raw, sizeof raw);
    OPENSSL_cleanse(text, sizeof text);
    OPENSSL_cleanse(raw, sizeof raw);
    if (!*ret)
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
        return err_memory(err);
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

static int key_digest(EVP_PKEY *key, uint8_t ret[32], struct err *err)
{
    uint8_t der[16 + KEY_SIZE];
    const struct form *f = &public_form;
    memcpy(der, f->before, f->len);
    if (public_of(key, der + f->len, err) < 0)
        return err_number(err);
    chain_digest((const char *)der, f->len + KEY_SIZE, ret);
    return 0;
}

int signer_key(const struct signer *s, uint8_t ret[32], struct err *err)
{
    return key_digest(s->key, ret, err);
}

int verifier_key(const struct verifier *v, uint8_t ret[32], struct err *err)
{
    return key_digest(v->key, ret, err);
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
    uint8_t raw[KEY_SIZE];
    bool ours = key_read(&public_form, pem, len, raw);
    /* A key file from elsewhere may have been written by another program, with other line breaks:
     * let OpenSSL read it. */
    cleanup_bio BIO *bio = !ours && len < SIGN_PEM_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
    if (v && ours)
        v->key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, sizeof raw);
    else if (v && bio)
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

int sign_public(int dir, char ret[static SIGN_PEM_MAX], struct err *err)
{
    ssize_t n = read_file(dir, SIGN_PUBLIC_FILE, ret, err);
    return n < 0 ? (int)n : 0;
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
