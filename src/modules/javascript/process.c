/* The process: its end, its variables, the clock, and the channel on which cells come and are
 * interrupted. */
#include "modules/javascript/internal.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define FRAME_MAX (16u << 20) /* as wire/interp.h has it */

static struct channel channel = {-1, -1, -1};
static bool interrupted;

JS_CALL host_exit(JS_ARGS)
{
    fflush(NULL);
    _Exit(host_number(ctx, argc, argv, 0, 0) & 0xff);
}

JS_CALL host_strerror(JS_ARGS)
{
    return JS_NewString(ctx, strerror(abs(host_number(ctx, argc, argv, 0, 0))));
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
    return JS_NewFloat64(ctx, host_milliseconds(&t));
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

bool host_interrupted(void)
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
    return JS_NewBool(ctx, !host_interrupted());
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
    int r = host_write_bytes(channel.answers, (const char *)&head, sizeof head);
    if (r == 0)
        r = host_write_bytes(channel.answers, text, len);
    JS_FreeCString(ctx, text);
    return host_result(ctx, r);
}

/* wasInterrupted(forget) */
JS_CALL host_was_interrupted(JS_ARGS)
{
    bool was = host_interrupted();
    if (argc > 0 && JS_ToBool(ctx, argv[0]))
        interrupted = false;
    return JS_NewBool(ctx, was);
}

/* clang-format off */
static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("exit", 1, host_exit), JS_CFUNC_DEF("strerror", 1, host_strerror),
    JS_CFUNC_DEF("getenv", 1, host_getenv), JS_CFUNC_DEF("setenv", 2, host_setenv),
    JS_CFUNC_DEF("environ", 0, host_environ), JS_CFUNC_DEF("now", 0, host_now),
    JS_CFUNC_DEF("sleep", 1, host_sleep), JS_CFUNC_DEF("readFrame", 1, host_read_frame),
    JS_CFUNC_DEF("writeFrame", 1, host_write_frame), JS_CFUNC_DEF("wasInterrupted", 1, host_was_interrupted),
};
/* clang-format on */

void host_add_process(JSContext *ctx, JSValueConst host, const struct channel *given)
{
    channel = *given;
    HOST_ADD(ctx, host, functions);
}
