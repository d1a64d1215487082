/* The database and its key: made once, continued, refused when it is not as it was left. */
#include "audit/store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/test-brig-store-XXXXXX";
static int dir = -1;
static struct err err;

static void setup(void)
{
    cr_assert(mkdtemp(folder));
    dir = open(folder, O_RDONLY | O_DIRECTORY);
    cr_assert(dir >= 0 && sign_prepare(&err) == 0, "%s", err.message);
}

static void done(void)
{
    char command[100];
    const char *names[] = {"records.db", "records.db-wal", "records.db-shm", "head", "head.new",
                           "lock",       "signing.key",    "signing.pub",    "other"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlinkat(dir, names[i], 0);
    snprintf(command, sizeof command, "%s", folder);
    rmdir(command);
    close(dir);
}
TestSuite(store, .init = setup, .fini = done);

static struct store *open_store(bool create)
{
    struct store *s = NULL;
    cr_assert(store_open(&s, dir, create, &err) == 0, "%s", err.message);
    return s;
}

static void refuse_open(bool create, const char *why)
{
    struct store *s = NULL;
    cr_assert(store_open(&s, dir, create, &err) < 0, "it was opened");
    cr_assert(strstr(err.message, why), "said: %s; expected: %s", err.message, why);
}

static void append(struct store *s, int n)
{
    struct record r = {.boundary = "lifecycle", .kind = "box.running", .box = "abc"};
    cr_assert(store_begin(s, &err) == 0, "%s", err.message);
    for (int i = 0; i < n; i++) {
        r.time_us++;
        cr_assert(store_append(s, &r, &err) == 0, "%s", err.message);
    }
    cr_assert(store_commit(s, &err) == 0, "%s", err.message);
    cr_assert(store_write_head(s, 1, &err) == 0, "%s", err.message);
}

static struct verify_result verify(void)
{
    struct verify_result result;
    struct store *s = open_store(false);
    cr_assert(store_verify(s, &result, &err) == 0, "%s", err.message);
    store_close(s);
    return result;
}

/* As somebody with a shell would. */
static void tamper(const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    cr_assert(sqlite3_open("records.db", &db) == SQLITE_OK);
    cr_assert(sqlite3_exec(db, sql, NULL, NULL, &why) == SQLITE_OK, "%s", why);
    sqlite3_close(db);
}

Test(store, is_made_private_and_goes_on_where_it_was)
{
    struct stat st;
    struct store *s = open_store(true);
    append(s, 3);
    store_close(s);
    cr_assert(fstatat(dir, "signing.key", &st, 0) == 0 && (st.st_mode & 07777) == 0600);
    cr_assert(fstatat(dir, "signing.pub", &st, 0) == 0 && (st.st_mode & 07777) == 0644);
    s = open_store(true);
    cr_assert(store_seq(s) == 3);
    cr_assert_str_eq(store_last_kind(s), "box.running");
    append(s, 2);
    store_close(s);
    struct verify_result r = verify();
    cr_assert(r.good && r.records == 5, "%s", r.why);
}

Test(store, a_checkpoint_every_thousand)
{
    struct store *s = open_store(true);
    append(s, 2500);
    cr_assert(store_signed_to(s) == 2000);
    store_close(s);
    struct verify_result r = verify();
    cr_assert(r.good && r.checkpoints == 2 && r.signed_to == 2500, "%s", r.why);
}

Test(store, has_one_writer)
{
    struct store *s = open_store(true);
    pid_t child = fork();
    if (child == 0) {
        struct store *other = NULL;
        struct err why = ERR_INIT;
        int r = store_open(&other, dir, true, &why);
        _exit(r < 0 && strstr(why.message, "another brig serve") ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert(status == 0);
    store_close(s);
    store_close(open_store(true));
}

Test(store, what_was_rolled_back_leaves_no_trace)
{
    struct store *s = open_store(true);
    struct record r = {.boundary = "lifecycle", .kind = "box.running"};
    append(s, 2);
    cr_assert(store_begin(s, &err) == 0 && store_append(s, &r, &err) == 0);
    store_rollback(s);
    append(s, 1);
    cr_assert(store_seq(s) == 3);
    store_close(s);
    cr_assert(verify().good);
}

Test(store, a_newer_version_is_left_alone)
{
    struct store *s = open_store(true);
    append(s, 1);
    store_close(s);
    tamper("PRAGMA user_version = 3");
    refuse_open(true, "has version 3, this brig knows 2");
    refuse_open(false, "has version 3, this brig knows 2");
    tamper("PRAGMA user_version = 2");
    store_close(open_store(true));
}

Test(store, a_missing_key_stops_the_start)
{
    struct store *s = open_store(true);
    append(s, 1);
    store_close(s);
    cr_assert(renameat(dir, "signing.key", dir, "other") == 0);
    refuse_open(true, "signing.key is gone");
    cr_assert(renameat(dir, "other", dir, "signing.key") == 0);
    store_close(open_store(true));
}

Test(store, a_key_that_others_can_read_stops_the_start)
{
    store_close(open_store(true));
    cr_assert(fchmodat(dir, "signing.key", 0640, 0) == 0);
    refuse_open(true, "nobody else can read");
}

Test(store, a_missing_public_key_is_written_again_and_another_is_refused)
{
    struct store *s = open_store(true);
    append(s, 1);
    store_close(s);
    cr_assert(unlinkat(dir, "signing.pub", 0) == 0);
    store_close(open_store(true));
    cr_assert(verify().good);
    cr_assert(unlinkat(dir, "signing.pub", 0) == 0);
    int fd = openat(dir, "signing.pub", O_WRONLY | O_CREAT, 0644);
    cr_assert(write(fd, "x", 1) == 1);
    close(fd);
    refuse_open(true, "signing.pub does not belong to signing.key");
}

Test(store, a_start_does_not_continue_what_was_tampered_with)
{
    struct store *s = open_store(true);
    append(s, 5);
    store_close(s);
    tamper("CREATE TABLE keep AS SELECT * FROM records; DELETE FROM records WHERE seq > 3");
    refuse_open(true, "not as it was left");
}

Test(store, a_missing_head_is_found)
{
    struct store *s = open_store(true);
    append(s, 5);
    store_close(s);
    cr_assert(verify().good, "control");
    unlinkat(dir, "head", 0);
    struct verify_result r = verify();
    cr_assert(!r.good && strstr(r.why, "the file of the newest checkpoint is missing"));
    refuse_open(true, "is missing");
}

Test(store, changed_tables_are_found)
{
    struct store *s = open_store(true);
    append(s, 5);
    store_close(s);
    tamper("DROP INDEX records_kind; CREATE INDEX records_kind ON records(seq)");
    struct verify_result r = verify();
    cr_assert(!r.good && strstr(r.why, "tables"), "%s", r.why);
}

Test(store, a_key_that_nobody_recorded_is_found)
{
    struct store *s = open_store(true);
    append(s, 1);
    store_close(s);
    tamper("INSERT INTO state VALUES('keys', 'k_forged', '{}', 1)");
    struct verify_result r = verify();
    cr_assert(!r.good && strstr(r.why, "k_forged"), "%s", r.why);
}

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ROW(operator, revoked)                                                                     \
    "{\"hash\":\"" HASH "\",\"operator\":" operator",\"revoked_ms\":" revoked "}"

/* As the recorder writes it down; without `digest`, as it did before records had digests of rows.
 */
static void record_key(struct store *s, const char *kind, const char *row, bool digest)
{
    char detail[512] = "{\"by\":\"brig keys\",\"operator\":false}", hex[SHA256_HEX_SIZE];
    struct record r = {.boundary = "api", .kind = kind, .key = "k_one", .detail = detail};
    if (digest && row) {
        key_digest(row, hex);
        snprintf(detail, sizeof detail,
                 "{\"by\":\"brig keys\",\"hash\":\"" HASH "\",\"operator\":false,\"row\":\"%s\"}",
                 hex);
    }
    cr_assert(store_begin(s, &err) == 0, "%s", err.message);
    cr_assert(store_append(s, &r, &err) == 0, "%s", err.message);
    cr_assert(store_put(s, "keys", "k_one", row, true, &err) == 0, "%s", err.message);
    cr_assert(store_commit(s, &err) == 0, "%s", err.message);
    cr_assert(store_write_head(s, 1, &err) == 0, "%s", err.message);
}

static void expect_bad(const char *why)
{
    struct verify_result r = verify();
    cr_assert(!r.good && strstr(r.why, why), "%s", r.good ? "good" : r.why);
    refuse_open(true, why);
}

static void revoke_one(bool digest)
{
    struct store *s = open_store(true);
    record_key(s, "key.added", ROW("false", "0"), digest);
    record_key(s, "key.revoked", ROW("false", "5"), digest);
    store_close(s);
    struct verify_result r = verify();
    cr_assert(r.good, "%s", r.why);
}

Test(store, a_revoked_key_that_came_back_as_operator_is_found)
{
    revoke_one(true);
    tamper("UPDATE state SET value = replace(replace(value, 'false', 'true'), ':5', ':0')");
    expect_bad("k_one is not what record 2 says: it was revoked");
}

Test(store, a_revoked_key_that_came_back_is_found_without_digests)
{
    revoke_one(false);
    tamper("UPDATE state SET value = replace(value, ':5', ':0')");
    expect_bad("k_one is not what record 2 says");
}

Test(store, a_revoked_key_cannot_wait_to_be_told_anew)
{
    revoke_one(true);
    tamper("UPDATE state SET told = 0, value = replace(value, ':5', ':0')");
    expect_bad("k_one waits to be other than record 2 says");
}

Test(store, every_change_of_a_key_is_found)
{
    static const char *const changes[] = {
        "UPDATE state SET value = replace(value, 'false', 'true')",
        "UPDATE state SET value = replace(value, '0011', '1100')",
        "UPDATE state SET value = replace(value, '{', '{\"max_boxes\":9,')",
        "UPDATE state SET value = replace(value, ':0}', ':0 }')",
        "UPDATE state SET told = 0, value = replace(value, 'false', 'true')",
        "UPDATE state SET told = 0, value = replace(value, '0011', '1100')",
        "UPDATE state SET told = 0, value = replace(value, '{', '{\"max_boxes\":9,')",
        "UPDATE state SET told = 0, value = replace(value, '{', '{\"projects\":[\"/\"],')",
        "DELETE FROM state",
    };
    struct store *s = open_store(true);
    record_key(s, "key.added", ROW("false", "0"), true);
    store_close(s);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        tamper(changes[i]);
        expect_bad("k_one");
        tamper("DELETE FROM state; INSERT INTO state VALUES('keys', 'k_one', '" ROW("false",
                                                                                    "0") "', 1)");
        cr_assert(verify().good);
    }
}

Test(store, a_key_that_was_removed_and_is_there_is_found)
{
    struct store *s = open_store(true);
    record_key(s, "key.added", ROW("false", "0"), true);
    record_key(s, "key.removed", NULL, true);
    store_close(s);
    cr_assert(verify().good);
    tamper("INSERT INTO state VALUES('keys', 'k_one', '" ROW("false", "0") "', 1)");
    expect_bad("k_one is there and record 2 says it was removed");
}

Test(store, a_row_that_a_verb_writes_may_follow)
{
    struct key_told told = {.seq = 1, .hash = HASH}, none = {.seq = 0};
    key_digest(ROW("false", "0"), told.row);
    cr_assert(key_may_follow(&none, ROW("true", "0")), "a new key");
    cr_assert(key_may_follow(&told, ROW("false", "7")), "its end");
    cr_assert(key_may_follow(&told, ROW("false", "0")), "the same again");
    told.removed = true;
    cr_assert(key_may_follow(&told, ROW("false", "0")), "a new one of that name");
}

Test(store, a_row_that_no_verb_writes_may_not_follow)
{
    static const char bound[] = "{\"hash\":\"" HASH "\",\"operator\":false,\"projects\":[\"/a\"],"
                                "\"revoked_ms\":0}";
    static const char more[] = "{\"hash\":\"" HASH "\",\"max_boxes\":0,\"operator\":false,"
                               "\"projects\":[\"/a\",\"/b\"],\"revoked_ms\":0}";
    struct key_told told = {.seq = 1, .hash = HASH};
    key_digest(bound, told.row);
    cr_assert(!key_may_follow(&told, ROW("true", "0")), "more rights");
    cr_assert(!key_may_follow(&told, more), "more projects");
    cr_assert(!key_may_follow(&told, ROW("false", "0")), "no projects");
    cr_assert(!key_may_follow(&told, "{}"), "no hash");
    told.revoked = true;
    key_digest(ROW("false", "7"), told.row);
    cr_assert(!key_may_follow(&told, ROW("false", "0")), "a second life");
    cr_assert(!key_may_follow(&told, bound), "a second life");
}

/* ---- what stands beside the records: indexes, triggers ---- */

/* The index of kinds, made anew so that it leaves out what fits `but`, under the words that it was
 * made with. */
static void thin_index(const char *but)
{
    char sql[600];
    snprintf(sql, sizeof sql,
             "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = sql || ' WHERE NOT (%s)'"
             " WHERE name = 'records_kind'",
             but);
    tamper(sql);
    tamper("REINDEX records_kind");
    tamper("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE INDEX records_kind"
           " ON records(kind)' WHERE name = 'records_kind'");
}

Test(store, a_revoked_key_does_not_come_back_through_an_index)
{
    revoke_one(true);
    thin_index("seq = 2");
    tamper("UPDATE state SET value = replace(value, ':5', ':0')");
    expect_bad("k_one is not what record 2 says: it was revoked");
    tamper("UPDATE state SET told = 0");
    expect_bad("k_one waits to be other than record 2 says");
    /* What the recorder asks before it takes up a row. */
    struct key_told told;
    struct store *s = open_store(false);
    cr_assert(store_key_told(s, "k_one", &told, &err) == 0, "%s", err.message);
    cr_assert(told.seq == 2 && told.revoked);
    store_close(s);
}

Test(store, a_record_that_an_index_leaves_out_is_found)
{
    struct store *s = open_store(true);
    append(s, 5);
    store_close(s);
    thin_index("0"); /* control: as it was */
    struct verify_result r = verify();
    cr_assert(r.good, "%s", r.why);
    thin_index("seq = 3");
    r = verify();
    cr_assert(!r.good && r.seq == 3 && strstr(r.why, "record 3 is not found"), "%s", r.why);
    tamper("REINDEX");
    cr_assert(verify().good);
}

Test(store, a_trigger_is_found_whatever_its_name)
{
    static const char *const names[] = {"keep", "sqliteXkeep", "SQLite9"};
    struct store *s = open_store(true);
    append(s, 1);
    store_close(s);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char sql[200];
        cr_assert(verify().good, "control");
        snprintf(sql, sizeof sql,
                 "CREATE TRIGGER %s BEFORE UPDATE ON state BEGIN SELECT RAISE(IGNORE); END",
                 names[i]);
        tamper(sql);
        expect_bad("tables of the database were changed");
        snprintf(sql, sizeof sql, "DROP TRIGGER %s", names[i]);
        tamper(sql);
    }
}

/* ---- queries ---- */

static int count_record(void *ctx, uint64_t seq, const char *line, size_t len,
                        const uint8_t hash[32], struct err *e)
{
    uint64_t *found = ctx;
    found[0]++;
    found[1] = found[1] ? found[1] : seq;
    found[2] = seq;
    return 0;
}

static void expect_found(struct store *s, struct store_filter f, uint64_t n, uint64_t first,
                         uint64_t last)
{
    uint64_t found[3] = {0};
    cr_assert(store_find(s, &f, count_record, found, &err) == 0, "%s", err.message);
    cr_assert(found[0] == n && found[1] == first && found[2] == last, "%lu: %lu to %lu",
              (unsigned long)found[0], (unsigned long)found[1], (unsigned long)found[2]);
}

Test(store, records_are_found_by_what_they_are_about)
{
    struct store *s = open_store(true);
    struct record other = {
        .boundary = "kernel", .kind = "denial", .box = "xyz", .key = "k_1", .time_us = 5000000};
    append(s, 10);
    cr_assert(store_begin(s, &err) == 0 && store_append(s, &other, &err) == 0 &&
              store_commit(s, &err) == 0);
    expect_found(s, (struct store_filter){.after = 0}, 11, 1, 11);
    expect_found(s, (struct store_filter){.after = 8}, 3, 9, 11);
    expect_found(s, (struct store_filter){.limit = 3}, 3, 1, 3);
    expect_found(s, (struct store_filter){.limit = 3, .last = true}, 3, 9, 11);
    expect_found(s, (struct store_filter){.box = "xyz"}, 1, 11, 11);
    expect_found(s, (struct store_filter){.kind = "denial"}, 1, 11, 11);
    expect_found(s, (struct store_filter){.kind = "box.*"}, 10, 1, 10);
    expect_found(s, (struct store_filter){.key = "k_1"}, 1, 11, 11);
    expect_found(s, (struct store_filter){.boundary = "kernel"}, 1, 11, 11);
    expect_found(s, (struct store_filter){.since = "1970-01-01T00:00:04.000000Z"}, 1, 11, 11);
    expect_found(s, (struct store_filter){.box = "' OR 1 --"}, 0, 0, 0);
    store_close(s);
}

static int count_row(void *ctx, const char *table, const char *key, const char *value,
                     struct err *e)
{
    (*(int *)ctx)++;
    return 0;
}

Test(store, state_is_kept_and_removed)
{
    struct store *s = open_store(true);
    int n = 0;
    cr_assert(store_begin(s, &err) == 0 && store_put(s, "boxes", "a", "{}", true, &err) == 0 &&
              store_put(s, "boxes", "b", "{}", true, &err) == 0 &&
              store_put(s, "settings", "x", "{}", true, &err) == 0 && store_commit(s, &err) == 0);
    cr_assert(store_each(s, NULL, count_row, &n, &err) == 0 && n == 3);
    cr_assert(store_begin(s, &err) == 0 && store_put(s, "boxes", "a", NULL, true, &err) == 0 &&
              store_put(s, "boxes", "never", NULL, true, &err) == 0 && store_commit(s, &err) == 0);
    n = 0;
    cr_assert(store_each(s, "boxes", count_row, &n, &err) == 0 && n == 1);
    store_close(s);
}
