/* Learn mode: from what a run was refused to the smallest policy that would have allowed it. Pure;
 * every text that goes in may have been chosen by the code that ran.
 *
 * LN-1  What is written is a policy that brig reads back, whatever the names are: no text of the
 * code's choosing can end a line, a comment or a quotation. LN-2  A proposal adds one exact thing,
 * or a folder that the caller agreed to; never a pattern. LN-3  The order does not depend on the
 * order of events. */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>

#define LEARN_LINES_MAX    256
#define LEARN_REFUSALS_MAX 128
/* So many entries of one folder, and the folder is proposed in their place. */
#define LEARN_MERGE_FROM 4
/* So many grants at most: the file system boundary takes 64. */
#define LEARN_GRANTS_MAX 48

enum learn_kind {
    LEARN_FIELD,
    LEARN_RO,
    LEARN_RW,
    LEARN_HOST,
};

/* One proposal. */
struct learn_line {
    enum learn_kind kind;
    enum policy_field field; /* LEARN_FIELD */
    char *value;             /* the field's, a path of the host, or a rule */
    char *dest;              /* of a path: the place inside; NULL: the same */
    bool is_dir;
    bool looked;      /* a folder that was only looked at: needed as a way, if at all */
    char *asked;      /* what asked for it, for the comment */
    const char *risk; /* "low: …", static */
    uint64_t count;
    unsigned merged; /* so many entries became this folder; 0: it was asked for itself */
};

/* What is not proposed, and why. */
struct learn_refusal {
    char *what;
    char *why;
    uint64_t count;
};

struct learn {
    struct learn_line lines[LEARN_LINES_MAX];
    size_t line_count;
    struct learn_refusal refusals[LEARN_REFUSALS_MAX];
    size_t refusal_count;
    uint64_t dropped; /* what was asked for beyond what could be kept */
    bool ended_well;  /* the command ended with status 0, and no limit was hit */
    char *command;    /* for the head of the file */
    char *file;       /* where it was written to, if anywhere; the caller's to say */
    bool saved;
    struct buf policy; /* the text, once learn_write has run */
};

struct learn *learn_new(void); /* NULL: no memory */
void learn_free(struct learn *l);

void learn_grant(struct learn *l, const struct learn_line *line);
/* A rule as --allow takes it; what is none is not proposed. */
void learn_host(struct learn *l, const char *rule, const char *asked, const char *risk,
                uint64_t count);
void learn_field(struct learn *l, enum policy_field field, const char *value, const char *asked,
                 const char *risk, uint64_t count);
/* Twice the limit that was in force. */
void learn_limit(struct learn *l, const struct policy *base, enum policy_field field,
                 const char *asked);
void learn_refuse(struct learn *l, const char *what, const char *why, uint64_t count);
void learn_drop(struct learn *l, size_t i); /* one line */
bool learn_has_grants(const struct learn *l);

/* Sorts; drops what another proposal covers; many entries of one folder become the folder where
 * `may` agrees. */
typedef bool learn_may(void *ctx, const char *folder);
void learn_merge(struct learn *l, learn_may *may, void *ctx);

/* The whole policy, base and proposals, with a comment on each proposal, into l->policy. It has
 * been read back. */
int learn_write(struct learn *l, const struct policy *base, struct err *err);
/* {"policy", "file", "proposals": [{"field", "value", "asked", "count", "risk"}], "refused":
 * [{"what", "why", "count"}], "dropped", "complete"} */
void learn_write_json(const struct learn *l, struct json_writer *w);
const char *learn_field_name(const struct learn_line *line);
/* Text for a comment or a terminal: one line, bounded, nothing in it that either would obey. */
void learn_clean(const char *text, struct buf *out);
