/* QuickJS in one piece with what is missing in its interface, since that looks into its insides.
 *
 * It is built as for Emscripten (tools/quickjs): without threads. Only the check of the stack is
 * left in, which it would leave out there. */
#include "quickjs.c"

#include "modules/javascript/engine.h"

#include <malloc.h>

/* Forbidden there, so that all goes through what is below. */
#undef malloc
#undef free
#undef realloc

static void *take(JSMallocState *s, size_t size)
{
    void *memory = s->malloc_size + size > s->malloc_limit ? NULL : malloc(size);
    if (memory) {
        s->malloc_count++;
        s->malloc_size += malloc_usable_size(memory) + MALLOC_OVERHEAD;
    }
    return memory;
}

static void give(JSMallocState *s, void *memory)
{
    if (!memory)
        return;
    s->malloc_count--;
    s->malloc_size -= malloc_usable_size(memory) + MALLOC_OVERHEAD;
    free(memory);
}

static void *change(JSMallocState *s, void *memory, size_t size)
{
    if (!memory)
        return size ? take(s, size) : NULL;
    if (!size) {
        give(s, memory);
        return NULL;
    }
    size_t before = malloc_usable_size(memory);
    if (s->malloc_size + size - before > s->malloc_limit || !(memory = realloc(memory, size)))
        return NULL;
    s->malloc_size += malloc_usable_size(memory) - before;
    return memory;
}

static size_t usable(const void *memory)
{
    return malloc_usable_size((void *)memory);
}

JSRuntime *engine_new(void)
{
    static const JSMallocFunctions functions = {take, give, change, usable};
    return JS_NewRuntime2(&functions, NULL);
}

/* Every variable is looked up by its name when it is used, so that functions which know one find
 * it in its new place. One that was never given a value is forgotten. */
static int move_lexical(JSContext *ctx)
{
    JSObject *from = JS_VALUE_GET_OBJ(ctx->global_var_obj);
    JSShapeProperty *all = get_shape_prop(from->shape);
    for (uint32_t i = 0; i < from->shape->prop_count; i++) {
        JSValue value = from->prop[i].u.value;
        if (all[i].atom == JS_ATOM_NULL || JS_IsUninitialized(value))
            continue;
        if (JS_DefinePropertyValue(ctx, ctx->global_obj, all[i].atom, JS_DupValue(ctx, value),
                                   JS_PROP_C_W_E) < 0)
            return -1;
    }
    JSValue fresh = JS_NewObjectProto(ctx, JS_NULL);
    if (JS_IsException(fresh))
        return -1;
    JS_FreeValue(ctx, ctx->global_var_obj);
    ctx->global_var_obj = fresh;
    return 0;
}

/* Variables of a script cannot be removed, and therefore not be declared by let either. What
 * cannot be written (NaN, undefined) was not made by one. */
int engine_loosen(JSContext *ctx)
{
    JSObject *all = JS_VALUE_GET_OBJ(ctx->global_obj);
    const int fixed = JS_PROP_WRITABLE | JS_PROP_ENUMERABLE;
    for (uint32_t i = 0; i < all->shape->prop_count; i++) {
        JSShapeProperty *p = &get_shape_prop(all->shape)[i];
        int flags = p->flags;
        if (p->atom != JS_ATOM_NULL &&
            (flags & (fixed | JS_PROP_CONFIGURABLE | JS_PROP_TMASK)) == fixed &&
            js_update_property_flags(ctx, all, &p, flags | JS_PROP_CONFIGURABLE) < 0)
            return -1;
    }
    return move_lexical(ctx);
}
