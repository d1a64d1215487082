/* The trust stores that a sandbox gets, as Java, OpenSSL and Python read them. */
#include "trust/stores.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static char dir[] = "/tmp/brig-test-trust-XXXXXX";
static struct buf authority, bundle, java;

/* The exit status of a program; what it prints goes to `out` in the test's folder. */
static int run(const char *shell)
{
    char *const argv[] = {"sh", "-c", (char *)shell, NULL};
    pid_t pid;
    int status;
    cr_assert_eq(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void load(const char *name, struct buf *out)
{
    char chunk[4096];
    size_t n;
    buf_init(out, 8 << 20);
    FILE *f = fopen(name, "r");
    cr_assert(f, "%s", name);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_add(out, chunk, n);
    fclose(f);
}

static void save(const char *name, const struct buf *b)
{
    FILE *f = fopen(name, "w");
    cr_assert(f && fwrite(b->data, 1, b->len, f) == b->len && fclose(f) == 0);
}

static void begin(void)
{
    struct err err = ERR_INIT;
    cr_assert(mkdtemp(dir) && chdir(dir) == 0);
    unsetenv("ASAN_OPTIONS");
    cr_assert_eq(
        run("exec >log 2>&1; openssl req -x509 -newkey ec -pkeyopt "
            "ec_paramgen_curve:P-256 -nodes -keyout key.pem -out ca.pem -days 2 "
            "-subj '/CN=run authority' && "
            "openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
            "-keyout leaf.key -out leaf.csr -subj /CN=leaf && openssl x509 -req -in leaf.csr "
            "-CA ca.pem -CAkey key.pem -out leaf.pem -days 1"),
        0);
    load("ca.pem", &authority);
    buf_init(&bundle, 8 << 20);
    buf_init(&java, 8 << 20);
    cr_assert_eq(trust_build(buf_text(&authority), &bundle, &java, &err), 0, "%s", err.message);
    save("bundle.pem", &bundle);
    save("cacerts", &java);
}

static void end(void)
{
    buf_done(&authority);
    buf_done(&bundle);
    buf_done(&java);
    cr_assert_eq(chdir("/"), 0);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    run(command);
}

TestSuite(trust, .init = begin, .fini = end, .timeout = 120);

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

Test(trust, the_bundle_is_the_hosts_and_ours)
{
    cleanup_buf struct buf host = {0};
    int hosts = 0;
    for (size_t i = 0; trust_bundle_place(i) && !hosts; i++)
        if (access(trust_bundle_place(i), R_OK) == 0) {
            load(trust_bundle_place(i), &host);
            hosts = count(buf_text(&host), "-----BEGIN CERTIFICATE-----");
        }
    cr_assert_eq(count(buf_text(&bundle), "-----BEGIN CERTIFICATE-----"), hosts + 1);
    cr_assert_eq(run("openssl verify -no-CApath -CAfile bundle.pem leaf.pem >log 2>&1"), 0);
    cr_assert_neq(run("openssl verify -no-CApath -no-CAfile leaf.pem >log 2>&1"), 0, "control");
}

Test(trust, python_reads_it)
{
    cr_assert_eq(
        run("python3 -c 'import ssl; c = ssl.create_default_context(cafile=\"bundle.pem\"); "
            "assert any(dict(x[0] for x in y[\"subject\"]).get(\"commonName\") == "
            "\"run authority\" for y in c.get_ca_certs())'"),
        0);
}

Test(trust, java_reads_it)
{
    if (run("command -v keytool >/dev/null") != 0)
        cr_skip("keytool is not installed");
    cr_assert_eq(
        run("keytool -list -keystore cacerts -storetype JKS -storepass changeit >log 2>&1"), 0,
        "Java refuses the keystore");
    cr_assert_eq(run("grep -q brig-run-authority log"), 0);
    cr_assert_neq(run("keytool -list -keystore cacerts -storetype JKS -storepass other >log 2>&1"),
                  0, "control: the digest is checked");
    cr_assert_eq(
        run("keytool -exportcert -rfc -keystore cacerts -storetype JKS -storepass changeit "
            "-alias brig-run-authority 2>/dev/null | openssl x509 -outform DER -out got && "
            "openssl x509 -in ca.pem -outform DER -out had && cmp got had"),
        0);
}

Test(trust, java_reads_one_made_from_a_bundle)
{
    cleanup_buf struct buf made;
    struct err err = ERR_INIT;
    char count_them[200];
    uint32_t n;
    size_t last;
    if (run("command -v keytool >/dev/null") != 0)
        cr_skip("keytool is not installed");
    buf_init(&made, 8 << 20);
    cr_assert_eq(trust_java_from(&bundle, buf_text(&authority), &made, &err), 0, "%s", err.message);
    save("made", &made);
    cr_assert_eq(jks_check(made.data, made.len, &n, &last, NULL), 0);
    cr_assert_eq((int)n, 1 + count(buf_text(&bundle), "-----BEGIN CERTIFICATE-----"));
    snprintf(count_them, sizeof count_them,
             "keytool -list -keystore made -storetype JKS -storepass changeit >log 2>&1 && "
             "test $(grep -c trustedCertEntry log) = %u",
             n);
    cr_assert_eq(run(count_them), 0);
}

/* The host's keystore is taken over whole, where there is one. */
Test(trust, the_keystore_holds_what_the_hosts_held)
{
    cleanup_buf struct buf host = {0};
    uint32_t ours, hosts = 0;
    size_t last;
    cr_assert_eq(jks_check(java.data, java.len, &ours, &last, NULL), 0);
    cr_assert_gt(ours, 1, "a machine without certificates proves nothing");
    if (access(trust_java_place(0), R_OK) == 0) {
        load(trust_java_place(0), &host);
        if (jks_check(host.data, host.len, &hosts, &last, NULL) == 0)
            cr_assert_eq(ours, hosts + 1);
    }
}

Test(trust, nonsense_is_no_authority)
{
    cleanup_buf struct buf a, b;
    struct err err = ERR_INIT;
    buf_init(&a, 8 << 20);
    buf_init(&b, 8 << 20);
    cr_assert_lt(trust_build("", &a, &b, &err), 0);
    cr_assert_lt(trust_build("-----BEGIN CERTIFICATE-----\nMAA=\n", &a, &b, &err), 0);
    cr_assert_lt(
        trust_build("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", &a, &b, &err),
        0);
}

/* What follows the authority's certificate in its text does not get in. */
Test(trust, only_the_certificate_enters)
{
    cleanup_buf struct buf text, b;
    struct err err = ERR_INIT;
    buf_init(&text, 1 << 20);
    buf_init(&b, 8 << 20);
    buf_str(&text, buf_text(&authority));
    buf_str(&text, "more text\n");
    cr_assert_eq(trust_build(buf_text(&text), &b, NULL, &err), 0, "%s", err.message);
    cr_assert_null(strstr(buf_text(&b), "more text"));
}

Test(jks, what_is_refused)
{
    static const uint8_t empty[32] = {0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2};
    uint8_t changed[32];
    uint32_t n;
    size_t last;
    cr_assert_eq(jks_check(empty, sizeof empty, &n, &last, NULL), 0);
    cr_assert(n == 0 && last == 12);
    cr_assert_lt(jks_check(empty, sizeof empty - 1, &n, &last, NULL), 0, "no digest");
    for (size_t i = 0; i < 12; i++) {
        memcpy(changed, empty, sizeof empty);
        changed[i] ^= 1;
        cr_assert_lt(jks_check(changed, sizeof changed, &n, &last, NULL), 0, "byte %zu", i);
    }
}

static void note(void *ctx, const char *name, const char *value)
{
    struct buf *b = ctx;
    buf_fmt(b, "%s=%s\n", name, value);
}

Test(variables, each_names_the_right_file)
{
    cleanup_buf struct buf b;
    buf_init(&b, 1 << 16);
    trust_environment(note, &b, "/b.pem", "/a.pem", NULL);
    cr_assert(strstr(buf_text(&b), "SSL_CERT_FILE=/b.pem\n"));
    cr_assert(strstr(buf_text(&b), "NODE_EXTRA_CA_CERTS=/a.pem\n"));
    cr_assert_null(strstr(buf_text(&b), "JAVA"));
    trust_environment(note, &b, "/b.pem", "/a.pem", "/j");
    cr_assert(strstr(buf_text(&b), "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/j "));
}
