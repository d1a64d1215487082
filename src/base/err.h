/* One error type for the whole program. It has a fixed size and holds no pointers, so that a
 * half-built child can send it over a socket as it is. Library code fills one in and returns a
 * negative number; it never logs and never exits.
 *
 * FI-1  Whatever fails, at whatever moment: no wall is missing where code runs, nothing is left,
 * nothing crashes, and it is said. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* These lie above every errno (4095 at most): a negative result is -errno or one of these with its
 * sign turned, and which of them can be told. */
enum err_code {
    ERR_NONE = 0,
    ERR_USAGE = 4096, /* the command line or a request is malformed */
    ERR_POLICY,       /* a policy file is malformed or contradicts itself */
    ERR_UNSUPPORTED,  /* this host cannot enforce what was asked */
    ERR_REFUSED,      /* it could be done, but a rule says no */
    ERR_SYSTEM,       /* a system call failed; sys_errno says why */
    ERR_LIMIT,        /* a fixed bound of brig itself was exceeded */
    ERR_ATTEST,       /* what is in force is not what was planned */
    ERR_NOT_FOUND,    /* the command does not exist inside (127) */
    ERR_NOT_EXEC,     /* the command exists but cannot be executed (126) */
    ERR_PROTOCOL,     /* the other side of a socket sent nonsense */
    ERR_INTERRUPTED,  /* a signal ended the set-up */
    ERR_INTERNAL,     /* a bug in brig */
    ERR_MEMORY,       /* the host has no memory for it now; later it may have */
    ERR_CODE_END,
};

/* The five boundaries, plus one for what belongs to none of them. */
enum boundary_id {
    BOUNDARY_NONE = 0,
    BOUNDARY_KERNEL,
    BOUNDARY_FILESYSTEM,
    BOUNDARY_NETWORK,
    BOUNDARY_CREDENTIALS,
    BOUNDARY_LIFECYCLE,
    BOUNDARY_COUNT,
};

struct err {
    int32_t code; /* enum err_code */
    int32_t sys_errno;
    int32_t boundary; /* enum boundary_id */
    char message[512];
    char hint[320]; /* what the user can do about it; may be empty */
};

/* Of what another process sent: whether it is one of the codes above but ERR_NONE. */
static inline bool err_code_known(int32_t code)
{
    return code >= ERR_USAGE && code < ERR_CODE_END;
}

/* What a function returns when one that it called has set `err`, which may be NULL. Never 0: who
 * failed without saying why has failed all the same. */
static inline int err_number(const struct err *err)
{
    return err && err->code != ERR_NONE ? -err->code : -(int)ERR_INTERNAL;
}

#define ERR_INIT                                                                                   \
    {                                                                                              \
        .code = ERR_NONE                                                                           \
    }

/* Each returns a negative number, so that `return err_set(...)` reads well. err may be NULL. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int err_sys(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define ERR_MEMORY_TEXT "out of memory"
int err_memory(struct err *err);
/* Put "context: " in front of what is already there. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Attach advice to an error that was just set; keeps the code. */
int err_hint(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_at(struct err *err, enum boundary_id boundary);

const char *err_code_name(enum err_code code);
const char *boundary_name(enum boundary_id id);
/* The exit status of `brig run` for this error: 125, 126 or 127. */
int err_exit_status(const struct err *err);
