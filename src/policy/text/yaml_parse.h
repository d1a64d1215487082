/* Policy files in YAML, read into the same tree as JSON so that there is one validator.
 *
 * The subset: one document (an optional leading `---`), block mappings and block sequences by
 * indentation with spaces, flow sequences and flow mappings, plain, single-quoted and double-quoted
 * scalars on one line, comments. Core-schema typing: true/false, null/~/empty, decimal integers,
 * reals; everything else is a string. Refused with line, column and reason: anchors, aliases, tags,
 * directives, merge keys, complex keys, duplicate keys, tabs as indentation, several documents,
 * block scalars (| and >), multi-line plain scalars, and the words that YAML 1.1 reads as booleans
 * and 1.2 does not (yes, no, on, off, y, n in any case), which must be quoted: nobody should have
 * to know which YAML a sandbox policy is written in. For the same reason refused: numbers that the
 * versions read differently (0644, 0x1F, 1_000, 1:30, 1e3), keys that are not text, tabs anywhere
 * but in comments. A text without content is null. */
#pragma once

#include "base/json.h"

int yaml_parse(const char *text, size_t len, const struct json_limits *limits, struct json **ret,
               struct err *err);
