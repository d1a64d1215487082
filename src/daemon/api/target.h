/* Which sandbox, and which face of it, a request is meant for. Pure: decided from the head alone,
 * before anything is looked up, so that a malformed id or port is refused first (D-04).
 *
 *   Host: 49983-<id>.anything        envd of that sandbox; 49999: its code interpreter;
 *                                    every other port: the user's own
 *   E2b-Sandbox-Id, E2b-Sandbox-Port the same by headers (no port: envd)
 *   /files?…&signature=v1_…        envd of the sandbox whose token made the signature
 *   everything else                  the control plane and our own routes */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENVD_PORT        49983
#define INTERPRETER_PORT 49999
#define PARAMS_MAX       3
#define PARAM_LEN        128
#define QUERY_LEN        4096 /* of one decoded value */

enum face { FACE_API, FACE_ENVD, FACE_INTERPRETER, FACE_PORT };

/* Not http/target.h, which is where a request of a sandbox goes to. */
struct api_target {
    enum face face;
    char id[BOX_ID_LEN + 1]; /* empty: none was named */
    uint16_t port;           /* of a named sandbox */
    bool is_signed;          /* /files with a signature */
};

/* What stands in the head; NULL where it does not. `target` is path and query as they came. */
struct target_head {
    const char *host; /* canonical, without the port */
    const char *id, *port;
    const char *target;
};
int target_parse(const struct target_head *head, struct api_target *ret, struct err *err);

/* One parameter of a query, decoded as forms are ('+' is a blank). 1: found, 0: not there;
 * negative: malformed, too long, or NUL or invalid UTF-8 in it. The first of several counts. */
int target_query(const char *target, const char *name, char *out, size_t size, struct err *err);
/* The same decoding for one piece of text; negative as above. */
int percent_decode(const char *text, size_t len, bool form, char *out, size_t size);

/* "/sandboxes/{id}/timeout" against a path. {…} stands for one whole segment, which is copied. */
struct params {
    unsigned count;
    char value[PARAMS_MAX][PARAM_LEN];
};
bool path_match(const char *pattern, const char *path, struct params *ret);
