/* Receipts: verified with a public key, found in the database, and the key itself. */
#include "audit/ask.h"
#include "audit/receipt.h"
#include "base/hex.h"

#include "base/cleanup.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (2 * RECEIPT_MAX)

static void write_hex(struct json_writer *w, const char *key, const char *before,
                      const uint8_t digest[32])
{
    cleanup_buf struct buf text;
    buf_init(&text, 80);
    buf_str(&text, before);
    hex_write(&text, digest, 32);
    jw_kv_string(w, key, buf_text(&text));
}

static int finish(struct ask *a, struct json_writer *w, struct err *err)
{
    jw_object_end(w);
    buf_str(&a->out, "\n{\"end\":{}}\n");
    return ask_flush(a, err);
}

/* ---- verify ---- */

static int read_file(const char *path, struct buf *ret, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, "open the receipt");
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)FILE_MAX)
        return err_set(err, ERR_USAGE, "it is too large to be a receipt");
    cleanup_free char *text = malloc((size_t)st.st_size + 1);
    ssize_t n = text ? pread(fd, text, (size_t)st.st_size, 0) : -1;
    if (n < 0)
        return err_sys(err, "read the receipt");
    buf_add(ret, text, (size_t)n);
    return 0;
}

/* The key of this installation that the receipt names. 1: found. */
static int own_key(struct ask *a, const struct receipt *r, struct err *err)
{
    const struct json *folders = json_get(a->request, "folders");
    for (size_t i = 0; i < json_count(folders); i++) {
        const char *path = json_string(json_at(folders, i));
        uint8_t key[32];
        struct verifier *v = NULL;
        struct err ignored = ERR_INIT;
        cleanup_fd int dir = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        cleanup_fd int folder =
            dir < 0 ? -1
                    : openat(dir, STORE_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0 || verifier_open(&v, folder, &ignored) < 0)
            continue;
        if (verifier_key(v, key, err) >= 0 && memcmp(key, r->key, 32) == 0) {
            a->verifier = v;
            return 1;
        }
        verifier_free(v);
    }
    return 0;
}

static int check(struct ask *a, const struct receipt *r, struct err *why, struct err *err)
{
    uint8_t key[32];
    if (!r->is_signed)
        return receipt_check(r, r->key, NULL, NULL, why);
    int own = a->verifier ? 1 : own_key(a, r, err);
    if (own < 0)
        return own;
    if (own == 0)
        return err_set(why, ERR_ATTEST,
                       "no key of this installation signed it; the signer's public key is given "
                       "with --key FILE");
    if (verifier_key(a->verifier, key, err) < 0)
        return err_number(err);
    return receipt_check(r, key, verifier_check, a->verifier, why);
}

static int print_verdict(struct ask *a, const struct receipt *r, const struct err *why,
                         struct err *err)
{
    struct json_writer w;
    struct checkpoint c;
    const char *id = json_text(r->tree, "sandbox_id");
    jw_init(&w, &a->out, false);
    jw_object_begin(&w);
    jw_kv_bool(&w, "good", !why->code);
    jw_kv_string(&w, "why", why->code ? why->message : NULL);
    jw_kv_string(&w, "sandbox_id", id);
    if (r->is_signed && checkpoint_parse(r->checkpoint.data, r->checkpoint.len, &c, NULL) >= 0) {
        write_hex(&w, "key", "sha256:", r->key);
        jw_kv_uint(&w, "seq", c.seq);
        write_hex(&w, "hash", "", c.hash);
        jw_kv_string(&w, "time", c.time);
        jw_kv_bool(&w, "run", strstr(buf_text(&r->record), "\"kind\":\"" RECEIPT_RUN "\"") != NULL);
    }
    return finish(a, &w, err) < 0 ? err_number(err) : why->code != ERR_NONE;
}

int ask_receipt_verify(struct ask *a, struct err *err)
{
    struct receipt r;
    struct err why = ERR_INIT;
    cleanup_buf struct buf text;
    buf_init(&text, FILE_MAX);
    if (read_file(ask_text(a, "file"), &text, err) < 0)
        return err_number(err);
    receipt_init(&r);
    int result = receipt_parse(text.data, text.len, &r, &why);
    if (result < 0)
        err_wrap(&why, "it is not as it was written");
    else
        (void)check(a, &r, &why, err);
    result = err->code ? err_number(err) : print_verdict(a, &r, &why, err);
    receipt_done(&r);
    return result;
}

/* ---- the key ---- */

int ask_receipt_key(struct ask *a, struct err *err)
{
    char pem[SIGN_PEM_MAX];
    uint8_t key[32];
    struct json_writer w;
    if (sign_public(a->folder, pem, err) < 0 || verifier_open(&a->verifier, a->folder, err) < 0 ||
        verifier_key(a->verifier, key, err) < 0)
        return err_number(err);
    jw_init(&w, &a->out, false);
    jw_object_begin(&w);
    write_hex(&w, "key", "sha256:", key);
    jw_kv_string(&w, "pem", pem);
    return finish(a, &w, err);
}
