/* What the guest says to the ports. */
#include "engines/vm/x86-64/ports.h"

#include <string.h>

#define PORT_CLOCK       0x71u /* the clock's: 0xff would be an update that never ends */
#define PORT_KEYBOARD    0x64u /* its controller's: 0xff would be a command never taken */
#define KEYBOARD_RESTART 0xfeu
#define SLEEP_ENABLE     0x20u
#define SLEEP_TYPE(x)    ((x) >> 2 & 7u)

static enum machine_end written(uint16_t port, uint8_t value)
{
    if (port == PORT_SLEEP && (value & SLEEP_ENABLE) && SLEEP_TYPE(value) == PORTS_SLEEP_OFF)
        return MACHINE_OFF;
    if ((port == PORT_RESET && value == PORTS_RESET_VALUE) ||
        (port == PORT_KEYBOARD && value == KEYBOARD_RESTART))
        return MACHINE_RESET;
    return MACHINE_GOES_ON;
}

/* 0xff: nobody answers. */
static uint8_t answer(uint16_t port)
{
    switch (port) {
    case PORT_CLOCK:
    case PORT_KEYBOARD:
    case PORT_SLEEP:
    case PORT_SLEEP_STATUS:
        return 0;
    default:
        return 0xff;
    }
}

/* VM-1: KVM says where the bytes lie; that they do is checked all the same. */
enum machine_end ports_access(const struct ports_access *a)
{
    uint64_t len = (uint64_t)a->width * a->count;
    if (len == 0 || len > a->room || (a->width != 1 && a->width != 2 && a->width != 4))
        return MACHINE_BROKEN;
    if (a->write) /* each piece goes to the same port; the registers are of one byte */
        return written(a->port, a->data[0]);
    memset(a->data, answer(a->port), len);
    return MACHINE_GOES_ON;
}
