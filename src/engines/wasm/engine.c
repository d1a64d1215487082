/* JavaScriptCore behind its C API. A module reaches no JavaScript: what it imports is checked name
 * by name against the table of WASI before it is linked, and its exports are called by us alone.
 * The few lines of JavaScript here are ours and see the module as bytes. */
#include "engines/wasm/engine.h"

#include "os/weaken.h"

#include <JavaScriptCore/JavaScript.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One module in one process. */
static struct wasi *wasi;
static JSObjectRef look; /* gives a view of the module's memory; NULL: it is not linked yet */
static JSObjectRef view; /* the last of them, or NULL */

/* The engine stops its threads by a signal whose handler leaves another errno behind. The thread
 * that it stops may be ours, between a call that failed and the look at why. */
#define SIGNALS_MAX 64
static struct sigaction engine_has[SIGNALS_MAX + 1];

static void keep_errno(int number, siginfo_t *info, void *context)
{
    int kept = errno;
    engine_has[number].sa_sigaction(number, info, context);
    errno = kept;
}

static void guard_errno(void)
{
    for (int i = 1; i <= SIGNALS_MAX; i++) {
        struct sigaction *old = &engine_has[i];
        if (sigaction(i, NULL, old) < 0 || !(old->sa_flags & SA_SIGINFO))
            continue;
        struct sigaction guard = *old;
        guard.sa_sigaction = keep_errno;
        sigaction(i, &guard, NULL);
    }
}

#define LINK_BEGIN                                                                                 \
    "(function (bytes, wasi) {\n"                                                                  \
    "  const module = new WebAssembly.Module(bytes);\n"                                            \
    "  const needs = WebAssembly.Module.imports(module);\n"                                        \
    "  const older = needs.length && needs[0].module === 'wasi_unstable';\n"                       \
    "  const name = older ? 'wasi_unstable' : 'wasi_snapshot_preview1';\n"                         \
    "  const given = Object.create(null);\n"                                                       \
    "  for (const i of needs) {\n"
#define LINK_CHECK                                                                                 \
    "    const text = JSON.stringify(i.module) + ' ' + JSON.stringify(i.name);\n"                  \
    "    if (i.kind !== 'function')\n"                                                             \
    "      throw new WebAssembly.LinkError('it imports ' + text + ', a ' + i.kind + '; WASI has "  \
    "functions only');\n"                                                                          \
    "    if (i.module !== name || !Object.hasOwn(wasi, i.name))\n"                                 \
    "      throw new WebAssembly.LinkError('it imports ' + text + ', which is not of ' + name);\n"
#define LINK_END                                                                                   \
    "    given[i.name] = wasi[i.name];\n"                                                          \
    "  }\n"                                                                                        \
    "  const all = Object.create(null);\n"                                                         \
    "  all[name] = given;\n"                                                                       \
    "  const kinds = Object.create(null);\n"                                                       \
    "  for (const e of WebAssembly.Module.exports(module)) kinds[e.name] = e.kind;\n"              \
    "  if (kinds._start !== 'function')\n"                                                         \
    "    throw new WebAssembly.LinkError('it has no function _start: it is a library, not a "      \
    "command');\n"                                                                                 \
    "  const exports = new WebAssembly.Instance(module, all).exports;\n"                           \
    "  const memory = kinds.memory === 'memory' ? exports.memory : null;\n"                        \
    "  return [() => memory ? new Uint8Array(memory.buffer) : null, exports._start, older];\n"     \
    "})"

static const char link_text[] = LINK_BEGIN LINK_CHECK LINK_END;
/* Of a test build alone (os/weaken.h). */
static const char unchecked_text[] = LINK_BEGIN LINK_END;

static bool see(JSContextRef ctx)
{
    wasi->memory_size = view ? JSObjectGetTypedArrayByteLength(ctx, view, NULL) : 0;
    wasi->memory = wasi->memory_size ? JSObjectGetTypedArrayBytesPtr(ctx, view, NULL) : NULL;
    return wasi->memory != NULL;
}

/* When the memory has grown it may lie elsewhere: the engine then empties every view of it. */
static void find_memory(JSContextRef ctx)
{
    if (!look || see(ctx))
        return;
    JSValueRef fresh = JSObjectCallAsFunction(ctx, look, NULL, 0, NULL, NULL);
    if (view)
        JSValueUnprotect(ctx, view);
    view = fresh && JSValueIsObject(ctx, fresh) ? JSValueToObject(ctx, fresh, NULL) : NULL;
    if (view)
        JSValueProtect(ctx, view);
    see(ctx);
}

/* A module may import a call under any type that it likes. */
static bool take_argument(JSContextRef ctx, JSValueRef value, char kind, uint64_t *ret)
{
    if (kind == 'I') {
        if (!JSValueIsBigInt(ctx, value))
            return false;
        *ret = (uint64_t)JSValueToInt64(ctx, value, NULL);
        return true;
    }
    if (!JSValueIsNumber(ctx, value))
        return false;
    double number = JSValueToNumber(ctx, value, NULL);
    if (!(number >= -2147483648.0 && number <= 2147483647.0))
        return false;
    *ret = (uint32_t)(int32_t)number;
    return true;
}

void engine_end_by(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    _exit(128 + number);
}

static JSValueRef enter(JSContextRef ctx, size_t which, size_t count, const JSValueRef values[])
{
    const struct wasi_call *call = wasi_call_at(which);
    uint64_t a[WASI_ARGS_MAX] = {0};
    if (count != strlen(call->takes))
        return JSValueMakeNumber(ctx, WE_INVAL);
    for (size_t i = 0; i < count; i++)
        if (!take_argument(ctx, values[i], call->takes[i], &a[i]))
            return JSValueMakeNumber(ctx, WE_INVAL);
    find_memory(ctx);
    uint32_t result = call->handler(wasi, a);
    if (wasi->exited)
        _exit((int)(wasi->exit_code & 0xff));
    if (wasi->raised)
        engine_end_by(wasi->raised);
    return JSValueMakeNumber(ctx, result);
}

enum {
#define X(name, takes) CALL_##name,
    WASI_CALLS(X)
#undef X
};

#define X(name, takes)                                                                             \
    static JSValueRef js_##name(JSContextRef ctx, JSObjectRef function, JSObjectRef self,          \
                                size_t count, const JSValueRef values[], JSValueRef *exception)    \
    {                                                                                              \
        return enter(ctx, CALL_##name, count, values);                                             \
    }
WASI_CALLS(X)
#undef X

static JSObjectRef make_wasi(JSContextRef ctx)
{
    static const struct {
        const char *name;
        JSObjectCallAsFunctionCallback call;
    } each[] = {
#define X(name, takes) {#name, js_##name},
        WASI_CALLS(X)
#undef X
    };
    JSObjectRef object = JSObjectMake(ctx, NULL, NULL);
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        JSStringRef name = JSStringCreateWithUTF8CString(each[i].name);
        JSObjectSetProperty(ctx, object, name,
                            JSObjectMakeFunctionWithCallback(ctx, name, each[i].call), 0, NULL);
        JSStringRelease(name);
    }
    return object;
}

static void copy_text(JSContextRef ctx, JSValueRef value, char *out, size_t size)
{
    JSStringRef text = value ? JSValueToStringCopy(ctx, value, NULL) : NULL;
    out[0] = '\0';
    if (!text)
        return;
    JSStringGetUTF8CString(text, out, size);
    JSStringRelease(text);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

static void member(JSContextRef ctx, JSValueRef object, const char *key, char *out, size_t size)
{
    JSStringRef name = JSStringCreateWithUTF8CString(key);
    JSObjectRef o = JSValueIsObject(ctx, object) ? JSValueToObject(ctx, object, NULL) : NULL;
    copy_text(ctx, o ? JSObjectGetProperty(ctx, o, name, NULL) : object, out, size);
    JSStringRelease(name);
}

/* What was thrown, as an end and a sentence. */
static enum engine_end judge(JSContextRef ctx, JSValueRef thrown, char *why, size_t size)
{
    char kind[64];
    member(ctx, thrown, "name", kind, sizeof kind);
    member(ctx, thrown, "message", why, size);
    /* The engine says where in our few lines it happened, which tells a user nothing. */
    char *where = strstr(why, " (evaluating ");
    if (where)
        *where = '\0';
    if (strcmp(kind, "CompileError") == 0 || strcmp(kind, "LinkError") == 0)
        return ENGINE_NOT_A_MODULE;
    return strcmp(kind, "RangeError") == 0 && strstr(why, "call stack") ? ENGINE_OVERFLOWED
                                                                        : ENGINE_TRAPPED;
}

static void leave(void *bytes, void *ctx)
{
    (void)bytes; /* the process ends before anybody could miss them */
    (void)ctx;
}

static JSObjectRef link_module(JSContextRef ctx, void *module, size_t size, JSValueRef *thrown)
{
    bool checked = !guard_left_out(GUARD_WASM_IMPORTS);
    JSStringRef text = JSStringCreateWithUTF8CString(checked ? link_text : unchecked_text);
    JSValueRef function = JSEvaluateScript(ctx, text, NULL, NULL, 1, thrown);
    JSStringRelease(text);
    if (!function)
        return NULL;
    JSValueRef bytes =
        JSObjectMakeArrayBufferWithBytesNoCopy(ctx, module, size, leave, NULL, thrown);
    if (!bytes)
        return NULL;
    JSValueRef arguments[] = {bytes, make_wasi(ctx)};
    JSObjectRef callee = JSValueToObject(ctx, function, thrown);
    JSValueRef linked = JSObjectCallAsFunction(ctx, callee, NULL, 2, arguments, thrown);
    return linked ? JSValueToObject(ctx, linked, thrown) : NULL;
}

enum engine_end engine_run(struct wasi *w, void *module, size_t size, char *why, size_t why_size)
{
    JSGlobalContextRef ctx = JSGlobalContextCreate(NULL);
    JSValueRef thrown = NULL;
    wasi = w;
    why[0] = '\0';
    guard_errno();
    JSObjectRef linked = link_module(ctx, module, size, &thrown);
    if (!linked)
        return judge(ctx, thrown, why, why_size);
    JSValueProtect(ctx, linked);
    w->older = JSValueToBoolean(ctx, JSObjectGetPropertyAtIndex(ctx, linked, 2, NULL));
    look = JSValueToObject(ctx, JSObjectGetPropertyAtIndex(ctx, linked, 0, NULL), NULL);
    JSObjectRef start =
        JSValueToObject(ctx, JSObjectGetPropertyAtIndex(ctx, linked, 1, NULL), NULL);
    if (!JSObjectCallAsFunction(ctx, start, NULL, 0, NULL, &thrown))
        return judge(ctx, thrown, why, why_size);
    return ENGINE_RETURNED;
}
