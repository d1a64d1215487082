/* The certificates that upstream servers are verified against: read as text before the process is
 * sealed, decoded at the first use, and made into OpenSSL's objects one by one, when a chain asks
 * for one by name. Building all 140 of a usual store would cost milliseconds and megabytes. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <openssl/x509_vfy.h>

struct root {
    uint32_t at, len; /* in `der` */
    uint32_t subject_at, subject_len;
    bool loaded; /* is in the store */
};

struct roots {
    struct buf text; /* the host's bundle, until it is decoded */
    struct buf der;
    struct root *items;
    size_t count, room;
    X509_LOOKUP_METHOD *method;
};

/* The host's store; a host without one trusts nobody. */
void roots_read(struct roots *r);
/* A file of the operator's own. Here everything must be right. */
int roots_add(struct roots *r, const char *path, struct err *err);
/* A store that looks here; `r` must outlive it. NULL: no memory. */
X509_STORE *roots_store(struct roots *r);
void roots_done(struct roots *r);
