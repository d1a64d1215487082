/* What a policy looks like from outside: show, explain, the canonical text and its hash. Golden
 * files are rewritten when BRIG_GOLDEN_UPDATE is set; look at the difference before you commit it.
 */
#include "base/cleanup.h"
#include "helpers.h"
#include "policy/policy.h"

#include <stdio.h>

static void read_file(const char *path, struct buf *out)
{
    char chunk[4096];
    size_t n;
    FILE *f = fopen(path, "r");
    cr_assert(f, "cannot open %s", path);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_add(out, chunk, n);
    fclose(f);
}

static void write_file(const char *path, const struct buf *text)
{
    FILE *f = fopen(path, "w");
    cr_assert(f, "cannot write %s", path);
    fwrite(buf_text(text), 1, text->len, f);
    fclose(f);
}

static void check_golden(const char *name, const struct buf *text)
{
    cleanup_buf struct buf golden;
    char path[512];
    buf_init(&golden, 1 << 20);
    snprintf(path, sizeof path, GOLDEN_DIR "/%s", name);
    cr_assert_not(text->failed);
    if (getenv("BRIG_GOLDEN_UPDATE"))
        write_file(path, text);
    read_file(path, &golden);
    cr_assert_str_eq(buf_text(text), buf_text(&golden), "%s differs", name);
}

/* One of everything: level from an option, values from a file and from options. */
static void mixed_policy(struct policy *p)
{
    struct origin level = option("--level");
    struct origin memory = option("--memory");
    policy_init(p, LEVEL_HIGH);
    must_load(p, "level: low\n"
                 "kernel: {tier: container, unix_sockets: \"off\"}\n"
                 "filesystem:\n"
                 "  workspace: true\n"
                 "  ro: [/opt/tools, \"/srv/a b:/data\"]\n"
                 "  rw: [/var/cache/build]\n"
                 "credentials: {env: {GREETING: \"hello\\nworld\", \"no\": \"yes\", EMPTY: \"\"}}\n"
                 "lifecycle: {memory: 1G, cpus: 1.5, timeout: 90s, cpu_time: 30s, inodes: 1234}\n"
                 "network:\n"
                 "  upload: 100M\n"
                 "  resolver: \"2001:db8::53\"\n"
                 "  allow:\n"
                 "    - api.example.org\n"
                 "    - \"db.internal:5432=10.0.0.5\"\n"
                 "    - host: \"*.example.org\"\n"
                 "      scheme: https\n"
                 "      methods: [POST, GET]\n"
                 "      paths: [/v1/**, /health]\n"
                 "      upload: 1M\n"
                 "      requests: 60\n"
                 "  block: [\"**.evil.example.org\", ads.example.org]\n");
    must_load(p, "credentials:\n"
                 "  secrets:\n"
                 "    - \"TOKEN=env:CI_TOKEN@https://api.example.org\"\n"
                 "    - name: KEY\n"
                 "      source: file:/run/secrets/key\n"
                 "      origin: http://plain.example.org:8080\n"
                 "      paths: [/upload/*]\n"
                 "      header: \"X-Api-Key: {}\"\n"
                 "      swap: [header, body]\n"
                 "      ttl: 10m\n");
    cr_assert_eq(policy_set(p, FIELD_LEVEL, "medium", &level, NULL), 0);
    cr_assert_eq(policy_set(p, FIELD_MEMORY, "64M", &memory, NULL), 0);
    must_grant(p, "/home/me/x", true);
}

typedef void (*writer)(const struct policy *, struct buf *);

static void check_writer(writer write, const char *plain, const char *mixed)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy q;
    cleanup_buf struct buf text;
    buf_init(&text, 1 << 20);
    policy_init(&p, LEVEL_HIGH);
    write(&p, &text);
    check_golden(plain, &text);
    buf_reset(&text);
    mixed_policy(&q);
    write(&q, &text);
    check_golden(mixed, &text);
}

Test(show, json_is_as_agreed)
{
    check_writer(policy_show_json, "high.show.json", "mixed.show.json");
}

Test(show, yaml_is_as_agreed)
{
    check_writer(policy_show_yaml, "high.show.yaml", "mixed.show.yaml");
}

Test(explain, text_is_as_agreed)
{
    check_writer(policy_explain, "high.explain.txt", "mixed.explain.txt");
}

Test(explain, json_is_as_agreed)
{
    check_writer(policy_explain_json, "high.explain.json", "mixed.explain.json");
}

Test(canonical, text_is_as_agreed)
{
    check_writer(policy_canonical, "high.canonical.json", "mixed.canonical.json");
}

static void reads_back(const struct policy *p, writer write)
{
    cleanup_policy struct policy again;
    cleanup_buf struct buf text;
    struct err err = ERR_INIT;
    char before[72], after[72];
    buf_init(&text, 1 << 20);
    write(p, &text);
    policy_init(&again, LEVEL_HIGH);
    cr_assert_eq(policy_load(&again, "shown", buf_text(&text), text.len, &err), 0, "%s\n%s",
                 err.message, buf_text(&text));
    policy_hash(p, before);
    policy_hash(&again, after);
    cr_assert_str_eq(before, after, "%s", buf_text(&text));
    if (policy_validate(p, NULL) == 0)
        cr_assert_eq(policy_validate(&again, &err), 0, "%s\n%s", err.message, buf_text(&text));
}

Test(show, is_a_policy_that_says_the_same)
{
    for (enum level level = 0; level < LEVEL_COUNT; level++) {
        cleanup_policy struct policy p;
        policy_init(&p, level);
        reads_back(&p, policy_show_json);
        reads_back(&p, policy_show_yaml);
    }
    cleanup_policy struct policy p;
    mixed_policy(&p);
    reads_back(&p, policy_show_json);
    reads_back(&p, policy_show_yaml);
}

Test(show, survives_hostile_names_and_values)
{
    static const char *const values[] = {
        "",
        " ",
        "true",
        "null",
        "~",
        "1",
        "1.5",
        "0x10",
        "- a",
        "a: b",
        "a #b",
        "#",
        "'",
        "\"",
        "\\",
        "\t",
        "\r\n",
        "{}",
        "[a]",
        "*x",
        "&x",
        "!x",
        "%x",
        "@x",
        "`x",
        "|",
        ">",
        "on",
        "Off",
        "yes",
        ".inf",
        ".nan",
        "---",
        "...",
        "a\x1b[m",
        "=",
        "\x7f",
        "\xc3\xbc",
        "\xc2\x85",
        "<<",
        "\xef\xbb\xbf",
        "\xe2\x80\xa8",
        "1_000",
        "12:30:45",
        "2020-01-01",
    };
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "V%zu=%s", i, values[i]);
        cr_assert_eq(env(&p, spec, NULL), 0, "%s", spec);
    }
    static const char *const names[] = {"y=1", "N=1", "null=1", "True=1", "off=1", "_=1", "e1=1"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        cr_assert_eq(env(&p, names[i], NULL), 0);
    must_grant(&p, "/a b", false);
    must_grant(&p, "/'\"#\\{}[]", true);
    must_grant(&p, "/\xc3\xbc:/- x", true);
    must_set(&p, FIELD_CWD, "/a #b");
    reads_back(&p, policy_show_json);
    reads_back(&p, policy_show_yaml);
}

static void hash_of(const char *document, char out[static 72])
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, document);
    cr_assert_eq(policy_hash(&p, out), 0);
}

Test(hash, is_the_sha256_of_the_canonical_text)
{
    cleanup_policy struct policy p;
    char hash[72];
    policy_init(&p, LEVEL_HIGH);
    cr_assert_eq(policy_hash(&p, hash), 0);
    cr_assert_eq(strncmp(hash, "sha256:", 7), 0);
    cr_assert_eq(strlen(hash), 71);
    /* sha256sum golden/high.canonical.json */
    cr_assert_str_eq(hash + 7, "ca00f6f10ba69036b1b28e227b812117c65ffdba30495f9306c828cbc0915c10");
}

Test(hash, does_not_depend_on_how_it_was_written)
{
    char a[72], b[72];
    hash_of("level: high\nfilesystem: {ro: [/b, /a]}\n"
            "credentials: {env: {B: x, A: \"y\"}, secrets: [\"T=env:T@https://a.org\", "
            "\"S=env:S@https://b.org:444\"]}\n"
            "network: {allow: [b.org, {host: c.org, scheme: http, methods: [PUT, GET]}, A.org], "
            "block: [d.org, c.org]}\n"
            "lifecycle: {memory: 1G}",
            a);
    hash_of(
        "{\"lifecycle\": {\"memory\": 1073741824}, \"credentials\": {\"env\": {\"A\": \"y\", "
        "\"B\": \"x\"}, \"secrets\": [\"S=env:S@https://b.org:444\", {\"name\": \"T\", "
        "\"source\": \"env:T\", \"origin\": \"https://a.org:443\"}]}, \"network\": {\"allow\": "
        "[\"http://a.org\", \"https://a.org.:443\", {\"host\": \"c.org\", \"port\": 80, "
        "\"methods\": [\"GET\", \"PUT\"]}, \"b.org:80\", \"b.org:443\"], \"block\": [\"c.org\", "
        "\"d.org\"]}, \"filesystem\": {\"ro\": [\"/a:/a\", \"//b/\"]}}",
        b);
    cr_assert_str_eq(a, b);
}

Test(hash, changes_with_every_field)
{
    static const char *const documents[] = {
        "level: high",
        "level: low",
        "kernel: {tier: process}",
        "kernel: {uid: 1}",
        "kernel: {unix_sockets: require}",
        "filesystem: {root: /x}",
        "filesystem: {cwd: /x}",
        "filesystem: {workspace: false}",
        "filesystem: {exec: false}",
        "filesystem: {project: true}",
        "filesystem: {proc: system}",
        "filesystem: {landlock: auto}",
        "network: {mode: allowlist}",
        "network: {max_connections: 5}",
        "network: {upload: 1M}",
        "network: {requests: 60}",
        "network: {resolver: 9.9.9.9}",
        "network: {block: [x.org]}",
        "network: {allow: [x.org]}",
        "network: {allow: [\"x.org:443\"]}",
        "network: {allow: [\"x.org:444\"]}",
        "network: {allow: [\"tcp://x.org:444\"]}",
        "network: {allow: [\"x.org:443=10.0.0.1\"]}",
        "network: {allow: [\"https://x.org/a\"]}",
        "network: {allow: [{host: x.org, port: 443, methods: [GET]}]}",
        "network: {allow: [{host: x.org, port: 443, upload: 1M}]}",
        "network: {allow: [{host: x.org, port: 443, max_connections: 1}]}",
        "network: {allow: [{host: x.org, port: 443, requests: 1}]}",
        "credentials: {secrets: [\"T=env:T@https://x.org\"]}",
        "credentials: {secrets: [\"T=env:U@https://x.org\"]}",
        "credentials: {secrets: [\"T=env:T@https://x.org/a\"]}",
        "credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, query: q}]}",
        "credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, basic: q}]}",
        "credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, swap: none}]}",
        "credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, ttl: 9}]}",
        "filesystem: {ro: [/x]}",
        "filesystem: {rw: [/x]}",
        "filesystem: {rw: [\"/x:/y\"]}",
        "credentials: {env: {A: b}}",
        "lifecycle: {disk: 1M}",
        "lifecycle: {inodes: 99}",
        "lifecycle: {memory: 1G}",
        "lifecycle: {cpus: 3}",
        "lifecycle: {pids: 9}",
        "lifecycle: {timeout: 9}",
        "lifecycle: {cpu_time: 9}",
        "lifecycle: {output: 9}",
        "lifecycle: {open_files: 99}",
        "lifecycle: {cgroup: require}",
    };
    char hash[ARRAY_LEN(documents)][72];
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        hash_of(documents[i], hash[i]);
        for (size_t k = 0; k < i; k++)
            cr_assert_str_neq(hash[i], hash[k], "%s and %s", documents[i], documents[k]);
    }
}

static void add_row(struct buf *out, enum policy_field field)
{
    buf_fmt(out, "|- %s\n", policy_field_path(field));
    for (enum level level = 0; level < LEVEL_COUNT; level++) {
        cleanup_policy struct policy p;
        policy_init(&p, level);
        buf_str(out, ":- ");
        policy_field_text(&p, field, out);
        buf_chr(out, '\n');
    }
}

Test(docs, show_the_table_that_the_code_has)
{
    cleanup_buf struct buf table;
    cleanup_buf struct buf page;
    buf_init(&table, 1 << 16);
    buf_init(&page, 1 << 20);
    buf_str(&table, "[- *key*\n:- *low*\n:- *medium*\n:- *high*\n:- *critical*\n");
    for (enum policy_field field = FIELD_LEVEL + 1; field < FIELD_COUNT; field++)
        add_row(&table, field);
    read_file(DOCS_DIR "/man/brig-policy.5.scd", &page);
    cr_assert(has(buf_text(&page), buf_text(&table)), "docs/man/brig-policy.5.scd should have:\n%s",
              buf_text(&table));
}
