/* Floods: equal denials within a second become one record with a count (AU-3). Pure: time is the
 * caller's.
 *
 * The first of its kind is written at once. What equals it within the next second is held and
 * counted, and comes out as one record when the second is over. Code that varies what it tries
 * gets MERGE_PER_BOX kinds a second; everything beyond is counted in one record per box and
 * boundary, and if even those are too many, in one for all. So what a sandbox can make the log grow
 * by is bounded, and nothing is dropped uncounted. */
#pragma once

#include "audit/record.h"

#include <stdbool.h>

#define MERGE_WINDOW_US 1000000
#define MERGE_MAX       512 /* kinds in all */
#define MERGE_PER_BOX   32

struct merge;
int merge_new(struct merge **ret, struct err *err);
void merge_free(struct merge *m);
/* Denials and refusals: what somebody else can cause as often as they like. */
bool merge_wants(const char *kind);
typedef void merge_fn(void *ctx, const struct record *r);
/* Writes it, now or later, through fn. r->detail is canonical; r->time_us is kept with it. */
void merge_add(struct merge *m, const struct record *r, const struct json *detail, uint64_t now_us,
               merge_fn *fn, void *ctx);
/* What is due, or all of it. */
void merge_flush(struct merge *m, uint64_t now_us, bool all, merge_fn *fn, void *ctx);
uint64_t merge_due_us(const struct merge *m); /* 0: nothing is held */
/* What finding has cost: so many entries were looked at since the beginning. */
uint64_t merge_looks(const struct merge *m);
