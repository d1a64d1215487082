/* The table of calls as data, and the questions about it that need no program. */
#include "kernel/process/filter_rules.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

const struct filter_entry filter_table[] = {
#define CALL(name, x86_64, aarch64, rule, group, why)                                              \
    {#name, x86_64, aarch64, RULE_##rule, GROUP_##group, why},
#include "kernel/process/calls.def"
#undef CALL
};
const size_t filter_table_len = sizeof(filter_table) / sizeof(filter_table[0]);

const struct filter_sockopt filter_sockopts[] = {
#define OPTION(level, first, last, who, names, why)                                                \
    {#level, level, first, last, WHO_##who, names, why},
#include "kernel/process/sockopts.def"
#undef OPTION
};
const size_t filter_sockopts_len = sizeof(filter_sockopts) / sizeof(filter_sockopts[0]);

static const char *const rule_texts[RULE_COUNT] = {
#define RULE(id, text) text,
    FILTER_RULES(RULE)
#undef RULE
};

int filter_number(const struct filter_entry *e, uint32_t arch)
{
    switch (arch) {
    case FILTER_X86_64:
        return e->x86_64;
    case FILTER_AARCH64:
        return e->aarch64;
    default:
        return -1;
    }
}

const struct filter_entry *filter_find(uint32_t arch, int nr)
{
    for (size_t i = 0; nr >= 0 && i < filter_table_len; i++) {
        if (filter_number(&filter_table[i], arch) == nr)
            return &filter_table[i];
    }
    return NULL;
}

const char *filter_call_name(uint32_t arch, int nr)
{
    const struct filter_entry *e = filter_find(arch, nr);
    return e ? e->name : NULL;
}

size_t filter_call_count(void)
{
    return filter_table_len;
}

void filter_call_at(uint32_t arch, size_t i, struct filter_call *ret)
{
    const struct filter_entry *e = &filter_table[i];
    *ret = (struct filter_call){e->name, filter_number(e, arch), rule_texts[e->rule], e->why};
}

bool filter_is_brokered_signal(uint32_t arch, int nr)
{
    /* The first argument of each names a process or thread by number. pidfd_send_signal names a
     * descriptor and is not among them: where signals are brokered it is absent. */
    const struct filter_entry *e = filter_find(arch, nr);
    return e && (e->rule == RULE_KILL || e->rule == RULE_SIGNAL);
}

bool filter_is_brokered_meta(uint32_t arch, int nr)
{
    const struct filter_entry *e = filter_find(arch, nr);
    return e && (e->rule == RULE_META || e->rule == RULE_CHMOD || e->rule == RULE_CHMODAT);
}

bool filter_is_brokered_watch(uint32_t arch, int nr)
{
    const struct filter_entry *e = filter_find(arch, nr);
    return e && e->rule == RULE_WATCH_ADD;
}

bool filter_is_brokered_shm(uint32_t arch, int nr)
{
    const struct filter_entry *e = filter_find(arch, nr);
    return e && (e->rule == RULE_OPEN || e->rule == RULE_OPENAT || e->rule == RULE_NAME ||
                 e->rule == RULE_NAMEAT);
}

bool filter_is_brokered_connect(uint32_t arch, int nr)
{
    const struct filter_entry *e = filter_find(arch, nr);
    return e && e->rule == RULE_CONNECT;
}

static bool is_one_of(const struct filter_entry *e, const char *const *names)
{
    for (; e && *names; names++) {
        if (strcmp(e->name, *names) == 0)
            return true;
    }
    return false;
}

static const char *const reported[] = {"open",   "openat",   "openat2",   "creat",    "truncate",
                                       "mkdir",  "mkdirat",  "unlink",    "unlinkat", "rmdir",
                                       "rename", "renameat", "renameat2", NULL};
static const char *const learned[] = {
    "stat",       "lstat",    "newfstatat", "statx",  "access",    "faccessat",
    "faccessat2", "chdir",    "readlink",   "execve", "execveat",  "readlinkat",
    "link",       "linkat",   "symlink",    "mknod",  "symlinkat", "mknodat",
    "chmod",      "fchmodat", "utimensat",  "socket", NULL};

bool filter_is_reported(uint32_t arch, int nr)
{
    return is_one_of(filter_find(arch, nr), reported);
}

bool filter_is_learned(uint32_t arch, int nr)
{
    const struct filter_entry *e = filter_find(arch, nr);
    return is_one_of(e, reported) || is_one_of(e, learned);
}
