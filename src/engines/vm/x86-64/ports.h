/* The ports of a machine on x86-64: no device is behind them. Two registers switch it off and
 * restart it; a few others are answered as a machine does that lacks what a kernel looks for there,
 * because some answers make it wait. */
#pragma once

#include "engines/vm/machine_end.h"

#include <stdbool.h>
#include <stdint.h>

#define PORT_SLEEP        0x600u
#define PORT_SLEEP_STATUS 0x601u
#define PORT_RESET        0x602u
#define PORTS_RESET_VALUE 1u
#define PORTS_SLEEP_OFF   5u /* the type of sleep that is none */

/* One access of `count` pieces of `width` bytes: what is read is put into data, which has `room`
 * bytes. All numbers are the guest's, or KVM's. */
struct ports_access {
    uint16_t port;
    bool write;
    unsigned width, count;
    uint8_t *data;
    uint64_t room;
};
enum machine_end ports_access(const struct ports_access *a);
