/* Any packets from the guest. Whatever they claim, a stream holds no more than its window. */
#include "engines/vm/vsock.h"
#include "vm_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each packet of the input has a length before it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver v = {0};
    static struct vsock vsock;
    size_t len;
    driver_memory(&v);
    vsock_init(&vsock, &v.memory);
    driver_start(&v, &vsock.device);
    for (size_t at = 0; at + 2 < size;) {
        /* A buffer for answers, sometimes. */
        if (data[at] & 1) {
            driver_part(&v, 0, 5, DRIVER_BASE + DRIVER_PART + 0x20000, 4096, 2, 0);
            driver_offer(&v, 0, 5);
        }
        at += driver_packet(&v, 0xff, data + at, size - at);
        for (unsigned i = 0; i < VSOCK_STREAMS; i++) {
            if (vsock.streams[i].from_len > VSOCK_WINDOW || vsock.streams[i].to_len > VSOCK_WINDOW)
                abort();
            vsock_data(&vsock, i, &len);
            vsock_drop(&vsock, i, len / 2);
            vsock_put(&vsock, i, "answer", 6);
        }
        vsock_flush(&vsock);
    }
    free(v.memory.host);
    return 0;
}
