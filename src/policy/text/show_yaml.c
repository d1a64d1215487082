/* The document of a policy as YAML that brig reads back. Made from the same tree as its JSON, so
 * that the two languages cannot say different things. */
#include "policy/text/show_yaml.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "policy/text/document.h"

#include <string.h>
#include <strings.h>

/* Words that some YAML reads as something else than a text. */
static bool is_yaml_word(const char *text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(words[i], text) == 0)
            return true;
    }
    return false;
}

/* Characters that the reader wants escaped, because YAMLs or terminals disagree about them. */
static bool needs_escape(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
           code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

static void quoted_text(const char *text, struct buf *out)
{
    buf_chr(out, '"');
    while (*text) {
        uint32_t code = 0;
        size_t len = utf8_decode(text, strnlen(text, 4), &code);
        if (len == 0)
            len = 1; /* cannot be: everything in a policy is UTF-8 */
        if (code == '\n')
            buf_str(out, "\\n");
        else if (needs_escape(code))
            buf_fmt(out, "\\u%04x", (unsigned)code);
        else
            buf_fmt(out, "%s%.*s", code == '"' || code == '\\' ? "\\" : "", (int)len, text);
        text += len;
    }
    buf_chr(out, '"');
}

/* "512M", "1m30s", "0.5s": no reader of YAML takes these for a number. */
static bool is_measure(const char *text)
{
    size_t digits = strspn(text, "0123456789.");
    return digits > 0 && text[0] != '.' && text[digits] && strchr("KMGTsmhd", text[digits]) &&
           text[strspn(text, "0123456789.KMGTiBsmhd")] == '\0';
}

/* Plain only where no reader could take it for anything but this text. */
static void show_yaml_text(const char *text, struct buf *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/";
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.-";
    bool word =
        strspn(text, letters) > 0 && text[strspn(text, safe)] == '\0' && !is_yaml_word(text);
    if (word || is_measure(text))
        buf_str(out, text);
    else
        quoted_text(text, out);
}

static void show_value(const struct json *j, struct buf *out);

static void show_flow(const struct json *box, struct buf *out)
{
    bool mapping = json_type(box) == JSON_OBJECT;
    buf_chr(out, mapping ? '{' : '[');
    for (size_t i = 0; i < json_count(box); i++) {
        buf_str(out, i ? ", " : "");
        if (mapping) {
            show_yaml_text(json_key_at(box, i), out);
            buf_str(out, ": ");
        }
        show_value(mapping ? json_value_at(box, i) : json_at(box, i), out);
    }
    buf_chr(out, mapping ? '}' : ']');
}

/* A value that fits behind its key, on the same line. */
static void show_value(const struct json *j, struct buf *out)
{
    struct json_writer w;
    if (json_type(j) == JSON_STRING) {
        show_yaml_text(json_string(j), out);
    } else if (json_type(j) == JSON_ARRAY || json_type(j) == JSON_OBJECT) {
        show_flow(j, out);
    } else {
        jw_init(&w, out, false);
        jw_json(&w, j);
    }
}

/* A text, or a mapping with one line for each member. */
static void show_item(const struct json *item, struct buf *out)
{
    bool mapping = json_type(item) == JSON_OBJECT;
    buf_str(out, "    - ");
    if (!mapping)
        show_value(item, out);
    for (size_t i = 0; mapping && i < json_count(item); i++) {
        buf_fmt(out, "%s%s: ", i ? "\n      " : "", json_key_at(item, i));
        show_value(json_value_at(item, i), out);
    }
    buf_chr(out, '\n');
}

static void show_list(const char *section, const char *key, const struct json *list,
                      const struct yaml_notes *n, struct buf *out)
{
    buf_chr(out, '\n');
    for (size_t i = 0; i < json_count(list); i++) {
        if (n)
            n->comment(n->ctx, section, key, json_at(list, i), "    ", out);
        show_item(json_at(list, i), out);
    }
}

static void show_mapping(const struct json *mapping, struct buf *out)
{
    buf_chr(out, '\n');
    for (size_t i = 0; i < json_count(mapping); i++) {
        buf_str(out, "    ");
        show_yaml_text(json_key_at(mapping, i), out);
        buf_str(out, ": ");
        show_value(json_value_at(mapping, i), out);
        buf_chr(out, '\n');
    }
}

static void show_member(const char *section, const char *key, const struct json *value,
                        const struct yaml_notes *n, struct buf *out)
{
    const char *indent = *section ? "  " : "";
    if (n)
        n->comment(n->ctx, section, key, NULL, indent, out);
    buf_fmt(out, "%s%s:", indent, key);
    if (json_type(value) == JSON_ARRAY && json_count(value)) {
        show_list(section, key, value, n, out);
    } else if (json_type(value) == JSON_OBJECT && json_count(value)) {
        show_mapping(value, out);
    } else {
        buf_chr(out, ' ');
        show_value(value, out);
        buf_chr(out, '\n');
    }
}

/* Its heading only where something is left to stand below it. */
static void show_section(const char *section, const struct json *members,
                         const struct yaml_notes *n, struct buf *out)
{
    bool any = false;
    for (size_t i = 0; i < json_count(members); i++) {
        const char *key = json_key_at(members, i);
        const struct json *value = json_value_at(members, i);
        if (n && !n->keep(n->ctx, section, key, value))
            continue;
        if (!any && *section)
            buf_fmt(out, "%s:\n", section);
        any = true;
        if (*section || json_type(value) != JSON_OBJECT)
            show_member(section, key, value, n, out);
        else
            show_section(key, value, n, out);
    }
}

void show_yaml(const struct policy *p, const struct yaml_notes *n, struct buf *out)
{
    struct json *tree = policy_tree(p, out->cap);
    if (tree)
        show_section("", tree, n, out);
    else
        out->failed = true;
    json_free(tree);
}

void policy_show_yaml(const struct policy *p, struct buf *out)
{
    show_yaml(p, NULL, out);
}
