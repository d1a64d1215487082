/* Makes and frees a policy. */
#include "policy/policy.h"

#include "policy/fields.h"
#include "policy/levels.h"

#include <stdlib.h>

int policy_init(struct policy *p, enum level level)
{
    *p = (struct policy){0};
    egress_init(&p->egress);
    int r = level_apply(p, level);
    if (r < 0)
        policy_done(p);
    return r;
}

static void free_strings(struct policy *p)
{
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        char **slot = field_string(p, id);
        if (slot)
            free(*slot);
    }
}

void policy_done(struct policy *p)
{
    if (!p)
        return;
    free_strings(p);
    for (size_t i = 0; i < p->grant_count; i++) {
        free(p->grants[i].source);
        free(p->grants[i].dest);
    }
    for (size_t i = 0; i < p->env_count; i++) {
        free(p->env[i].name);
        free(p->env[i].value);
    }
    egress_done(&p->egress);
    commands_done(&p->commands);
    tools_done(&p->tools);
    free(p->blocked_from);
    free(p->grants);
    free(p->env);
    *p = (struct policy){0};
}
