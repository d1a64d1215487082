/* The closed internet of `brig verify`: three HTTP servers and a name server on loopback, in a
 * process of their own, that write down what reached them. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum lab_server {
    LAB_BOUND,  /* a rule and a secret */
    LAB_PLAIN,  /* a rule */
    LAB_CLOSED, /* neither */
    LAB_SERVERS,
};

/* Shared with the process; only it writes. */
struct lab_notes {
    volatile uint32_t requests[LAB_SERVERS];
    volatile uint32_t with_secret[LAB_SERVERS];
    volatile uint32_t secret_in_line; /* of a request: its path or query */
    volatile uint32_t redirected;     /* somebody followed */
    volatile uint32_t inner;          /* the request for the name that leads to loopback */
    volatile uint32_t questions;      /* names asked for */
    volatile uint32_t closed_questions;
};

struct lab {
    struct lab_notes *notes;
    pid_t pid;
    uint16_t ports[LAB_SERVERS];
    uint16_t names;
};

int lab_open(struct lab *lab, const char *secret, struct err *err);
void lab_reset(struct lab *lab);
void lab_close(struct lab *lab);
