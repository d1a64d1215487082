/* The object that prelude.js gets of WASI. */
#include "modules/javascript/host.h"

#include "modules/javascript/internal.h"

static const JSCFunctionListEntry version[] = {
    JS_PROP_STRING_DEF("version", CONFIG_VERSION, 0),
};

JSValue host_new(JSContext *ctx, const struct channel *channel)
{
    JSValue host = JS_NewObject(ctx);
    HOST_ADD(ctx, host, version);
    host_add_files(ctx, host);
    host_add_process(ctx, host, channel);
    host_add_code(ctx, host, channel->interrupts >= 0);
    host_add_imports(ctx, host);
    return host;
}
