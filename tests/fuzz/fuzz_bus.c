/* A message of D-Bus: what is read of it lies within it. */
#include "oci/bus.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void within(const uint8_t *data, size_t size, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    if (text && (at < data || at + strlen(text) >= data + size))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bus_message m;
    if (size < 16)
        return 0;
    size_t len = bus_length(data);
    if (len > BUS_MESSAGE_MAX || !bus_parse(data, size, &m))
        return 0;
    if (len != size || m.body_len > size)
        abort();
    within(data, size, m.member);
    within(data, size, m.error);
    within(data, size, m.signature);
    for (unsigned i = 0; i < 8; i++)
        within(data, size, bus_text_at(&m, i));
    return 0;
}
