/* Tier, level and receipt of a container: of its annotations and of the operator's file. */
#include "oci/judge.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define CONFIG(root, network, more)                                                                \
    "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"r\"" root "},\"process\":{\"args\":[\"a\"],"   \
    "\"cwd\":\"/\"}," more                                                                         \
    "\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"" network                  \
    "},{\"type\":\"ipc\"},{\"type\":\"uts\"}]}}"

static int decide(const char *annotations, const char *file, struct oci_walls *ret, struct err *err)
{
    struct oci_operator o;
    struct json *j = NULL;
    *err = (struct err)ERR_INIT;
    cr_assert_eq(oci_operator_parse(file, strlen(file), &o, err), 0, "%s", err->message);
    cr_assert_eq(json_parse(annotations, strlen(annotations), &json_default_limits, &j, err), 0);
    int r = oci_walls_decide(j, &o, ret, err);
    json_free(j);
    oci_operator_done(&o);
    return r;
}

static void refused(const char *annotations, const char *file, const char *why)
{
    struct err err;
    struct oci_walls w;
    cr_assert_lt(decide(annotations, file, &w, &err), 0, "taken: %s, %s", annotations, file);
    cr_assert(strstr(err.message, why), "\"%s\" is not in: %s", why, err.message);
}

static struct oci_walls taken(const char *annotations, const char *file)
{
    struct err err;
    struct oci_walls w;
    cr_assert_eq(decide(annotations, file, &w, &err), 0, "%s", err.message);
    return w;
}

/* OC-16 */
Test(oci_tier, a_tier_is_never_weaker)
{
    cr_assert_eq(taken("{}", "{}").tier, TIER_CONTAINER);
    cr_assert_eq(taken("{\"brig.tier\":\"container\"}", "{}").tier, TIER_CONTAINER);
    cr_assert_eq(taken("{}", "{\"tier\":\"container\"}").tier, TIER_CONTAINER);
    cr_assert_eq(taken("{}", "{\"tier\":\"gvisor\"}").tier, TIER_GVISOR);
    cr_assert_eq(taken("{\"brig.tier\":\"gvisor\"}", "{\"tier\":\"wasm\"}").tier, TIER_GVISOR);
    refused("{\"brig.tier\":\"wasm\"}", "{\"tier\":\"gvisor\"}", "weaker than gvisor");
    refused("{\"brig.tier\":\"process\"}", "{}", "weaker than container");
    refused("{\"brig.tier\":\"wasm-process\"}", "{}", "weaker than container");
    refused("{\"brig.tier\":\"\"}", "{}", "is not known");
    refused("{\"brig.tier\":\"VM\"}", "{}", "is not known");
    refused("{\"brig.tier\":\"container\"}", "{\"tier\":\"gvisor\"}", "weaker than gvisor");
    refused("{\"brig.tier\":\"gvisor\"}", "{\"tier\":\"vm\"}", "weaker than vm");
    refused("{\"brig.tier\":\"vm\"}", "{}", "tier vm");
    refused("{}", "{\"tier\":\"vm\"}", "tier vm");
}

Test(oci_tier, a_level_is_never_lower)
{
    cr_assert(!taken("{}", "{}").leveled);
    cr_assert_eq(taken("{\"brig.level\":\"high\"}", "{}").level, LEVEL_HIGH);
    cr_assert_eq(taken("{}", "{\"level\":\"medium\"}").level, LEVEL_MEDIUM);
    cr_assert_eq(taken("{\"brig.level\":\"high\"}", "{\"level\":\"medium\"}").level, LEVEL_HIGH);
    refused("{\"brig.level\":\"low\"}", "{\"level\":\"medium\"}", "weaker than medium");
    refused("{\"brig.level\":\"highest\"}", "{}", "is not known");
    refused("{\"brig.level\":\"critical\"}", "{}", "tier vm");
    refused("{\"brig.level\":\"critical\",\"brig.tier\":\"gvisor\"}", "{}", "weaker than vm");
    refused("{}", "{\"level\":\"critical\"}", "tier vm");
}

static int hold(enum level level, const char *text, bool rules)
{
    static struct oci_config c;
    struct err err = ERR_INIT;
    struct oci_walls w = {.tier = TIER_CONTAINER, .leveled = true, .level = level, .least = level};
    cr_assert_eq(oci_config_parse(text, strlen(text), &c, &err), 0, "%s", err.message);
    int r = oci_level_judge(&w, &c, rules, &err);
    w.leveled = false;
    cr_assert_eq(oci_level_judge(&w, &c, rules, &err), 0);
    oci_config_done(&c);
    return r;
}

Test(oci_tier, a_level_against_the_configuration)
{
    for (int level = LEVEL_LOW; level < LEVEL_COUNT; level++) {
        cr_assert_eq(hold((enum level)level, CONFIG(",\"readonly\":true", "", ""), false), 0);
        cr_assert_lt(hold((enum level)level, CONFIG("", "", ""), false), 0);
        cr_assert_lt(hold((enum level)level,
                          CONFIG(",\"readonly\":true", ",\"path\":\"/run/netns/x\"", ""), false),
                     0);
        cr_assert_eq(hold((enum level)level, CONFIG(",\"readonly\":true", "", ""), true) == 0,
                     level != LEVEL_LOW);
    }
}

Test(oci_tier, a_level_against_folders_of_the_host)
{
    struct err err = ERR_INIT;
    struct oci_mount read = {.type = OCI_MOUNT_BIND, .read_only = true}, write = {0};
    static const struct {
        enum level level;
        bool reads, writes;
    } rows[] = {{LEVEL_LOW, true, false},
                {LEVEL_MEDIUM, true, true},
                {LEVEL_HIGH, true, false},
                {LEVEL_CRITICAL, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct oci_walls w = {.leveled = true, .level = rows[i].level, .least = rows[i].level};
        cr_assert_eq(oci_level_judge_folder(&w, &read, &err) == 0, rows[i].reads);
        cr_assert_eq(oci_level_judge_folder(&w, &write, &err) == 0, rows[i].writes);
    }
}

/* Medium has ways out and folders that can be written, low has neither: a word for the former must
 * not bring a container more than the operator's has. */
Test(oci_tier, a_higher_level_gives_nothing_that_the_operators_has_not)
{
    static struct oci_config c;
    static const char text[] = CONFIG(",\"readonly\":true", "", "");
    static const char higher[] = "{\"brig.level\":\"medium\"}";
    struct err err = ERR_INIT;
    struct oci_mount write = {.type = OCI_MOUNT_BIND};
    struct oci_walls both = taken(higher, "{\"level\":\"low\"}"), one = taken(higher, "{}");
    cr_assert_eq(oci_config_parse(text, strlen(text), &c, &err), 0);
    cr_assert_lt(oci_level_judge_folder(&both, &write, &err), 0);
    cr_assert_lt(oci_level_judge(&both, &c, true, &err), 0);
    cr_assert_eq(oci_level_judge_folder(&one, &write, &err), 0); /* controls */
    cr_assert_eq(oci_level_judge(&one, &c, true, &err), 0);
    oci_config_done(&c);
}

Test(oci_tier, a_level_against_files_of_the_host)
{
    struct err err = ERR_INIT;
    struct oci_walls w = {.leveled = true, .level = LEVEL_HIGH, .least = LEVEL_HIGH};
    struct oci_mount engines = {.type = OCI_MOUNT_BIND, .dest = "/etc/hosts"},
                     own = {.type = OCI_MOUNT_BIND, .dest = "/data/db"};
    cr_assert_eq(oci_level_judge_file(&w, &engines, &err), 0);
    cr_assert_lt(oci_level_judge_file(&w, &own, &err), 0);
    own.read_only = true;
    cr_assert_eq(oci_level_judge_file(&w, &own, &err), 0);
    w.level = w.least = LEVEL_CRITICAL;
    cr_assert_lt(oci_level_judge_file(&w, &own, &err), 0);
    w.leveled = false; /* control */
    cr_assert_eq(oci_level_judge_file(&w, &own, &err), 0);
}

Test(oci_tier, an_operators_file_with_a_mistake)
{
    static const char *const broken[] = {"{\"tier\":\"process\"}", "{\"tier\":\"auto\"}",
                                         "{\"tier\":1}",           "{\"level\":\"\"}",
                                         "{\"level\":\"none\"}",   "{\"receipts\":\"all\"}",
                                         "{\"receipts\":true}"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct oci_operator o;
        struct err err = ERR_INIT;
        cr_assert_lt(oci_operator_parse(broken[i], strlen(broken[i]), &o, &err), 0, "%s",
                     broken[i]);
    }
}
