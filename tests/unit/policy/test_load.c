/* Documents: what they may say, and what they are told when they say something else. */
#include "base/cleanup.h"
#include "helpers.h"
#include "policy/policy.h"

static const char everything_yaml[] = "# a policy that sets every key\n"
                                      "version: 1\n"
                                      "level: medium\n"
                                      "kernel:\n"
                                      "  tier: container\n"
                                      "  uid: 1000\n"
                                      "  root: true\n"
                                      "  unix_sockets: require\n"
                                      "filesystem:\n"
                                      "  root: /srv/image\n"
                                      "  writable_root: true\n"
                                      "  cwd: /workspace\n"
                                      "  workspace: true\n"
                                      "  exec: false\n"
                                      "  project: false\n"
                                      "  submounts: true\n"
                                      "  proc: system\n"
                                      "  landlock: auto\n"
                                      "  report: true\n"
                                      "  ro: [/opt/tools, \"/a:/b\"]\n"
                                      "  rw:\n"
                                      "    - /data\n"
                                      "network:\n"
                                      "  mode: allowlist\n"
                                      "  max_connections: 9\n"
                                      "  upload: 5M\n"
                                      "  requests: 60\n"
                                      "  resolver: 9.9.9.9\n"
                                      "  allow: [x.org, {host: y.org, port: 22}]\n"
                                      "  block: [z.org]\n"
                                      "credentials: {env: {KEY: value, OTHER: \"1\"}}\n"
                                      "lifecycle:\n"
                                      "  memory: 1.5G\n"
                                      "  cpus: 0.5\n"
                                      "  pids: 10k\n"
                                      "  timeout: 90\n"
                                      "  cpu_time: 0.25\n"
                                      "  disk: 1048576\n"
                                      "  inodes: 100\n"
                                      "  output: unlimited\n"
                                      "  open_files: 64\n"
                                      "  cgroup: \"off\"\n"
                                      "  sampling: accept\n";

static const char everything_json[] =
    "{\"version\": 1, \"level\": \"medium\",\n"
    " \"kernel\": {\"tier\": \"container\", \"uid\": 1000, \"root\": true, "
    "\"unix_sockets\": \"require\"},\n"
    " \"filesystem\": {\"root\": \"/srv/image\", \"cwd\": \"/workspace\", \"workspace\": true,\n"
    "  \"exec\": false, \"project\": false, \"proc\": \"system\", \"landlock\": \"auto\",\n"
    "  \"submounts\": true, \"report\": true, \"writable_root\": true,\n"
    "  \"ro\": [\"/opt/tools\", \"/a:/b\"], \"rw\": [\"/data\"]},\n"
    " \"network\": {\"mode\": \"allowlist\", \"max_connections\": 9, \"upload\": \"5M\", "
    "\"requests\": 60, \"resolver\": \"9.9.9.9\", \"allow\": [\"x.org\", {\"host\": \"y.org\", "
    "\"port\": 22}], \"block\": [\"z.org\"]},\n"
    " \"credentials\": {\"env\": {\"OTHER\": \"1\", \"KEY\": \"value\"}},\n"
    " \"lifecycle\": {\"memory\": \"1536M\", \"cpus\": \"0.5\", \"pids\": 10000, \"timeout\": "
    "\"90s\",\n"
    "  \"cpu_time\": \"250ms\", \"disk\": \"1M\", \"inodes\": \"100\", \"output\": \"unlimited\",\n"
    "  \"open_files\": 64, \"cgroup\": \"off\", \"sampling\": \"accept\"}}\n";

Test(load, takes_every_key)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, everything_yaml);
    cr_assert_eq(p.level, LEVEL_MEDIUM);
    cr_assert_eq(p.tier, TIER_CONTAINER);
    cr_assert(p.uid == 1000 && p.root_beside);
    cr_assert_eq(p.unix_sockets, NEED_REQUIRE);
    cr_assert_str_eq(p.root, "/srv/image");
    cr_assert_str_eq(p.cwd, "/workspace");
    cr_assert(p.workspace && !p.exec && !p.project && p.submounts && p.writable_root);
    cr_assert_eq(p.proc, PROC_SYSTEM);
    cr_assert_eq(p.landlock, NEED_AUTO);
    cr_assert_eq(p.cgroup, NEED_OFF);
    cr_assert_eq(p.sampling, SAMPLING_ACCEPT);
    cr_assert_eq(p.grant_count, 3);
    cr_assert_str_eq(p.grants[1].dest, "/b");
    cr_assert(p.grants[2].writable);
    cr_assert_eq(p.env_count, 2);
    cr_assert_eq(p.memory, 3UL << 29);
    cr_assert_eq(p.cpus_milli, 500);
    cr_assert_eq(p.pids, 10000);
    cr_assert_eq(p.timeout_ms, 90000);
    cr_assert_eq(p.cpu_time_ms, 250);
    cr_assert_eq(p.disk, 1048576);
    cr_assert_eq(p.output, POLICY_UNLIMITED);
    cr_assert_eq(p.network_mode, NETWORK_ALLOWLIST);
    cr_assert_eq(p.egress.max_connections, 9);
    cr_assert_eq(p.egress.upload, 5UL << 20);
    cr_assert_eq(p.egress.requests, 60);
    cr_assert_str_eq(p.resolver, "9.9.9.9:53");
    cr_assert_eq(p.egress.rule_count, 3);
    cr_assert_eq(p.egress.blocked_count, 1);
    for (enum policy_field field = 0; field < FIELD_COUNT; field++)
        cr_assert_eq(p.origin[field].kind, ORIGIN_FILE, "%s", policy_field_path(field));
}

Test(load, both_languages_say_the_same)
{
    cleanup_policy struct policy yaml;
    cleanup_policy struct policy json;
    char a[72], b[72];
    policy_init(&yaml, LEVEL_HIGH);
    policy_init(&json, LEVEL_LOW);
    must_load(&yaml, everything_yaml);
    must_load(&json, everything_json);
    policy_hash(&yaml, a);
    policy_hash(&json, b);
    cr_assert_str_eq(a, b);
}

Test(load, remembers_where_each_value_stood)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, "level: low\nlifecycle:\n  memory: 64M\nfilesystem: {ro: [/a]}\n");
    cr_assert_str_eq(p.origin[FIELD_MEMORY].name, "p.yaml");
    cr_assert_eq(p.origin[FIELD_MEMORY].line, 3);
    cr_assert_eq(p.origin[FIELD_MEMORY].column, 11);
    cr_assert_eq(p.grants[0].origin.line, 4);
    cr_assert_eq(p.origin[FIELD_PIDS].kind, ORIGIN_LEVEL);
}

Test(load, a_level_may_stand_after_what_it_does_not_touch)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, "lifecycle: {pids: 7}\nlevel: low\n");
    cr_assert_eq(p.pids, 7);
    cr_assert_eq(p.open_files, 256);
}

Test(load, an_option_stands_above_the_document)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_set(&p, FIELD_LEVEL, "low");
    must_set(&p, FIELD_MEMORY, "64M");
    must_load(&p, "level: medium\nlifecycle: {memory: 1G, timeout: 7s}\n");
    cr_assert_eq(p.level, LEVEL_LOW);
    cr_assert_eq(p.memory, 64UL << 20);
    cr_assert_eq(p.timeout_ms, 7000);
    cr_assert_eq(p.open_files, 256);
}

Test(load, empty_lists_and_sections_mean_none)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p,
              "level: high\nfilesystem: {ro: [], rw: []}\nkernel: {}\ncredentials: {env: {}}\n");
    cr_assert_eq(p.grant_count, 0);
    cr_assert_eq(p.env_count, 0);
}

struct bad {
    const char *text;
    const char *says; /* the beginning of the message */
};

static void check_bad(const struct bad *rows, size_t count, enum err_code code)
{
    for (size_t i = 0; i < count; i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        int r = load(&p, rows[i].text, &err);
        cr_assert_eq(r, -(int)code, "%s\ngave %d %s", rows[i].text, r, err.message);
        cr_assert_eq(err.code, (int)code);
        cr_assert_eq(strncmp(err.message, rows[i].says, strlen(rows[i].says)), 0,
                     "%s\nsays      %s\nshould be %s", rows[i].text, err.message, rows[i].says);
        cr_assert_lt(load(&p, rows[i].text, NULL), 0);
    }
}

#define CHECK_BAD(...)                                                                             \
    do {                                                                                           \
        static const struct bad rows[] = {__VA_ARGS__};                                            \
        check_bad(rows, ARRAY_LEN(rows), ERR_POLICY);                                              \
    } while (0)

#define AT(place) "dir/p.yaml:" place ": "

Test(load, unknown_keys_are_errors_that_help)
{
    CHECK_BAD(
        {"lifecycle:\n  memry: 1G\n",
         AT("2:3") "unknown key \"memry\" in lifecycle, did you mean memory? (expected disk, "
                   "inodes, "
                   "memory, cpus, pids, timeout, cpu_time, output, open_files, cgroup, sampling)"},
        {"{\"lifecycle\": {\"pid\": 5}}",
         AT("1:16") "unknown key \"pid\" in lifecycle, did you mean pids?"},
        {"lifecycle: {open-files: 5}",
         AT("1:13") "unknown key \"open-files\" in lifecycle, did you mean open_files?"},
        {"lifecycle: {Memory: 5}",
         AT("1:13") "unknown key \"Memory\" in lifecycle, did you mean memory?"},
        {"lifecycle: {mem: 5}",
         AT("1:13") "unknown key \"mem\" in lifecycle, did you mean memory?"},
        {"lifecycle: {zebra: 5}", AT("1:13") "unknown key \"zebra\" in lifecycle (expected disk,"},
        {"memory: 5M", AT("1:1") "unknown key \"memory\", did you mean lifecycle.memory? (expected "
                                 "one of level, version, kernel, filesystem, network, credentials, "
                                 "lifecycle, commands, tools)"},
        {"kernel: {memory: 5M}", AT("1:10") "unknown key \"memory\" in kernel, did you mean "
                                            "lifecycle.memory? (expected tier,"},
        {"Level: high", AT("1:1") "unknown key \"Level\", did you mean level?"},
        {"files: {}", AT("1:1") "unknown key \"files\", did you mean filesystem? (expected one of"},
        {"filesystem: {ros: []}", AT("1:14") "unknown key \"ros\" in filesystem, did you mean "},
        {"network: {alow: [x.org]}",
         AT("1:11") "unknown key \"alow\" in network, did you mean allow? (expected mode, "
                    "max_connections, upload, requests, resolver, allow, block, ask)"},
        {"\"\": 1", AT("1:1") "unknown key \"\" (expected one of"},
        {"{\"\\u001b[2J\": 1}", AT("1:2") "unknown key \"\\x1b[2J\" (expected one of"},
        {"level: high\nan_extremely_long_key_that_is_nothing_at_all: 1",
         AT("2:1") "unknown key \"an_extremely_long_key_that_is_nothing_at_all\" (expected one "
                   "of"});
}

Test(load, wrong_types_are_errors_that_help)
{
    CHECK_BAD(
        {"level: 3",
         AT("1:8") "level: expected low, medium, high or critical, found a whole number"},
        {"level: null", AT("1:8") "level: expected low, medium, high or critical, found null"},
        {"version: \"1\"", AT("1:10") "version: expected 1, found a string"},
        {"kernel: 1", AT("1:9") "kernel: expected keys and values, found a whole number"},
        {"kernel: []", AT("1:9") "kernel: expected keys and values, found a list"},
        {"kernel:\nlevel: high", "dir/p.yaml:1:"},
        {"kernel: {tier: true}", AT("1:16") "kernel.tier: expected process, wasm-process, "
                                            "container, wasm, gvisor or vm, found true or false"},
        {"kernel: {uid: \"5\"}", AT("1:15") "kernel.uid: expected a whole number, found a string"},
        {"kernel: {unix_sockets: false}",
         AT("1:24") "kernel.unix_sockets: expected off, auto or require, found true or false"},
        {"filesystem: {exec: \"true\"}",
         AT("1:20") "filesystem.exec: expected false or true, found a string"},
        {"filesystem: {cwd: 5}",
         AT("1:19") "filesystem.cwd: expected an absolute path, found a whole"},
        {"filesystem: {proc: {}}",
         AT("1:20") "filesystem.proc: expected pid, own or system, found a mapping"},
        {"filesystem: {ro: /a}", AT("1:18") "filesystem.ro: expected a list of folders such as "
                                            "[/opt/tools], found a string"},
        {"filesystem: {rw: [/a, 5]}",
         AT("1:23") "filesystem.rw: expected a folder such as /opt/tools, found a whole number"},
        {"network: {mode: false}",
         AT("1:17") "network.mode: expected off or allowlist, found true or false"},
        {"credentials: {env: [A=1]}", AT("1:20") "credentials.env: expected names and values such "
                                                 "as {KEY: value}, found a list"},
        {"credentials: {env: {A: 1}}",
         AT("1:24") "credentials.env: expected a text (put numbers and true or false in quotes), "
                    "found a whole number"},
        {"lifecycle: {memory: 1.5}", AT("1:21") "lifecycle.memory: expected a size such as 512M, "
                                                "found a number with a fraction"},
        {"lifecycle: {pids: true}",
         AT("1:19") "lifecycle.pids: expected a count such as 256 or 10k"},
        {"lifecycle: {cpus: []}",
         AT("1:19") "lifecycle.cpus: expected a number such as 0.5, found a list"},
        {"lifecycle: {timeout: null}",
         AT("1:22") "lifecycle.timeout: expected a duration such as 30s, found null"},
        {"[level, high]", AT("1:1") "expected keys and values such as level: high, found a list"},
        {"high", AT("1:1") "expected keys and values such as level: high, found a string"});
}

Test(load, bad_values_are_errors_that_help)
{
    CHECK_BAD(
        {"version: 2", AT("1:10") "version: this version of brig reads policy version 1, found 2"},
        {"level: extreme", AT("1:8") "level: unknown value \"extreme\", expected low, medium,"},
        {"kernel: {uid: 70000}",
         AT("1:15") "kernel.uid: \"70000\" is out of range, expected 0 to 65533"},
        {"kernel: {uid: -1}", AT("1:15") "kernel.uid: \"-1\" is not a whole number"},
        {"filesystem: {root: x}",
         AT("1:20") "filesystem.root: \"x\" is not an absolute path, expected host or a path"},
        {"filesystem: {cwd: ../x}", AT("1:19") "filesystem.cwd: \"../x\" is not an absolute path"},
        {"filesystem: {ro: [tools]}",
         AT("1:19") "filesystem.ro: \"tools\" is not an absolute path"},
        {"filesystem: {ro: [/a/../b]}",
         AT("1:19") "filesystem.ro: the path \"/a/../b\" has .. in it"},
        {"filesystem: {ro: [/a], rw: [/a]}",
         AT("1:29") "filesystem.rw: \"/a\" is already the place of a grant (read-only)"},
        {"filesystem: {ro: [\"/a:/proc\"]}", AT("1:19") "filesystem.ro: a grant cannot stand at"},
        {"credentials: {env: {\"A-B\": x}}",
         AT("1:21") "credentials.env: \"A-B\" is not a variable name"},
        {"lifecycle: {memory: 12Q}",
         AT("1:21") "lifecycle.memory: \"12Q\" is not a size, expected"},
        {"lifecycle: {memory: 0}", AT("1:21") "lifecycle.memory: \"0\" is zero"},
        {"lifecycle: {memory: -5}", AT("1:21") "lifecycle.memory: \"-5\" is not a size"},
        {"lifecycle: {memory: unlimited}", AT("1:21") "lifecycle.memory: cannot be unlimited"},
        {"lifecycle: {cpus: 0.0}", AT("1:19") "lifecycle.cpus: \"0\" is zero"},
        {"{\"lifecycle\": {\"cpus\": 1e-9}}",
         AT("1:24") "lifecycle.cpus: \"1e-09\" is not a number of CPUs"},
        {"lifecycle: {timeout: \"5 m\"}",
         AT("1:22") "lifecycle.timeout: \"5 m\" is not a duration"});
}

Test(load, malformed_documents_say_where)
{
    CHECK_BAD({"level: high\nlevel: low\n", "dir/p.yaml:2:1: "},
              {"{\"level\": \"high\", \"level\": \"low\"}", "dir/p.yaml:1:19: "},
              {"lifecycle: {pids: 1, pids: 2}", "dir/p.yaml:1:22: "},
              {"{\"level\": \"high\"", "dir/p.yaml:1:"},
              {"{\"level\": \"high\"} x", "dir/p.yaml:1:19: "}, {"level: [", "dir/p.yaml:1:"},
              {"a: &x 1", "dir/p.yaml:1:4: "}, {"network: {mode: off}", "dir/p.yaml:1:17: "},
              {"\tlevel: high", "dir/p.yaml:1:1: "});
}

Test(load, an_empty_document_learns_what_a_policy_looks_like)
{
    static const char *const texts[] = {"", " \n\n", "# nothing\n", "{}", "---\n", " { } "};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        cr_assert_eq(load(&p, texts[i], &err), -ERR_POLICY, "%s", texts[i]);
        cr_assert_str_eq(err.message, AT("1:1") "the policy is empty, expected at least a level",
                         "%s", texts[i]);
        cr_assert(has(err.hint, "\"level: high\""), "%s", err.hint);
    }
}

Test(load, null_gets_a_hint)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    cr_assert_lt(load(&p, "filesystem: {cwd: null}", &err), 0);
    cr_assert(has(err.hint, "leave the key out"), "%s", err.hint);
}

Test(load, bytes_that_are_no_text_are_refused)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    cr_assert_lt(policy_load(&p, "p", "\0\0\0", 3, &err), 0);
    cr_assert_lt(policy_load(&p, "p", "level: high\0", 12, &err), 0);
    cr_assert_lt(policy_load(&p, "p", "level: \xff", 8, &err), 0);
    cr_assert_eq(err.code, ERR_POLICY);
}

Test(load, a_long_name_leaves_room_for_the_message)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    char name[3000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    policy_init(&p, LEVEL_HIGH);
    cr_assert_lt(policy_load(&p, name, "level: x", 8, &err), 0);
    cr_assert(has(err.message, "unknown value \"x\""), "%s", err.message);
}
