/* What upstream servers gave us to come back with. A connection that resumes one verifies no
 * certificates again and keeps none in memory. Keyed by the exact host whose certificate was
 * verified; a session is used for minutes, not for as long as the server would have it. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define TICKETS_MAX 64

struct tickets {
    struct ticket {
        char host[256];
        SSL_SESSION *session;
        uint64_t verified_ms; /* when a whole handshake was last made */
        uint64_t used;
    } items[TICKETS_MAX];
    size_t count;
    uint64_t clock;
};

/* NULL: none that may still be used; borrowed. */
SSL_SESSION *tickets_find(struct tickets *s, const char *host, uint64_t now_ms);
/* Takes a reference of its own. `resumed`: it came over a connection that was resumed itself, so
 * that nothing was verified. */
void tickets_keep(struct tickets *s, const char *host, SSL_SESSION *session, bool resumed,
                  uint64_t now_ms);
void tickets_done(struct tickets *s);
