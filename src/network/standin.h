/* Stand-in addresses: 198.18.0.0/15 and its v6 twin. Each allowed name that was asked for gets one;
 * a connection to it leads back to the name. Bounded: when the table is full, nothing new is
 * answered. */
#pragma once

#include "http/host.h"

#include <sys/socket.h>

#define STANDIN_MAX 1024

struct standins {
    struct host *names; /* the i-th has 198.18.(1+i/256).(i%256) and fd62:7269:6700::i+1 */
    size_t count;
};
void standins_done(struct standins *s);
/* The index of the name, new or known; negative when full. */
int standin_of(struct standins *s, const struct host *name);
void standin_v4(int index, uint8_t ret[static 4]);
void standin_v6(int index, uint8_t ret[static 16]);
/* NULL: no stand-in of ours. v4-mapped v6 counts as v4. */
const struct host *standin_name(const struct standins *s, const struct sockaddr *sa);
