/* The floor: what a configuration may not ask for, and what only the operator can add. */
#include "oci/judge.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define NS(more)                                                                                   \
    "\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"},{\"type\":\"ipc\"},{\"type\":"      \
    "\"uts\"},{\"type\":\"mount\"}" more "]"
#define CONFIG(process, top, linux_part)                                                           \
    "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"r\"},\"process\":{\"args\":[\"a\"],\"cwd\":"   \
    "\"/\"" process "}" top ",\"linux\":{" NS("") linux_part "}}"

static int judge(const char *text, const char *allowed, struct err *err)
{
    static struct oci_config c;
    struct oci_operator o;
    *err = (struct err)ERR_INIT;
    cr_assert_eq(oci_operator_parse(allowed, strlen(allowed), &o, err), 0, "%s", err->message);
    cr_assert_eq(oci_config_parse(text, strlen(text), &c, err), 0, "%s", err->message);
    int r = oci_judge(&c, &o, err);
    oci_config_done(&c);
    oci_operator_done(&o);
    return r;
}

static void refused(const char *text, const char *why)
{
    struct err err;
    cr_assert_lt(judge(text, "{}", &err), 0, "taken: %s", text);
    cr_assert(strstr(err.message, why), "\"%s\" is not in: %s", why, err.message);
}

static void taken(const char *text)
{
    struct err err;
    cr_assert_eq(judge(text, "{}", &err), 0, "%s: %s", text, err.message);
}

static void allowed_by(const char *text, const char *file)
{
    struct err err;
    cr_assert_lt(judge(text, "{}", &err), 0, "taken without the operator: %s", text);
    cr_assert(strstr(err.hint, OCI_OPERATOR_FILE), "no remedy: %s", err.hint);
    cr_assert_eq(judge(text, file, &err), 0, "%s", err.message);
}

/* Even so. */
static void refused_by(const char *text, const char *file, const char *why)
{
    struct err err;
    cr_assert_lt(judge(text, file, &err), 0, "taken: %s", text);
    cr_assert(strstr(err.message, why), "\"%s\" is not in: %s", why, err.message);
}

Test(oci_judge, plain)
{
    taken(CONFIG("", "", ""));
}

/* OC-2 */
Test(oci_judge, capabilities)
{
    taken(CONFIG(",\"capabilities\":{\"bounding\":[\"CAP_CHOWN\",\"CAP_MKNOD\"]}", "", ""));
    refused(CONFIG(",\"capabilities\":{\"bounding\":[\"CAP_SYS_ADMIN\"]}", "", ""),
            "CAP_SYS_ADMIN");
    refused(CONFIG(",\"capabilities\":{\"ambient\":[\"CAP_BPF\"]}", "", ""), "CAP_BPF");
    allowed_by(CONFIG(",\"capabilities\":{\"effective\":[\"CAP_SYS_PTRACE\"]}", "", ""),
               "{\"capabilities\":[\"CAP_SYS_PTRACE\"]}");
}

/* OC-3 */
Test(oci_judge, namespaces_left_out)
{
    static const char *const types[] = {"pid", "network", "ipc", "uts"};
    for (size_t i = 0; i < 4; i++) {
        char text[700] = "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"r\"},\"process\":{"
                         "\"args\":[\"a\"],\"cwd\":\"/\"},\"linux\":{\"namespaces\":["
                         "{\"type\":\"mount\"}";
        for (size_t k = 0; k < 4; k++)
            if (k != i)
                snprintf(text + strlen(text), sizeof text - strlen(text), ",{\"type\":\"%s\"}",
                         types[k]);
        strncat(text, "]}}", sizeof text - strlen(text) - 1);
        refused(text, types[i]);
    }
}

Test(oci_judge, namespaces_by_path)
{
#define BY_PATH(type)                                                                              \
    "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"r\"},\"process\":{\"args\":[\"a\"],\"cwd\":"   \
    "\"/\"},\"linux\":{\"namespaces\":["                                                           \
    "{\"type\":\"" type "\",\"path\":\"/proc/1/ns/x\"}]}}"
    refused(BY_PATH("mount"), "mount namespace");
    refused(BY_PATH("user"), "user namespace");
    refused(BY_PATH("cgroup"), "cgroup namespace");
    refused(BY_PATH("pid"), "pid namespace");
    struct err err;
    cr_assert_lt(judge(BY_PATH("pid"), "{\"joins\":[\"pid\"]}", &err), 0);
    cr_assert(strstr(err.message, "has no network"), "%s", err.message); /* past the path */
    cr_assert_lt(judge(BY_PATH("network"), "{\"joins\":[]}", &err), 0);
    cr_assert(strstr(err.message, "network namespace"), "%s", err.message);
}

/* OC-4 */
Test(oci_judge, mounts)
{
#define MOUNT(text) CONFIG("", ",\"mounts\":[{" text "}]", "")
    taken(MOUNT("\"destination\":\"/sys\",\"type\":\"sysfs\",\"options\":[\"ro\"]"));
    refused(MOUNT("\"destination\":\"/sys\",\"type\":\"sysfs\""), "writable sysfs");
    refused(MOUNT("\"destination\":\"/sys\",\"type\":\"sysfs\",\"options\":[\"ro\",\"rw\"]"),
            "writable sysfs");
    refused(MOUNT("\"destination\":\"/x\",\"type\":\"proc\""), "one place");
    refused(MOUNT("\"destination\":\"/x\",\"type\":\"overlay\",\"options\":[\"lowerdir=/\"]"),
            "not among");
    refused(MOUNT("\"destination\":\"/x\",\"type\":\"nfs\",\"source\":\"h:/x\""), "not among");
    refused(MOUNT("\"destination\":\"/x\",\"type\":\"fuse\""), "not among");
    refused(MOUNT("\"destination\":\"/x\",\"type\":\"ext4\",\"source\":\"/dev/"
                  "sda\",\"options\":[\"loop\"]"),
            "not among");
    refused(MOUNT("\"destination\":\"/c\",\"type\":\"cgroup\",\"options\":[\"rw\"]"),
            "writable cgroup");
    refused(MOUNT("\"destination\":\"/b\",\"type\":\"bind\",\"source\":\"/"
                  "x\",\"options\":[\"bind\",\"rshared\"]"),
            "rshared");
    refused(MOUNT("\"destination\":\"/b\",\"type\":\"bind\",\"source\":\"/"
                  "x\",\"options\":[\"bind\",\"idmap\"]"),
            "idmap");
    refused(MOUNT("\"destination\":\"/b\",\"type\":\"bind\",\"source\":\"/"
                  "x\",\"options\":[\"remount\",\"bind\"]"),
            "remount");
    refused(MOUNT("\"destination\":\"/b/../../x\",\"type\":\"tmpfs\""), "climbs");
    refused(MOUNT("\"destination\":\"/b\",\"type\":\"bind\""), "without a source");
}

/* OC-5 */
Test(oci_judge, hooks)
{
#define HOOK(stage) CONFIG("", ",\"hooks\":{\"" stage "\":[{\"path\":\"/opt/hook\"}]}", "")
    allowed_by(HOOK("prestart"), "{\"hooks\":[\"/opt/hook\"]}");
    allowed_by(HOOK("createRuntime"), "{\"hooks\":[\"/opt/hook\"]}");
    allowed_by(HOOK("poststop"), "{\"hooks\":[\"/opt/hook\"]}");
#define HOOK_ENV(entry)                                                                            \
    CONFIG("", ",\"hooks\":{\"prestart\":[{\"path\":\"/opt/hook\",\"env\":[\"" entry "\"]}]}", "")
    allowed_by(HOOK_ENV("PATH=/bin:/usr/sbin"), "{\"hooks\":[\"/opt/hook\"]}");
    refused_by(HOOK_ENV("PATH=/bin:/tmp"), "{\"hooks\":[\"/opt/hook\"]}", "other programs");
    refused_by(HOOK_ENV("PATH=/usr/local"), "{\"hooks\":[\"/opt/hook\"]}", "other programs");
    refused_by(HOOK_ENV("PATH="), "{\"hooks\":[\"/opt/hook\"]}", "other programs");
    refused_by(HOOK_ENV("LD_PRELOAD=/x"), "{\"hooks\":[\"/opt/hook\"]}", "LD_PRELOAD");
    refused(HOOK("createContainer"), "createContainer");
    refused(CONFIG("", ",\"hooks\":{\"prestart\":[{\"path\":\"hook\"}]}", ""), "absolute");
    refused(CONFIG("", ",\"hooks\":{\"prestart\":[{\"path\":\"/h\",\"timeout\":0}]}", ""),
            "timeout");
}

/* OC-5: which program it is looks hooks.c at. */
Test(oci_judge, docker_hook)
{
#define DOCKER(stage, path, args)                                                                  \
    CONFIG("", ",\"hooks\":{\"" stage "\":[{\"path\":\"" path "\",\"args\":[" args "]}]}", "")
#define SET_KEY "\"libnetwork-setkey\",\"-exec-root=/var/run/docker\",\"0af\",\"9d8\""
#define WORD    "{\"docker\":\"/usr/sbin/dockerd\"}"
    allowed_by(DOCKER("prestart", "/proc/12/exe", SET_KEY), WORD);
    refused_by(DOCKER("poststop", "/proc/12/exe", SET_KEY), WORD, "something else");
    refused_by(DOCKER("prestart", "/proc/12/exe", "\"dockerd\""), WORD, "something else");
    refused_by(DOCKER("prestart", "/proc/12/exe", SET_KEY ",\"x\""), WORD, "something else");
    refused_by(DOCKER("prestart", "/usr/sbin/dockerd", SET_KEY), WORD, "outside");
    refused_by(DOCKER("prestart", "/proc/12/../12/exe", SET_KEY), WORD, "outside");
    refused_by(DOCKER("prestart", "/proc/exe", SET_KEY), WORD, "outside");
    refused_by(DOCKER("prestart", "/proc/12/exe", SET_KEY), "{\"hooks\":[\"/proc/12/exe\"]}",
               "Docker's own program");
}

Test(oci_judge, annotations_widen_nothing)
{
    taken(CONFIG(
        "", ",\"annotations\":{\"io.kubernetes.x\":\"y\",\"run.oci.keep_original_groups\":\"1\"}",
        ""));
    refused(CONFIG("", ",\"annotations\":{\"brig.levels\":\"low\"}", ""), "brig.levels");
}

/* OC-6 */
Test(oci_judge, groups_and_limits)
{
    refused(CONFIG("", "", ",\"cgroupsPath\":\"/a/../../b\""), "climbs");
    refused(CONFIG("", "", ",\"cgroupsPath\":\"system.slice:x:y\""), "service manager");
    refused(CONFIG("", "", ",\"cgroupsPath\":\"/\""), "cgroupsPath");
    refused(CONFIG("", "", ",\"resources\":{\"memory\":{\"limit\":-5}}"), "negative");
    refused(CONFIG("", "", ",\"resources\":{\"memory\":{\"disableOOMKiller\":true}}"),
            "disableOOMKiller");
    refused(CONFIG("", "", ",\"resources\":{\"unified\":{\"cgroup.procs\":\"1\"}}"),
            "cgroup.procs");
    refused(CONFIG("", "", ",\"resources\":{\"unified\":{\"memory.max\":\"1\\n2\"}}"), "one line");
    refused(CONFIG("", "", ",\"resources\":{\"devices\":[{\"allow\":true,\"access\":\"rwm\"}]}"),
            "devices");
    refused(CONFIG("", "", ",\"resources\":{\"cpu\":{\"cpus\":\"0/..\"}}"), "cpus");
    taken(CONFIG("", "",
                 ",\"resources\":{\"devices\":[{\"allow\":false,\"access\":\"rwm\"},{\"allow\":"
                 "true,\"type\":\"c\",\"access\":\"m\"}]}"));
    struct err err;
    static const char limits[] = "{\"memory\":1000,\"pids\":10}";
    cr_assert_eq(
        judge(CONFIG("", "", ",\"resources\":{\"memory\":{\"limit\":1000},\"pids\":{\"limit\":9}}"),
              limits, &err),
        0, "%s", err.message);
    cr_assert_lt(
        judge(CONFIG("", "", ",\"resources\":{\"memory\":{\"limit\":1001},\"pids\":{\"limit\":9}}"),
              limits, &err),
        0);
    cr_assert_lt(judge(CONFIG("", "", ""), limits, &err), 0);
    cr_assert_lt(
        judge(CONFIG("", "", ",\"resources\":{\"memory\":{\"limit\":-1},\"pids\":{\"limit\":9}}"),
              limits, &err),
        0);
}

/* OC-6: what cgroup v2 calls it is the same limit. */
Test(oci_judge, limits_by_the_names_of_cgroup_v2)
{
    static const char limits[] = "{\"memory\":1000,\"pids\":10}";
    static const char *const over[] = {
        "\"memory.max\":\"1001\"", "\"memory.max\":\"max\"", "\"memory.max\":\"1K\"",
        "\"memory.max\":\"0\"",    "\"memory.max\":\"\"",    "\"pids.max\":\"11\"",
        "\"pids.max\":\"max\"",
    };
    char text[600];
    struct err err;
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        snprintf(text, sizeof text,
                 CONFIG("", "",
                        ",\"resources\":{\"memory\":{\"limit\":1000},\"pids\":{\"limit\":9},"
                        "\"unified\":{%s}}"),
                 over[i]);
        cr_assert_eq(judge(text, "{}", &err), 0, "control, without a limit: %s", err.message);
        cr_assert_lt(judge(text, limits, &err), 0, "taken: %s", over[i]);
        cr_assert(strstr(err.message, "over what the operator allows"), "%s", err.message);
    }
    snprintf(text, sizeof text,
             CONFIG("", "",
                    ",\"resources\":{\"memory\":{\"limit\":1000},\"pids\":{\"limit\":9},"
                    "\"unified\":{%s}}"),
             "\"memory.max\":\"1000\",\"pids.max\":\"10\",\"memory.high\":\"max\"");
    cr_assert_eq(judge(text, limits, &err), 0, "%s", err.message);
    /* An update says what it changes, and nothing else. */
    struct oci_operator o;
    cr_assert_eq(oci_operator_parse(limits, strlen(limits), &o, &err), 0, "%s", err.message);
    for (int raise = 0; raise < 2; raise++) {
        struct json *unified = NULL;
        const char *asked = raise ? "{\"memory.max\":\"max\"}" : "{\"memory.max\":\"500\"}";
        cr_assert_eq(json_parse(asked, strlen(asked), NULL, &unified, &err), 0, "%s", err.message);
        const struct oci_resources r = {.unified = unified};
        cr_assert_eq(oci_judge_resources(&r, true, &o, &err) < 0, raise, "%s", err.message);
        json_free(unified);
    }
    oci_operator_done(&o);
}

/* Who cannot make a group is refused for each of them: none is left out without a word. */
Test(oci_judge, every_limit_is_one)
{
    static const char *const limits[] = {
        "\"memory\":{\"limit\":9}",       "\"memory\":{\"swap\":9}",
        "\"memory\":{\"reservation\":9}", "\"pids\":{\"limit\":9}",
        "\"cpu\":{\"shares\":9}",         "\"cpu\":{\"quota\":9000}",
        "\"cpu\":{\"period\":9000}",      "\"cpu\":{\"cpus\":\"0\"}",
        "\"cpu\":{\"mems\":\"0\"}",       "\"unified\":{\"memory.high\":\"9\"}"};
    static const char *const none[] = {"", "\"cpu\":{\"cpus\":\"\"}", "\"memory\":{}",
                                       "\"devices\":[{\"allow\":false,\"access\":\"rwm\"}]"};
    char text[200];
    for (size_t i = 0; i < sizeof limits / sizeof limits[0] + sizeof none / sizeof none[0]; i++) {
        struct err err = ERR_INIT;
        struct json *tree = NULL;
        struct oci_resources r;
        size_t count = sizeof limits / sizeof limits[0];
        snprintf(text, sizeof text, "{%s}", i < count ? limits[i] : none[i - count]);
        cr_assert_eq(oci_resources_parse(text, strlen(text), &tree, &r, &err), 0, "%s: %s", text,
                     err.message);
        cr_assert_eq(oci_asks_limits(&r), i < count, "%s", text);
        json_free(tree);
    }
}

Test(oci_judge, devices_and_sysctls)
{
    taken(CONFIG("", "",
                 ",\"devices\":[{\"path\":\"/dev/null\",\"type\":\"c\",\"major\":1,\"minor\":3}]"));
    refused(
        CONFIG("", "",
               ",\"devices\":[{\"path\":\"/dev/null\",\"type\":\"b\",\"major\":1,\"minor\":3}]"),
        "/dev/null");
    refused(
        CONFIG("", "",
               ",\"devices\":[{\"path\":\"/dev/../x\",\"type\":\"c\",\"major\":1,\"minor\":3}]"),
        "devices");
    refused(
        CONFIG("", "",
               ",\"devices\":[{\"path\":\"/dev/kvm\",\"type\":\"c\",\"major\":10,\"minor\":232}]"),
        "/dev/kvm");
    taken(CONFIG("", "", ",\"sysctl\":{\"net.ipv4.ip_forward\":\"1\",\"kernel.shmmax\":\"1\"}"));
    static const char *const bad[] = {"kernel.core_pattern",
                                      "vm.swappiness",
                                      "net/ipv4/x",
                                      "net..x",
                                      "net.ipv4.",
                                      "kernel/shmmax",
                                      "net.a/../../kernel/core_pattern",
                                      "fs.file-max",
                                      "kernel.shmmax.x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_not(oci_sysctl_allowed(bad[i]), "%s", bad[i]);
}

Test(oci_judge, ids)
{
    struct err err = ERR_INIT;
    cr_assert_eq(oci_judge_id("a-b_c.9+", &err), 0);
    static const char *const bad[] = {"", ".", "..", "a/b", "a b", "../x", ".hidden"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_lt(oci_judge_id(bad[i], &err), 0, "%s", bad[i]);
}

Test(oci_judge, the_operators_file_is_read_strictly)
{
    struct oci_operator o;
    struct err err = ERR_INIT;
    static const char *const bad[] = {"[]",
                                      "{\"nosuch\":1}",
                                      "{\"capabilities\":[\"CAP_SYS_ADMIN\"]}",
                                      "{\"joins\":[\"user\"]}",
                                      "{\"hooks\":[1]}",
                                      "{\"memory\":-1}",
                                      "{"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_lt(oci_operator_parse(bad[i], strlen(bad[i]), &o, &err), 0, "%s", bad[i]);
}
