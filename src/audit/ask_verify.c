/* Verification: of the database, or of an export with nothing but the public key. */
#include "audit/ask.h"
#include "audit/export.h"
#include "base/hex.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ask_print_verdict(struct ask *a, const struct verify_result *r, struct err *err)
{
    struct json_writer w;
    jw_init(&w, &a->out, false);
    jw_object_begin(&w);
    verify_write_json(r, &w);
    jw_object_end(&w);
    buf_str(&a->out, "\n{\"end\":{}}\n");
    return ask_flush(a, err) < 0 ? err_number(err) : !r->good;
}

int ask_load_key(struct ask *a, struct err *err)
{
    const char *path = ask_text(a, "public_key");
    char text[SIGN_PEM_MAX];
    if (!path)
        return 0;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (n < 0)
        return err_sys(err, "read %s", path);
    return verifier_new(&a->verifier, text, (size_t)n, err) < 0 ? err_wrap(err, "%s", path) : 0;
}

/* ---- the database ---- */

/* "SEQ:HASH", written down when it was good: a log that was put back to an older state, or made
 * anew by somebody who holds the key, does not lead there. */
static int check_expected(struct ask *a, struct verify_result *result, struct err *err)
{
    const char *expect = ask_text(a, "expect");
    uint8_t want[32], have[32];
    char *colon = NULL;
    if (!expect || !result->good)
        return 0;
    errno = 0;
    uint64_t seq = strtoull(expect, &colon, 10);
    if (errno || *colon != ':' || !hex_decode(colon + 1, want, 32))
        return err_set(err, ERR_USAGE, "what is expected is SEQ:HASH, as verify prints it");
    if (seq <= result->last && store_hash_of(a->store, seq, have, err) >= 0 &&
        memcmp(want, have, 32) == 0)
        return 0;
    result->good = false;
    result->seq = seq;
    snprintf(result->why, sizeof result->why,
             seq > result->last ? "the end is cut off: record %" PRIu64 " was there and is missing"
                                : "record %" PRIu64
                                  " is not the one that was expected: the log was rewritten",
             seq);
    return 0;
}

static int verify_store(struct ask *a, struct err *err)
{
    struct verify_run *run = NULL;
    struct verify_result result;
    int r = store_verify_begin(a->store, a->verifier, &run, err);
    if (r < 0)
        return r;
    while ((r = store_verify_step(run, 10000, err)) > 0)
        ;
    store_verify_end(run, &result);
    if (r < 0 || check_expected(a, &result, err) < 0)
        return err_number(err);
    return ask_print_verdict(a, &result, err);
}

/* ---- an export ---- */

static int read_lines(FILE *f, struct export_check *c, struct err *err)
{
    /* Longer ones are malformed; they come in pieces, each of which is. */
    char *line = malloc(EXPORT_LINE_MAX + 2);
    if (!line)
        return err_memory(err);
    while (fgets(line, EXPORT_LINE_MAX + 2, f)) {
        size_t len = strlen(line);
        if (len && line[len - 1] == '\n')
            len--;
        export_check_line(c, line, len);
    }
    free(line);
    return ferror(f) ? err_sys(err, "read the export") : 0;
}

static int verify_export(struct ask *a, const char *path, struct err *err)
{
    struct verify_result result;
    struct export_check *c = NULL;
    if (export_check_new(&c, verifier_check, a->verifier, err) < 0)
        return err_number(err);
    FILE *f = fopen(path, "re");
    int r = f ? read_lines(f, c, err) : err_sys(err, "open %s", path);
    if (f)
        fclose(f);
    export_check_end(c, &result);
    return r < 0 ? r : ask_print_verdict(a, &result, err);
}

int ask_verify(struct ask *a, struct err *err)
{
    const char *path = ask_text(a, "export");
    if (path && !a->verifier) {
        err_set(err, ERR_USAGE, "an export is verified with a public key");
        return err_hint(err, "give --public-key FILE: signing.pub, from where you kept it");
    }
    return path ? verify_export(a, path, err) : verify_store(a, err);
}
