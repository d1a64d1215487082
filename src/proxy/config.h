/* What the supervisor tells a proxy at its start, as JSON in a sealed memory file. */
#pragma once

#include "proxy/proxy.h"

struct config {
    struct json *tree; /* the texts below point into it */
    struct rules *rules;
    const char *auth, *resolver, *roots;
    struct seal who;
    unsigned max_connections;
    unsigned learn;      /* 1: learn mode */
    unsigned cpus_milli; /* see pace.h */
};
int config_read(int fd, struct config *ret, struct err *err); /* does not take the descriptor */
void config_done(struct config *c);                           /* `rules` is the caller's */
/* "Basic " and the base64 of "brig:TOKEN"; NULL without memory. */
char *config_auth(const char *token);
