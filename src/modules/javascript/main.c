/* QuickJS as a program of WASI: what `brig run --tier wasm --lang javascript` starts.
 *
 *   javascript [- | FILE | -e CODE] [ARGUMENT…]    a script or module, and its end
 *   javascript --cells=REQUESTS,ANSWERS,INTERRUPTS FOLDER
 *                                                  a context that runs cells (wire/interp.h) over
 *                                                  descriptors that brig-wasm gave it, from there
 *
 * All that is not WASI is JavaScript: prelude.js. Exit status: the script's own, 1 after an error
 * that nobody caught. */
#include "modules/javascript/engine.h"
#include "modules/javascript/host.h"

#include <stdio.h>
#include <string.h>

/* As tools/quickjs writes it from prelude.js: a text with a NUL behind it, or what PRELUDE_COMPILER
 * made of that. To read the text takes half of all the time until a script begins. */
extern const char prelude[];
extern const size_t prelude_len;
extern const int prelude_compiled;

/* Of the stack of this module (tools/quickjs says how large it is). A script that recurses without
 * end gets an error of its own before the engine's stack below it is full. */
#define STACK_MAX (JAVASCRIPT_STACK * 1024 * 3 / 4)

static int fail(JSContext *ctx)
{
    JSValue error = JS_GetException(ctx);
    const char *text = JS_ToCString(ctx, error);
    fprintf(stderr, "javascript: %s\n", text ? text : "no memory");
    return 1;
}

#ifdef PRELUDE_COMPILER
/* Another program, which writes the prelude as QuickJS' own code to stdout. */
static int run(JSContext *ctx, int argc, char *argv[])
{
    size_t len = 0;
    JSValue code = JS_Eval(ctx, prelude, prelude_len, "prelude.js",
                           JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY);
    uint8_t *bytes =
        JS_IsException(code) ? NULL : JS_WriteObject(ctx, &len, code, JS_WRITE_OBJ_BYTECODE);
    if (!bytes)
        return fail(ctx);
    return fwrite(bytes, 1, len, stdout) == len && fflush(stdout) == 0 ? 0 : 1;
}
#else
static JSValue load_prelude(JSContext *ctx)
{
    if (!prelude_compiled)
        return JS_Eval(ctx, prelude, prelude_len, "prelude.js", JS_EVAL_FLAG_STRICT);
    JSValue code = JS_ReadObject(ctx, (const uint8_t *)prelude, prelude_len, JS_READ_OBJ_BYTECODE);
    return JS_IsException(code) ? code : JS_EvalFunction(ctx, code);
}

static int run(JSContext *ctx, int argc, char *argv[])
{
    struct channel channel = {-1, -1, -1};
    if (argc > 1 && strncmp(argv[1], "--cells=", 8) == 0)
        sscanf(argv[1] + 8, "%d,%d,%d", &channel.requests, &channel.answers, &channel.interrupts);
    JSValue start = load_prelude(ctx);
    JSValue words = JS_NewArray(ctx);
    for (int i = 1; i < argc; i++)
        JS_DefinePropertyValueUint32(ctx, words, (uint32_t)i - 1, JS_NewString(ctx, argv[i]),
                                     JS_PROP_C_W_E);
    JSValue args[] = {host_new(ctx, &channel), words};
    JSValue status = JS_IsException(start) ? start : JS_Call(ctx, start, JS_UNDEFINED, 2, args);
    int32_t code;
    /* Nothing is taken apart: the module ends, and its memory with it. */
    return JS_IsException(status) || JS_ToInt32(ctx, &code, status) ? fail(ctx) : code;
}
#endif

int main(int argc, char *argv[])
{
    JSRuntime *runtime = engine_new();
    JSContext *ctx = runtime ? JS_NewContext(runtime) : NULL;
    if (!ctx) {
        fprintf(stderr, "javascript: no memory\n");
        return 1;
    }
    JS_SetMaxStackSize(runtime, STACK_MAX);
    return run(ctx, argc, argv);
}
