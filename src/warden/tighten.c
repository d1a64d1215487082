/* What a request may say about the policy of its sandbox: only what makes the template's stricter.
 * Decided here, in the warden of that one sandbox: the front passes the text on unread, and the
 * template that is changed is this process's own copy. */
#include "warden/template.h"

#include "base/cleanup.h"
#include "kernel/tier.h"

#include <string.h>

static void free_policy(struct policy *p)
{
    policy_done(p);
}

/* A field that nothing in `brig serve` keeps is refused: whoever asks for it would rely on it. */
static int check_kept(const struct policy *request, struct err *err)
{
    static const struct {
        enum policy_field field;
        const char *instead;
    } unkept[] = {
        {FIELD_CWD, "each process is told its folder when it is started"},
        {FIELD_TIMEOUT, "how long a sandbox lives is the request's timeout"},
        {FIELD_OUTPUT, "output is passed on as it comes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(unkept); i++) {
        if (request->origin[unkept[i].field].kind <= ORIGIN_LEVEL)
            continue;
        err_set(err, ERR_POLICY, "brig serve has no use for %s",
                policy_field_path(unkept[i].field));
        return err_hint(err, "leave it out: %s", unkept[i].instead);
    }
    if (!request->tools.given)
        return 0;
    err_set(err, ERR_POLICY, "brig serve has no use for tools");
    return err_hint(err, "leave it out: it is about servers that brig mcp --wrap runs");
}

static int check_tier(const struct policy *p, struct err *err)
{
    if (tier_served(p))
        return 0;
    char names[TIER_NAMES_SIZE];
    tier_served_names(names);
    err_set(err, ERR_UNSUPPORTED, "the request asks for the %s tier; the daemon has %s",
            tier_name(p->tier), names);
    return err_hint(err, "leave kernel.tier and level %s out", level_name(p->level));
}

int template_tighten(struct template *t, const char *text, size_t len, struct err *err)
{
    __attribute__((cleanup(free_policy))) struct policy request;
    if (policy_init(&request, t->policy.level) < 0)
        return err_memory(err);
    int r = policy_load(&request, TEMPLATE_REQUEST, text, len, err);
    if (r == 0)
        r = check_kept(&request, err);
    if (r == 0)
        r = policy_tighten(&t->policy, &request, err);
    if (r == 0)
        r = check_tier(&t->policy, err);
    return r < 0 ? r : policy_validate(&t->policy, err);
}
