/* Filling in errors, and the tables from error codes to names and exit statuses. */
#include "base/err.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static void vset(char *dst, size_t size, const char *fmt,
                                                       va_list ap)
{
    if (vsnprintf(dst, size, fmt, ap) < 0)
        dst[0] = '\0';
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        err->sys_errno = 0;
        err->hint[0] = '\0';
        vset(err->message, sizeof err->message, fmt, ap);
        va_end(ap);
    }
    return -(int)code;
}

int err_sys(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = ERR_SYSTEM;
        err->sys_errno = saved;
        err->hint[0] = '\0';
        vset(err->message, sizeof err->message, fmt, ap);
        va_end(ap);
        size_t used = strlen(err->message);
        snprintf(err->message + used, sizeof err->message - used, ": %s", strerror(saved));
    }
    return -(int)ERR_SYSTEM;
}

int err_memory(struct err *err)
{
    return err_set(err, ERR_MEMORY, ERR_MEMORY_TEXT);
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    if (!err)
        return -(int)ERR_INTERNAL;
    char context[sizeof err->message];
    va_list ap;
    va_start(ap, fmt);
    vset(context, sizeof context, fmt, ap);
    va_end(ap);
    size_t used = strlen(context);
    snprintf(context + used, sizeof context - used, ": %s", err->message);
    memcpy(err->message, context, sizeof context);
    return err_number(err);
}

int err_hint(struct err *err, const char *fmt, ...)
{
    if (!err)
        return -(int)ERR_INTERNAL;
    va_list ap;
    va_start(ap, fmt);
    vset(err->hint, sizeof err->hint, fmt, ap);
    va_end(ap);
    return err_number(err);
}

int err_at(struct err *err, enum boundary_id boundary)
{
    if (err && err->boundary == BOUNDARY_NONE)
        err->boundary = boundary;
    return err_number(err);
}

/* From ERR_USAGE on. */
static const char *const code_names[] = {
    "usage",     "policy",         "unsupported", "refused",     "system",   "limit",  "attest",
    "not_found", "not_executable", "protocol",    "interrupted", "internal", "memory",
};
_Static_assert(ARRAY_LEN(code_names) == ERR_CODE_END - ERR_USAGE, "each code has its name");

const char *err_code_name(enum err_code code)
{
    if (code == ERR_NONE)
        return "none";
    return err_code_known(code) ? code_names[code - ERR_USAGE] : "unknown";
}

const char *boundary_name(enum boundary_id id)
{
    static const char *const names[BOUNDARY_COUNT] = {
        "none", "kernel", "filesystem", "network", "credentials", "lifecycle",
    };
    return id >= 0 && id < BOUNDARY_COUNT ? names[id] : "unknown";
}

int err_exit_status(const struct err *err)
{
    switch (err->code) {
    case ERR_NOT_EXEC:
        return 126;
    case ERR_NOT_FOUND:
        return 127;
    default:
        return 125;
    }
}
