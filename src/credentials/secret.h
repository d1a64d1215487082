/* A secret: locked in memory, left out of dumps, wiped when it is freed. It has no formatting
 * function, so that printing one does not compile; the few files that must see the bytes (inject.c,
 * redact.c, keeper.c and its sources) say so by calling secret_expose.
 *
 * Exists in brig-proxy and its keeper alone: the supervisor and the sandbox never hold one.
 *
 * C-4  A value is printable ASCII: nothing in it can end a header line or begin another. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECRET_MIN     8
#define SECRET_MAX     8192
#define SECRET_FOREVER UINT64_MAX

struct secret;
/* Refuses control bytes (so: CR, LF, NUL), non-ASCII, and lengths out of range; one trailing
 * newline is cut off first. Fails where not even one page can be locked; once one is, a value that
 * no longer fits under the limit is kept unlocked and counted. */
int secret_new(const char *bytes, size_t len, struct secret **ret, struct err *err);
void secret_free(struct secret *s); /* takes NULL */
const char *secret_expose(const struct secret *s, size_t *ret_len);

/* C-6  No use after its end: a value that has lived for `ms` is refused by inject_apply, whether or
 * not a new one has come. The clock goes on while the machine sleeps. */
void secret_set_lifetime(struct secret *s, uint64_t ms); /* SECRET_FOREVER: no end */
uint64_t secret_lifetime_left(const struct secret *s);   /* ms; 0: it is over */
bool secret_expired(const struct secret *s);

/* How many values of this process are locked, and how many are not: facts for the receipt. */
void secret_count(unsigned *ret_locked, unsigned *ret_unlocked);
/* Overwrites in a way that the compiler does not leave out. */
void secret_wipe(void *data, size_t len);

static inline void secret_freep(struct secret **s)
{
    secret_free(*s);
}
#define cleanup_secret __attribute__((cleanup(secret_freep)))
