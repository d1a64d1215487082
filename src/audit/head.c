/* The file `head`: {"checkpoint":{"hash","seq","time"},"signature":hex}, the signed place that the
 * records reached last. Always whole: written beside, then renamed. */
#include "audit/store.h"

#include "base/cleanup.h"
#include "base/hex.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HEAD_FILE "head"
#define HEAD_NEW  "head.new"
#define HEAD_MAX  1024

static const char before[] = "{\"checkpoint\":";
static const char between[] = ",\"signature\":\"";

/* Our own form and no other: the line is taken as it stands, since it is what was signed. */
static bool parse(const char *text, struct head *ret)
{
    size_t start = sizeof before - 1;
    const char *mid = strstr(text, between);
    if (strncmp(text, before, start) != 0 || !mid)
        return false;
    ret->len = (size_t)(mid - text) - start;
    if (ret->len > CHAIN_CHECKPOINT_MAX)
        return false;
    memcpy(ret->line, text + start, ret->len);
    ret->line[ret->len] = '\0';
    const char *hex = mid + sizeof between - 1;
    size_t hex_len = strspn(hex, HEX_DIGITS);
    char digits[2 * CHAIN_SIGNATURE + 1] = "";
    if (hex_len != sizeof digits - 1 || strcmp(hex + hex_len, "\"}\n") != 0)
        return false;
    memcpy(digits, hex, hex_len);
    return hex_decode(digits, ret->signature, CHAIN_SIGNATURE);
}

int head_read(int dir, struct head *ret, struct err *err)
{
    char text[HEAD_MAX];
    cleanup_fd int fd =
        openat(dir, HEAD_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, "open %s", HEAD_FILE);
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n < 0)
        return err_sys(err, "read %s", HEAD_FILE);
    text[n] = '\0';
    if (!parse(text, ret))
        return err_set(err, ERR_ATTEST, "the file of the newest checkpoint cannot be read");
    return 1;
}

int head_write(int dir, const struct head *h, bool durable, struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, HEAD_MAX);
    buf_str(&text, before);
    buf_add(&text, h->line, h->len);
    buf_str(&text, between);
    hex_write(&text, h->signature, CHAIN_SIGNATURE);
    buf_str(&text, "\"}\n");
    cleanup_fd int fd =
        openat(dir, HEAD_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "make %s", HEAD_NEW);
    if (write(fd, buf_text(&text), text.len) != (ssize_t)text.len || (durable && fdatasync(fd) < 0))
        return err_sys(err, "write %s", HEAD_NEW);
    if (renameat(dir, HEAD_NEW, dir, HEAD_FILE) < 0)
        return err_sys(err, "put %s in its place", HEAD_FILE);
    return 0;
}
