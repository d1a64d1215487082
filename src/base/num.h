/* Numbers with units, as people write them in options and policies, and back again.
 *
 * Every parser takes the whole text or nothing: no sign, no blanks, no exponent, nothing after the
 * unit. A fraction that does not come out even is rounded down, which for a limit is the safe side.
 * Errors are ERR_USAGE and say what was expected; *ret is then untouched. */
#pragma once

#include "base/err.h"

#include <stdint.h>

/* Sizes: "256M", "1.5G", "10K", plain bytes. K, KB and KiB (any case) are all 1024; up to T. Not 0.
 */
int num_parse_size(const char *text, uint64_t *ret, struct err *err);
/* Durations in milliseconds: "500ms", "30s", "1.5s", "5m", "1h"; a plain number is seconds. Not 0.
 */
int num_parse_duration(const char *text, uint64_t *ret_ms, struct err *err);
/* Thousandths: "0.5" is 500. Not 0. */
int num_parse_milli(const char *text, uint64_t *ret, struct err *err);
/* Things that are counted, so k and M are decimal: "10k" is 10000. Not 0. */
int num_parse_count(const char *text, uint64_t *ret, struct err *err);
/* Decimal digits and nothing else; 0 is a number like any other. */
int num_parse_uint(const char *text, uint64_t *ret, struct err *err);

/* The shortest text that the parser above reads back as exactly this value. */
#define NUM_TEXT_SIZE 32
void num_format_size(uint64_t bytes, char out[static NUM_TEXT_SIZE]);
void num_format_duration(uint64_t ms, char out[static NUM_TEXT_SIZE]);
void num_format_milli(uint64_t milli, char out[static NUM_TEXT_SIZE]);
void num_format_count(uint64_t count, char out[static NUM_TEXT_SIZE]);
