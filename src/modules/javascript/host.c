/* WASI for prelude.js: descriptors, files, variables, the clock, and how code is evaluated. A call
 * that fails returns the negative number of the error, or [nothing, number], as QuickJS' own module
 * `os` does. */
#include "modules/javascript/host.h"

#include "modules/javascript/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define FRAME_MAX (16u << 20) /* as wire/interp.h has it */
#define FILE_MAX  (1u << 30)
#define JS_CALL   static JSValue
#define JS_ARGS   JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv

static struct channel channel = {-1, -1, -1};
static bool interrupted;

static JSValue result(JSContext *ctx, int r)
{
    return JS_NewInt32(ctx, r < 0 ? -errno : r);
}

/* [value, 0], or [nothing, the error]. Takes the value. */
static JSValue pair(JSContext *ctx, JSValue value, int code)
{
    JSValue both = JS_NewArray(ctx);
    JS_DefinePropertyValueUint32(ctx, both, 0, value, JS_PROP_C_W_E);
    JS_DefinePropertyValueUint32(ctx, both, 1, JS_NewInt32(ctx, code), JS_PROP_C_W_E);
    return both;
}

static int number(JSContext *ctx, int argc, JSValueConst *argv, int i, int otherwise)
{
    int32_t n = otherwise;
    if (i < argc && !JS_IsUndefined(argv[i]))
        JS_ToInt32(ctx, &n, argv[i]);
    return n;
}

static int write_all(int fd, const char *data, size_t len)
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

/* The bytes of a buffer, a view of one, or a text; data is NULL with an exception. A text is the
 * caller's to free. */
struct bytes {
    const char *data, *text;
    size_t len;
};

static struct bytes bytes_of(JSContext *ctx, JSValueConst value)
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

/* write(fd, text or bytes) */
JS_CALL host_write(JS_ARGS)
{
    struct bytes b = bytes_of(ctx, argv[1]);
    if (!b.data)
        return JS_EXCEPTION;
    int r = write_all(number(ctx, argc, argv, 0, -1), b.data, b.len);
    JSValue ret = result(ctx, r);
    if (b.text)
        JS_FreeCString(ctx, b.text);
    return ret;
}

/* What is in a descriptor from here to its end; NULL with errno. */
static char *read_rest(int fd, size_t *len)
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

static char *read_path(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return NULL;
    char *data = read_rest(fd, len);
    int code = errno;
    close(fd);
    errno = code;
    return data;
}

/* readAll(fd or path, binary): [text or buffer, error] */
JS_CALL host_read_all(JS_ARGS)
{
    size_t len = 0;
    const char *path = JS_IsString(argv[0]) ? JS_ToCString(ctx, argv[0]) : NULL;
    char *data = path ? read_path(path, &len) : read_rest(number(ctx, argc, argv, 0, -1), &len);
    int code = errno;
    if (path)
        JS_FreeCString(ctx, path);
    if (!data)
        return pair(ctx, JS_NULL, -code);
    JSValue value = argc > 1 && JS_ToBool(ctx, argv[1])
                        ? JS_NewArrayBufferCopy(ctx, (const uint8_t *)data, len)
                        : JS_NewStringLen(ctx, data, len);
    free(data);
    return JS_IsException(value) ? value : pair(ctx, value, 0);
}

/* decode(bytes): a text; what is no UTF-8 becomes U+FFFD */
JS_CALL host_decode(JS_ARGS)
{
    struct bytes b = bytes_of(ctx, argv[0]);
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
    JSValue ret = result(ctx, call(path));
    JS_FreeCString(ctx, path);
    return ret;
}

static JSValue with_paths(JSContext *ctx, JSValueConst *argv,
                          int (*call)(const char *, const char *))
{
    const char *a = JS_ToCString(ctx, argv[0]), *b = a ? JS_ToCString(ctx, argv[1]) : NULL;
    JSValue ret = b ? result(ctx, call(a, b)) : JS_EXCEPTION;
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
    JSValue ret = result(ctx, open(path, number(ctx, argc, argv, 1, O_RDONLY), 0666));
    JS_FreeCString(ctx, path);
    return ret;
}

JS_CALL os_close(JS_ARGS)
{
    return result(ctx, close(number(ctx, argc, argv, 0, -1)));
}

JS_CALL os_isatty(JS_ARGS)
{
    return JS_NewBool(ctx, isatty(number(ctx, argc, argv, 0, -1)) == 1);
}

JS_CALL os_seek(JS_ARGS)
{
    int64_t at = 0;
    if (JS_ToInt64Ext(ctx, &at, argv[1]))
        return JS_EXCEPTION;
    off_t r = lseek(number(ctx, argc, argv, 0, -1), at, number(ctx, argc, argv, 2, SEEK_SET));
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
    int fd = number(ctx, argc, argv, 0, -1);
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
    return pair(ctx, JS_NewString(ctx, known ? here : ""), known ? 0 : errno);
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
    return pair(ctx, JS_NewStringLen(ctx, target, n < 0 ? 0 : (size_t)n), code);
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
    return pair(ctx, names, code);
}

static double milliseconds(const struct timespec *t)
{
    return (double)t->tv_sec * 1e3 + (double)t->tv_nsec / 1e6;
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
        return pair(ctx, JS_NULL, code);
    const struct {
        const char *name;
        double value;
    } members[] = {
        {"dev", (double)sb.st_dev},           {"ino", (double)sb.st_ino},
        {"mode", (double)sb.st_mode},         {"nlink", (double)sb.st_nlink},
        {"size", (double)sb.st_size},         {"atime", milliseconds(&sb.st_atim)},
        {"mtime", milliseconds(&sb.st_mtim)}, {"ctime", milliseconds(&sb.st_ctim)},
    };
    JSValue o = JS_NewObject(ctx);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        JS_DefinePropertyValueStr(ctx, o, members[i].name, JS_NewFloat64(ctx, members[i].value),
                                  JS_PROP_C_W_E);
    return pair(ctx, o, 0);
}

JS_CALL os_stat(JS_ARGS)
{
    return stat_with(ctx, argv, stat);
}

JS_CALL os_lstat(JS_ARGS)
{
    return stat_with(ctx, argv, lstat);
}

/* ---- the process ---- */

JS_CALL host_exit(JS_ARGS)
{
    fflush(NULL);
    _Exit(number(ctx, argc, argv, 0, 0) & 0xff);
}

JS_CALL host_gc(JS_ARGS)
{
    JS_RunGC(JS_GetRuntime(ctx));
    return JS_UNDEFINED;
}

JS_CALL host_strerror(JS_ARGS)
{
    return JS_NewString(ctx, strerror(abs(number(ctx, argc, argv, 0, 0))));
}

JS_CALL host_getenv(JS_ARGS)
{
    const char *name = JS_ToCString(ctx, argv[0]);
    if (!name)
        return JS_EXCEPTION;
    const char *value = getenv(name);
    JS_FreeCString(ctx, name);
    return value ? JS_NewString(ctx, value) : JS_UNDEFINED;
}

/* setenv(name, value or undefined) */
JS_CALL host_setenv(JS_ARGS)
{
    const char *name = JS_ToCString(ctx, argv[0]);
    bool gone = argc < 2 || JS_IsUndefined(argv[1]);
    const char *value = !name || gone ? NULL : JS_ToCString(ctx, argv[1]);
    if (name && (value || gone)) {
        if (gone)
            unsetenv(name);
        else
            setenv(name, value, 1);
    }
    bool failed = !name || (!value && !gone);
    if (name)
        JS_FreeCString(ctx, name);
    if (value)
        JS_FreeCString(ctx, value);
    return failed ? JS_EXCEPTION : JS_UNDEFINED;
}

JS_CALL host_environ(JS_ARGS)
{
    JSValue o = JS_NewObject(ctx);
    for (char **one = environ; one && *one; one++) {
        const char *equals = strchr(*one, '=');
        if (!equals)
            continue;
        JSValue name = JS_NewStringLen(ctx, *one, (size_t)(equals - *one));
        JSAtom atom = JS_ValueToAtom(ctx, name);
        JS_DefinePropertyValue(ctx, o, atom, JS_NewString(ctx, equals + 1), JS_PROP_C_W_E);
        JS_FreeAtom(ctx, atom);
        JS_FreeValue(ctx, name);
    }
    return o;
}

JS_CALL host_now(JS_ARGS)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return JS_NewFloat64(ctx, milliseconds(&t));
}

/* Can one of both be read within this time (negative: whenever that will be)? 1: the first, 2: the
 * second. */
static int wait_for(int first, int second, double ms)
{
    struct pollfd fds[] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    nfds_t count = second >= 0 ? 2 : first >= 0 ? 1 : 0;
    if (!count) {
        struct timespec t = {(time_t)(ms / 1e3),
                             (long)((ms - (double)(int64_t)(ms / 1e3) * 1e3) * 1e6)};
        nanosleep(&t, NULL);
        return 0;
    }
    int r = poll(fds, count, ms < 0 ? -1 : ms > INT_MAX ? INT_MAX : (int)(ms + 0.999));
    return r <= 0 ? 0 : count == 2 && fds[1].revents ? 2 : fds[0].revents ? 1 : 0;
}

static bool was_interrupted(void)
{
    char dust[64];
    while (channel.interrupts >= 0 && wait_for(channel.interrupts, -1, 0) == 1 &&
           read(channel.interrupts, dust, sizeof dust) > 0)
        interrupted = true;
    return interrupted;
}

/* sleep(ms): false if it was interrupted */
JS_CALL host_sleep(JS_ARGS)
{
    double ms = 0;
    if (JS_ToFloat64(ctx, &ms, argv[0]))
        return JS_EXCEPTION;
    if (ms > 0)
        wait_for(channel.interrupts, -1, ms);
    return JS_NewBool(ctx, !was_interrupted());
}

/* ---- the channel ---- */

static bool read_exactly(int fd, char *to, size_t len)
{
    while (len) {
        ssize_t n = read(fd, to, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        len -= (size_t)n;
    }
    return true;
}

/* readFrame(ms): a text; undefined if the time is over first; null at the end */
JS_CALL host_read_frame(JS_ARGS)
{
    double ms = -1;
    uint32_t len;
    if (JS_ToFloat64(ctx, &ms, argv[0]))
        return JS_EXCEPTION;
    if (wait_for(channel.requests, -1, ms) != 1)
        return JS_UNDEFINED;
    if (!read_exactly(channel.requests, (char *)&len, sizeof len) || len > FRAME_MAX)
        return JS_NULL;
    char *data = malloc((size_t)len + 1);
    bool whole = data && read_exactly(channel.requests, data, len);
    JSValue text = whole ? JS_NewStringLen(ctx, data, len) : JS_NULL;
    free(data);
    return text;
}

JS_CALL host_write_frame(JS_ARGS)
{
    size_t len;
    const char *text = JS_ToCStringLen(ctx, &len, argv[0]);
    if (!text)
        return JS_EXCEPTION;
    uint32_t head = (uint32_t)len;
    int r = write_all(channel.answers, (const char *)&head, sizeof head);
    if (r == 0)
        r = write_all(channel.answers, text, len);
    JS_FreeCString(ctx, text);
    return result(ctx, r);
}

/* wasInterrupted(forget) */
JS_CALL host_was_interrupted(JS_ARGS)
{
    bool was = was_interrupted();
    if (argc > 0 && JS_ToBool(ctx, argv[0]))
        interrupted = false;
    return JS_NewBool(ctx, was);
}

/* ---- code ---- */

/* An interrupt is thrown as what no `catch` of the code's stops, and so none of the prelude's
 * either: it is thrown in the code alone, and becomes an ordinary error where that was called. */
static unsigned inside;

static int on_tick(JSRuntime *runtime, void *opaque)
{
    (void)runtime;
    (void)opaque;
    return inside && was_interrupted();
}

static JSValue leave(JSContext *ctx, JSValue value)
{
    inside--;
    if (JS_IsException(value))
        JS_ResetUncatchableError(ctx);
    return value;
}

/* call(function, …) */
JS_CALL host_call(JS_ARGS)
{
    inside++;
    return leave(ctx, JS_Call(ctx, argv[0], JS_UNDEFINED, argc - 1, argv + 1));
}

/* evaluate(text, name, kind): kind is "script" (a promise of {value}), "module" (a promise),
 * "plain" (the value), or "check": may this be a script? */
JS_CALL host_evaluate(JS_ARGS)
{
    size_t len;
    const char *text = JS_ToCStringLen(ctx, &len, argv[0]);
    const char *name = text ? JS_ToCString(ctx, argv[1]) : NULL;
    const char *kind = name ? JS_ToCString(ctx, argv[2]) : NULL;
    JSValue ret = JS_EXCEPTION;
    if (kind) {
        int flags = kind[0] == 's'   ? JS_EVAL_FLAG_ASYNC | JS_EVAL_FLAG_BACKTRACE_BARRIER
                    : kind[0] == 'm' ? JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_BACKTRACE_BARRIER
                    : kind[0] == 'c' ? JS_EVAL_FLAG_ASYNC | JS_EVAL_FLAG_COMPILE_ONLY
                                     : JS_EVAL_FLAG_BACKTRACE_BARRIER;
        inside++;
        ret = leave(ctx, JS_Eval(ctx, text, len, name, flags));
        if (kind[0] == 'c') {
            bool good = !JS_IsException(ret);
            JS_FreeValue(ctx, good ? ret : JS_GetException(ctx));
            ret = JS_NewBool(ctx, good);
        }
    }
    if (text)
        JS_FreeCString(ctx, text);
    if (name)
        JS_FreeCString(ctx, name);
    if (kind)
        JS_FreeCString(ctx, kind);
    return ret;
}

/* Has it import or export at its top? */
JS_CALL host_is_module(JS_ARGS)
{
    size_t len;
    const char *text = JS_ToCStringLen(ctx, &len, argv[0]);
    if (!text)
        return JS_EXCEPTION;
    bool is = JS_DetectModule(text, len);
    JS_FreeCString(ctx, text);
    return JS_NewBool(ctx, is);
}

JS_CALL host_loosen(JS_ARGS)
{
    return engine_loosen(ctx) < 0 ? JS_EXCEPTION : JS_UNDEFINED;
}

/* One of the jobs that wait: 0 if there was none, 1, or what it threw. */
JS_CALL host_run_job(JS_ARGS)
{
    JSContext *where;
    inside++;
    int r = JS_ExecutePendingJob(JS_GetRuntime(ctx), &where);
    return leave(ctx, r < 0 ? JS_EXCEPTION : JS_NewInt32(ctx, r)); /* there is one context */
}

/* promiseState(value): undefined of what is no promise, else [0 pending, 1 kept, 2 broken; what
 * came of it] */
JS_CALL host_promise_state(JS_ARGS)
{
    int state = (int)JS_PromiseState(ctx, argv[0]);
    if (state < 0)
        return JS_UNDEFINED;
    JSValue both = JS_NewArray(ctx);
    JS_DefinePropertyValueUint32(ctx, both, 0, JS_NewInt32(ctx, state), JS_PROP_C_W_E);
    JSValue came = JS_PromiseResult(ctx, argv[0]);
    JS_SetUncatchableError(ctx, came, 0); /* an interrupt, that became a rejection */
    JS_DefinePropertyValueUint32(ctx, both, 1, came, JS_PROP_C_W_E);
    return both;
}

/* ---- modules ---- */

static void free_names(JSContext *ctx, JSPropertyEnum *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        JS_FreeAtom(ctx, names[i].atom);
    js_free(ctx, names);
}

static JSValue own_modules; /* {name: {export: value}} */

static int fill_own(JSContext *ctx, JSModuleDef *m)
{
    JSAtom atom = JS_GetModuleName(ctx, m);
    JSValue from = JS_GetProperty(ctx, own_modules, atom);
    JSPropertyEnum *names = NULL;
    uint32_t count = 0;
    int r = JS_GetOwnPropertyNames(ctx, &names, &count, from, JS_GPN_STRING_MASK);
    JS_FreeAtom(ctx, atom);
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        const char *name = JS_AtomToCString(ctx, names[i].atom);
        r = name ? JS_SetModuleExport(ctx, m, name, JS_GetProperty(ctx, from, names[i].atom)) : -1;
        JS_FreeCString(ctx, name);
    }
    free_names(ctx, names, count);
    JS_FreeValue(ctx, from);
    return r;
}

static JSModuleDef *load_own(JSContext *ctx, const char *module, JSValueConst from)
{
    JSPropertyEnum *names = NULL;
    uint32_t count = 0;
    JSModuleDef *m = JS_NewCModule(ctx, module, fill_own);
    if (!m || JS_GetOwnPropertyNames(ctx, &names, &count, from, JS_GPN_STRING_MASK) < 0)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = JS_AtomToCString(ctx, names[i].atom);
        if (name)
            JS_AddModuleExport(ctx, m, name);
        JS_FreeCString(ctx, name);
    }
    free_names(ctx, names, count);
    return m;
}

static int set_meta(JSContext *ctx, JSModuleDef *m, const char *name)
{
    char url[PATH_MAX + 16];
    snprintf(url, sizeof url, "file://%s", name);
    JSValue meta = JS_GetImportMeta(ctx, m);
    if (JS_IsException(meta))
        return -1;
    JS_DefinePropertyValueStr(ctx, meta, "url", JS_NewString(ctx, url), JS_PROP_C_W_E);
    JS_FreeValue(ctx, meta);
    return 0;
}

static JSModuleDef *load_file(JSContext *ctx, const char *name)
{
    size_t len = 0;
    char *text = read_path(name, &len);
    if (!text) {
        bool bare = name[0] != '/' && name[0] != '.';
        JS_ThrowReferenceError(ctx, "cannot import '%s': %s%s", name, strerror(errno),
                               bare ? " (there are 'std', 'os' and files such as './x.js')" : "");
        return NULL;
    }
    JSValue m = JS_Eval(ctx, text, len, name, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    free(text);
    if (JS_IsException(m))
        return NULL;
    JSModuleDef *module = JS_VALUE_GET_PTR(m);
    JS_FreeValue(ctx, m);
    return set_meta(ctx, module, name) < 0 ? NULL : module;
}

static JSModuleDef *load_module(JSContext *ctx, const char *name, void *opaque)
{
    JSValue own = JS_GetPropertyStr(ctx, own_modules, name);
    JSModuleDef *m = JS_IsObject(own) ? load_own(ctx, name, own) : load_file(ctx, name);
    JS_FreeValue(ctx, own);
    return m;
}

/* setModules({name: {export: value}}) */
JS_CALL host_set_modules(JS_ARGS)
{
    own_modules = JS_DupValue(ctx, argv[0]);
    return JS_UNDEFINED;
}

/* ---- rejections ---- */

static JSValue rejection_watcher;

static void on_rejection(JSContext *ctx, JSValueConst promise, JSValueConst reason, JS_BOOL handled,
                         void *opaque)
{
    JSValueConst args[] = {promise, reason, JS_NewBool(ctx, handled)};
    JS_SetUncatchableError(ctx, reason, 0);
    if (JS_IsFunction(ctx, rejection_watcher))
        JS_FreeValue(ctx, JS_Call(ctx, rejection_watcher, JS_UNDEFINED, 3, args));
}

/* onRejection(call): call(promise, reason, handled) */
JS_CALL host_on_rejection(JS_ARGS)
{
    rejection_watcher = JS_DupValue(ctx, argv[0]);
    JS_SetHostPromiseRejectionTracker(JS_GetRuntime(ctx), on_rejection, NULL);
    return JS_UNDEFINED;
}

/* clang-format off */
static const JSCFunctionListEntry host_functions[] = {
    JS_CFUNC_DEF("write", 2, host_write), JS_CFUNC_DEF("readAll", 2, host_read_all),
    JS_CFUNC_DEF("decode", 1, host_decode), JS_CFUNC_DEF("bytes", 1, host_bytes),
    JS_CFUNC_DEF("exit", 1, host_exit), JS_CFUNC_DEF("gc", 0, host_gc),
    JS_CFUNC_DEF("strerror", 1, host_strerror), JS_CFUNC_DEF("getenv", 1, host_getenv),
    JS_CFUNC_DEF("setenv", 2, host_setenv), JS_CFUNC_DEF("environ", 0, host_environ),
    JS_CFUNC_DEF("now", 0, host_now), JS_CFUNC_DEF("sleep", 1, host_sleep),
    JS_CFUNC_DEF("readFrame", 1, host_read_frame), JS_CFUNC_DEF("writeFrame", 1, host_write_frame),
    JS_CFUNC_DEF("wasInterrupted", 1, host_was_interrupted),
    JS_CFUNC_DEF("call", 1, host_call), JS_CFUNC_DEF("evaluate", 3, host_evaluate), JS_CFUNC_DEF("isModule", 1, host_is_module),
    JS_CFUNC_DEF("loosen", 0, host_loosen), JS_CFUNC_DEF("runJob", 0, host_run_job),
    JS_CFUNC_DEF("promiseState", 1, host_promise_state),
    JS_CFUNC_DEF("setModules", 1, host_set_modules), JS_CFUNC_DEF("onRejection", 1, host_on_rejection),
    JS_PROP_STRING_DEF("version", CONFIG_VERSION, 0),
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
#define COUNT(list) (sizeof list / sizeof list[0])

JSValue host_new(JSContext *ctx, const struct channel *given)
{
    JSValue host = JS_NewObject(ctx), os = JS_NewObject(ctx), codes = JS_NewObject(ctx);
    channel = *given;
    own_modules = rejection_watcher = JS_UNDEFINED;
    JS_SetPropertyFunctionList(ctx, host, host_functions, COUNT(host_functions));
    JS_SetPropertyFunctionList(ctx, os, os_functions, COUNT(os_functions));
    JS_SetPropertyFunctionList(ctx, codes, errors, COUNT(errors));
    JS_DefinePropertyValueStr(ctx, host, "os", os, JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, host, "errors", codes, JS_PROP_C_W_E);
    JS_SetModuleLoaderFunc(JS_GetRuntime(ctx), NULL, load_module, NULL);
    if (channel.interrupts >= 0)
        JS_SetInterruptHandler(JS_GetRuntime(ctx), on_tick, NULL);
    return host;
}
