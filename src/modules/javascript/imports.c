/* What `import` finds: the modules of our own, and files. */
#include "modules/javascript/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    char *text = host_read_path(name, &len);
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

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("setModules", 1, host_set_modules),
};

void host_add_imports(JSContext *ctx, JSValueConst host)
{
    own_modules = JS_UNDEFINED;
    HOST_ADD(ctx, host, functions);
    JS_SetModuleLoaderFunc(JS_GetRuntime(ctx), NULL, load_module, NULL);
}
