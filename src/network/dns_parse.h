/* The DNS responder inside the sandbox: one question in, one answer out. No resolver: an allowed
 * name gets a stand-in address that leads back to the name, every other name does not exist. */
#pragma once

#include "http/host.h"

#include <sys/types.h>

#define DNS_MESSAGE_MAX 512

struct dns_question {
    uint16_t id;
    bool recursion_desired;
    uint16_t type; /* 1 A, 28 AAAA, anything else is answered with "none of that type" */
    struct host name;
    uint8_t raw[260]; /* the question section as it came, to be repeated */
    size_t raw_len;
};

/* Exactly one question of class IN, no compression in it, QR clear, opcode 0; an OPT record behind
 * it is ignored. Negative: drop it (or answer FORMERR where `ret->id` could be read: -EBADMSG). */
int dns_question_parse(const uint8_t *msg, size_t len, struct dns_question *ret, struct err *err);

enum dns_answer {
    DNS_ADDRESS, /* `addr`: 4 or 16 bytes, by the question's type */
    DNS_NO_DATA, /* the name exists, this type does not */
    DNS_NXDOMAIN,
    DNS_REFUSED, /* over a cap */
    DNS_FORMERR, /* for a question that dns_question_parse refused with -EBADMSG */
};
size_t dns_answer_write(const struct dns_question *q, enum dns_answer answer, const uint8_t *addr,
                        uint8_t out[static DNS_MESSAGE_MAX]);
