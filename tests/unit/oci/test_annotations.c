/* Annotations brig.*: understood and within the operator's file, or refused. */
#include "oci/judge.h"

#include <criterion/criterion.h>
#include <string.h>

#define OPERATOR                                                                                   \
    "{\"allow\":[\"a.test\",\"*.b.test:8080\",\"pinned.test:80=10.0.0.1\"],"                       \
    "\"policies\":{\"p\":[\"c.test:443\",\"d.test:443\"],\"none\":[]}}"
#define NETWORK(path)                                                                              \
    "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"r\"},\"process\":{\"args\":[\"a\"],\"cwd\":"   \
    "\"/\"},\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"" path              \
    "},{\"type\":\"ipc\"},{\"type\":\"uts\"}]},\"annotations\":{"
#define HEAD NETWORK("")
#define POD  NETWORK(",\"path\":\"/run/netns/x\"")

/* How many rules; negative: refused. */
static int decide(const char *text, const char *file, struct err *err)
{
    static struct oci_config c;
    struct oci_operator o;
    struct policy p;
    *err = (struct err)ERR_INIT;
    cr_assert_eq(oci_operator_parse(file, strlen(file), &o, err), 0, "%s", err->message);
    cr_assert_eq(oci_config_parse(text, strlen(text), &c, err), 0, "%s", err->message);
    int r = oci_judge(&c, &o, err);
    if (r == 0)
        r = oci_egress_decide(&c, &o, &p, err);
    if (r > 0) {
        r = (int)p.egress.rule_count;
        policy_done(&p);
    }
    oci_config_done(&c);
    oci_operator_done(&o);
    return r;
}

static void refused(const char *text, const char *why)
{
    struct err err;
    cr_assert_lt(decide(text, OPERATOR, &err), 0, "taken: %s", text);
    cr_assert(strstr(err.message, why), "\"%s\" is not in: %s", why, err.message);
}

static void rules(const char *text, int count)
{
    struct err err;
    cr_assert_eq(decide(text, OPERATOR, &err), count, "%s: %s", text, err.message);
}

Test(oci_annotations, none_is_no_way_out)
{
    rules(HEAD "}}", 0);
    rules(HEAD "\"other.runtime\":\"x\"}}", 0);
    rules(HEAD "\"brig.tier\":\"container\"}}", 0);
    rules(HEAD "\"brig.network\":\"own\"}}", 0);
}

/* OC-10 */
Test(oci_annotations, what_is_within_the_operators_rules)
{
    rules(HEAD "\"brig.allow\":\"a.test\"}}", 2); /* http and https */
    rules(HEAD "\"brig.allow\":\"https://a.test, x.b.test:8080\"}}", 2);
    rules(HEAD "\"brig.allow\":\"*.b.test:8080\"}}", 1);
    rules(HEAD "\"brig.allow\":\"pinned.test:80\"}}", 1);
    rules(HEAD "\"brig.policy\":\"p\"}}", 2);
    rules(HEAD "\"brig.policy\":\"p\",\"brig.allow\":\"c.test:443\"}}", 1);
    rules(POD "\"brig.policy\":\"p\",\"brig.network\":\"own\"}}", 2);
}

Test(oci_annotations, what_is_not)
{
    refused(HEAD "\"brig.allow\":\"b.test:8080\"}}", "b.test");
    refused(HEAD "\"brig.allow\":\"*.test\"}}", "*.test");
    refused(HEAD "\"brig.allow\":\"*\"}}", "brig.allow");
    refused(HEAD "\"brig.allow\":\"a.test:22\"}}", "a.test:22");
    refused(HEAD "\"brig.allow\":\"a.test=127.0.0.1\"}}", "another address");
    refused(HEAD "\"brig.allow\":\"pinned.test:80=10.0.0.2\"}}", "another address");
    refused(HEAD "\"brig.allow\":\" , \"}}", "expected rules");
    refused(HEAD "\"brig.allow\":\"c.test:443\"}}", "c.test");
    refused(HEAD "\"brig.policy\":\"p\",\"brig.allow\":\"a.test\"}}", "a.test");
    refused(HEAD "\"brig.policy\":\"q\"}}", "no policy");
    refused(HEAD "\"brig.policy\":\"none\"}}", "no rules");
    refused(HEAD "\"brig.policy\":\"\"}}", "no policy");
    refused(HEAD "\"brig.allow\":\"https://a.test/path\"}}", "certificates");
    refused(POD "\"brig.allow\":\"a.test\"}}", "made outside");
}

Test(oci_annotations, what_is_not_understood)
{
    refused(HEAD "\"brig.\":\"\"}}", "brig.");
    refused(HEAD "\"brig.Allow\":\"a.test\"}}", "brig.Allow");
    refused(HEAD "\"Brig.tier\":\"vm\"}}", "Brig.tier");
    refused(HEAD "\"BRIG.allow\":\"a.test\"}}", "BRIG.allow");
    refused(HEAD "\"brig.Tier\":\"vm\"}}", "brig.Tier");
    refused(HEAD "\"brig.network\":\"host\"}}", "brig.network");
}

Test(oci_annotations, nothing_without_the_operator)
{
    struct err err;
    cr_assert_lt(decide(HEAD "\"brig.allow\":\"a.test\"}}", "{}", &err), 0);
    cr_assert(strstr(err.hint, OCI_OPERATOR_FILE " (allow)"), "%s", err.hint);
    cr_assert_lt(decide(HEAD "\"brig.policy\":\"p\"}}", "{}", &err), 0);
    cr_assert(strstr(err.hint, OCI_OPERATOR_FILE), "%s", err.hint);
}

Test(oci_annotations, an_operators_file_with_a_mistake_stops_everything)
{
    static const char *const broken[] = {"{\"allow\":\"a.test\"}",
                                         "{\"allow\":[\"a b\"]}",
                                         "{\"allow\":[1]}",
                                         "{\"policies\":[\"p\"]}",
                                         "{\"policies\":{\"p\":[\"//\"]}}",
                                         "{\"policies\":{\"p\":\"a\"}}",
                                         "{\"log\":\"relative\"}",
                                         "{\"log\":[]}",
                                         "{\"alow\":[\"a.test\"]}"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct oci_operator o;
        struct err err = ERR_INIT;
        cr_assert_lt(oci_operator_parse(broken[i], strlen(broken[i]), &o, &err), 0, "%s",
                     broken[i]);
    }
}
