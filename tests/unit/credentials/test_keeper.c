#include "base/cleanup.h"
#include "credentials/keeper.h"
#include "credentials/keeper_message.h"
#include "credentials/source.h"
#include "os/environ.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define VALUE "tok3n-in-the-source"

/* ---- sources ---- */

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[128];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/cred-test-XXXXXX");
        cr_assert_not_null(mkdtemp(folder));
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    fchmod(fd, mode);
    close(fd);
}

static void remove_folder(void)
{
    static const char *const names[] = {"secret", "link", "fifo", "big", "open"};
    for (size_t i = 0; folder[0] && i < ARRAY_LEN(names); i++)
        unlink(path_of(names[i]));
    rmdir(folder);
}

static void expect_file(const char *path, const char *complaint)
{
    cleanup_secret struct secret *s = NULL;
    struct err err = ERR_INIT;
    int r = source_file(path, &s, &err);
    if (!complaint) {
        cr_assert_eq(r, 0, "%s", err.message);
        cr_assert_str_eq(secret_expose(s, NULL), VALUE);
        return;
    }
    cr_assert_lt(r, 0, "%s", complaint);
    cr_assert_not_null(strstr(err.message, complaint), "%s", err.message);
    cr_assert_null(strstr(err.message, "tok3n"));
}

Test(source, C11_files, .fini = remove_folder)
{
    write_file(path_of("secret"), VALUE "\n", 0600);
    expect_file(path_of("secret"), NULL);
    chmod(path_of("secret"), 0644);
    expect_file(path_of("secret"), "open to others (mode 0644)");
    chmod(path_of("secret"), 0620);
    expect_file(path_of("secret"), "open to others");
    chmod(path_of("secret"), 0400);
    expect_file(path_of("secret"), NULL);
    char target[128];
    snprintf(target, sizeof target, "%s", path_of("secret"));
    cr_assert_eq(symlink(target, path_of("link")), 0);
    expect_file(path_of("link"), "is a link");
    cr_assert_eq(mkfifo(path_of("fifo"), 0600), 0);
    expect_file(path_of("fifo"), "is a FIFO");
    expect_file(folder, "is a folder");
    expect_file("/dev/null", "a device");
    expect_file("/nonexistent/secret", "does not exist");
    expect_file("relative", "not an absolute path");
    write_file(path_of("big"), "", 0600);
    cr_assert_eq(truncate(path_of("big"), 1 << 20), 0);
    expect_file(path_of("big"), "larger than");
    if (geteuid() == 0) {
        cr_assert_eq(chown(path_of("secret"), 12345, 0), 0);
        expect_file(path_of("secret"), "belongs to another user");
    }
}

Test(source, variables)
{
    cleanup_secret struct secret *s = NULL;
    struct err err = ERR_INIT;
    setenv("CRED_TEST", VALUE, 1);
    cr_assert_eq(source_env("CRED_TEST", &s, &err), 0);
    cr_assert_str_eq(secret_expose(s, NULL), VALUE);
    cr_assert(environment_wipe("CRED_TEST"));
    cr_assert_null(getenv("CRED_TEST"));
    cr_assert_not(environment_wipe("CRED_TEST"));
    cr_assert_lt(source_env("CRED_TEST", &s, &err), 0);
    cr_assert_not_null(strstr(err.message, "CRED_TEST is not set"));
}

static void expect_cmd(const char *line, const char *complaint)
{
    cleanup_secret struct secret *s = NULL;
    struct err err = ERR_INIT;
    int r = source_cmd(line, -1, &s, &err);
    if (!complaint) {
        cr_assert_eq(r, 0, "%s: %s", line, err.message);
        cr_assert_str_eq(secret_expose(s, NULL), VALUE);
        return;
    }
    cr_assert_lt(r, 0, "%s", line);
    cr_assert_not_null(strstr(err.message, complaint), "%s: %s", line, err.message);
    cr_assert_null(strstr(err.message, "tok3n-in"), "%s", err.message);
}

Test(source, programs)
{
    expect_cmd("echo " VALUE, NULL);
    expect_cmd("/bin/sh -c 'echo " VALUE "; echo x >&2'", NULL);
    expect_cmd("printf %s \"" VALUE "\"", NULL);
    /* What stays in the background does not hold it up. */
    expect_cmd("sh -c 'sleep 5 & echo " VALUE "'", NULL);
    expect_cmd("sh -c 'echo " VALUE "; exit 3'", "status 3");
    expect_cmd("sh -c 'echo " VALUE "; kill -9 $$'", "signal 9");
    expect_cmd("sh -c 'yes " VALUE "'", "more than 8192 bytes");
    expect_cmd("/nonexistent/program", "no such program");
    expect_cmd("sh -c 'echo a", "a quote is not closed");
    expect_cmd("true", "0 bytes");
    /* No stdin, no terminal, nothing of the environment but PATH and HOME. */
    setenv("CRED_OTHER", "x", 1);
    expect_cmd("sh -c 'read a && exit 1; [ -z \"$CRED_OTHER\" ] && echo " VALUE "'", NULL);
}

Test(source, a_program_that_does_not_end_is_killed_with_its_group, .timeout = 60)
{
    expect_cmd("sh -c 'sleep 1000 & sleep 1000'", "no value after 10 seconds");
}

Test(source, arguments)
{
    char line[] = "  a 'b c'  \"d 'e\" f'g'h '' ";
    char *argv[SOURCE_ARGS_MAX + 1];
    cr_assert_eq(source_split(line, argv, NULL), 5);
    cr_assert_str_eq(argv[0], "a");
    cr_assert_str_eq(argv[1], "b c");
    cr_assert_str_eq(argv[2], "d 'e");
    cr_assert_str_eq(argv[3], "fgh");
    cr_assert_str_eq(argv[4], "");
    cr_assert_null(argv[5]);
    char empty[] = "   ";
    cr_assert_lt(source_split(empty, argv, NULL), 0);
}

/* ---- the process ---- */

struct run {
    struct egress_secret secrets[4];
    struct egress e;
    pid_t pid;
    int fd;
};

static void start(struct run *r, const char *const *sources, size_t count, uint64_t ttl)
{
    *r = (struct run){.fd = -1};
    for (size_t i = 0; i < count; i++)
        r->secrets[i] = (struct egress_secret){.source = (char *)sources[i], .ttl_ms = ttl};
    r->e = (struct egress){.secrets = r->secrets, .secret_count = count};
    struct err err = ERR_INIT;
    cr_assert_eq(keeper_start(&r->e, &r->pid, &r->fd, &err), 0, "%s", err.message);
}

static int next(struct run *r, size_t *index, struct secret **value, struct err *err)
{
    for (;;) {
        struct pollfd p = {r->fd, POLLIN, 0};
        cr_assert_eq(poll(&p, 1, 20000), 1, "no answer");
        int got = keeper_answer(r->fd, index, value, err);
        if (got != -EAGAIN)
            return got;
    }
}

static void end(struct run *r)
{
    int status = -1;
    close(r->fd);
    cr_assert_eq(waitpid(r->pid, &status, 0), r->pid);
    cr_assert_eq(status, 0);
}

Test(keeper, answers_and_ends_with_its_parent)
{
    static const char *const sources[] = {"env:CRED_TEST", "cmd:echo " VALUE, "env:CRED_MISSING",
                                          "file:/nonexistent"};
    struct run r;
    setenv("CRED_TEST", VALUE, 1);
    start(&r, sources, 4, POLICY_UNLIMITED);
    cr_assert_null(getenv("CRED_TEST"), "C11: wiped in the parent as well");
    unsigned seen = 0;
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(keeper_ask(r.fd, i, NULL), 0);
    for (size_t n = 0; n < 4; n++) {
        cleanup_secret struct secret *value = NULL;
        struct err err = ERR_INIT;
        size_t i = 99;
        cr_assert_eq(next(&r, &i, &value, &err), 1);
        seen |= 1u << i;
        cr_assert_eq(value != NULL, i < 2, "%zu: %s", i, err.message);
        if (value)
            cr_assert_str_eq(secret_expose(value, NULL), VALUE);
        else
            cr_assert_neq(err.message[0], '\0');
    }
    cr_assert_eq(seen, 15);
    end(&r);
}

Test(keeper, is_hidden)
{
    static const char *const sources[] = {"env:CRED_TEST"};
    struct run r;
    setenv("CRED_TEST", VALUE, 1);
    start(&r, sources, 1, POLICY_UNLIMITED);
    cr_assert_eq(keeper_ask(r.fd, 0, NULL), 0);
    cleanup_secret struct secret *value = NULL;
    size_t i;
    cr_assert_eq(next(&r, &i, &value, NULL), 1);
    char path[64], data[1024];
    snprintf(path, sizeof path, "/proc/%d/status", r.pid);
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_uid, 0, "not dumpable: /proc belongs to root");
    if (geteuid() == 0) {
        snprintf(path, sizeof path, "/proc/%d/fd", r.pid);
        for (int fd = 4; fd < 64; fd++) {
            snprintf(data, sizeof data, "%s/%d", path, fd);
            cr_assert_lt(access(data, F_OK), 0, "descriptor %d is open", fd);
        }
    }
    kill(r.pid, SIGTERM);
    kill(r.pid, SIGINT);
    kill(r.pid, SIGHUP);
    cr_assert_eq(keeper_ask(r.fd, 0, NULL), 0);
    struct secret *again = NULL;
    cr_assert_eq(next(&r, &i, &again, NULL), 1, "lives on: it ends with the pair");
    secret_free(again);
    end(&r);
}

Test(keeper, C10_renews_in_time_and_says_when_it_cannot, .fini = remove_folder)
{
    char source[160];
    const char *sources[] = {source};
    struct run r;
    size_t i;
    write_file(path_of("secret"), VALUE, 0600);
    snprintf(source, sizeof source, "file:%s", path_of("secret"));
    start(&r, sources, 1, 300);
    cr_assert_eq(keeper_ask(r.fd, 0, NULL), 0);
    for (int n = 0; n < 3; n++) {
        cleanup_secret struct secret *value = NULL;
        cr_assert_eq(next(&r, &i, &value, NULL), 1);
        cr_assert_not_null(value);
        cr_assert_leq(secret_lifetime_left(value), 300u);
    }
    unlink(path_of("secret"));
    for (;;) {
        cleanup_secret struct secret *value = NULL;
        struct err err = ERR_INIT;
        cr_assert_eq(next(&r, &i, &value, &err), 1);
        if (value)
            continue;
        cr_assert_not_null(strstr(err.message, "does not exist"));
        break;
    }
    end(&r);
}

Test(keeper, C10_a_variable_has_one_life)
{
    static const char *const sources[] = {"env:CRED_TEST"};
    struct run r;
    setenv("CRED_TEST", VALUE, 1);
    start(&r, sources, 1, 100);
    cleanup_secret struct secret *value = NULL, *late = NULL;
    struct err err = ERR_INIT;
    size_t i;
    cr_assert_eq(keeper_ask(r.fd, 0, NULL), 0);
    cr_assert_eq(next(&r, &i, &value, NULL), 1);
    cr_assert_not_null(value);
    usleep(150000);
    cr_assert(secret_expired(value));
    cr_assert_eq(keeper_ask(r.fd, 0, NULL), 0);
    cr_assert_eq(next(&r, &i, &late, &err), 1);
    cr_assert_null(late);
    end(&r);
}

Test(keeper, killed_it_is_gone)
{
    static const char *const sources[] = {"cmd:sleep 1000"};
    struct run r;
    start(&r, sources, 1, POLICY_UNLIMITED);
    cr_assert_eq(keeper_ask(r.fd, 0, NULL), 0);
    kill(r.pid, SIGKILL);
    struct secret *value;
    size_t i;
    cr_assert_eq(next(&r, &i, &value, NULL), 0);
    close(r.fd);
    waitpid(r.pid, NULL, 0);
}

Test(keeper, a_farewell)
{
    static const char *const sources[] = {"cmd:sleep 1000"};
    struct run r;
    start(&r, sources, 1, POLICY_UNLIMITED);
    cr_assert_eq(keeper_ask(r.fd, 0, NULL), 0);
    keeper_end(r.fd);
    struct secret *value;
    struct err err = ERR_INIT;
    size_t i;
    int got;
    while ((got = next(&r, &i, &value, &err)) == 1)
        err = (struct err)ERR_INIT; /* the helper was cut off */
    cr_assert_eq(got, 0);
    cr_assert_eq(err.code, ERR_NONE);
    end(&r);
}

Test(keeper, nonsense_is_no_message)
{
    struct keeper_message m = {.magic = KEEPER_MAGIC, .type = KEEPER_VALUE, .len = 8};
    cr_assert(keeper_message_ok(&m, KEEPER_HEAD + 8, true), "control");
    cr_assert_not(keeper_message_ok(&m, KEEPER_HEAD + 8, false));
    cr_assert_not(keeper_message_ok(&m, KEEPER_HEAD + 7, true));
    cr_assert_not(keeper_message_ok(&m, KEEPER_HEAD - 1, true));
    cr_assert_not(keeper_message_ok(&m, 0, true));
    m.index = EGRESS_SECRETS_MAX;
    cr_assert_not(keeper_message_ok(&m, KEEPER_HEAD + 8, true));
    m.index = 0;
    m.magic++;
    cr_assert_not(keeper_message_ok(&m, KEEPER_HEAD + 8, true));
    m.magic--;
    m.type = 99;
    cr_assert_not(keeper_message_ok(&m, KEEPER_HEAD + 8, true));
    m.type = KEEPER_ASK;
    m.len = 0;
    cr_assert(keeper_message_ok(&m, KEEPER_HEAD, false), "control");
    cr_assert_not(keeper_message_ok(&m, KEEPER_HEAD, true));
}

static void collect(void *ctx, const char *name)
{
    char *out = ctx;
    size_t len = strlen(out);
    snprintf(out + len, 512 - len, "%s ", name);
}

Test(keeper, names_its_variables)
{
    struct egress_secret secrets[] = {
        {.source = "env:A"}, {.source = "cmd:x"}, {.source = "vault:p#f"}};
    struct egress e = {.secrets = secrets, .secret_count = 1};
    char names[512] = "";
    keeper_variables(&e, collect, names);
    cr_assert_str_eq(names, "A ");
    e.secret_count = 3;
    names[0] = '\0';
    keeper_variables(&e, collect, names);
    cr_assert_str_eq(names, "A VAULT_ADDR VAULT_NAMESPACE VAULT_CACERT VAULT_TOKEN VAULT_ROLE_ID "
                            "VAULT_SECRET_ID PATH HOME ");
}
