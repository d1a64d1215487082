/* Reading config.json: what is taken, and what is refused by its name. */
#include "oci/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define HEAD                                                                                       \
    "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"r\"},\"process\":{\"args\":[\"a\"],\"cwd\":"   \
    "\"/\""
#define PROCESS(more) HEAD more "}}"
#define TOP(more)     HEAD "}," more "}"

static int parse(const char *text, struct oci_config *c, struct err *err)
{
    *err = (struct err)ERR_INIT;
    return oci_config_parse(text, strlen(text), c, err);
}

static void refused(const char *text, const char *why)
{
    static struct oci_config c;
    struct err err;
    cr_assert_lt(parse(text, &c, &err), 0, "taken: %s", text);
    cr_assert(strstr(err.message, why), "\"%s\" is not in: %s", why, err.message);
}

static void taken(const char *text)
{
    static struct oci_config c;
    struct err err;
    cr_assert_eq(parse(text, &c, &err), 0, "%s: %s", text, err.message);
    oci_config_done(&c);
}

Test(oci_config, the_smallest)
{
    static struct oci_config c;
    struct err err;
    cr_assert_eq(parse(PROCESS(""), &c, &err), 0, "%s", err.message);
    cr_assert_str_eq(c.root_path, "r");
    cr_assert(c.has_process && c.process.uid == 0 && json_count(c.process.args) == 1);
    oci_config_done(&c);
}

Test(oci_config, limits_of_64_bits)
{
    static struct oci_config c;
    struct err err;
    cr_assert_eq(parse(PROCESS(",\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"soft\":5,\"hard\":"
                               "18446744073709551615}]"),
                       &c, &err),
                 0, "%s", err.message);
    cr_assert(c.process.rlimits[0].resource == RLIMIT_NOFILE && c.process.rlimits[0].soft == 5);
    cr_assert_eq(c.process.rlimits[0].hard, UINT64_MAX);
    oci_config_done(&c);
    refused(PROCESS(",\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"soft\":9,\"hard\":8}]"),
            "soft limit over");
    refused(PROCESS(",\"rlimits\":[{\"type\":\"RLIMIT_NOSUCH\"}]"), "unknown limit");
    refused(PROCESS(",\"rlimits\":[{\"type\":\"RLIMIT_CORE\"},{\"type\":\"RLIMIT_CORE\"}]"),
            "twice");
    refused(PROCESS(",\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"hard\":18446744073709551616}]"),
            "64 bits");
}

/* O-11: what may protect and is not understood. */
Test(oci_config, fields_that_protect_are_refused_by_name)
{
    refused(PROCESS(",\"apparmorProfile\":\"p\""), "apparmorProfile");
    refused(PROCESS(",\"selinuxLabel\":\"l\""), "selinuxLabel");
    refused(PROCESS(",\"ioPriority\":{\"class\":\"IOPRIO_CLASS_IDLE\"}"), "ioPriority");
    taken(PROCESS(",\"apparmorProfile\":\"\""));
    refused(TOP("\"linux\":{\"personality\":{\"domain\":\"LINUX32\"}}"), "personality");
    refused(TOP("\"linux\":{\"timeOffsets\":{\"boottime\":{\"secs\":1}}}"), "timeOffsets");
    refused(TOP("\"linux\":{\"mountLabel\":\"x\"}"), "mountLabel");
    refused(TOP("\"linux\":{\"intelRdt\":{\"closID\":\"x\"}}"), "intelRdt");
    refused(TOP("\"linux\":{\"resources\":{\"blockIO\":{\"weight\":10}}}"), "blockIO");
    refused(TOP("\"linux\":{\"resources\":{\"hugepageLimits\":[{}]}}"), "hugepageLimits");
    refused(TOP("\"vm\":{\"kernel\":{\"path\":\"/k\"}}"), "vm");
    taken(TOP(
        "\"linux\":{\"resources\":{\"blockIO\":{\"weight\":0},\"memory\":{\"swappiness\":0}}}"));
}

Test(oci_config, versions)
{
    taken("{\"ociVersion\":\"1.2.0-rc1\",\"root\":{\"path\":\"r\"}}");
    refused("{\"ociVersion\":\"1.7.0\",\"root\":{\"path\":\"r\"}}", "ociVersion");
    refused("{\"ociVersion\":\"1.0.x\",\"root\":{\"path\":\"r\"}}", "ociVersion");
    refused("{\"ociVersion\":\"2.0.0\",\"root\":{\"path\":\"r\"}}", "2.0.0");
    refused("{\"root\":{\"path\":\"r\"}}", "ociVersion");
}

Test(oci_config, wrong_types_and_shapes)
{
    refused("[]", "one JSON object");
    refused("", "config.json");
    refused(PROCESS(",\"terminal\":1"), "process.terminal");
    refused(PROCESS(",\"user\":{\"uid\":-1}"), "process.user.uid");
    refused(PROCESS(",\"user\":{\"uid\":4294967296}"), "process.user.uid");
    refused(PROCESS(",\"env\":[\"=x\"]"), "NAME=VALUE");
    refused(PROCESS(",\"capabilities\":{\"bounding\":[\"CAP_NOSUCH\"]}"), "CAP_NOSUCH");
    refused(PROCESS(",\"args\":[\"b\"]"), "config.json"); /* twice */
    refused(TOP("\"mounts\":[{\"destination\":\"\"}]"), "mounts[].destination");
    refused(TOP("\"linux\":{\"namespaces\":[{\"type\":\"pid\",\"path\":\"relative\"}]}"),
            "absolute");
    refused(TOP("\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"pid\"}]}"), "twice");
    refused(TOP("\"linux\":{\"namespaces\":[{\"type\":\"nosuch\"}]}"), "nosuch");
    refused(TOP("\"linux\":{\"rootfsPropagation\":\"shared\"}"), "rootfsPropagation");
    refused(
        TOP("\"linux\":{\"uidMappings\":[{\"containerID\":0,\"hostID\":4294967295,\"size\":2}]}"),
        "uidMappings");
    refused(TOP("\"annotations\":{\"a\":1}"), "annotations");
}

Test(oci_config, what_nobody_knows_is_left_alone)
{
    taken(TOP("\"somethingOfAnEngine\":{\"a\":[1,2]}"));
}

Test(oci_config, too_large_and_too_deep)
{
    static char deep[20000];
    memset(deep, '[', sizeof deep - 1);
    refused(deep, "config.json");
    static struct oci_config c;
    struct err err = ERR_INIT;
    size_t len = OCI_CONFIG_MAX + 1;
    char *large = malloc(len);
    memset(large, ' ', len);
    cr_assert_lt(oci_config_parse(large, len, &c, &err), 0);
    free(large);
}

Test(oci_config, mounts)
{
    static struct oci_config c;
    struct err err;
    cr_assert_eq(
        parse(TOP("\"mounts\":[{\"destination\":\"/a\",\"type\":\"bind\",\"source\":\"/"
                  "b\",\"options\":[\"rbind\",\"ro\",\"noexec\"]},"
                  "{\"destination\":\"/"
                  "t\",\"type\":\"tmpfs\",\"options\":[\"size=64k\",\"mode=755\",\"shared\"]},"
                  "{\"destination\":\"/o\",\"type\":\"overlay\"},"
                  "{\"destination\":\"/t\",\"type\":\"tmpfs\",\"options\":[\"size=1,x=y\"]}]"),
              &c, &err),
        0, "%s", err.message);
    cr_assert(c.mounts[0].type == OCI_MOUNT_BIND && c.mounts[0].read_only &&
              c.mounts[0].recursive && c.mounts[0].noexec);
    cr_assert_str_eq(c.mounts[1].data, "size=64k,mode=755");
    cr_assert_str_eq(c.mounts[1].odd, "shared");
    cr_assert_eq(c.mounts[2].type, OCI_MOUNT_OTHER);
    cr_assert_str_eq(c.mounts[3].odd, "size=1,x=y");
    oci_config_done(&c);
}

Test(oci_config, a_destination_counts_from_the_root)
{
    static struct oci_config c;
    struct err err;
    cr_assert_eq(parse(TOP("\"mounts\":[{\"destination\":\"a/b\",\"type\":\"tmpfs\"},"
                           "{\"destination\":\"/c\",\"type\":\"tmpfs\",\"options\":"
                           "[\"nosymfollow\",\"lazytime\",\"runbindable\"]}]"),
                       &c, &err),
                 0, "%s", err.message);
    cr_assert_str_eq(c.mounts[0].dest, "/a/b");
    cr_assert_str_eq(c.mounts[1].dest, "/c");
    cr_assert(c.mounts[1].nosymfollow && !c.mounts[1].odd && !c.mounts[0].nosymfollow);
    oci_config_done(&c);
    /* What was read before the mistake is released, too. */
    refused(TOP("\"mounts\":[{\"destination\":\"a\",\"type\":\"tmpfs\"},{\"destination\":1}]"),
            "mounts[].destination");
}

Test(oci_config, names)
{
    cr_assert_eq(oci_signal_number("KILL"), 9);
    cr_assert_eq(oci_signal_number("SIGTERM"), 15);
    cr_assert_eq(oci_signal_number("9"), 9);
    cr_assert_eq(oci_signal_number("65"), -1);
    cr_assert_eq(oci_signal_number("0"), -1);
    cr_assert_eq(oci_signal_number("NOSUCH"), -1);
    cr_assert_eq(oci_cap_number("CAP_SYS_ADMIN"), 21);
    cr_assert_eq(oci_cap_number("CAP_CHECKPOINT_RESTORE"), 40);
}
