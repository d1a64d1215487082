/* Opening the database: alone to write, or beside the writer to read; a new one is made; one of a
 * newer brig is left alone; one that is not as it was left is not continued. */
#include "audit/store_internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUSY_MS 5000

/* The columns that queries go by are computed from the line: there is one truth, and it is the one
 * that the chain covers. */
const char store_schema[] =
    "CREATE TABLE records(seq INTEGER PRIMARY KEY, line TEXT NOT NULL, hash BLOB NOT NULL,"
    " time TEXT AS (json_extract(line, '$.time')) VIRTUAL,"
    " boundary TEXT AS (json_extract(line, '$.boundary')) VIRTUAL,"
    " kind TEXT AS (json_extract(line, '$.kind')) VIRTUAL,"
    " box TEXT AS (json_extract(line, '$.box')) VIRTUAL,"
    " key TEXT AS (json_extract(line, '$.key')) VIRTUAL);\n"
    "CREATE INDEX records_time ON records(time);\n"
    "CREATE INDEX records_kind ON records(kind);\n"
    "CREATE INDEX records_box ON records(box) WHERE box IS NOT NULL;\n"
    "CREATE TABLE checkpoints(seq INTEGER PRIMARY KEY, line TEXT NOT NULL, signature BLOB NOT "
    "NULL);\n"
    "CREATE TABLE state(tbl TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
    " told INTEGER NOT NULL, PRIMARY KEY(tbl, key)) WITHOUT ROWID;\n";

/* Version 2: the receipts themselves, a bounded number of them; what the chain says of them is in
 * the records. */
const char store_schema_2[] =
    "CREATE TABLE receipts(seq INTEGER PRIMARY KEY, box TEXT NOT NULL, owner TEXT, text TEXT NOT "
    "NULL);\n"
    "CREATE INDEX receipts_box ON receipts(box);\n";

/* ---- SQLite ---- */

/* Names stay relative to the current folder: the recorder may not be able to walk to its folder
 * from the root, and need not. */
static int keep_name(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    (void)vfs;
    return snprintf(out, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

int store_prepare(struct err *err)
{
    static sqlite3_vfs ours;
    uint8_t seed[8];
    if (ours.zName)
        return 0;
    if (sqlite3_initialize() != SQLITE_OK || !sqlite3_vfs_find("unix"))
        return err_set(err, ERR_INTERNAL, "SQLite does not start");
    ours = *sqlite3_vfs_find("unix");
    ours.zName = "brig";
    ours.xFullPathname = keep_name;
    ours.pNext = NULL;
    if (sqlite3_vfs_register(&ours, 0) != SQLITE_OK)
        return err_set(err, ERR_INTERNAL, "SQLite does not start");
    /* Reads /dev/urandom, which cannot be opened later. */
    sqlite3_randomness(sizeof seed, seed);
    return 0;
}

int64_t store_number(struct store *s, const char *sql)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return -1;
    return sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : -1;
}

/* A new one, or one of an earlier version. */
static int make_schema(struct store *s, bool fresh, struct err *err)
{
    char sql[4096];
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE; %s%s PRAGMA application_id = 1112688967; PRAGMA user_version = %d;"
             " COMMIT;",
             fresh ? store_schema : "", store_schema_2, STORE_VERSION);
    return store_sql(s, sql, err);
}

static int check_version(struct store *s, bool create, struct err *err)
{
    int64_t version = store_number(s, "PRAGMA user_version");
    if (version < 0)
        return store_fail(s, "the audit database", err);
    if (version > STORE_VERSION) {
        err_set(err, ERR_UNSUPPORTED,
                "the audit database has version %" PRId64 ", this brig knows %d", version,
                STORE_VERSION);
        return err_hint(err, "it was written by a newer brig: use that one");
    }
    if (version == STORE_VERSION || (version == 1 && !create))
        return 0;
    if (version == 1)
        return make_schema(s, false, err);
    if (version == 0 && create && store_number(s, "SELECT count(*) FROM sqlite_schema") == 0)
        return make_schema(s, true, err);
    return err_set(err, ERR_ATTEST, "%s is not an audit database", STORE_FILE);
}

static int open_file(struct store *s, bool create, struct err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (create)
        flags |= SQLITE_OPEN_CREATE;
    if (sqlite3_open_v2(STORE_FILE, &s->db, flags, "brig") != SQLITE_OK)
        return store_fail(s, "open " STORE_FILE, err);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (create && store_sql(s, "PRAGMA journal_mode = WAL", err) < 0)
        return err_number(err);
    return store_sql(s,
                     "PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;"
                     "PRAGMA cache_size = -1024; PRAGMA cell_size_check = ON;",
                     err);
}

/* ---- the lock ---- */

pid_t store_owner(int dir)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    cleanup_fd int fd = openat(dir, STORE_LOCK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fcntl(fd, F_GETLK, &l) < 0 || l.l_type == F_UNLCK)
        return 0;
    return l.l_pid > 0 ? l.l_pid : -1;
}

/* The kernel keeps it: it ends with the process, however that ends. */
static int take_lock(struct store *s, struct err *err)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    s->lock = openat(s->dir, STORE_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return err_sys(err, "open the lock of the audit folder");
    if (fcntl(s->lock, F_SETLK, &l) == 0)
        return 0;
    if (errno != EAGAIN && errno != EACCES)
        return err_sys(err, "lock the audit folder");
    (void)fcntl(s->lock, F_GETLK, &l);
    err_set(err, ERR_REFUSED, "another brig serve uses this state folder (process %d)",
            l.l_type == F_UNLCK ? 0 : (int)l.l_pid);
    return err_hint(err, "stop it, or give another folder with --state");
}

/* ---- open ---- */

static int open_reader(struct store *s, struct err *err)
{
    if (faccessat(s->dir, STORE_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        err_set(err, ERR_NOT_FOUND, "there is no audit log yet");
        return err_hint(err, "`brig serve` makes it; --state DIR names another folder");
    }
    if (open_file(s, false, err) < 0 || check_version(s, false, err) < 0)
        return err_number(err);
    return store_sql(s, "PRAGMA query_only = ON", err);
}

static int open_writer(struct store *s, struct err *err)
{
    if (take_lock(s, err) < 0 || open_file(s, true, err) < 0 || check_version(s, true, err) < 0)
        return err_number(err);
    return store_resume(s, err);
}

int store_open(struct store **ret, int dir, bool create, struct err *err)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return err_memory(err);
    buf_init(&s->line, RECORD_MAX);
    s->lock = -1;
    s->dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    int r = store_prepare(err);
    if (r >= 0 && (s->dir < 0 || fchdir(s->dir) < 0))
        r = err_sys(err, "enter the audit folder");
    if (r >= 0)
        r = create ? open_writer(s, err) : open_reader(s, err);
    if (r < 0) {
        store_close(s);
        return r;
    }
    *ret = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < STMT_COUNT; i++)
        sqlite3_finalize(s->stmts[i]);
    sqlite3_close(s->db);
    signer_free(s->signer);
    buf_done(&s->line);
    if (s->dir >= 0)
        close(s->dir);
    /* Last: whoever waits for it finds everything closed. */
    if (s->lock >= 0)
        close(s->lock);
    free(s);
}

/* ---- going on where the last one ended ---- */

static int load_last(struct store *s, struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    if (store_prepare_one(s, "SELECT seq, hash, kind FROM records ORDER BY seq DESC LIMIT 1", &stmt,
                          err) < 0)
        return err_number(err);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_DONE)
        return 0;
    if (code != SQLITE_ROW)
        return store_fail(s, "read the last record", err);
    const char *kind = (const char *)sqlite3_column_text(stmt, 2);
    if (sqlite3_column_bytes(stmt, 1) != 32 || sqlite3_column_int64(stmt, 0) < 1)
        return err_set(err, ERR_ATTEST, "the last record is malformed");
    s->disk.seq = (uint64_t)sqlite3_column_int64(stmt, 0);
    memcpy(s->disk.hash, sqlite3_column_blob(stmt, 1), 32);
    snprintf(s->last_kind, sizeof s->last_kind, "%s", kind ? kind : "");
    return 0;
}

static int not_as_left(const char *why, struct err *err)
{
    err_set(err, ERR_ATTEST, "the audit log is not as it was left: %s", why);
    return err_hint(err,
                    "see `brig audit verify`; move the folder `audit` away to begin a new log");
}

/* From the newest checkpoint to the end; the whole is `brig audit verify`'s. */
static int check_end(struct store *s, struct err *err)
{
    struct verify_run *run = NULL;
    struct verify_result result;
    if (s->disk.signed_to > s->disk.seq)
        return not_as_left("the end is cut off: there are checkpoints of records that are missing",
                           err);
    if (store_verify_begin_at(s, s->disk.signed_to, &run, err) < 0)
        return err_number(err);
    int r;
    while ((r = store_verify_step(run, 1000, err)) > 0)
        ;
    store_verify_end(run, &result);
    if (r < 0)
        return r;
    return result.good ? 0 : not_as_left(result.why, err);
}

int store_resume(struct store *s, struct err *err)
{
    struct head head;
    if (load_last(s, err) < 0)
        return err_number(err);
    int there = head_read(s->dir, &head, err);
    if (there < 0)
        return there;
    bool fresh = !there && s->disk.seq == 0;
    if (signer_open(&s->signer, s->dir, fresh, err) < 0)
        return err_number(err);
    if (fresh)
        return store_write_head(s, (int64_t)time(NULL) * 1000000, err);
    int64_t newest = store_number(s, "SELECT max(seq) FROM checkpoints");
    s->disk.signed_to = newest > 0 ? (uint64_t)newest : 0;
    return check_end(s, err);
}
