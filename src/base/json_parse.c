/* The JSON reader. Its text is hostile: it does no I/O, every step forward is checked against the
 * end, and nesting, values and bytes are counted by the builder before anything grows. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/json_build.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    struct json_cursor cursor;
    struct json_builder build;
    char *place; /* the text again, where it may be changed */
};

static int peek(const struct reader *r)
{
    return json_cursor_peek(&r->cursor, 0);
}

static int fail_expected(struct reader *r, const char *expected)
{
    return json_build_fail(&r->build, json_cursor_pos(&r->cursor), "found %s, expected %s",
                           json_cursor_found(&r->cursor).text, expected);
}

static void skip_space(struct reader *r)
{
    for (;;) {
        int byte = peek(r);
        if (byte == '\n')
            json_cursor_newline(&r->cursor);
        else if (byte == ' ' || byte == '\t' || byte == '\r')
            r->cursor.at++;
        else
            return;
    }
}

static bool is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static int skip_digits(struct reader *r)
{
    if (!is_digit(peek(r)))
        return fail_expected(r, "a digit");
    while (is_digit(peek(r)))
        r->cursor.at++;
    return 0;
}

static int skip_whole_part(struct reader *r)
{
    if (peek(r) == '-')
        r->cursor.at++;
    if (peek(r) != '0')
        return skip_digits(r);
    r->cursor.at++;
    if (is_digit(peek(r)))
        return fail_expected(r, "no digit after a leading zero");
    return 0;
}

static int skip_exponent(struct reader *r)
{
    r->cursor.at++;
    if (peek(r) == '+' || peek(r) == '-')
        r->cursor.at++;
    return skip_digits(r);
}

static int parse_number(struct reader *r, struct json *node)
{
    size_t start = r->cursor.at;
    bool whole = true;
    int rc = skip_whole_part(r);
    if (rc == 0 && peek(r) == '.') {
        whole = false;
        r->cursor.at++;
        rc = skip_digits(r);
    }
    if (rc == 0 && (peek(r) == 'e' || peek(r) == 'E')) {
        whole = false;
        rc = skip_exponent(r);
    }
    if (rc < 0)
        return rc;
    const char *text = r->cursor.text + start;
    size_t len = r->cursor.at - start;
    return whole ? json_build_int(&r->build, node, text, len)
                 : json_build_real(&r->build, node, text, len);
}

/* How many bytes stand between the quotes; the cursor is after the opening one. Columns stay right
 * because a string cannot contain a line feed. */
static int measure_string(struct reader *r, size_t *ret)
{
    struct json_cursor ahead = r->cursor;
    for (;;) {
        int byte = json_cursor_peek(&ahead, 0);
        if (byte >= 0x20 && byte != '"' && byte != '\\') {
            ahead.at += json_string_run(ahead.text + ahead.at, ahead.len - ahead.at);
            byte = json_cursor_peek(&ahead, 0);
        }
        if (byte == '"')
            break;
        if (byte < 0x20) {
            r->cursor.at = ahead.at;
            return fail_expected(r, byte < 0 ? "the closing '\"' of a string"
                                             : "no control character in a string (use \\u)");
        }
        while (byte == '\\' && json_cursor_peek(&ahead, 1) >= 0x20) {
            ahead.at += 2;
            byte = json_cursor_peek(&ahead, 0);
        }
        ahead.at += byte == '\\'; /* before a control character, which is found next */
    }
    *ret = ahead.at - r->cursor.at;
    return 0;
}

static int parse_hex4(struct reader *r, uint32_t *ret)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(peek(r));
        if (digit < 0)
            return fail_expected(r, "four hexadecimal digits after \\u");
        value = value << 4 | (uint32_t)digit;
        r->cursor.at++;
    }
    *ret = value;
    return 0;
}

/* After "\u": one character, which takes two escapes if it lies beyond U+FFFF. */
static int parse_unicode_escape(struct reader *r, uint32_t *ret)
{
    struct json_pos pos = json_cursor_pos(&r->cursor);
    pos.column -= 2;
    uint32_t high = 0, low = 0;
    int rc = parse_hex4(r, &high);
    if (rc < 0)
        return rc;
    if (high == 0)
        return json_build_fail(&r->build, pos, "found \\u0000, expected no NUL in a string");
    if (high < 0xD800 || high > 0xDFFF) {
        *ret = high;
        return 0;
    }
    bool pair = high < 0xDC00 && peek(r) == '\\' && json_cursor_peek(&r->cursor, 1) == 'u';
    if (pair) {
        r->cursor.at += 2;
        rc = parse_hex4(r, &low);
        if (rc < 0)
            return rc;
        pair = low >= 0xDC00 && low <= 0xDFFF;
    }
    if (!pair)
        return json_build_fail(&r->build, pos, "found half of a surrogate pair, expected both");
    *ret = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    return 0;
}

/* What stands after a backslash, and what it means; 0: nothing. */
static const char simple_escapes[256] = {
    ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
    ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
};

static int parse_escape(struct reader *r, uint32_t *ret)
{
    int byte = json_cursor_peek(&r->cursor, 1);
    if (byte == 'u') {
        r->cursor.at += 2;
        return parse_unicode_escape(r, ret);
    }
    *ret = byte < 0 ? 0 : (unsigned char)simple_escapes[byte];
    if (!*ret) {
        r->cursor.at++;
        return fail_expected(r, "one of \" \\ / b f n r t u after a backslash");
    }
    r->cursor.at += 2;
    return 0;
}

static int parse_character(struct reader *r, uint32_t *ret)
{
    if (peek(r) == '\\')
        return parse_escape(r, ret);
    size_t n = utf8_decode(r->cursor.text + r->cursor.at, r->cursor.len - r->cursor.at, ret);
    if (n == 0)
        return fail_expected(r, "UTF-8");
    r->cursor.at += n;
    return 0;
}

/* "\uXXXX" that is a character by itself; 0: it is none, or half of one. */
static uint32_t unit_at(const unsigned char *text)
{
    int a = hex_digit(text[2]), b = hex_digit(text[3]), c = hex_digit(text[4]);
    int d = hex_digit(text[5]);
    if ((a | b | c | d) < 0)
        return 0;
    uint32_t code = (uint32_t)a << 12 | (uint32_t)b << 8 | (uint32_t)c << 4 | (uint32_t)d;
    return code >= 0xD800 && code <= 0xDFFF ? 0 : code;
}

/* A text of escapes alone is the longest to read, and nobody else is served meanwhile: the usual
 * ones are not looked at byte by byte. What is unusual or wrong is left to parse_character. */
static size_t decode_escapes(struct reader *r, char *string, size_t end)
{
    const unsigned char *text = (const unsigned char *)r->cursor.text;
    size_t at = r->cursor.at, len = 0;
    while (at + 1 < end && text[at] == '\\') {
        char simple = simple_escapes[text[at + 1]];
        uint32_t code = 0;
        if (!simple && (text[at + 1] != 'u' || end - at < 6 || !(code = unit_at(text + at))))
            break;
        if (simple)
            string[len++] = simple;
        else
            len += utf8_encode(code, string + len);
        at += simple ? 2 : 6;
    }
    r->cursor.at = at;
    return len;
}

static void move_run(char *to, const char *from, size_t run)
{
    if (to == from)
        return;
    if (run > 16) {
        memmove(to, from, run);
        return;
    }
    for (size_t i = 0; i < run; i++) /* to lies before from */
        to[i] = from[i];
}

/* No escape is shorter than what it stands for, so the decoded string fits where the raw one did.
 */
static int decode_string(struct reader *r, char *string, size_t end)
{
    size_t len = 0;
    while (r->cursor.at < end) {
        const char *from = r->cursor.text + r->cursor.at;
        int byte = (unsigned char)*from;
        if (byte == '\\') {
            size_t written = decode_escapes(r, string + len, end);
            len += written;
            if (written)
                continue;
        }
        size_t run = byte >= 0x80   ? utf8_run(from, end - r->cursor.at)
                     : byte != '\\' ? json_plain_run(from, end - r->cursor.at)
                                    : 0;
        move_run(string + len, from, run);
        len += run;
        r->cursor.at += run;
        if (run)
            continue;
        uint32_t code;
        int rc = parse_character(r, &code);
        if (rc < 0)
            return rc;
        len += utf8_encode(code, string + len);
    }
    string[len] = '\0'; /* where the closing quote stood, if not before it */
    r->cursor.at++;
    return 0;
}

/* *ret is the caller's, or a part of the text. */
static int parse_string(struct reader *r, char **ret)
{
    size_t raw = 0;
    r->cursor.at++;
    int rc = measure_string(r, &raw);
    if (rc < 0)
        return rc;
    size_t end = r->cursor.at + raw;
    if (r->place) {
        *ret = r->place + r->cursor.at;
        return decode_string(r, *ret, end);
    }
    rc = json_build_take(&r->build, raw + 1);
    if (rc < 0)
        return rc;
    cleanup_free char *string = malloc(raw + 1);
    if (!string)
        return json_build_no_memory(&r->build);
    rc = decode_string(r, string, end);
    if (rc < 0)
        return rc;
    *ret = string;
    string = NULL;
    return 0;
}

static int parse_value(struct reader *r, struct json *node);

static int parse_item(struct reader *r, struct json *array)
{
    struct json *item;
    int rc = json_build_item(&r->build, array, json_cursor_pos(&r->cursor), &item);
    return rc < 0 ? rc : parse_value(r, item);
}

static int parse_member(struct reader *r, struct json *object)
{
    struct json_pos key_pos = json_cursor_pos(&r->cursor);
    char *key;
    struct json *value;
    if (peek(r) != '"')
        return fail_expected(r, "a key in double quotes");
    int rc = parse_string(r, &key);
    if (rc == 0)
        rc = json_build_member(&r->build, object, key, key_pos, &value);
    if (rc < 0)
        return rc;
    skip_space(r);
    if (peek(r) != ':')
        return fail_expected(r, "':' after a key");
    r->cursor.at++;
    skip_space(r);
    value->pos = json_cursor_pos(&r->cursor);
    return parse_value(r, value);
}

/* Arrays and objects differ only in what stands between the commas. */
static int parse_box(struct reader *r, struct json *node, enum json_type type)
{
    const int closing = type == JSON_ARRAY ? ']' : '}';
    int rc = json_build_open(&r->build, node, type);
    if (rc < 0)
        return rc;
    r->cursor.at++;
    skip_space(r);
    while (peek(r) != closing || node->count > 0) {
        rc = type == JSON_ARRAY ? parse_item(r, node) : parse_member(r, node);
        if (rc < 0)
            return rc;
        skip_space(r);
        if (peek(r) == closing)
            break;
        if (peek(r) != ',')
            return fail_expected(r, type == JSON_ARRAY ? "',' or ']'" : "',' or '}'");
        r->cursor.at++;
        skip_space(r);
    }
    r->cursor.at++;
    return json_build_close(&r->build, node);
}

static bool take_word(struct reader *r, const char *word)
{
    size_t len = strlen(word);
    if (len > r->cursor.len - r->cursor.at || memcmp(r->cursor.text + r->cursor.at, word, len) != 0)
        return false;
    r->cursor.at += len;
    return true;
}

static int parse_word(struct reader *r, struct json *node)
{
    if (take_word(r, "null"))
        return 0;
    bool yes = take_word(r, "true");
    if (!yes && !take_word(r, "false"))
        return fail_expected(r, "a value");
    node->type = JSON_BOOL;
    node->boolean = yes;
    return 0;
}

static int parse_value(struct reader *r, struct json *node)
{
    int byte = peek(r);
    if (byte == '{')
        return parse_box(r, node, JSON_OBJECT);
    if (byte == '[')
        return parse_box(r, node, JSON_ARRAY);
    if (byte == '-' || is_digit(byte))
        return parse_number(r, node);
    if (byte != '"')
        return parse_word(r, node);
    char *string = NULL;
    int rc = parse_string(r, &string);
    if (rc == 0)
        json_build_string(node, string);
    return rc;
}

static int parse_document(struct reader *r)
{
    struct json *root;
    skip_space(r);
    int rc = json_build_root(&r->build, json_cursor_pos(&r->cursor), &root);
    if (rc == 0)
        rc = parse_value(r, root);
    if (rc < 0)
        return rc;
    skip_space(r);
    if (peek(r) >= 0)
        return fail_expected(r, "nothing after the value");
    return 0;
}

static int parse(const char *text, char *place, size_t len, const struct json_limits *limits,
                 struct json **ret, struct err *err)
{
    struct reader r = {.cursor = {.text = text, .len = len, .line = 1}, .place = place};
    int rc = json_build_init(&r.build, limits, len, err);
    r.build.in_place = place != NULL;
    if (rc == 0)
        rc = parse_document(&r);
    *ret = rc == 0 ? json_build_steal(&r.build) : NULL;
    json_build_done(&r.build);
    return rc;
}

int json_parse(const char *text, size_t len, const struct json_limits *limits, struct json **ret,
               struct err *err)
{
    return parse(text, NULL, len, limits, ret, err);
}

int json_parse_in_place(char *text, size_t len, const struct json_limits *limits, struct json **ret,
                        struct err *err)
{
    return parse(text, text, len, limits, ret, err);
}
