/* What a plain scalar means. Only what YAML 1.1 and YAML 1.2 read alike has a meaning. */
#pragma once

#include "policy/text/yaml_scan.h"

/* Gives node the value of the scalar and takes its text if it is a string. */
int yaml_type_value(struct json_builder *b, struct json *node, struct yaml_scalar *s);
/* Refuses what is not text: a JSON object has no other keys. */
int yaml_type_key(struct json_builder *b, const struct yaml_scalar *s);
