/* Follows a chain of records and says where it is broken. Pure: the same for a database and for an
 * export; the signature is checked by whom the caller names. */
#pragma once

#include "audit/record.h"

#include <stdbool.h>

#define CHAIN_SIGNATURE      64
#define CHAIN_CHECKPOINT_MAX 256
/* What is signed: this, then the checkpoint's line. */
#define CHAIN_SIGN_DOMAIN "brig audit checkpoint v1\n"

struct verify_result {
    bool good;
    uint64_t records, checkpoints;
    uint64_t seq;         /* where it first went wrong */
    char why[160];        /* "record 17 was changed", "records 5 to 9 are missing", … */
    uint64_t first, last; /* records that were looked at */
    uint64_t signed_to;   /* the newest record that a signature covers */
    uint64_t withheld;    /* of an export: records that only their digest stands for */
    char signed_at[RECORD_TIME_SIZE]; /* when; may be empty */
    uint8_t hash[32];                 /* of the last record, if good */
};

struct checkpoint {
    uint64_t seq;
    uint8_t hash[32];
    char time[RECORD_TIME_SIZE];
};
/* {"hash":hex,"seq":N,"time":"…"}. */
void checkpoint_write(const struct checkpoint *c, struct buf *out);
int checkpoint_parse(const char *line, size_t len, struct checkpoint *ret, struct err *err);

typedef bool chain_verify_fn(void *ctx, const char *line, size_t len,
                             const uint8_t signature[CHAIN_SIGNATURE]);

struct chain_check;
/* The first record is first_seq and follows `previous`; (1, NULL): the whole log. */
int chain_check_new(struct chain_check **ret, uint64_t first_seq, const uint8_t previous[32],
                    chain_verify_fn *verify, void *ctx, struct err *err);
void chain_check_free(struct chain_check *c);
/* The signed place that stands in a file of its own. Before the first row. */
void chain_check_head(struct chain_check *c, const char *line, size_t len,
                      const uint8_t signature[CHAIN_SIGNATURE]);
/* In order. `place`: the number under which it is filed. False: it is decided, nothing more need
 * come. */
bool chain_check_row(struct chain_check *c, uint64_t place, const char *line, size_t len,
                     const uint8_t hash[32]);
/* The same where nothing but the line says its number. */
bool chain_check_filed(struct chain_check *c, const char *line, size_t len, const uint8_t hash[32]);
/* A record that is not shown. */
bool chain_check_withheld(struct chain_check *c, const uint8_t digest[32]);
/* The checkpoint of the row that was given last. */
bool chain_check_signed(struct chain_check *c, const char *line, size_t len,
                        const uint8_t signature[CHAIN_SIGNATURE]);
/* What cannot be read at all. */
void chain_check_bad(struct chain_check *c, uint64_t seq, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* after_end: the highest number of a checkpoint that no row belonged to; 0: none. */
void chain_check_end(struct chain_check *c, uint64_t after_end, struct verify_result *ret);
/* How far the check has come, for callers that check in pieces. */
uint64_t chain_check_seq(const struct chain_check *c);
bool chain_check_failed(const struct chain_check *c);
