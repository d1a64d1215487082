/* Reading one member of an object with the type that it must have. `where` names the object in
 * messages: "process.user". A member that is missing leaves *ret as it was; null counts as missing.
 */
#pragma once

#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

int field_wrong(const char *where, const char *key, const char *expected, struct err *err);
int field_bool(const struct json *j, const char *where, const char *key, bool *ret,
               struct err *err);
int field_text(const struct json *j, const char *where, const char *key, const char **ret,
               struct err *err);
int field_int(const struct json *j, const char *where, const char *key, int64_t *ret,
              struct err *err);
int field_u32(const struct json *j, const char *where, const char *key, uint32_t *ret,
              struct err *err);
/* Anything from 0 to 2^64-1; over 2^63 it is taken for 2^64-1, and so is -1. */
int field_u64(const struct json *j, const char *where, const char *key, uint64_t *ret,
              struct err *err);
int field_object(const struct json *j, const char *where, const char *key, const struct json **ret,
                 struct err *err);
int field_list(const struct json *j, const char *where, const char *key, const struct json **ret,
               struct err *err);
/* A list of strings alone. */
int field_texts(const struct json *j, const char *where, const char *key, const struct json **ret,
                struct err *err);
/* OC-1: the first of `keys` (NULL-terminated) that is there and says something is refused by name.
 */
int field_refuse(const struct json *j, const char *where, const char *const *keys, const char *why,
                 struct err *err);
