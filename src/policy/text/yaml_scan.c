/* White space, comments and scalars of the YAML subset. The text is hostile; it is checked once, as
 * a whole, for characters that some readers take for an end of line or do not take at all. */
#include "policy/text/yaml_scan.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int yaml_scan_peek(const struct yaml_reader *r)
{
    return json_cursor_peek(&r->cursor, 0);
}

int yaml_scan_fail(struct yaml_reader *r, const char *expected)
{
    return json_build_fail(&r->build, json_cursor_pos(&r->cursor), "found %s, expected %s",
                           json_cursor_found(&r->cursor).text, expected);
}

void yaml_scalar_done(struct yaml_scalar *s)
{
    free(s->text);
    s->text = NULL;
}

/* Line ends are LF and CR LF. YAML 1.1 also had NEL, LS, PS and a bare CR. */
static bool is_allowed(uint32_t code, int next)
{
    if (code == '\r')
        return next == '\n';
    if (code < 0x20)
        return code == '\n' || code == '\t';
    if (code >= 0x7F && code < 0xA0)
        return false;
    return code != 0x2028 && code != 0x2029 && code != 0xFEFF && code != 0xFFFE && code != 0xFFFF;
}

static int check_characters(struct yaml_reader *r)
{
    struct json_cursor *c = &r->cursor;
    while (c->at < c->len) {
        uint32_t code;
        size_t n = utf8_decode(c->text + c->at, c->len - c->at, &code);
        if (n == 0)
            return yaml_scan_fail(r, "UTF-8");
        if (!is_allowed(code, json_cursor_peek(c, 1)))
            return json_build_fail(&r->build, json_cursor_pos(c),
                                   "found the character U+%04" PRIX32 ", expected printable text "
                                   "(escape it in double quotes)",
                                   code);
        if (code == '\n')
            json_cursor_newline(c);
        else
            c->at += n;
    }
    *c = (struct json_cursor){.text = c->text, .len = c->len, .line = 1};
    return 0;
}

int yaml_scan_init(struct yaml_reader *r, const char *text, size_t len,
                   const struct json_limits *limits, struct err *err)
{
    *r = (struct yaml_reader){.cursor = {.text = text, .len = len, .line = 1}};
    buf_init(&r->scratch, len);
    int rc = json_build_init(&r->build, limits, len, err);
    return rc < 0 ? rc : check_characters(r);
}

void yaml_scan_done(struct yaml_reader *r)
{
    buf_done(&r->scratch);
    json_build_done(&r->build);
}

static bool is_line_end(int byte)
{
    return byte < 0 || byte == '\n' || byte == '\r';
}

static bool is_blank(int byte)
{
    return byte == ' ' || is_line_end(byte);
}

/* A comment starts at a '#' that has white space, or nothing, before it. */
static bool at_comment(const struct yaml_reader *r)
{
    const struct json_cursor *c = &r->cursor;
    return yaml_scan_peek(r) == '#' && (c->at == c->line_start || c->text[c->at - 1] == ' ');
}

bool yaml_scan_line_ends(const struct yaml_reader *r)
{
    return is_line_end(yaml_scan_peek(r)) || at_comment(r);
}

void yaml_scan_spaces(struct yaml_reader *r)
{
    while (yaml_scan_peek(r) == ' ')
        r->cursor.at++;
}

static void skip_blank_lines(struct yaml_reader *r)
{
    for (;;) {
        yaml_scan_spaces(r);
        if (at_comment(r))
            while (!is_line_end(yaml_scan_peek(r)))
                r->cursor.at++;
        if (yaml_scan_peek(r) == '\r')
            r->cursor.at++;
        if (yaml_scan_peek(r) != '\n')
            return;
        json_cursor_newline(&r->cursor);
    }
}

static bool at_marker(const struct yaml_reader *r, const char *marker)
{
    const struct json_cursor *c = &r->cursor;
    return c->at == c->line_start && c->len - c->at >= 3 &&
           memcmp(c->text + c->at, marker, 3) == 0 && is_blank(json_cursor_peek(c, 3));
}

int yaml_scan_next(struct yaml_reader *r)
{
    skip_blank_lines(r);
    if (yaml_scan_peek(r) == '\t')
        return yaml_scan_fail(r, "spaces (tabs are not supported in policies)");
    if (at_marker(r, "---"))
        return yaml_scan_fail(r, "one document (several are not supported in policies)");
    if (at_marker(r, "..."))
        return yaml_scan_fail(r, "no document end marker (not supported in policies)");
    return 0;
}

int yaml_scan_start(struct yaml_reader *r)
{
    skip_blank_lines(r);
    if (at_marker(r, "---")) {
        r->cursor.at += 3;
        yaml_scan_spaces(r);
        if (!yaml_scan_line_ends(r))
            return yaml_scan_fail(r, "the end of the line after ---");
    }
    return yaml_scan_next(r);
}

int yaml_scan_indent(const struct yaml_reader *r)
{
    if (r->cursor.at >= r->cursor.len)
        return -1;
    return (int)(r->cursor.at - r->cursor.line_start);
}

bool yaml_scan_dash(const struct yaml_reader *r)
{
    return yaml_scan_peek(r) == '-' && is_blank(json_cursor_peek(&r->cursor, 1));
}

bool yaml_scan_colon(const struct yaml_reader *r, bool flow)
{
    return yaml_scan_peek(r) == ':' && (flow || is_blank(json_cursor_peek(&r->cursor, 1)));
}

static int keep_scratch(struct yaml_reader *r, struct yaml_scalar *ret)
{
    ret->text = r->scratch.failed ? NULL : strndup(buf_text(&r->scratch), r->scratch.len);
    return ret->text ? 0 : json_build_no_memory(&r->build);
}

static int fail_open_quote(struct yaml_reader *r, const char *expected)
{
    if (yaml_scan_peek(r) == '\t')
        return yaml_scan_fail(r, "no tab in a scalar (write \\t in double quotes)");
    return yaml_scan_fail(r, expected);
}

static int scan_single_quoted(struct yaml_reader *r)
{
    r->cursor.at++;
    for (;;) {
        int byte = yaml_scan_peek(r);
        if (is_line_end(byte) || byte == '\t')
            return fail_open_quote(r, "the closing ' on the same line");
        r->cursor.at++;
        if (byte == '\'' && yaml_scan_peek(r) != '\'')
            return 0;
        if (byte == '\'')
            r->cursor.at++;
        buf_chr(&r->scratch, (char)byte);
    }
}

/* The digits of \xNN, \uNNNN and \UNNNNNNNN, which all name one character. */
static int scan_hex(struct yaml_reader *r, int digits)
{
    struct json_pos pos = json_cursor_pos(&r->cursor);
    uint32_t code = 0, again;
    for (int i = 0; i < digits; i++, r->cursor.at++) {
        int value = hex_digit(yaml_scan_peek(r));
        if (value < 0)
            return yaml_scan_fail(r, "a hexadecimal digit");
        code = code << 4 | (uint32_t)value;
    }
    char out[4];
    bool character = code > 0 && code <= 0x10FFFF;
    size_t n = character ? utf8_encode(code, out) : 0;
    if (n == 0 || utf8_decode(out, n, &again) != n)
        return json_build_fail(&r->build, pos,
                               "found U+%04" PRIX32 ", expected a character other than NUL and "
                               "surrogates",
                               code);
    buf_add(&r->scratch, out, n);
    return 0;
}

static int scan_escape(struct yaml_reader *r)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    int byte = json_cursor_peek(&r->cursor, 1);
    int digits = byte == 'x' ? 2 : byte == 'u' ? 4 : byte == 'U' ? 8 : 0;
    const char *name = byte > 0 ? strchr(names, byte) : NULL;
    r->cursor.at++;
    if (!digits && !name)
        return yaml_scan_fail(r, "one of \" \\ / b f n r t x u U after a backslash");
    r->cursor.at++;
    if (digits)
        return scan_hex(r, digits);
    buf_chr(&r->scratch, values[name - names]);
    return 0;
}

static int scan_double_quoted(struct yaml_reader *r)
{
    r->cursor.at++;
    for (;;) {
        int byte = yaml_scan_peek(r);
        if (is_line_end(byte) || byte == '\t')
            return fail_open_quote(r, "the closing \" on the same line");
        if (byte == '\\') {
            int rc = scan_escape(r);
            if (rc < 0)
                return rc;
            continue;
        }
        r->cursor.at++;
        if (byte == '"')
            return 0;
        buf_chr(&r->scratch, (char)byte);
    }
}

static const char *unsupported(int byte)
{
    switch (byte) {
    case '&':
        return "anchors (&name)";
    case '*':
        return "aliases (*name)";
    case '!':
        return "tags (!type)";
    case '|':
    case '>':
        return "block scalars (| and >)";
    case '%':
        return "directives (%NAME)";
    case '?':
        return "complex keys (? key)";
    case '@':
    case '`':
        return "values that start with @ or `";
    default:
        return NULL;
    }
}

/* A plain scalar may not start with a character that means something to YAML. */
static int check_plain_start(struct yaml_reader *r)
{
    int byte = yaml_scan_peek(r), next = json_cursor_peek(&r->cursor, 1);
    const char *what = unsupported(byte);
    if (what) {
        int rc = json_build_fail(&r->build, json_cursor_pos(&r->cursor),
                                 "%s are not supported in policies", what);
        err_hint(r->build.err, "put it in quotes if it is meant as text");
        return rc;
    }
    if (byte == '-' && (is_blank(next) || strchr(",[]{}", next)))
        return yaml_scan_fail(r, "a value (a list in block style starts on its own line)");
    if (is_line_end(byte) || strchr("#:,[]{}", byte))
        return yaml_scan_fail(r, "a value");
    return 0;
}

static bool ends_plain(const struct yaml_reader *r, bool flow)
{
    int byte = yaml_scan_peek(r);
    if (is_line_end(byte) || at_comment(r))
        return true;
    if (byte == ':' && is_blank(json_cursor_peek(&r->cursor, 1)))
        return true;
    return flow && strchr(",[]{}", byte);
}

static int scan_plain(struct yaml_reader *r, bool flow)
{
    size_t start = r->cursor.at;
    int rc = check_plain_start(r);
    if (rc < 0)
        return rc;
    while (!ends_plain(r, flow)) {
        int byte = yaml_scan_peek(r), next = json_cursor_peek(&r->cursor, 1);
        if (byte == '\t')
            return yaml_scan_fail(r, "spaces (tabs are not supported in policies)");
        if (flow && byte == ':' && strchr(",[]{}?", next))
            return yaml_scan_fail(r, "a space after it, or quotes around the text");
        r->cursor.at++;
    }
    size_t end = r->cursor.at;
    while (end > start && r->cursor.text[end - 1] == ' ')
        end--;
    buf_add(&r->scratch, r->cursor.text + start, end - start);
    return 0;
}

int yaml_scan_scalar(struct yaml_reader *r, bool flow, struct yaml_scalar *ret)
{
    int byte = yaml_scan_peek(r), rc;
    *ret = (struct yaml_scalar){.pos = json_cursor_pos(&r->cursor)};
    buf_reset(&r->scratch);
    if (byte == '"') {
        rc = scan_double_quoted(r);
    } else if (byte == '\'') {
        rc = scan_single_quoted(r);
    } else {
        ret->plain = true;
        rc = scan_plain(r, flow);
    }
    return rc < 0 ? rc : keep_scratch(r, ret);
}
