/* The structure of the YAML subset. Each function for a block leaves the reader on the next content
 * after it, which is then the first on its line, or at the end of the text: a block goes on exactly
 * where the next content has its indentation, and whatever no open block claims is refused at the
 * end. */
#include "policy/text/yaml_parse.h"

#include "policy/text/yaml_scan.h"
#include "policy/text/yaml_type.h"

#include <string.h>

/* Longer keys are no keys to other readers of YAML, which look ahead this far for the colon. */
#define KEY_MAX 1000

static struct json_pos here(const struct yaml_reader *r)
{
    return json_cursor_pos(&r->cursor);
}

/* The key was read; take it and the colon into the object. Only in flow style, where JSON must
 * pass, may the value follow a quoted key's colon without a space. */
static int take_key(struct yaml_reader *r, bool flow, struct json *object, struct yaml_scalar *key,
                    struct json **ret)
{
    yaml_scan_spaces(r);
    if (!yaml_scan_colon(r, flow))
        return yaml_scan_fail(r, "': ' after a key");
    if (here(r).column - key->pos.column > KEY_MAX)
        return json_build_fail(&r->build, key->pos,
                               "found a key of more than %d bytes, expected a shorter one",
                               KEY_MAX);
    int rc = yaml_type_key(&r->build, key);
    if (rc < 0)
        return rc;
    r->cursor.at++;
    char *text = key->text;
    key->text = NULL;
    rc = json_build_member(&r->build, object, text, key->pos, ret);
    if (rc == 0)
        (*ret)->pos = here(r);
    return rc;
}

static int scan_key(struct yaml_reader *r, bool flow, struct yaml_scalar *key)
{
    int byte = yaml_scan_peek(r);
    if (byte == '[' || byte == '{')
        return yaml_scan_fail(r,
                              "a key (lists and mappings as keys are not supported in policies)");
    return yaml_scan_scalar(r, flow, key);
}

/* ---- flow style: brackets decide, indentation does not ---- */

static int parse_flow(struct yaml_reader *r, struct json *node);

static int parse_flow_value(struct yaml_reader *r, struct json *node)
{
    int byte = yaml_scan_peek(r);
    node->pos = here(r);
    if (byte == '[' || byte == '{')
        return parse_flow(r, node);
    cleanup_scalar struct yaml_scalar scalar = {0};
    int rc = yaml_scan_scalar(r, true, &scalar);
    return rc < 0 ? rc : yaml_type_value(&r->build, node, &scalar);
}

static int parse_flow_item(struct yaml_reader *r, struct json *array)
{
    struct json *item;
    int rc = json_build_item(&r->build, array, here(r), &item);
    return rc < 0 ? rc : parse_flow_value(r, item);
}

static int parse_flow_member(struct yaml_reader *r, struct json *object)
{
    cleanup_scalar struct yaml_scalar key = {0};
    struct json *value = NULL;
    int rc = scan_key(r, true, &key);
    if (rc == 0)
        rc = take_key(r, true, object, &key, &value);
    if (rc == 0)
        rc = yaml_scan_next(r);
    if (rc < 0 || yaml_scan_peek(r) == ',' || yaml_scan_peek(r) == '}')
        return rc;
    return parse_flow_value(r, value);
}

static int parse_flow(struct yaml_reader *r, struct json *node)
{
    const bool array = yaml_scan_peek(r) == '[';
    const int closing = array ? ']' : '}';
    int rc = json_build_open(&r->build, node, array ? JSON_ARRAY : JSON_OBJECT);
    while (rc == 0) {
        r->cursor.at++; /* the opening bracket or a comma */
        rc = yaml_scan_next(r);
        if (rc == 0 && yaml_scan_peek(r) == closing)
            break;
        if (rc == 0)
            rc = array ? parse_flow_item(r, node) : parse_flow_member(r, node);
        if (rc == 0)
            rc = yaml_scan_next(r);
        if (rc < 0 || yaml_scan_peek(r) == closing)
            break;
        if (yaml_scan_peek(r) != ',')
            rc = yaml_scan_fail(r, array ? "',' or ']'" : "',' or '}'");
    }
    if (rc < 0)
        return rc;
    r->cursor.at++;
    return json_build_close(&r->build, node);
}

/* ---- block style ---- */

static int parse_block(struct yaml_reader *r, struct json *node);

/* A value ends with its line. */
static int finish_line(struct yaml_reader *r)
{
    yaml_scan_spaces(r);
    if (yaml_scan_peek(r) == ':')
        return yaml_scan_fail(r, "the end of the line (quote text that contains ': ')");
    if (!yaml_scan_line_ends(r))
        return yaml_scan_fail(r, "the end of the line");
    return yaml_scan_next(r);
}

/* What follows "key: " on the same line: no block starts there. */
static int parse_inline(struct yaml_reader *r, struct json *node)
{
    int byte = yaml_scan_peek(r), rc;
    node->pos = here(r);
    if (byte == '[' || byte == '{') {
        rc = parse_flow(r, node);
        return rc < 0 ? rc : finish_line(r);
    }
    cleanup_scalar struct yaml_scalar scalar = {0};
    rc = yaml_scan_scalar(r, false, &scalar);
    if (rc == 0)
        rc = yaml_type_value(&r->build, node, &scalar);
    return rc < 0 ? rc : finish_line(r);
}

static int parse_sequence(struct yaml_reader *r, struct json *node)
{
    const int indent = yaml_scan_indent(r);
    int rc = json_build_open(&r->build, node, JSON_ARRAY);
    while (rc == 0 && yaml_scan_indent(r) == indent && yaml_scan_dash(r)) {
        struct json *item;
        r->cursor.at++;
        rc = json_build_item(&r->build, node, here(r), &item);
        if (rc == 0)
            rc = yaml_scan_next(r);
        if (rc == 0 && yaml_scan_indent(r) > indent)
            rc = parse_block(r, item);
    }
    return rc < 0 ? rc : json_build_close(&r->build, node);
}

/* The value of a key at `indent`: on its line, or below it and further in. A sequence below may
 * stand at the indentation of the key itself; its dashes set it apart. */
static int parse_member_value(struct yaml_reader *r, struct json *value, int indent)
{
    yaml_scan_spaces(r);
    if (!yaml_scan_line_ends(r))
        return parse_inline(r, value);
    int rc = yaml_scan_next(r);
    if (rc < 0)
        return rc;
    int found = yaml_scan_indent(r);
    if (found > indent || (found == indent && yaml_scan_dash(r)))
        return parse_block(r, value);
    return 0;
}

/* The first key was read already: only the colon after it showed that this is a mapping. */
static int parse_mapping(struct yaml_reader *r, struct json *node, struct yaml_scalar *first)
{
    const int indent = (int)first->pos.column - 1;
    struct json *value = NULL;
    int rc = json_build_open(&r->build, node, JSON_OBJECT);
    if (rc == 0)
        rc = take_key(r, false, node, first, &value);
    if (rc == 0)
        rc = parse_member_value(r, value, indent);
    while (rc == 0 && yaml_scan_indent(r) == indent && !yaml_scan_dash(r)) {
        cleanup_scalar struct yaml_scalar key = {0};
        rc = scan_key(r, false, &key);
        if (rc == 0)
            rc = take_key(r, false, node, &key, &value);
        if (rc == 0)
            rc = parse_member_value(r, value, indent);
    }
    return rc < 0 ? rc : json_build_close(&r->build, node);
}

static int parse_block(struct yaml_reader *r, struct json *node)
{
    int byte = yaml_scan_peek(r);
    node->pos = here(r);
    if (yaml_scan_dash(r))
        return parse_sequence(r, node);
    if (byte == '[' || byte == '{')
        return parse_inline(r, node);
    cleanup_scalar struct yaml_scalar scalar = {0};
    int rc = yaml_scan_scalar(r, false, &scalar);
    if (rc < 0)
        return rc;
    yaml_scan_spaces(r);
    if (yaml_scan_peek(r) == ':')
        return parse_mapping(r, node, &scalar);
    rc = yaml_type_value(&r->build, node, &scalar);
    return rc < 0 ? rc : finish_line(r);
}

static int parse_document(struct yaml_reader *r)
{
    struct json *root = NULL;
    int rc = yaml_scan_start(r);
    if (rc == 0)
        rc = json_build_root(&r->build, here(r), &root);
    if (rc == 0 && yaml_scan_peek(r) >= 0)
        rc = parse_block(r, root);
    if (rc < 0 || yaml_scan_peek(r) < 0)
        return rc;
    return yaml_scan_fail(r, "what continues a block above (check the indentation; "
                             "a value ends with its line)");
}

int yaml_parse(const char *text, size_t len, const struct json_limits *limits, struct json **ret,
               struct err *err)
{
    struct yaml_reader r;
    int rc = yaml_scan_init(&r, text, len, limits, err);
    if (rc == 0)
        rc = parse_document(&r);
    *ret = rc == 0 ? json_build_steal(&r.build) : NULL;
    yaml_scan_done(&r);
    return rc;
}
