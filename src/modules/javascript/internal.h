/* What the files of the host share. A call that fails returns the negative number of the error, or
 * [nothing, number], as QuickJS' own module `os` does. */
#pragma once

#include "modules/javascript/host.h"

#include <stddef.h>

#define JS_CALL static JSValue
#define JS_ARGS JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv
#define HOST_ADD(ctx, object, list)                                                                \
    JS_SetPropertyFunctionList(ctx, object, list, sizeof(list) / sizeof(list)[0])

struct timespec;

void host_add_files(JSContext *ctx, JSValueConst host);
void host_add_process(JSContext *ctx, JSValueConst host, const struct channel *given);
void host_add_code(JSContext *ctx, JSValueConst host, bool interruptible);
void host_add_imports(JSContext *ctx, JSValueConst host);

/* What a system call returned, or the negative errno. */
JSValue host_result(JSContext *ctx, int r);
/* [value, 0], or [nothing, the error]. Takes the value. */
JSValue host_pair(JSContext *ctx, JSValue value, int code);
/* An argument that may be left out. */
int host_number(JSContext *ctx, int argc, JSValueConst *argv, int i, int otherwise);

/* The bytes of a buffer, a view of one, or a text; data is NULL with an exception. A text is the
 * caller's to free. */
struct bytes {
    const char *data, *text;
    size_t len;
};
struct bytes host_bytes_of(JSContext *ctx, JSValueConst value);

int host_write_bytes(int fd, const char *data, size_t len);
/* What is in a descriptor from here to its end, or in a file; NULL with errno. */
char *host_read_rest(int fd, size_t *len);
char *host_read_path(const char *path, size_t *len);
double host_milliseconds(const struct timespec *t);
/* Was a cell to be interrupted since that was last forgotten? */
bool host_interrupted(void);
