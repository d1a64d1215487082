/* The file runs.jsonl: finds the last signed line, removes what a killed writer left behind it, and
 * appends signed records under a lock. */
#include "audit/runs.h"

#include "audit/export.h"
#include "audit/receipt.h"
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/wall.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS   20000
#define BOOT_FILE "boot"
#define LAST_MAX  (3 * EXPORT_LINE_MAX) /* a record, its checkpoint, and half of another */

static char boot[64];

struct runs {
    int dir, fd, lock;
    struct signer *signer;
    struct verifier *verifier;
    uint8_t key[32];
    uint64_t seq;
    uint8_t hash[32];
    off_t end;        /* behind the last signed line */
    struct head head; /* of that line */
};

void runs_prepare(void)
{
    cleanup_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof boot - 1);
    boot[n > 0 ? strspn(boot, "0123456789abcdef-") : 0] = '\0';
}

/* ---- the lock ---- */

static int take_lock(int fd, short type, struct err *err)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET};
    const struct timespec pause = {.tv_nsec = 500000};
    for (int i = 0; i < 2 * WAIT_MS; i++) {
        if (fcntl(fd, F_SETLK, &l) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return err_sys(err, "lock the chain of runs");
        nanosleep(&pause, NULL);
    }
    return err_set(err, ERR_SYSTEM, "another process has locked the chain of runs for %d s",
                   WAIT_MS / 1000);
}

static void drop_lock(int fd)
{
    struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    (void)fcntl(fd, F_SETLK, &l);
}

/* ---- the last line ---- */

static int not_as_left(const char *why, struct err *err)
{
    err_set(err, ERR_ATTEST, "the chain of runs is not as it was left: %s", why);
    return err_hint(err, "see `brig audit verify --runs`; move the folder `receipts` away to begin "
                         "a new one");
}

/* A checkpoint of ours. */
static bool take_checkpoint(struct runs *r, const char *line, size_t len)
{
    struct export_line e;
    struct checkpoint c;
    if (export_parse(line, len, &e, NULL) < 0 || e.kind != EXPORT_CHECKPOINT ||
        checkpoint_parse(e.text, e.len, &c, NULL) < 0 ||
        !verifier_check(r->verifier, e.text, e.len, e.signature))
        return false;
    r->seq = c.seq;
    memcpy(r->hash, c.hash, 32);
    r->head.len = e.len;
    memcpy(r->head.line, e.text, e.len);
    r->head.line[e.len] = '\0';
    memcpy(r->head.signature, e.signature, CHAIN_SIGNATURE);
    return true;
}

static bool is_beginning(const char *line, size_t len)
{
    struct export_line e;
    static const uint8_t zero[32];
    return export_parse(line, len, &e, NULL) >= 0 && e.kind == EXPORT_BEGIN && e.first == 1 &&
           memcmp(e.hash, zero, 32) == 0;
}

/* The last line that is signed, from the end backwards; what comes behind it is what a writer that
 * was killed had not finished. */
static int find_last(struct runs *r, off_t size, struct err *err)
{
    off_t from = size > LAST_MAX ? size - LAST_MAX : 0;
    size_t len = (size_t)(size - from);
    cleanup_free char *text = malloc(len + 1);
    if (!text || pread(r->fd, text, len, from) != (ssize_t)len)
        return err_set(err, ERR_SYSTEM, "the chain of runs cannot be read");
    for (char *end = memrchr(text, '\n', len); end;
         end = memrchr(text, '\n', (size_t)(end - text))) {
        char *before = memrchr(text, '\n', (size_t)(end - text));
        char *line = before ? before + 1 : text;
        bool whole = before || from == 0;
        r->end = from + (end + 1 - text);
        if (whole && take_checkpoint(r, line, (size_t)(end - line)))
            return 0;
        if (whole && from == 0 && line == text && is_beginning(line, (size_t)(end - line))) {
            r->seq = 0;
            memset(r->hash, 0, 32);
            return 0;
        }
    }
    return not_as_left("it ends in something that is not signed", err);
}

/* ---- the boot ---- */

static bool same_boot(const struct runs *r)
{
    char there[64] = "";
    cleanup_fd int fd = openat(r->dir, BOOT_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && read(fd, there, sizeof there - 1) > 0 && strcmp(there, boot) == 0;
}

static int note_boot(struct runs *r, struct err *err)
{
    if (same_boot(r))
        return 0;
    cleanup_fd int fd = openat(r->dir, BOOT_FILE ".new",
                               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, boot, strlen(boot)) != (ssize_t)strlen(boot) ||
        renameat(r->dir, BOOT_FILE ".new", r->dir, BOOT_FILE) < 0)
        return err_sys(err, "write the file " BOOT_FILE " of the chain of runs");
    return 0;
}

/* ---- writing ---- */

static int write_all(struct runs *r, const struct buf *text, struct err *err)
{
    /* Cut off what an earlier writer had not finished (RU-1). */
    if (ftruncate(r->fd, r->end) < 0)
        return err_sys(err, "write the chain of runs");
    ssize_t n = pwrite(r->fd, text->data, text->len, r->end);
    if (n == (ssize_t)text->len)
        return 0;
    err_sys(err, "write the chain of runs");
    if (n >= 0)
        err_set(err, ERR_SYSTEM, "the chain of runs could not be written: the disk is full");
    if (ftruncate(r->fd, r->end) < 0)
        return err_sys(err, "write the chain of runs");
    return err_number(err);
}

static int sign_place(struct runs *r, uint64_t seq, const uint8_t hash[32], struct err *err)
{
    struct checkpoint c = {.seq = seq};
    cleanup_buf struct buf line;
    buf_init(&line, CHAIN_CHECKPOINT_MAX);
    memcpy(c.hash, hash, 32);
    record_time(wall_us(), c.time);
    checkpoint_write(&c, &line);
    r->head.len = line.len;
    memcpy(r->head.line, buf_text(&line), line.len + 1);
    return signer_sign(r->signer, r->head.line, r->head.len, r->head.signature, err);
}

/* With the lock held and the end found. */
static int add(struct runs *r, const struct record *record, struct buf *line, struct err *err)
{
    struct record numbered = *record;
    uint8_t hash[32];
    cleanup_buf struct buf text;
    buf_init(&text, 2 * EXPORT_LINE_MAX);
    numbered.seq = r->seq + 1;
    if (record_write(&numbered, line, err) < 0)
        return err_number(err);
    chain_next(r->hash, line->data, line->len, hash);
    if (sign_place(r, numbered.seq, hash, err) < 0)
        return err_number(err);
    export_write_record(&text, line->data, line->len, hash);
    export_write_checkpoint(&text, r->head.line, r->head.len, r->head.signature);
    if (text.failed)
        return err_set(err, ERR_LIMIT, "a record is too long");
    if (write_all(r, &text, err) < 0 || head_write(r->dir, &r->head, false, err) < 0)
        return err_number(err);
    r->seq = numbered.seq;
    r->end += (off_t)text.len;
    memcpy(r->hash, hash, 32);
    return 0;
}

static int say_lost(struct runs *r, const struct checkpoint *known, struct err *err)
{
    cleanup_buf struct buf detail, line;
    buf_init(&detail, 512);
    buf_init(&line, RECORD_MAX);
    buf_fmt(&detail, "{\"first\":%" PRIu64 ",\"hash\":\"", r->seq + 1);
    hex_write(&detail, known->hash, 32);
    buf_fmt(&detail,
            "\",\"last\":%" PRIu64 ",\"what\":\"they were written before the machine was restarted"
            " and are gone\"}",
            known->seq);
    struct record record = {.time_us = wall_us(),
                            .boundary = "audit",
                            .kind = "audit.lost",
                            .detail = buf_text(&detail)};
    return add(r, &record, &line, err);
}

/* The head against what is there (RU-2). */
static int check_head(struct runs *r, struct err *err)
{
    struct head head;
    struct checkpoint c;
    int there = head_read(r->dir, &head, err);
    if (there < 0 && same_boot(r))
        return there;
    bool good = there > 0 && checkpoint_parse(head.line, head.len, &c, NULL) >= 0 &&
                verifier_check(r->verifier, head.line, head.len, head.signature);
    if (!good)
        return same_boot(r) && r->seq ? not_as_left("its head is missing or not ours", err) : 0;
    if (c.seq == r->seq && memcmp(c.hash, r->hash, 32) != 0)
        return not_as_left("its head leads elsewhere", err);
    if (c.seq <= r->seq)
        return 0;
    if (same_boot(r))
        return not_as_left("its end is cut off", err);
    return say_lost(r, &c, err);
}

static int enter(struct runs *r, struct err *err)
{
    struct stat st;
    if (take_lock(r->lock, F_WRLCK, err) < 0)
        return err_number(err);
    if (fstat(r->fd, &st) < 0)
        err_sys(err, "look at the chain of runs");
    else if (find_last(r, st.st_size, err) >= 0 && check_head(r, err) >= 0 &&
             note_boot(r, err) >= 0)
        return 0;
    drop_lock(r->lock);
    return err_number(err);
}

static int write_proof(struct runs *r, const uint8_t previous[32], const struct buf *line,
                       struct buf *proof, struct err *err)
{
    struct receipt_proof p = {.record = buf_text(line), .checkpoint = r->head.line};
    memcpy(p.key, r->key, 32);
    memcpy(p.previous, previous, 32);
    memcpy(p.value, r->head.signature, CHAIN_SIGNATURE);
    receipt_proof_write(&p, proof);
    return proof->failed ? err_set(err, ERR_LIMIT, "the proof of a receipt is too long") : 0;
}

int runs_append(struct runs *r, const struct record *record, const struct receipt *receipt,
                struct buf *proof, struct err *err)
{
    struct record full = *record;
    uint8_t previous[32];
    cleanup_buf struct buf line, detail;
    buf_init(&line, RECORD_MAX);
    buf_init(&detail, RECORD_MAX);
    if (receipt) {
        if (receipt_detail(receipt, &detail, err) < 0)
            return err_number(err);
        full.detail = buf_text(&detail);
    }
    if (enter(r, err) < 0)
        return err_number(err);
    memcpy(previous, r->hash, 32);
    int result = add(r, &full, &line, err);
    drop_lock(r->lock);
    if (result >= 0 && receipt)
        result = write_proof(r, previous, &line, proof, err);
    return result;
}

/* ---- open ---- */

static const char first_line[] =
    "{\"brig_audit\":1,\"first\":1,\"previous\":"
    "\"0000000000000000000000000000000000000000000000000000000000000000\"}\n";

static int open_keys(struct runs *r, bool fresh, struct err *err)
{
    if (signer_open(&r->signer, r->dir, fresh, err) < 0 || signer_key(r->signer, r->key, err) < 0 ||
        verifier_open(&r->verifier, r->dir, err) < 0)
        return err_number(err);
    return 0;
}

/* A file without its first line is one whose writer was killed before anything was written; a head
 * that knows of records says otherwise. */
static int begin(struct runs *r, struct err *err)
{
    static const uint8_t zero[32];
    struct stat st;
    struct head head;
    struct checkpoint c = {.seq = 0};
    struct buf text = {.data = (char *)(uintptr_t)first_line, .len = sizeof first_line - 1};
    if (fstat(r->fd, &st) < 0)
        return err_sys(err, "look at the chain of runs");
    bool empty = st.st_size < (off_t)text.len;
    int there = head_read(r->dir, &head, err);
    if (open_keys(r, empty && there == 0, err) < 0)
        return err_number(err);
    if (!empty)
        return 0;
    bool unknown = there < 0 || (there && checkpoint_parse(head.line, head.len, &c, NULL) < 0);
    if ((unknown || c.seq) && same_boot(r))
        return not_as_left("it is empty", err);
    if (there == 0 &&
        (sign_place(r, 0, zero, err) < 0 || head_write(r->dir, &r->head, false, err) < 0))
        return err_number(err);
    return write_all(r, &text, err);
}

static int open_files(struct runs *r, struct err *err)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    r->lock = openat(r->dir, STORE_LOCK, flags, 0600);
    r->fd = openat(r->dir, RUNS_FILE, flags, 0600);
    if (r->lock < 0 || r->fd < 0)
        return err_sys(err, "open the chain of runs");
    if (take_lock(r->lock, F_WRLCK, err) < 0)
        return err_number(err);
    int result = begin(r, err);
    drop_lock(r->lock);
    return result;
}

int runs_open(struct runs **ret, int dir, struct err *err)
{
    struct runs *r = calloc(1, sizeof *r);
    if (!r)
        return err_memory(err);
    r->fd = r->lock = -1;
    r->dir = dir;
    if (open_files(r, err) < 0) {
        runs_free(r);
        return err_number(err);
    }
    *ret = r;
    return 0;
}

void runs_free(struct runs *r)
{
    if (!r)
        return;
    signer_free(r->signer);
    verifier_free(r->verifier);
    if (r->fd >= 0)
        close(r->fd);
    if (r->lock >= 0)
        close(r->lock);
    free(r);
}

/* ---- readers ---- */

int runs_look(int dir, struct runs_view *ret, struct err *err)
{
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    struct stat st;
    *ret = (struct runs_view){.fd = -1};
    cleanup_fd int lock = openat(dir, STORE_LOCK, flags);
    cleanup_fd int fd = openat(dir, RUNS_FILE, flags);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_sys(err, "open " RUNS_FILE);
    /* Under the lock no writer is between writing a line and writing its head. */
    if (lock >= 0 && take_lock(lock, F_RDLCK, err) < 0)
        return err_number(err);
    int there = head_read(dir, &ret->head, err);
    if (fstat(fd, &st) < 0)
        return err_sys(err, "look at " RUNS_FILE);
    if (there < 0 && err->code != ERR_ATTEST)
        return there;
    ret->has_head = there > 0;
    ret->size = st.st_size;
    ret->fd = fd_steal(&fd);
    *err = (struct err)ERR_INIT;
    return 0;
}
