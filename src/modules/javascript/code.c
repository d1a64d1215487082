/* How code is evaluated: scripts, calls, jobs, promises, and what nobody caught. */
#include "modules/javascript/internal.h"

#include "modules/javascript/engine.h"

/* An interrupt is thrown as what no `catch` of the code's stops, and so none of the prelude's
 * either: it is thrown in the code alone, and becomes an ordinary error where that was called. */
static unsigned inside;

static int on_tick(JSRuntime *runtime, void *opaque)
{
    (void)runtime;
    (void)opaque;
    return inside && host_interrupted();
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

JS_CALL host_gc(JS_ARGS)
{
    JS_RunGC(JS_GetRuntime(ctx));
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
static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("call", 1, host_call), JS_CFUNC_DEF("evaluate", 3, host_evaluate),
    JS_CFUNC_DEF("isModule", 1, host_is_module), JS_CFUNC_DEF("loosen", 0, host_loosen),
    JS_CFUNC_DEF("runJob", 0, host_run_job), JS_CFUNC_DEF("promiseState", 1, host_promise_state),
    JS_CFUNC_DEF("gc", 0, host_gc), JS_CFUNC_DEF("onRejection", 1, host_on_rejection),
};
/* clang-format on */

void host_add_code(JSContext *ctx, JSValueConst host, bool interruptible)
{
    rejection_watcher = JS_UNDEFINED;
    HOST_ADD(ctx, host, functions);
    if (interruptible)
        JS_SetInterruptHandler(JS_GetRuntime(ctx), on_tick, NULL);
}
