/* Values of JavaScript to C and back, and whole files. */
#include "modules/javascript/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX (1u << 30)

JSValue host_result(JSContext *ctx, int r)
{
    return JS_NewInt32(ctx, r < 0 ? -errno : r);
}

JSValue host_pair(JSContext *ctx, JSValue value, int code)
{
    JSValue both = JS_NewArray(ctx);
    JS_DefinePropertyValueUint32(ctx, both, 0, value, JS_PROP_C_W_E);
    JS_DefinePropertyValueUint32(ctx, both, 1, JS_NewInt32(ctx, code), JS_PROP_C_W_E);
    return both;
}

int host_number(JSContext *ctx, int argc, JSValueConst *argv, int i, int otherwise)
{
    int32_t n = otherwise;
    if (i < argc && !JS_IsUndefined(argv[i]))
        JS_ToInt32(ctx, &n, argv[i]);
    return n;
}

int host_write_bytes(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

struct bytes host_bytes_of(JSContext *ctx, JSValueConst value)
{
    struct bytes b = {0};
    size_t offset = 0, whole = 0, each;
    if (JS_IsString(value)) {
        b.data = b.text = JS_ToCStringLen(ctx, &b.len, value);
        return b;
    }
    b.data = (const char *)JS_GetArrayBuffer(ctx, &b.len, value);
    if (b.data)
        return b;
    JS_FreeValue(ctx, JS_GetException(ctx));
    JSValue buffer = JS_GetTypedArrayBuffer(ctx, value, &offset, &b.len, &each);
    uint8_t *data = JS_IsException(buffer) ? NULL : JS_GetArrayBuffer(ctx, &whole, buffer);
    JS_FreeValue(ctx, buffer);
    b.data = data ? (const char *)data + offset : NULL;
    return b;
}

char *host_read_rest(int fd, size_t *len)
{
    size_t size = 1 << 16, used = 0;
    char *data = malloc(size + 1);
    while (data) {
        if (used == size) {
            char *more = size >= FILE_MAX ? NULL : realloc(data, 2 * size + 1);
            if (!more) {
                free(data);
                errno = ENOMEM;
                return NULL;
            }
            data = more;
            size *= 2;
        }
        ssize_t n = read(fd, data + used, size - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            free(data);
            return NULL;
        }
        if (n == 0)
            break;
        used += (size_t)n;
    }
    if (data)
        data[used] = '\0';
    *len = used;
    return data;
}

char *host_read_path(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return NULL;
    char *data = host_read_rest(fd, len);
    int code = errno;
    close(fd);
    errno = code;
    return data;
}

double host_milliseconds(const struct timespec *t)
{
    return (double)t->tv_sec * 1e3 + (double)t->tv_nsec / 1e6;
}
