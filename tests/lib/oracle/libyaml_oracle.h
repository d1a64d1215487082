/* libyaml as a second opinion on our YAML reader: what we accept it must accept too, with the same
 * tree. It has no types; those are checked against the regular expressions of YAML 1.2's core
 * schema. */
#pragma once

#include "base/json.h"

#include <regex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum oracle_pattern {
    ORACLE_NULL,
    ORACLE_TRUE,
    ORACLE_FALSE,
    ORACLE_INT,
    ORACLE_FLOAT,
    ORACLE_OTHER, /* has another type in the core schema or in YAML 1.1, and must not pass as text
                   */
    ORACLE_PATTERNS,
};

static const char *const oracle_patterns[ORACLE_PATTERNS] = {
    [ORACLE_NULL] = "^(|~|null|Null|NULL)$",
    [ORACLE_TRUE] = "^(true|True|TRUE)$",
    [ORACLE_FALSE] = "^(false|False|FALSE)$",
    [ORACLE_INT] = "^[-+]?[0-9]+$",
    [ORACLE_FLOAT] = "^[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?$",
    [ORACLE_OTHER] =
        "^(0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)|<<"
        "|y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF"
        "|[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?[1-9][0-9_]*|[-+]?0x[0-9a-fA-F_]+"
        "|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\\.[0-9_]*)$",
};

static bool oracle_matches(enum oracle_pattern pattern, const char *text)
{
    static regex_t compiled[ORACLE_PATTERNS];
    static bool ready[ORACLE_PATTERNS];
    if (!ready[pattern] &&
        regcomp(&compiled[pattern], oracle_patterns[pattern], REG_EXTENDED | REG_NOSUB) != 0)
        abort();
    ready[pattern] = true;
    return regexec(&compiled[pattern], text, 0, NULL, 0) == 0;
}

static bool oracle_is_text(const char *text)
{
    return !oracle_matches(ORACLE_NULL, text) && !oracle_matches(ORACLE_TRUE, text) &&
           !oracle_matches(ORACLE_FALSE, text) && !oracle_matches(ORACLE_INT, text) &&
           !oracle_matches(ORACLE_FLOAT, text) && !oracle_matches(ORACLE_OTHER, text);
}

static bool oracle_same_plain(const struct json *ours, const char *text)
{
    switch (json_type(ours)) {
    case JSON_NULL:
        return oracle_matches(ORACLE_NULL, text);
    case JSON_BOOL:
        return oracle_matches(json_bool(ours) ? ORACLE_TRUE : ORACLE_FALSE, text);
    case JSON_INT:
        return oracle_matches(ORACLE_INT, text) && json_int(ours) == strtoll(text, NULL, 10);
    case JSON_REAL:
        return oracle_matches(ORACLE_FLOAT, text) && !oracle_matches(ORACLE_INT, text) &&
               json_real(ours) == strtod(text, NULL);
    case JSON_STRING:
        return strcmp(json_string(ours), text) == 0 && oracle_is_text(text);
    default:
        return false;
    }
}

static bool oracle_same_scalar(const struct json *ours, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (event->data.scalar.anchor || event->data.scalar.tag ||
        strlen(text) != event->data.scalar.length)
        return false;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return oracle_same_plain(ours, text);
    return json_type(ours) == JSON_STRING && strcmp(json_string(ours), text) == 0;
}

static bool oracle_same_key(const char *ours, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (event->type != YAML_SCALAR_EVENT || strcmp(ours, text) != 0)
        return false;
    return event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || oracle_is_text(text);
}

static bool oracle_expect(yaml_parser_t *parser, yaml_event_type_t type)
{
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event))
        return false;
    bool same = event.type == type;
    yaml_event_delete(&event);
    return same;
}

static bool oracle_same_node(yaml_parser_t *parser, const struct json *ours);

static bool oracle_same_sequence(yaml_parser_t *parser, const struct json *ours)
{
    if (json_type(ours) != JSON_ARRAY)
        return false;
    for (size_t i = 0; i < json_count(ours); i++)
        if (!oracle_same_node(parser, json_at(ours, i)))
            return false;
    return oracle_expect(parser, YAML_SEQUENCE_END_EVENT);
}

static bool oracle_same_mapping(yaml_parser_t *parser, const struct json *ours)
{
    if (json_type(ours) != JSON_OBJECT)
        return false;
    for (size_t i = 0; i < json_count(ours); i++) {
        yaml_event_t key;
        if (!yaml_parser_parse(parser, &key))
            return false;
        bool same = oracle_same_key(json_key_at(ours, i), &key);
        yaml_event_delete(&key);
        if (!same || !oracle_same_node(parser, json_value_at(ours, i)))
            return false;
    }
    return oracle_expect(parser, YAML_MAPPING_END_EVENT);
}

static bool oracle_same_node(yaml_parser_t *parser, const struct json *ours)
{
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event))
        return false;
    bool same = false;
    if (event.type == YAML_SCALAR_EVENT)
        same = oracle_same_scalar(ours, &event);
    else if (event.type == YAML_SEQUENCE_START_EVENT)
        same = oracle_same_sequence(parser, ours);
    else if (event.type == YAML_MAPPING_START_EVENT)
        same = oracle_same_mapping(parser, ours);
    yaml_event_delete(&event);
    return same;
}

static bool oracle_same_stream(yaml_parser_t *parser, const struct json *ours)
{
    yaml_event_t event;
    if (!oracle_expect(parser, YAML_STREAM_START_EVENT) || !yaml_parser_parse(parser, &event))
        return false;
    yaml_event_type_t type = event.type;
    yaml_event_delete(&event);
    if (type == YAML_STREAM_END_EVENT) /* nothing but comments */
        return json_type(ours) == JSON_NULL;
    return type == YAML_DOCUMENT_START_EVENT && oracle_same_node(parser, ours) &&
           oracle_expect(parser, YAML_DOCUMENT_END_EVENT) &&
           oracle_expect(parser, YAML_STREAM_END_EVENT);
}

/* Does libyaml read this text, and see in it what we saw? */
static inline bool oracle_agrees(const char *text, size_t len, const struct json *ours)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        abort();
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    bool same = oracle_same_stream(&parser, ours);
    yaml_parser_delete(&parser);
    return same;
}
