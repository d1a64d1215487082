/* The form of a tar archive, as GNU's tar writes it: every name and target of any length. */
#include "images/load/tar.h"

#include "base/cleanup.h"
#include "base/hex.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK          512
#define NAME_SIZE      100
#define CHUNK          (256u << 10)
#define SIZE_MAX_OCTAL (UINT64_C(1) << 33)

struct header {
    char name[NAME_SIZE], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type;
    char link[NAME_SIZE], magic[8], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a block of a tar archive");

static int put(struct tar *t, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    sha256_add(&t->sha, data, len);
    t->size += len;
    while (len) {
        ssize_t n = write(t->fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "write the layer");
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int pad(struct tar *t, uint64_t len, struct err *err)
{
    static const char zeros[BLOCK];
    return len % BLOCK ? put(t, zeros, BLOCK - len % BLOCK, err) : 0;
}

/* Eleven octal digits say up to 8 GiB; what is larger is written in binary, as GNU's tar does. */
static void put_number(char field[static 12], uint64_t number)
{
    char text[32];
    if (number < SIZE_MAX_OCTAL) {
        snprintf(text, sizeof text, "%011" PRIo64, number);
        memcpy(field, text, 12);
        return;
    }
    memset(field, 0, 12);
    field[0] = (char)0x80;
    for (int i = 11; number; i--, number >>= 8)
        field[i] = (char)(number & 0xff);
}

static int put_header(struct tar *t, const char *name, const char *link, char type, mode_t mode,
                      uint64_t size, time_t time, struct err *err)
{
    struct header h = {.type = type};
    unsigned sum = 0;
    memcpy(h.name, name, strnlen(name, sizeof h.name));
    memcpy(h.link, link, strnlen(link, sizeof h.link));
    memcpy(h.magic, "ustar  ", 8);
    snprintf(h.mode, sizeof h.mode, "%07o", (unsigned)mode & 01777);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    put_number(h.size, size);
    put_number(h.mtime, time > 0 ? (uint64_t)time : 0);
    memset(h.sum, ' ', sizeof h.sum);
    for (size_t i = 0; i < sizeof h; i++)
        sum += ((const unsigned char *)&h)[i];
    snprintf(h.sum, sizeof h.sum, "%06o", sum);
    return put(t, &h, sizeof h, err);
}

/* A name that does not fit comes before its header, as an entry of its own. */
static int put_long(struct tar *t, const char *text, char type, struct err *err)
{
    size_t len = strlen(text) + 1;
    if (len <= NAME_SIZE)
        return 0;
    if (put_header(t, "././@LongLink", "", type, 0644, len, 0, err) < 0 ||
        put(t, text, len, err) < 0)
        return err_number(err);
    return pad(t, len, err);
}

static int put_entry(struct tar *t, const char *name, const char *link, char type, mode_t mode,
                     uint64_t size, time_t time, struct err *err)
{
    t->entries++;
    if (put_long(t, link, 'K', err) < 0 || put_long(t, name, 'L', err) < 0)
        return err_number(err);
    return put_header(t, name, link, type, mode, size, time, err);
}

int tar_folder(struct tar *t, const char *name, mode_t mode, time_t time, struct err *err)
{
    return put_entry(t, name, "", '5', mode, 0, time, err);
}

int tar_link(struct tar *t, const char *name, const char *target, time_t time, struct err *err)
{
    return put_entry(t, name, target, '2', 0777, 0, time, err);
}

int tar_hard_link(struct tar *t, const char *name, const char *to, struct err *err)
{
    return put_entry(t, name, to, '1', 0644, 0, 0, err);
}

int tar_text(struct tar *t, const char *name, const void *data, size_t len, mode_t mode,
             struct err *err)
{
    if (put_entry(t, name, "", '0', mode, len, 0, err) < 0 || put(t, data, len, err) < 0)
        return err_number(err);
    return pad(t, len, err);
}

/* A file that grows meanwhile keeps the size that was said. */
int tar_file(struct tar *t, const char *name, int fd, uint64_t size, mode_t mode, time_t time,
             const char *of, struct err *err)
{
    if (put_entry(t, name, "", '0', mode & 0777, size, time, err) < 0)
        return err_number(err);
    for (uint64_t left = size; left;) {
        ssize_t n = read(fd, t->chunk, left < CHUNK ? (size_t)left : CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "read a file of %s", of);
        if (n == 0)
            return err_set(err, ERR_REFUSED, "a file of %s changed while it was read", of);
        if (put(t, t->chunk, (size_t)n, err) < 0)
            return err_number(err);
        left -= (uint64_t)n;
    }
    return pad(t, size, err);
}

int tar_begin(struct tar *t, int fd, struct err *err)
{
    *t = (struct tar){.fd = fd, .chunk = malloc(CHUNK)};
    sha256_init(&t->sha);
    return t->chunk ? 0 : err_memory(err);
}

void tar_done(struct tar *t)
{
    free(t->chunk);
    t->chunk = NULL;
}

int tar_end(struct tar *t, char digest[static DIGEST_SIZE], struct err *err)
{
    static const char end[2 * BLOCK];
    uint8_t hash[SHA256_SIZE];
    if (put(t, end, sizeof end, err) < 0)
        return err_number(err);
    sha256_finish(&t->sha, hash);
    memcpy(digest, "sha256:", 8);
    hex_encode(hash, sizeof hash, digest + 7);
    return 0;
}
