/* Landlock as the newest kernels define it; the packaged headers stop at ABI 2. */
#pragma once

#include "os/sys.h"

#include <stdint.h>

enum landlock_fs {
    LL_EXECUTE = 1 << 0,
    LL_WRITE_FILE = 1 << 1,
    LL_READ_FILE = 1 << 2,
    LL_READ_DIR = 1 << 3,
    LL_REMOVE_DIR = 1 << 4,
    LL_REMOVE_FILE = 1 << 5,
    LL_MAKE_CHAR = 1 << 6,
    LL_MAKE_DIR = 1 << 7,
    LL_MAKE_REG = 1 << 8,
    LL_MAKE_SOCK = 1 << 9,
    LL_MAKE_FIFO = 1 << 10,
    LL_MAKE_BLOCK = 1 << 11,
    LL_MAKE_SYM = 1 << 12,
    LL_REFER = 1 << 13,     /* ABI 2 */
    LL_TRUNCATE = 1 << 14,  /* ABI 3 */
    LL_IOCTL_DEV = 1 << 15, /* ABI 5 */
};

#define LL_NET_BIND_TCP    1u /* ABI 4 */
#define LL_NET_CONNECT_TCP 2u
#define LL_SCOPE_ABSTRACT  1u /* ABI 6 */
#define LL_SCOPE_SIGNAL    2u

struct landlock_ruleset {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

struct landlock_beneath {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

/* 0: the kernel has no Landlock, or it is switched off at boot. */
static inline int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, 1u);
    return abi > 0 ? (int)abi : 0;
}

static inline int landlock_create(const struct landlock_ruleset *r, size_t size)
{
    return (int)syscall(SYS_landlock_create_ruleset, r, size, 0u);
}

static inline int landlock_allow(int ruleset, const struct landlock_beneath *rule)
{
    return (int)syscall(SYS_landlock_add_rule, ruleset, 1, rule, 0u);
}

static inline int landlock_restrict(int ruleset)
{
    return (int)syscall(SYS_landlock_restrict_self, ruleset, 0u);
}
