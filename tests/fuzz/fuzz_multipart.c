/* multipart/form-data in pieces of every size: what is found does not depend on how the body was
 * cut, and nothing but the body itself comes out as data. The first byte is the size of the pieces.
 */
#include "http/multipart.h"

#include "base/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_all(const char *text, size_t len, size_t step, struct buf *out)
{
    static struct multipart m;
    struct err err = ERR_INIT;
    unsigned idle = 0;
    if (multipart_init(&m, "multipart/form-data; boundary=b", NULL) < 0)
        abort();
    for (size_t at = 0; at < len;) {
        size_t n = len - at < step ? len - at : step;
        enum multipart_event event;
        ssize_t taken = multipart_read(&m, text + at, n, &event, &err);
        if (taken < 0) {
            if (!err.message[0])
                abort();
            return -1;
        }
        idle = taken ? 0 : idle + 1;
        if ((size_t)taken > n || idle > 1)
            abort();
        at += (size_t)taken;
        if (event == MULTIPART_PART)
            buf_fmt(out, "[%s|%s]", m.name, m.filename);
        else if (event == MULTIPART_DATA)
            buf_add(out, m.data, m.data_len);
        else if (event == MULTIPART_END)
            buf_chr(out, '.');
    }
    return multipart_complete(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf a, b;
    if (!size)
        return 0;
    buf_init(&a, 4 * size + 65536);
    buf_init(&b, 4 * size + 65536);
    const char *text = (const char *)data + 1;
    int whole = read_all(text, size - 1, size, &a);
    int cut = read_all(text, size - 1, data[0] % 64 + 1, &b);
    if (whole != cut ||
        (whole >= 0 && (a.len != b.len || (a.len && memcmp(a.data, b.data, a.len)))))
        abort();
    buf_done(&a);
    buf_done(&b);
    return 0;
}
