/* The recorder from the inside: its queue, its answers, its seal. */
#pragma once

#include "audit/merge.h"
#include "audit/store.h"
#include "wire/wire.h"

#define BATCH_US      50000
#define BATCH_RECORDS 1000
#define CHECK_US      60000000 /* a checkpoint at least so often, while there are records */
#define RETRY_US      250000   /* when the disk did not take it */
#define QUEUE_ITEMS   20000
#define QUEUE_BYTES   (16u << 20)
#define ANSWERS_MAX   1024

/* A record or a row of the daemon's state that waits to be written. The texts follow it. */
struct item {
    struct item *next;
    size_t size;
    uint32_t request; /* PUT: who waits for it */
    struct record record;
    const char *table, *key, *value; /* table NULL: a record */
    const char *receipt;             /* of that record's box, to be signed; or NULL */
};

/* What could not be written. */
struct trouble {
    bool on;
    int64_t since_us; /* wall clock */
    uint64_t retry_us;
    uint64_t lost, late;
    struct err why;
};

struct recorder {
    int sock;
    int signals;
    struct store *store;  /* writes */
    struct store *reader; /* answers questions, so that they never wait for a batch */
    struct merge *merge;
    struct item *first, **last;
    size_t items, bytes;
    uint64_t batch_us, check_us; /* when each is due; 0: not at all */
    uint32_t answers[ANSWERS_MAX];
    size_t answer_count;
    bool keys_waiting; /* a verb wrote some */
    bool head_old;
    struct trouble trouble;
    bool stopping; /* the front said that it ends */
    bool ended;
    struct verify_run *verify;
    uint32_t verify_request;
    struct buf detail, text;
    struct wire_msg msg;
};

/* These two at 3 and 4, and no other. */
int recorder_keep_descriptors(int sock, int folder, struct err *err);

/* ---- recorder_queue.c ---- */

void queue_record(struct recorder *r, const struct record *record);
int queue_put(struct recorder *r, const char *table, const char *key, const char *value,
              uint32_t request, struct err *err);
void queue_receipt(struct recorder *r, const struct record *record, const char *body);
/* Everything to the disk, with a checkpoint if one is due or `check`. */
int queue_write(struct recorder *r, bool check, struct err *err);

/* ---- recorder_query.c ---- */

void recorder_query(struct recorder *r, uint32_t request, const struct json *q);
void recorder_verify_step(struct recorder *r);
void recorder_done(struct recorder *r, uint32_t request, const struct buf *text);
void recorder_fail(struct recorder *r, uint32_t request, const struct err *err);
/* RESTORE for one row; a store_row_fn with the recorder as ctx. */
int recorder_restore(void *ctx, const char *table, const char *key, const char *value,
                     struct err *err);

/* ---- recorder_keys.c ---- */

/* In the open transaction: a record of what happens to this key. value NULL: it is removed. */
int keys_record(struct recorder *r, const char *key, const char *value, const char *by,
                struct err *err);
/* Rows that a verb wrote: recorded and marked now; told to the front by keys_tell, after the
 * commit. */
struct key_rows {
    struct key_row {
        char *key, *value;
        bool refused; /* recorded as that, and told to nobody */
    } * items;
    size_t count;
};
int keys_collect(struct recorder *r, struct key_rows *ret, struct err *err);
void keys_tell(struct recorder *r, const struct key_rows *rows);
void key_rows_done(struct key_rows *rows);

/* ---- recorder_seal.c ---- */

/* The folder `audit`, made if need be; as root it is given to the recorder's uid. */
int recorder_folder(int state_dir, struct err *err);
int recorder_seal(int folder, bool *ret_landlock, struct err *err);
