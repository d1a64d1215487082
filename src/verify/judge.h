/* From what was seen to a verdict. Pure. */
#pragma once

#include "policy/policy.h"
#include "verify/row.h"

enum verdict_kind {
    ROW_HELD,
    ROW_FAILED,
    ROW_NOT_APPLICABLE,
};

struct ruling {
    enum verdict_kind kind;
    char text[256]; /* held: how it was stopped; failed: what was seen; not applicable: why */
};

/* The verdicts on one level on one tier. */
struct verify_cell {
    enum level level;
    enum tier tier;
    bool tried;
    char why[256]; /* if not */
    char how[256];
    struct ruling rulings[ROWS_MAX];
    uint64_t guards[ROWS_MAX]; /* of each row, here */
};

struct evidence_of_row {
    const char *excuse; /* it was not tried, or NULL */
    bool control_ran;
    struct outcome control; /* of the same attack where nothing guards */
    struct outcome inside;
    bool token;     /* what only the host knows came out */
    bool seen;      /* somebody was there, or the guard is not; seen from outside */
    char what[256]; /* that was seen */
    bool looked;    /* a row that is looked at: it was */
    bool sentry;    /* a kernel in user space answered, or a guest's */
    bool guest;     /* a guest's */
    bool limited;   /* the limit that is attacked ended the sandbox */
    bool shared;    /* others are tried after it in the same sandbox, which it must not end */
    bool refused;   /* what was to be tried was not started, and said to be refused */
};

void judge_row(const struct row *r, const struct evidence_of_row *e, struct ruling *ret);
/* 0: all held; 1: something failed. */
int judge_status(const struct ruling *rulings, size_t count);
const char *verdict_word(enum verdict_kind kind);
