/* Any access to a machine's ports: nothing outside of the bytes that KVM gave is touched, and only
 * the few registers that may end the machine do. */
#include "engines/vm/x86-64/ports.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct ports_access *a, enum machine_end end)
{
    if (end == MACHINE_BROKEN || end == MACHINE_GOES_ON)
        return;
    if (!a->write || (end == MACHINE_OFF && a->port != PORT_SLEEP) ||
        (end == MACHINE_RESET && a->port != PORT_RESET && a->port != 0x64) ||
        (end != MACHINE_OFF && end != MACHINE_RESET))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 6 <= size; i += 6) {
        size_t room = data[i + 5] & 31;
        uint8_t *bytes = malloc(room ? room : 1);
        if (!bytes)
            abort();
        memset(bytes, data[i + 4], room);
        struct ports_access a = {.port = (uint16_t)(data[i] | data[i + 1] << 8),
                                 .write = data[i + 5] >> 7,
                                 .width = data[i + 2],
                                 .count = data[i + 3] & 0x40 ? ~0u : data[i + 3],
                                 .data = bytes,
                                 .room = room};
        check(&a, ports_access(&a));
        free(bytes);
    }
    return 0;
}
