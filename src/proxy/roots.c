/* The store of root certificates for connections to the outside: read before the seal, decoded when
 * a chain needs them. */
#include "proxy/roots.h"

#include "base/cleanup.h"
#include "trust/pem.h"
#include "trust/stores.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/x509.h>
#include <string.h>

#define BUNDLE_MAX (8u << 20)
#define ROOTS_MAX  4096

/* ---- reading ---- */

static int read_all(int fd, struct buf *out)
{
    for (;;) {
        buf_room(out, 64u << 10);
        if (out->failed)
            return -ENOMEM;
        ssize_t n = read(fd, out->data + out->len, out->size - 1 - out->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        out->len += (size_t)n;
    }
    out->data[out->len] = '\0';
    return 0;
}

static int read_file(const char *path, struct buf *out, struct err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_sys(err, "open %s", path);
    int result = read_all(fd, out);
    if (result < 0) {
        errno = -result;
        return err_sys(err, "read %s", path);
    }
    return 0;
}

void roots_read(struct roots *r)
{
    *r = (struct roots){0};
    buf_init(&r->text, BUNDLE_MAX);
    buf_init(&r->der, BUNDLE_MAX);
    trust_read_host(&r->text);
}

/* ---- decoding ---- */

static int make_room(struct roots *r, struct err *err)
{
    if (r->count < r->room)
        return 0;
    size_t room = r->room ? r->room * 2 : 64;
    struct root *items = room <= ROOTS_MAX ? reallocarray(r->items, room, sizeof(*items)) : NULL;
    if (!items)
        return err_set(err, ERR_LIMIT, "too many certificates in the trust store");
    r->items = items;
    r->room = room;
    return 0;
}

static int add_block(struct roots *r, const struct pem_block *block, struct err *err)
{
    size_t at = r->der.len;
    const uint8_t *subject;
    size_t subject_len;
    if (make_room(r, err) < 0 || pem_decode(block, &r->der, err) < 0)
        return err_number(err);
    const uint8_t *der = (const uint8_t *)r->der.data + at;
    size_t len = r->der.len - at;
    if (der_subject(der, len, &subject, &subject_len, err) < 0) {
        r->der.len = at;
        return err_number(err);
    }
    r->items[r->count++] = (struct root){.at = (uint32_t)at,
                                         .len = (uint32_t)len,
                                         .subject_at = (uint32_t)(at + (size_t)(subject - der)),
                                         .subject_len = (uint32_t)subject_len};
    return 0;
}

/* The host's bundle is used as far as it can be read. */
static void decode_host(struct roots *r)
{
    struct pem_block block;
    size_t at = 0;
    buf_room(&r->der, r->text.len / 4 * 3);
    for (int found; (found = pem_next(r->text.data, r->text.len, &at, &block, NULL)) != 0;)
        if (found > 0)
            add_block(r, &block, NULL);
    buf_done(&r->text);
}

int roots_add(struct roots *r, const char *path, struct err *err)
{
    cleanup_buf struct buf text;
    struct pem_block block;
    size_t at = 0, before = r->count;
    int found;
    buf_init(&text, BUNDLE_MAX);
    if (read_file(path, &text, err) < 0)
        return err_wrap(err, "trusted certificates");
    while ((found = pem_next(text.data, text.len, &at, &block, err)) != 0)
        if (found < 0 || add_block(r, &block, err) < 0)
            return err_wrap(err, "%s", path);
    if (r->count == before)
        return err_set(err, ERR_POLICY, "%s: no certificate in it", path);
    return 0;
}

/* ---- looking up ---- */

static bool same_subject(const struct roots *r, const struct root *root, const uint8_t *name,
                         size_t len)
{
    return root->subject_len == len && memcmp(r->der.data + root->subject_at, name, len) == 0;
}

/* Names may be equal in spite of their bytes (case, blanks, kind of string): slow, and rare. */
static bool equal_subject(const struct roots *r, const struct root *root, const X509_NAME *name)
{
    const uint8_t *at = (const uint8_t *)r->der.data + root->subject_at;
    X509_NAME *own = d2i_X509_NAME(NULL, &at, root->subject_len);
    bool equal = own && X509_NAME_cmp(own, name) == 0;
    X509_NAME_free(own);
    return equal;
}

/* Moves a root into the store; *ret, if it is still NULL, gets it. The store owns it. */
static void load(struct roots *r, struct root *root, X509_STORE *store, X509 **ret)
{
    const uint8_t *at = (const uint8_t *)r->der.data + root->at;
    root->loaded = true;
    X509 *x = d2i_X509(NULL, &at, root->len);
    if (x && X509_STORE_add_cert(store, x) == 1 && !*ret)
        *ret = x;
    X509_free(x);
}

static int get_by_subject(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name,
                          X509_OBJECT *ret)
{
    struct roots *r = X509_LOOKUP_get_method_data(lookup);
    X509_STORE *store = X509_LOOKUP_get_store(lookup);
    X509 *found = NULL;
    const uint8_t *bytes;
    size_t len;
    if (type != X509_LU_X509 || X509_NAME_get0_der(name, &bytes, &len) != 1)
        return 0;
    for (size_t i = 0; i < r->count; i++)
        if (!r->items[i].loaded && same_subject(r, &r->items[i], bytes, len))
            load(r, &r->items[i], store, &found);
    for (size_t i = 0; i < r->count && !found; i++)
        if (!r->items[i].loaded && equal_subject(r, &r->items[i], name))
            load(r, &r->items[i], store, &found);
    /* What is handed out is borrowed from the store, while set1 takes a reference. */
    if (!found || X509_OBJECT_set1_X509(ret, found) != 1)
        return 0;
    X509_free(found);
    return 1;
}

X509_STORE *roots_store(struct roots *r)
{
    if (r->text.len > 0)
        decode_host(r);
    if (!r->method) {
        r->method = X509_LOOKUP_meth_new("roots of the proxy");
        if (!r->method || !X509_LOOKUP_meth_set_get_by_subject(r->method, get_by_subject))
            return NULL;
    }
    X509_STORE *store = X509_STORE_new();
    X509_LOOKUP *lookup = store ? X509_STORE_add_lookup(store, r->method) : NULL;
    if (!lookup || X509_LOOKUP_set_method_data(lookup, r) != 1) {
        X509_STORE_free(store);
        return NULL;
    }
    return store;
}

void roots_done(struct roots *r)
{
    buf_done(&r->text);
    buf_done(&r->der);
    free(r->items);
    X509_LOOKUP_meth_free(r->method);
    *r = (struct roots){0};
}
