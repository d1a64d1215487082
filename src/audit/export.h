/* An export: records as JSON lines that can be verified offline with the public key alone.
 *
 *   {"brig_audit":1,"first":N,"previous":hex}                 what the first record follows
 *   {"hash":hex,"record":{…}}                                 a record, as it stands in the log
 *   {"digest":hex}                                            one that is left out (--box)
 *   {"checkpoint":{"hash","seq","time"},"signature":hex}      after the record that it stands for
 *   {"end":{"checkpoints":N,"hash":hex,"last":N,"records":N}} the last line; nothing after it
 *
 * Each line has exactly this form, without blanks: what was hashed and signed is taken as it
 * stands. */
#pragma once

#include "audit/chain.h"

#define EXPORT_LINE_MAX (RECORD_MAX + 256)

enum export_kind { EXPORT_BEGIN, EXPORT_RECORD, EXPORT_DIGEST, EXPORT_CHECKPOINT, EXPORT_END };

struct export_line {
    enum export_kind kind;
    const char *text; /* RECORD, CHECKPOINT: the inner line */
    size_t len;
    uint8_t hash[32];                    /* RECORD, DIGEST, END; BEGIN: what came before */
    uint8_t signature[CHAIN_SIGNATURE];  /* CHECKPOINT */
    uint64_t first;                      /* BEGIN */
    uint64_t records, checkpoints, last; /* END */
};
/* export_parse.c; without the newline. Points into the text. */
int export_parse(const char *text, size_t len, struct export_line *ret, struct err *err);
void export_write_record(struct buf *out, const char *line, size_t len, const uint8_t hash[32]);
void export_write_checkpoint(struct buf *out, const char *line, size_t len,
                             const uint8_t signature[CHAIN_SIGNATURE]);

/* The whole of it, line by line: what `brig audit verify --export` says. */
struct export_check;
int export_check_new(struct export_check **ret, chain_verify_fn *verify, void *ctx,
                     struct err *err);
void export_check_line(struct export_check *c, const char *text, size_t len);
void export_check_end(struct export_check *c, struct verify_result *ret); /* frees */
