/* Any sequence of accesses to a device's registers: offsets, widths, values and order are the
 * guest's. */
#include "engines/vm/vsock.h"
#include "vm_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver v = {0};
    static struct vsock vsock;
    driver_memory(&v);
    vsock_init(&vsock, &v.memory);
    v.device = &vsock.device;
    if (size > 0 && (data[0] & 1))
        driver_start(&v, &vsock.device);
    memcpy(v.memory.host, data, size < DRIVER_MEMORY ? size : DRIVER_MEMORY);
    for (size_t i = 1; i + 8 <= size; i += 8) {
        uint8_t value[8] = {data[i + 3], data[i + 4], data[i + 5], data[i + 6], 0, 0, 0, 0};
        uint32_t offset = (data[i] | (uint32_t)data[i + 1] << 8) & 0x3ff;
        unsigned width = data[i + 2] & 15;
        if (data[i + 7] & 1)
            device_write(&vsock.device, offset, width, value);
        else
            device_read(&vsock.device, offset, width, value);
        device_notify(&vsock.device, data[i + 7] >> 1);
        vsock_flush(&vsock);
    }
    free(v.memory.host);
    return 0;
}
