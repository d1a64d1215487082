/* `pass`: headers and query members that a rule lets through although they look like a credential
 * of the client's own, or could change what is asked for. */
#include "base/quote.h"
#include "http/name.h"
#include "policy/egress/internal.h"

#include <string.h>

int pass_check(const char *name, struct err *err)
{
    static const char token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    struct quoted q;
    const char *bare = name + (name[0] == '?');
    size_t len = strspn(bare, token);
    if (len > 0 && bare[len] == '\0' && len <= PASS_NAME_MAX)
        return 0;
    err_set(err, ERR_USAGE,
            "%s is not a name, expected a header such as X-Api-Key, or a member of "
            "the query such as ?access_token",
            quote(&q, name));
    return -ERR_USAGE;
}

bool rule_passes(const struct egress_rule *r, const char *name, size_t len, bool query)
{
    struct folded f;
    if (r->pass.count == 0)
        return false;
    name_fold(name, len, query, &f);
    for (size_t i = 0; i < r->pass.count; i++) {
        const char *listed = r->pass.items[i];
        if ((listed[0] == '?') == query && name_same(&f, listed))
            return true;
    }
    return false;
}
