/* Annotations brig.*: what an image, a pod or its author asks of brig. None widens anything: what
 * one asks for is in the operator's file, or the container is not made (OC-10). One that is not
 * understood may have been meant to protect, so that it is refused as well. Those of other runtimes
 * are no orders. Pure. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"
#include "oci/judge.h"

#include <string.h>
#include <strings.h>

#define PREFIX       "brig."
#define SEPARATORS   ", \t\n"
#define RULE_MAX     1024u
#define KEY_ALLOW    "brig.allow"
#define KEY_POLICY   "brig.policy"
#define KEY_NETWORK  "brig.network"
#define CONFIG_ASKED "config: annotation "

/* ---- what is understood ---- */

static int judge_network(const char *value, struct err *err)
{
    struct quoted q;
    if (strcmp(value, "own") == 0)
        return 0;
    err_set(err, ERR_REFUSED, CONFIG_ASKED KEY_NETWORK ": %s is not known", quote(&q, value));
    return err_hint(err, "own, or leave it out for the network that the engine names");
}

bool oci_network_own(const struct oci_config *c)
{
    return json_text(c->annotations, KEY_NETWORK) != NULL;
}

static int judge_one(const char *key, const struct json *value, struct err *err)
{
    static const char *const elsewhere[] = {KEY_ALLOW, KEY_POLICY, OCI_KEY_TIER, OCI_KEY_LEVEL,
                                            OCI_KEY_RECEIPT};
    struct quoted q;
    if (json_type(value) != JSON_STRING)
        return err_set(err, ERR_USAGE, CONFIG_ASKED "%s: expected a text", quote(&q, key));
    if (strcmp(key, KEY_NETWORK) == 0)
        return judge_network(json_string(value), err);
    /* What these say is decided where it is held against the operator's file. */
    for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
        if (strcmp(key, elsewhere[i]) == 0)
            return 0;
    err_set(err, ERR_REFUSED, CONFIG_ASKED "%s is not known: what it was meant to do would be lost",
            quote(&q, key));
    return err_hint(err, "there are " KEY_ALLOW ", " KEY_POLICY ", " KEY_NETWORK ", " OCI_KEY_TIER
                         ", " OCI_KEY_LEVEL " and " OCI_KEY_RECEIPT
                         "; what the node's operator allows is in " OCI_OPERATOR_FILE);
}

int oci_judge_annotations(const struct json *j, struct err *err)
{
    for (size_t i = 0; i < json_count(j); i++) {
        const char *key = json_key_at(j, i);
        /* One in other letters was meant for brig as well. */
        if (strncasecmp(key, PREFIX, sizeof PREFIX - 1) == 0 &&
            judge_one(key, json_value_at(j, i), err) < 0)
            return err_number(err);
    }
    return 0;
}

/* ---- the ways out ---- */

int oci_rules_read(const struct json *list, const char *where, struct policy *p, struct err *err)
{
    struct origin from = {.kind = ORIGIN_FILE, .name = "oci.json"};
    struct quoted q;
    for (size_t i = 0; i < json_count(list); i++)
        if (policy_allow(p, json_string(json_at(list, i)), &from, err) < 0)
            return err_wrap(err, OCI_OPERATOR_FILE ": %s", quote(&q, where));
    return 0;
}

/* What the operator set aside for this wish: the rules of the policy that it names, or those that
 * any container may choose from. */
static int read_bound(const struct oci_operator *o, const char *name, struct policy *p,
                      struct err *err)
{
    struct quoted q;
    if (!name)
        return oci_rules_read(o->allow, "allow", p, err);
    const struct json *rules = json_get(o->policies, name);
    if (rules)
        return oci_rules_read(rules, name, p, err);
    err_set(err, ERR_REFUSED, CONFIG_ASKED KEY_POLICY ": the operator has no policy %s",
            quote(&q, name));
    err_at(err, BOUNDARY_NETWORK);
    return err_hint(err, "it is a name under policies in " OCI_OPERATOR_FILE
                         " of this node, and never a file");
}

static int read_wish(const char *text, struct policy *p, struct err *err)
{
    struct origin from = {.kind = ORIGIN_OPTION, .name = KEY_ALLOW};
    size_t count = 0;
    for (const char *at = text + strspn(text, SEPARATORS); *at; at += strspn(at, SEPARATORS)) {
        char rule[RULE_MAX];
        size_t len = strcspn(at, SEPARATORS);
        if (len >= sizeof rule)
            return err_set(err, ERR_LIMIT, CONFIG_ASKED KEY_ALLOW ": a rule is too long");
        memcpy(rule, at, len);
        rule[len] = '\0';
        if (policy_allow(p, rule, &from, err) < 0)
            return err_wrap(err, CONFIG_ASKED KEY_ALLOW);
        at += len;
        count++;
    }
    return count ? 0 : err_set(err, ERR_USAGE, CONFIG_ASKED KEY_ALLOW ": expected rules");
}

static int narrow(struct policy *bound, const char *text, bool named, struct err *err)
{
    struct policy wish;
    if (policy_init(&wish, LEVEL_HIGH) < 0)
        return err_memory(err);
    int r = read_wish(text, &wish, err);
    if (r == 0) {
        wish.allow_given = true;
        r = policy_tighten(bound, &wish, err);
        if (r < 0)
            err_wrap(err, CONFIG_ASKED KEY_ALLOW);
        if (r < 0 && err->code == ERR_REFUSED) {
            err_at(err, BOUNDARY_NETWORK);
            err_hint(err, "the operator of this node can allow it in " OCI_OPERATOR_FILE " (%s)",
                     named ? "policies" : "allow");
        }
    }
    policy_done(&wish);
    return r;
}

/* What the rules need that a container of an engine does not have. */
static int check_place(const struct oci_config *c, const struct policy *p, struct err *err)
{
    if (c->ns[OCI_NS_NETWORK].path && !oci_network_own(c)) {
        err_set(err, ERR_REFUSED,
                "config: rules for the network, and a network that was made outside, which has "
                "ways of its own");
        err_at(err, BOUNDARY_NETWORK);
        return err_hint(
            err, "let the engine make none (podman and docker: --network none), or say " KEY_NETWORK
                 ": own; with rules the only way out is brig-proxy");
    }
    if (!egress_needs_ca(&p->egress))
        return 0;
    err_set(err, ERR_UNSUPPORTED,
            "config: rules with methods or paths of https: programs in an image of others would "
            "not trust the certificates that these need");
    err_at(err, BOUNDARY_NETWORK);
    return err_hint(err, "name the host alone");
}

int oci_egress_decide(const struct oci_config *c, const struct oci_operator *o, struct policy *ret,
                      struct err *err)
{
    const char *allow = json_text(c->annotations, KEY_ALLOW);
    const char *name = json_text(c->annotations, KEY_POLICY);
    if (!allow && !name)
        return 0;
    if (policy_init(ret, LEVEL_HIGH) < 0)
        return err_memory(err);
    int r = read_bound(o, name, ret, err);
    if (r == 0 && allow)
        r = narrow(ret, allow, name != NULL, err);
    if (r == 0)
        r = check_place(c, ret, err);
    if (r == 0 && ret->egress.rule_count == 0)
        r = err_set(err, ERR_POLICY, OCI_OPERATOR_FILE ": the policy has no rules");
    if (r == 0)
        return 1;
    policy_done(ret);
    return err_number(err);
}
