/* Secrets out of responses: what an upstream echoes is overwritten with '*', in place and without
 * changing the length, so that framing stays as it was. Finds the value raw in whatever case, also
 * backwards, percent-encoded once or twice in any mixture, JSON-escaped, in hex and in base64 at
 * any alignment (standard and URL alphabet; of the value as it is, in lower and in upper case),
 * also across the borders of reads and chunks. Also finds HTML entities, \xNN, and base64 broken
 * into lines.
 *
 * C-5  What comes back from an origin that gets a value does not hold that value in any of these
 * forms.
 *
 * A stream holds back the bytes that could be the beginning of a match: at most redactor_lag(). */
#pragma once

#include "credentials/secret.h"

#include <stdint.h>

struct redactor; /* the patterns of one run's secrets, shared by all streams; wiped when freed */
int redactor_new(struct secret *const *values, size_t count, struct redactor **ret,
                 struct err *err);
/* Other values from now on, also for the streams that are open: a value that was fetched later may
 * come back on one of them. On failure nothing has changed. */
int redactor_renew(struct redactor *r, struct secret *const *values, size_t count, struct err *err);
void redactor_free(struct redactor *r);        /* streams that are open go on with it */
size_t redactor_lag(const struct redactor *r); /* 0: there is nothing to look for */

struct redact_stream; /* one direction of one connection */
int redact_open(struct redactor *r, struct redact_stream **ret, struct err *err);
void redact_close(struct redact_stream *s);
/* Takes all of `data`; hands out what is safe: *ret_len bytes at *ret, valid until the next call.
 * Returns how many matches were overwritten so far, or negative. */
int redact_feed(struct redact_stream *s, const char *data, size_t len, const char **ret,
                size_t *ret_len, struct err *err);
/* Bytes that stand between those that are fed and belong to none of them (the head of a WebSocket
 * frame): passed on in their place, by the next call of feed or flush, and not looked at. Negative:
 * too many at one time. */
#define REDACT_INSERT_MAX 127
int redact_insert(struct redact_stream *s, const char *data, size_t len, struct err *err);
/* The end of the stream, or a place that no match can cross (the end of a WebSocket message): what
 * was held back. The stream can be fed again. Returns like redact_feed. */
int redact_flush(struct redact_stream *s, const char **ret, size_t *ret_len);
/* In one piece, for header values: overwrites in place, returns the number of matches. */
int redact_text(struct redactor *r, char *text, size_t len);
