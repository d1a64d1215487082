/* The table of threat levels: the value of every field at each of them. */
#include "policy/levels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB    (UINT64_C(1024) * 1024)
#define GIB    (1024 * MIB)
#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

/* One row for each field, one column for each level. brig-policy(5) shows this table; a test holds
 * the two against each other. */
static const uint64_t numbers[FIELD_COUNT][LEVEL_COUNT] = {
    /* low, medium, high, critical */
    [FIELD_LEVEL] = {LEVEL_LOW, LEVEL_MEDIUM, LEVEL_HIGH, LEVEL_CRITICAL},
    [FIELD_TIER] = {TIER_PROCESS, TIER_CONTAINER, TIER_CONTAINER, TIER_VM},
    [FIELD_UID] = {1000, 1000, 1000, 1000},
    [FIELD_BESIDE] = {false, false, false, false},
    [FIELD_UNIX_SOCKETS] = {NEED_AUTO, NEED_AUTO, NEED_AUTO, NEED_AUTO},
    [FIELD_WRITABLE_ROOT] = {false, false, false, false},
    [FIELD_WORKSPACE] = {false, true, true, true},
    [FIELD_EXEC] = {false, true, true, false},
    [FIELD_PROJECT] = {false, true, false, false},
    [FIELD_SUBMOUNTS] = {false, false, false, false},
    [FIELD_PROC] = {PROC_PID, PROC_SYSTEM, PROC_PID, PROC_PID},
    [FIELD_LANDLOCK] = {NEED_REQUIRE, NEED_REQUIRE, NEED_REQUIRE, NEED_REQUIRE},
    [FIELD_REPORT] = {false, false, false, false},
    [FIELD_NETWORK_MODE] = {NETWORK_OFF, NETWORK_OFF, NETWORK_OFF, NETWORK_OFF},
    [FIELD_MAX_CONNECTIONS] = {256, 256, 256, 256},
    [FIELD_UPLOAD] = {POLICY_UNLIMITED, POLICY_UNLIMITED, POLICY_UNLIMITED, POLICY_UNLIMITED},
    [FIELD_REQUESTS] = {POLICY_UNLIMITED, POLICY_UNLIMITED, POLICY_UNLIMITED, POLICY_UNLIMITED},
    [FIELD_DISK] = {16 * MIB, 1 * GIB, 256 * MIB, 256 * MIB},
    [FIELD_INODES] = {4000, 128000, 32000, 32000},
    [FIELD_MEMORY] = {256 * MIB, 2 * GIB, 512 * MIB, 512 * MIB},
    [FIELD_CPUS] = {1000, 2000, 1000, 1000},
    [FIELD_PIDS] = {64, 1024, 256, 256},
    [FIELD_TIMEOUT] = {30 * SECOND, 1 * HOUR, 5 * MINUTE, 5 * MINUTE},
    [FIELD_CPU_TIME] = {POLICY_UNLIMITED, POLICY_UNLIMITED, POLICY_UNLIMITED, POLICY_UNLIMITED},
    [FIELD_OUTPUT] = {1 * MIB, 64 * MIB, 16 * MIB, 16 * MIB},
    [FIELD_OPEN_FILES] = {256, 4096, 1024, 1024},
    [FIELD_CGROUP] = {NEED_OFF, NEED_AUTO, NEED_AUTO, NEED_AUTO},
    [FIELD_SAMPLING] = {SAMPLING_ACCEPT, SAMPLING_AUTO, SAMPLING_AUTO, SAMPLING_REFUSE},
};

static uint64_t level_number(enum level level, enum policy_field id)
{
    return numbers[id][level];
}

bool policy_field_is_levels(const struct policy *p, enum policy_field field)
{
    return !field_is_text(field) && field_number(p, field) == level_number(p->level, field);
}

bool policy_field_is_chosen(const struct policy *p, enum policy_field field)
{
    const struct origin *o = &p->origin[field];
    return o->kind == ORIGIN_OPTION || (o->kind == ORIGIN_FILE && o->line > 0);
}

/* Texts are the same at every level; a working folder or a resolver that nobody chose is NULL. */
static const char *default_string(enum policy_field id)
{
    return id == FIELD_ROOT ? "host" : NULL;
}

/* No level differs from another here. */
static bool level_same_for_all(enum policy_field id)
{
    for (int level = 1; level < LEVEL_COUNT; level++) {
        if (numbers[id][level] != numbers[id][0])
            return false;
    }
    return true;
}

static int apply_string(struct policy *p, enum policy_field id, const char *text)
{
    char *copy = NULL;
    if (text && !(copy = strdup(text)))
        return -(int)ERR_SYSTEM;
    char **slot = field_string(p, id);
    free(*slot);
    *slot = copy;
    return 0;
}

int level_apply(struct policy *p, enum level level)
{
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (p->origin[id].kind > ORIGIN_LEVEL)
            continue;
        if (!field_is_text(id))
            field_store(p, id, level_number(level, id));
        else if (apply_string(p, id, default_string(id)) < 0)
            return -(int)ERR_SYSTEM;
        bool chosen = id != FIELD_LEVEL && !level_same_for_all(id);
        p->origin[id] = (struct origin){.kind = chosen ? ORIGIN_LEVEL : ORIGIN_DEFAULT};
        if (chosen)
            snprintf(p->origin[id].name, sizeof p->origin[id].name, "%s", level_name(level));
    }
    return 0;
}
