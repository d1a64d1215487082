/* What `std` and `os` do with descriptors and files. */
#include "modules/javascript/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* write(fd, text or bytes) */
JS_CALL host_write(JS_ARGS)
{
    struct bytes b = host_bytes_of(ctx, argv[1]);
    if (!b.data)
        return JS_EXCEPTION;
    int r = host_write_bytes(host_number(ctx, argc, argv, 0, -1), b.data, b.len);
    JSValue ret = host_result(ctx, r);
    if (b.text)
        JS_FreeCString(ctx, b.text);
    return ret;
}

/* readAll(fd or path, binary): [text or buffer, error] */
JS_CALL host_read_all(JS_ARGS)
{
    size_t len = 0;
    const char *path = JS_IsString(argv[0]) ? JS_ToCString(ctx, argv[0]) : NULL;
    char *data = path ? host_read_path(path, &len)
                      : host_read_rest(host_number(ctx, argc, argv, 0, -1), &len);
    int code = errno;
    if (path)
        JS_FreeCString(ctx, path);
    if (!data)
        return host_pair(ctx, JS_NULL, -code);
    JSValue value = argc > 1 && JS_ToBool(ctx, argv[1])
                        ? JS_NewArrayBufferCopy(ctx, (const uint8_t *)data, len)
                        : JS_NewStringLen(ctx, data, len);
    free(data);
    return JS_IsException(value) ? value : host_pair(ctx, value, 0);
}

/* decode(bytes): a text; what is no UTF-8 becomes U+FFFD */
JS_CALL host_decode(JS_ARGS)
{
    struct bytes b = host_bytes_of(ctx, argv[0]);
    JSValue text = b.data ? JS_NewStringLen(ctx, b.data, b.len) : JS_EXCEPTION;
    if (b.text)
        JS_FreeCString(ctx, b.text);
    return text;
}

/* bytes(text): how many it has in UTF-8 */
JS_CALL host_bytes(JS_ARGS)
{
    size_t len = 0;
    const char *text = JS_ToCStringLen(ctx, &len, argv[0]);
    if (!text)
        return JS_EXCEPTION;
    JS_FreeCString(ctx, text);
    return JS_NewInt64(ctx, (int64_t)len);
}

/* ---- os ---- */

/* A name or two to one call. */
static JSValue with_path(JSContext *ctx, JSValueConst *argv, int argc, int (*call)(const char *))
{
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    JSValue ret = host_result(ctx, call(path));
    JS_FreeCString(ctx, path);
    return ret;
}

static JSValue with_paths(JSContext *ctx, JSValueConst *argv,
                          int (*call)(const char *, const char *))
{
    const char *a = JS_ToCString(ctx, argv[0]), *b = a ? JS_ToCString(ctx, argv[1]) : NULL;
    JSValue ret = b ? host_result(ctx, call(a, b)) : JS_EXCEPTION;
    if (a)
        JS_FreeCString(ctx, a);
    if (b)
        JS_FreeCString(ctx, b);
    return ret;
}

static int call_mkdir(const char *path)
{
    return mkdir(path, 0777);
}

JS_CALL os_remove(JS_ARGS)
{
    return with_path(ctx, argv, argc, remove);
}

JS_CALL os_mkdir(JS_ARGS)
{
    return with_path(ctx, argv, argc, call_mkdir);
}

JS_CALL os_chdir(JS_ARGS)
{
    return with_path(ctx, argv, argc, chdir);
}

JS_CALL os_rename(JS_ARGS)
{
    return with_paths(ctx, argv, rename);
}

JS_CALL os_symlink(JS_ARGS)
{
    return with_paths(ctx, argv, symlink);
}

JS_CALL os_open(JS_ARGS)
{
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    JSValue ret = host_result(ctx, open(path, host_number(ctx, argc, argv, 1, O_RDONLY), 0666));
    JS_FreeCString(ctx, path);
    return ret;
}

JS_CALL os_close(JS_ARGS)
{
    return host_result(ctx, close(host_number(ctx, argc, argv, 0, -1)));
}

JS_CALL os_isatty(JS_ARGS)
{
    return JS_NewBool(ctx, isatty(host_number(ctx, argc, argv, 0, -1)) == 1);
}

JS_CALL os_seek(JS_ARGS)
{
    int64_t at = 0;
    if (JS_ToInt64Ext(ctx, &at, argv[1]))
        return JS_EXCEPTION;
    off_t r =
        lseek(host_number(ctx, argc, argv, 0, -1), at, host_number(ctx, argc, argv, 2, SEEK_SET));
    return JS_NewInt64(ctx, r < 0 ? -errno : r);
}

/* read(fd, buffer, offset, length), and write */
static JSValue move(JSContext *ctx, int argc, JSValueConst *argv, bool out)
{
    uint64_t at = 0, len = 0;
    size_t size = 0;
    if (JS_ToIndex(ctx, &at, argv[2]) || JS_ToIndex(ctx, &len, argv[3]))
        return JS_EXCEPTION;
    uint8_t *data = JS_GetArrayBuffer(ctx, &size, argv[1]);
    if (!data && size == 0)
        return JS_EXCEPTION;
    if (at > size || len > size - at)
        return JS_ThrowRangeError(ctx, "more than is in the buffer");
    int fd = host_number(ctx, argc, argv, 0, -1);
    ssize_t n = out ? write(fd, data + at, len) : read(fd, data + at, len);
    return JS_NewInt64(ctx, n < 0 ? -errno : n);
}

JS_CALL os_read(JS_ARGS)
{
    return move(ctx, argc, argv, false);
}

JS_CALL os_write(JS_ARGS)
{
    return move(ctx, argc, argv, true);
}

JS_CALL os_getcwd(JS_ARGS)
{
    char here[PATH_MAX];
    bool known = getcwd(here, sizeof here) != NULL;
    return host_pair(ctx, JS_NewString(ctx, known ? here : ""), known ? 0 : errno);
}

JS_CALL os_readlink(JS_ARGS)
{
    char target[PATH_MAX];
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    ssize_t n = readlink(path, target, sizeof target - 1);
    int code = n < 0 ? errno : 0;
    JS_FreeCString(ctx, path);
    return host_pair(ctx, JS_NewStringLen(ctx, target, n < 0 ? 0 : (size_t)n), code);
}

JS_CALL os_readdir(JS_ARGS)
{
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    JSValue names = JS_NewArray(ctx);
    DIR *dir = opendir(path);
    int code = dir ? 0 : errno;
    JS_FreeCString(ctx, path);
    uint32_t count = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        JS_DefinePropertyValueUint32(ctx, names, count++, JS_NewString(ctx, e->d_name),
                                     JS_PROP_C_W_E);
    if (dir)
        closedir(dir);
    return host_pair(ctx, names, code);
}

static JSValue stat_with(JSContext *ctx, JSValueConst *argv,
                         int (*call)(const char *, struct stat *))
{
    struct stat sb;
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int r = call(path, &sb), code = r < 0 ? errno : 0;
    JS_FreeCString(ctx, path);
    if (r < 0)
        return host_pair(ctx, JS_NULL, code);
    const struct {
        const char *name;
        double value;
    } members[] = {
        {"dev", (double)sb.st_dev},
        {"ino", (double)sb.st_ino},
        {"mode", (double)sb.st_mode},
        {"nlink", (double)sb.st_nlink},
        {"size", (double)sb.st_size},
        {"atime", host_milliseconds(&sb.st_atim)},
        {"mtime", host_milliseconds(&sb.st_mtim)},
        {"ctime", host_milliseconds(&sb.st_ctim)},
    };
    JSValue o = JS_NewObject(ctx);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        JS_DefinePropertyValueStr(ctx, o, members[i].name, JS_NewFloat64(ctx, members[i].value),
                                  JS_PROP_C_W_E);
    return host_pair(ctx, o, 0);
}

JS_CALL os_stat(JS_ARGS)
{
    return stat_with(ctx, argv, stat);
}

JS_CALL os_lstat(JS_ARGS)
{
    return stat_with(ctx, argv, lstat);
}

/* clang-format off */
static const JSCFunctionListEntry host_functions[] = {
    JS_CFUNC_DEF("write", 2, host_write), JS_CFUNC_DEF("readAll", 2, host_read_all),
    JS_CFUNC_DEF("decode", 1, host_decode), JS_CFUNC_DEF("bytes", 1, host_bytes),
};

#define CONSTANT(name) JS_PROP_INT32_DEF(#name, name, JS_PROP_C_W_E)
static const JSCFunctionListEntry os_functions[] = {
    JS_CFUNC_DEF("remove", 1, os_remove), JS_CFUNC_DEF("mkdir", 2, os_mkdir),
    JS_CFUNC_DEF("chdir", 1, os_chdir), JS_CFUNC_DEF("rename", 2, os_rename),
    JS_CFUNC_DEF("symlink", 2, os_symlink), JS_CFUNC_DEF("open", 2, os_open),
    JS_CFUNC_DEF("close", 1, os_close), JS_CFUNC_DEF("isatty", 1, os_isatty),
    JS_CFUNC_DEF("seek", 3, os_seek), JS_CFUNC_DEF("read", 4, os_read),
    JS_CFUNC_DEF("write", 4, os_write), JS_CFUNC_DEF("getcwd", 0, os_getcwd),
    JS_CFUNC_DEF("readlink", 1, os_readlink), JS_CFUNC_DEF("readdir", 1, os_readdir),
    JS_CFUNC_DEF("stat", 1, os_stat), JS_CFUNC_DEF("lstat", 1, os_lstat),
    JS_PROP_STRING_DEF("platform", "wasi", JS_PROP_C_W_E),
    CONSTANT(O_RDONLY), CONSTANT(O_WRONLY), CONSTANT(O_RDWR), CONSTANT(O_APPEND), CONSTANT(O_CREAT),
    CONSTANT(O_EXCL), CONSTANT(O_TRUNC), CONSTANT(S_IFMT), CONSTANT(S_IFDIR), CONSTANT(S_IFREG),
    CONSTANT(S_IFLNK), CONSTANT(S_IFCHR),
};
static const JSCFunctionListEntry errors[] = {
    CONSTANT(EINVAL), CONSTANT(EIO), CONSTANT(EACCES), CONSTANT(EEXIST), CONSTANT(ENOSPC),
    CONSTANT(ENOSYS), CONSTANT(EBUSY), CONSTANT(ENOENT), CONSTANT(EPERM), CONSTANT(EPIPE),
    CONSTANT(EBADF), CONSTANT(ENOTDIR), CONSTANT(EISDIR), CONSTANT(ENOTCAPABLE), CONSTANT(EROFS),
};
/* clang-format on */

void host_add_files(JSContext *ctx, JSValueConst host)
{
    JSValue os = JS_NewObject(ctx), codes = JS_NewObject(ctx);
    HOST_ADD(ctx, host, host_functions);
    HOST_ADD(ctx, os, os_functions);
    HOST_ADD(ctx, codes, errors);
    JS_DefinePropertyValueStr(ctx, host, "os", os, JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, host, "errors", codes, JS_PROP_C_W_E);
}
