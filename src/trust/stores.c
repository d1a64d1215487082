/* Builds the certificate bundle and the Java keystore that programs inside trust, and the variables
 * that name them. */
#include "trust/stores.h"

#include "base/cleanup.h"
#include "trust/pem.h"
#include "trust/sha1.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define STORE_MAX (8u << 20)

static const char *const bundle_places[] = {
    "/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch; Go, GnuTLS, libcurl there */
    "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
    "/etc/ssl/ca-bundle.pem",             /* SUSE */
    "/etc/ssl/cert.pem",                  /* Alpine */
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, behind links */
    NULL,
};
static const char *const java_places[] = {
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/ca-trust/extracted/java/cacerts",
    "/etc/pki/java/cacerts",
    NULL,
};

const char *trust_bundle_place(size_t i)
{
    return i < ARRAY_LEN(bundle_places) ? bundle_places[i] : NULL;
}

const char *trust_java_place(size_t i)
{
    return i < ARRAY_LEN(java_places) ? java_places[i] : NULL;
}

/* ---- reading ---- */

static int read_file(const char *path, struct buf *out)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size > STORE_MAX)
        return -EINVAL;
    buf_room(out, (size_t)st.st_size + 4096);
    if (out->failed)
        return -ENOMEM;
    for (ssize_t n; (n = read(fd, out->data + out->len, out->size - 1 - out->len)) != 0;) {
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            out->len += (size_t)n;
        if (out->len == out->size - 1)
            return -EFBIG; /* it grows while we read */
    }
    out->data[out->len] = '\0';
    return 0;
}

static bool read_first(const char *const *places, struct buf *out)
{
    for (size_t i = 0; places[i]; i++) {
        out->len = 0;
        if (read_file(places[i], out) == 0)
            return true;
    }
    out->len = 0;
    return false;
}

bool trust_read_host(struct buf *out)
{
    return read_first(bundle_places, out);
}

/* ---- the keystore ---- */

static void add_number(struct buf *b, uint64_t n, size_t bytes)
{
    uint8_t out[8];
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(n >> 8 * (bytes - 1 - i));
    buf_add(b, out, bytes);
}

static void add_text(struct buf *b, const char *text)
{
    add_number(b, strlen(text), 2);
    buf_str(b, text);
}

static void put_number(struct buf *b, size_t at, uint32_t n)
{
    for (size_t i = 0; i < 4 && !b->failed; i++)
        b->data[at + i] = (char)(n >> 8 * (3 - i));
}

static int add_entry(struct buf *b, const char *alias, const struct pem_block *block,
                     struct err *err)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t before = b->len;
    add_number(b, JKS_CERTIFICATE, 4);
    add_text(b, alias);
    add_number(b, (uint64_t)now.tv_sec * 1000, 8);
    add_text(b, "X.509");
    add_number(b, 0, 4);
    size_t at = b->len;
    if (pem_decode(block, b, err) < 0) {
        b->len = before;
        return err_number(err);
    }
    put_number(b, at - 4, (uint32_t)(b->len - at));
    return 0;
}

/* Java checks this before it looks at anything; the password is no secret, it is "changeit"
 * wherever nobody changed it. */
static void add_digest(struct buf *b)
{
    static const char password[] = "changeit";
    struct sha1 h;
    uint8_t digest[SHA1_SIZE];
    sha1_init(&h);
    for (size_t i = 0; password[i]; i++)
        sha1_add(&h, (const uint8_t[]){0, (uint8_t)password[i]}, 2);
    sha1_add(&h, "Mighty Aphrodite", 16);
    sha1_add(&h, b->data, b->len);
    sha1_finish(&h, digest);
    buf_add(b, digest, sizeof digest);
}

/* The host's own keystore, without its digest. */
static int take_host_store(struct buf *b, uint32_t *ret_count)
{
    size_t end;
    if (!read_first(java_places, b) || jks_check(b->data, b->len, ret_count, &end, NULL) < 0)
        return -1;
    b->len = end;
    return 0;
}

/* Certificates of the host that cannot be read are left out, as every other reader would. */
static uint32_t fill_store(struct buf *b, const struct buf *bundle)
{
    struct pem_block block;
    uint32_t count = 0;
    size_t at = 0;
    char alias[32];
    b->len = 0;
    buf_room(b, bundle->len);
    add_number(b, JKS_MAGIC, 4);
    add_number(b, JKS_VERSION, 4);
    add_number(b, 0, 4);
    for (int found; (found = pem_next(bundle->data, bundle->len, &at, &block, NULL)) != 0;) {
        snprintf(alias, sizeof alias, "host-%u", count);
        if (found > 0 && add_entry(b, alias, &block, NULL) == 0)
            count++;
    }
    return count;
}

static int finish_store(struct buf *b, uint32_t count, const struct pem_block *authority,
                        struct err *err)
{
    if (add_entry(b, "brig-run-authority", authority, err) < 0)
        return err_wrap(err, "trust store for Java");
    put_number(b, 8, count + 1);
    add_digest(b);
    return 0;
}

/* ---- both ---- */

static int find_authority(const char *pem, struct pem_block *ret, struct err *err)
{
    size_t at = 0;
    int found = pem_next(pem, strlen(pem), &at, ret, err);
    if (found == 0)
        return err_set(err, ERR_PROTOCOL, "the run's authority sent no certificate");
    return found < 0 ? found : 0;
}

int trust_java_from(const struct buf *bundle, const char *authority_pem, struct buf *ret,
                    struct err *err)
{
    struct pem_block authority;
    if (find_authority(authority_pem, &authority, err) < 0)
        return -ERR_PROTOCOL;
    return finish_store(ret, fill_store(ret, bundle), &authority, err);
}

int trust_build(const char *authority_pem, struct buf *ret_bundle, struct buf *ret_java,
                struct err *err)
{
    struct pem_block authority;
    uint32_t count = 0;
    int result = find_authority(authority_pem, &authority, err);
    if (result < 0)
        return result;
    trust_read_host(ret_bundle);
    if (ret_java && take_host_store(ret_java, &count) == 0)
        result = finish_store(ret_java, count, &authority, err);
    else if (ret_java)
        result = trust_java_from(ret_bundle, authority_pem, ret_java, err);
    if (result < 0)
        return result;
    if (ret_bundle->len > 0 && ret_bundle->data[ret_bundle->len - 1] != '\n')
        buf_chr(ret_bundle, '\n');
    buf_add(ret_bundle, authority.text, authority.len);
    if (ret_bundle->failed || (ret_java && ret_java->failed))
        return err_set(err, ERR_LIMIT, "the host's trust store is too large");
    return 0;
}

/* ---- variables ---- */

/* These want every authority in one file. */
static const char *const bundle_names[] = {
    "SSL_CERT_FILE",      /* OpenSSL, and with it Python, Ruby, Perl; Go, Rust, .NET */
    "CURL_CA_BUNDLE",     /* curl */
    "REQUESTS_CA_BUNDLE", /* Python's requests, which else has a store of its own */
    "PIP_CERT",
    "npm_config_cafile", /* a system-wide npmrc may name another */
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    "PERL_LWP_SSL_CA_FILE",
    "HTTPLIB2_CA_CERTS",
    "HEX_CACERTS_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
};

/* These add to what the program brings along. */
static const char *const extra_names[] = {
    "NODE_EXTRA_CA_CERTS", /* Node, npm, yarn, Bun */
    "DENO_CERT",
};

void trust_environment(void (*set)(void *ctx, const char *name, const char *value), void *ctx,
                       const char *bundle_path, const char *authority_path, const char *java_path)
{
    char options[4200];
    for (size_t i = 0; i < ARRAY_LEN(bundle_names); i++)
        set(ctx, bundle_names[i], bundle_path);
    for (size_t i = 0; i < ARRAY_LEN(extra_names); i++)
        set(ctx, extra_names[i], authority_path);
    if (!java_path)
        return;
    int n = snprintf(options, sizeof options,
                     "-Djavax.net.ssl.trustStore=%s -Djavax.net.ssl.trustStoreType=JKS "
                     "-Djavax.net.ssl.trustStorePassword=changeit",
                     java_path);
    if (n > 0 && (size_t)n < sizeof options)
        set(ctx, "JAVA_TOOL_OPTIONS", options);
}
