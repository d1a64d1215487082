/* Each value has pages of its own, between two that cannot be touched: what runs over the end of
 * another object does not reach it, and what runs over its end does not reach another object. */
#include "credentials/secret.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct secret {
    size_t map_len; /* with both guards */
    size_t len;
    uint64_t ends_ms; /* CLOCK_BOOTTIME; SECRET_FOREVER */
    bool locked;
    char bytes[];
};

static unsigned locked_count, unlocked_count;

void secret_wipe(void *data, size_t len)
{
    if (data && len > 0)
        explicit_bzero(data, len);
}

void secret_count(unsigned *ret_locked, unsigned *ret_unlocked)
{
    *ret_locked = locked_count;
    *ret_unlocked = unlocked_count;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Never says what the bytes are, only where the first bad one is. */
static int check_bytes(const char *bytes, size_t len, struct err *err)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c < 0x7f)
            continue;
        err_set(err, ERR_REFUSED, "the value has %s at byte %zu",
                c >= 0x7f                ? "a byte that is not ASCII"
                : c == '\n' || c == '\r' ? "a line break"
                                         : "a control byte",
                i + 1);
        return err_hint(err, "a credential is one line of printable ASCII");
    }
    if (len > 0 && (bytes[0] == ' ' || bytes[len - 1] == ' '))
        return err_set(err, ERR_REFUSED, "the value begins or ends with a blank");
    if (len < SECRET_MIN)
        return err_set(err, ERR_REFUSED,
                       "the value has %zu bytes; fewer than %d cannot be kept secret", len,
                       SECRET_MIN);
    if (len > SECRET_MAX)
        return err_set(err, ERR_REFUSED, "the value is longer than %d bytes", SECRET_MAX);
    return 0;
}

/* Best first: a lock is refused by RLIMIT_MEMLOCK, and then only the first refusal is an error. */
static int lock_pages(struct secret *s, void *pages, size_t len, struct err *err)
{
    /* Not through the C library: sanitizers turn its mlock into nothing. */
    s->locked = syscall(SYS_mlock, pages, len) == 0;
    if (!s->locked && locked_count == 0) {
        err_sys(err, "lock %zu bytes of memory for a secret", len);
        return err_hint(err, "raise the limit of locked memory (ulimit -l) above 64 KiB");
    }
    if (s->locked)
        locked_count++;
    else
        unlocked_count++;
    return 0;
}

static int map_pages(size_t bytes, struct secret **ret, struct err *err)
{
    size_t page = page_size();
    size_t inner = (sizeof(struct secret) + bytes + page - 1) / page * page;
    char *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return err_sys(err, "map memory for a secret");
    struct secret *s = (struct secret *)(map + page);
    if (mprotect(s, inner, PROT_READ | PROT_WRITE) < 0 || madvise(s, inner, MADV_DONTDUMP) < 0) {
        err_sys(err, "protect memory for a secret");
        munmap(map, inner + 2 * page);
        return err_number(err);
    }
    /* A helper program that the keeper starts begins as its copy: these pages are empty there. */
    madvise(s, inner, MADV_WIPEONFORK);
    s->map_len = inner + 2 * page;
    if (lock_pages(s, s, inner, err) < 0) {
        munmap(map, inner + 2 * page);
        return err_number(err);
    }
    *ret = s;
    return 0;
}

int secret_new(const char *bytes, size_t len, struct secret **ret, struct err *err)
{
    if (len > 0 && bytes[len - 1] == '\n')
        len--;
    if (check_bytes(bytes, len, err) < 0)
        return err_number(err);
    struct secret *s = NULL;
    if (map_pages(len + 1, &s, err) < 0)
        return err_number(err);
    memcpy(s->bytes, bytes, len);
    s->len = len;
    s->ends_ms = SECRET_FOREVER;
    *ret = s;
    return 0;
}

void secret_free(struct secret *s)
{
    if (!s)
        return;
    size_t page = page_size(), map_len = s->map_len;
    *(s->locked ? &locked_count : &unlocked_count) -= 1;
    secret_wipe(s, map_len - 2 * page);
    munmap((char *)s - page, map_len);
}

const char *secret_expose(const struct secret *s, size_t *ret_len)
{
    if (ret_len)
        *ret_len = s->len;
    return s->bytes;
}

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void secret_set_lifetime(struct secret *s, uint64_t ms)
{
    uint64_t now = now_ms();
    s->ends_ms = ms >= SECRET_FOREVER - now ? SECRET_FOREVER : now + ms;
}

uint64_t secret_lifetime_left(const struct secret *s)
{
    uint64_t now = now_ms();
    if (s->ends_ms == SECRET_FOREVER)
        return SECRET_FOREVER;
    return s->ends_ms > now ? s->ends_ms - now : 0;
}

bool secret_expired(const struct secret *s)
{
    return secret_lifetime_left(s) == 0;
}
