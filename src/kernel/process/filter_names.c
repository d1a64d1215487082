/* The table of calls as data, and the questions about it that need no program. */
#include "kernel/process/filter_rules.h"

#include <string.h>

const struct filter_entry filter_table[] = {
#define CALL(name, x86_64, aarch64, rule, group, why)                                              \
    {#name, FILTER_NR(x86_64, aarch64), RULE_##rule, GROUP_##group, why},
#include "kernel/process/calls.def"
#undef CALL
};
const size_t filter_table_len = sizeof(filter_table) / sizeof(filter_table[0]);

static const char *const rule_texts[RULE_COUNT] = {
#define RULE(id, text) text,
    FILTER_RULES(RULE)
#undef RULE
};

const struct filter_entry *filter_find(unsigned nr)
{
    for (size_t i = 0; i < filter_table_len; i++) {
        if (filter_table[i].nr >= 0 && (unsigned)filter_table[i].nr == nr)
            return &filter_table[i];
    }
    return NULL;
}

const char *filter_call_name(unsigned nr)
{
    const struct filter_entry *e = filter_find(nr);
    return e ? e->name : NULL;
}

size_t filter_call_count(void)
{
    return filter_table_len;
}

void filter_call_at(size_t i, struct filter_call *ret)
{
    const struct filter_entry *e = &filter_table[i];
    *ret = (struct filter_call){e->name, e->nr, rule_texts[e->rule], e->why};
}

static const struct filter_entry *native(uint32_t arch, int nr)
{
    return arch == FILTER_ARCH && nr >= 0 ? filter_find((unsigned)nr) : NULL;
}

bool filter_is_brokered_signal(uint32_t arch, int nr)
{
    /* The first argument of each names a process or thread by number. pidfd_send_signal names a
     * descriptor and is not among them: where signals are brokered it is absent. */
    const struct filter_entry *e = native(arch, nr);
    return e && (e->rule == RULE_KILL || e->rule == RULE_SIGNAL);
}

bool filter_is_brokered_meta(uint32_t arch, int nr)
{
    const struct filter_entry *e = native(arch, nr);
    return e && (e->rule == RULE_META || e->rule == RULE_CHMOD || e->rule == RULE_CHMODAT);
}

bool filter_is_brokered_connect(uint32_t arch, int nr)
{
    const struct filter_entry *e = native(arch, nr);
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
    return is_one_of(native(arch, nr), reported);
}

bool filter_is_learned(uint32_t arch, int nr)
{
    const struct filter_entry *e = native(arch, nr);
    return is_one_of(e, reported) || is_one_of(e, learned);
}
