/* The JSON reader. Its text is hostile: it does no I/O, every step forward is checked against the
 * end, and nesting, values and bytes are counted by the builder before anything grows.
 *
 * It can stop after every few bytes and go on later, because a process that serves others cannot
 * read 16 MiB in one go: where it stands is in `struct json_parser`, not on the stack. `fuel` is
 * what may still be done before it stops, in bytes of text or what takes as long. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/json_build.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* What comes next in the text. */
enum next {
    NEXT_ROOT,
    NEXT_FIRST,  /* of a container, or its end */
    NEXT_MEMBER, /* after a comma */
    NEXT_COLON,
    NEXT_MEMBER_VALUE, /* after a colon */
    NEXT_VALUE,
    NEXT_LENGTH, /* of a string, of which the first quote was read */
    NEXT_STRING,
    NEXT_COMMA, /* or the end of the container, or of the text */
    NEXT_CLOSED,
    NEXT_NOTHING,
};

struct json_parser {
    struct json_cursor cursor;
    struct json_builder build;
    char *place; /* the text again, where it may be changed */
    size_t fuel;
    enum next next;
    bool is_key;
    struct json *node; /* the value that is read, or the container that is closed */
    struct json *open[JSON_DEPTH_CEILING];
    unsigned depth;
    struct json_pos key_pos;
    size_t ahead;  /* up to here the string was looked through */
    char *string;  /* being written; ours, unless it is a part of the text */
    size_t end;    /* where its closing quote stands */
    size_t length; /* of what was written */
};
#define A_VALUE   64 /* takes as long as so many bytes */
#define CHARACTER 4  /* bytes at most */

static int peek(const struct json_parser *r)
{
    return json_cursor_peek(&r->cursor, 0);
}

static int fail_expected(struct json_parser *r, const char *expected)
{
    return json_build_fail(&r->build, json_cursor_pos(&r->cursor), "found %s, expected %s",
                           json_cursor_found(&r->cursor).text, expected);
}

static void spend(struct json_parser *r, size_t work)
{
    r->fuel = work < r->fuel ? r->fuel - work : 0;
}

/* As far as it may go now, and no further than `end`. */
static size_t stop_at(const struct json_parser *r, size_t from, size_t end)
{
    return r->fuel < end - from ? from + r->fuel : end;
}

/* False: there may be more of it later. */
static bool skip_space(struct json_parser *r)
{
    size_t from = r->cursor.at, stop = stop_at(r, from, r->cursor.len);
    for (;;) {
        int byte = peek(r);
        bool space = byte == '\n' || byte == ' ' || byte == '\t' || byte == '\r';
        if (!space || r->cursor.at == stop) {
            spend(r, r->cursor.at - from);
            return !space;
        }
        if (byte == '\n')
            json_cursor_newline(&r->cursor);
        else
            r->cursor.at++;
    }
}

static bool is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

/* One that is longer than any that is taken is not read to its end. */
static int skip_digits(struct json_parser *r)
{
    size_t stop = r->cursor.at + JSON_NUMBER_MAX + 1;
    if (!is_digit(peek(r)))
        return fail_expected(r, "a digit");
    while (is_digit(peek(r)) && r->cursor.at < stop)
        r->cursor.at++;
    return 0;
}

static int skip_whole_part(struct json_parser *r)
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

static int skip_exponent(struct json_parser *r)
{
    r->cursor.at++;
    if (peek(r) == '+' || peek(r) == '-')
        r->cursor.at++;
    return skip_digits(r);
}

static int parse_number(struct json_parser *r, struct json *node)
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

static int begin_string(struct json_parser *r, bool is_key)
{
    r->is_key = is_key;
    r->ahead = ++r->cursor.at;
    r->next = NEXT_LENGTH;
    return 0;
}

/* Room for what stands between the quotes: no escape is shorter than what it stands for, so the
 * decoded string fits where the raw one did. */
static int make_room(struct json_parser *r, size_t end)
{
    size_t raw = end - r->cursor.at;
    r->end = end;
    r->length = 0;
    r->next = NEXT_STRING;
    if (r->place) {
        r->string = r->place + r->cursor.at;
        return 0;
    }
    int rc = json_build_take(&r->build, raw + 1);
    if (rc < 0)
        return rc;
    r->string = malloc(raw + 1);
    return r->string ? 0 : json_build_no_memory(&r->build);
}

/* How many bytes stand between the quotes; the cursor is after the opening one. Columns stay right
 * because a string cannot contain a line feed. */
static int measure_string(struct json_parser *r)
{
    struct json_cursor ahead = r->cursor;
    ahead.at = r->ahead;
    size_t stop = stop_at(r, ahead.at, ahead.len);
    while (ahead.at < stop) {
        int byte = json_cursor_peek(&ahead, 0);
        if (byte == '"')
            return make_room(r, ahead.at);
        if (byte < 0x20) {
            r->cursor.at = ahead.at;
            return fail_expected(r, "no control character in a string (use \\u)");
        }
        if (byte != '\\')
            ahead.at += json_string_run(ahead.text + ahead.at, stop - ahead.at);
        else /* alone before a control character, which is found next */
            ahead.at += json_cursor_peek(&ahead, 1) >= 0x20 ? 2 : 1;
    }
    if (ahead.at >= ahead.len) {
        r->cursor.at = ahead.len;
        return fail_expected(r, "the closing '\"' of a string");
    }
    spend(r, ahead.at - r->ahead);
    r->ahead = ahead.at;
    return 0;
}

static int parse_hex4(struct json_parser *r, uint32_t *ret)
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
static int parse_unicode_escape(struct json_parser *r, uint32_t *ret)
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

static int parse_escape(struct json_parser *r, uint32_t *ret)
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

static int parse_character(struct json_parser *r, uint32_t *ret)
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
static size_t decode_escapes(struct json_parser *r, char *string, size_t end)
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

static int string_done(struct json_parser *r)
{
    char *string = r->string;
    string[r->length] = '\0'; /* where the closing quote stood, if not before it */
    r->string = NULL;
    r->cursor.at++;
    if (!r->is_key) {
        json_build_string(r->node, string);
        r->next = NEXT_COMMA;
        return 0;
    }
    r->next = NEXT_COLON;
    return json_build_member(&r->build, r->open[r->depth - 1], string, r->key_pos, &r->node);
}

/* What stands for itself, some of it: characters are not cut in two. */
static size_t copy_run(struct json_parser *r, size_t most)
{
    const char *from = r->cursor.text + r->cursor.at;
    size_t left = r->end - r->cursor.at, run = 0;
    int byte = (unsigned char)*from;
    if (most + CHARACTER < left)
        left = most + CHARACTER;
    if (byte >= 0x80)
        run = utf8_run(from, left);
    else if (byte != '\\')
        run = json_plain_run(from, left);
    move_run(r->string + r->length, from, run);
    r->length += run;
    r->cursor.at += run;
    return run;
}

static int decode_string(struct json_parser *r)
{
    size_t from = r->cursor.at, stop = stop_at(r, from, r->end);
    while (r->cursor.at < stop) {
        size_t written = 0;
        if (r->cursor.text[r->cursor.at] == '\\')
            written = decode_escapes(r, r->string + r->length, stop);
        r->length += written;
        if (written || copy_run(r, stop - r->cursor.at))
            continue;
        uint32_t code;
        int rc = parse_character(r, &code);
        if (rc < 0)
            return rc;
        r->length += utf8_encode(code, r->string + r->length);
    }
    spend(r, 2 * (r->cursor.at - from));
    return r->cursor.at < r->end ? 0 : string_done(r);
}

/* ---- containers ---- */

static int open_box(struct json_parser *r, enum json_type type)
{
    int rc = json_build_open(&r->build, r->node, type);
    if (rc < 0)
        return rc;
    r->open[r->depth++] = r->node;
    r->cursor.at++;
    r->next = NEXT_FIRST;
    return 0;
}

static int close_box(struct json_parser *r)
{
    r->cursor.at++;
    r->node = r->open[--r->depth];
    r->next = NEXT_CLOSED;
    return json_build_close_begin(&r->build, r->node);
}

static bool at_closing(const struct json_parser *r)
{
    return peek(r) == (r->open[r->depth - 1]->type == JSON_ARRAY ? ']' : '}');
}

/* Arrays and objects differ only in what stands between the commas. */
static int read_member(struct json_parser *r)
{
    struct json *box = r->open[r->depth - 1];
    struct json_pos pos = json_cursor_pos(&r->cursor);
    spend(r, A_VALUE);
    if (box->type == JSON_ARRAY) {
        r->next = NEXT_VALUE;
        return json_build_item(&r->build, box, pos, &r->node);
    }
    if (peek(r) != '"')
        return fail_expected(r, "a key in double quotes");
    r->key_pos = pos;
    return begin_string(r, true);
}

static int read_comma(struct json_parser *r)
{
    if (r->depth == 0) {
        r->next = NEXT_NOTHING;
        return peek(r) >= 0 ? fail_expected(r, "nothing after the value") : 0;
    }
    if (at_closing(r))
        return close_box(r);
    if (peek(r) != ',')
        return fail_expected(r, r->open[r->depth - 1]->type == JSON_ARRAY ? "',' or ']'"
                                                                          : "',' or '}'");
    r->cursor.at++;
    r->next = NEXT_MEMBER;
    return 0;
}

static int read_colon(struct json_parser *r)
{
    if (peek(r) != ':')
        return fail_expected(r, "':' after a key");
    r->cursor.at++;
    r->next = NEXT_MEMBER_VALUE;
    return 0;
}

/* ---- values ---- */

static bool take_word(struct json_parser *r, const char *word)
{
    size_t len = strlen(word);
    if (len > r->cursor.len - r->cursor.at || memcmp(r->cursor.text + r->cursor.at, word, len) != 0)
        return false;
    r->cursor.at += len;
    return true;
}

static int parse_word(struct json_parser *r, struct json *node)
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

static int read_value(struct json_parser *r)
{
    int byte = peek(r);
    if (byte == '{' || byte == '[')
        return open_box(r, byte == '{' ? JSON_OBJECT : JSON_ARRAY);
    if (byte == '"')
        return begin_string(r, false);
    r->next = NEXT_COMMA;
    return byte == '-' || is_digit(byte) ? parse_number(r, r->node) : parse_word(r, r->node);
}

static int read_root(struct json_parser *r)
{
    r->next = NEXT_VALUE;
    return json_build_root(&r->build, json_cursor_pos(&r->cursor), &r->node);
}

/* ---- step by step ---- */

static int after_space(struct json_parser *r)
{
    switch (r->next) {
    case NEXT_ROOT:
        return read_root(r);
    case NEXT_FIRST:
        return at_closing(r) ? close_box(r) : read_member(r);
    case NEXT_MEMBER:
        return read_member(r);
    case NEXT_COLON:
        return read_colon(r);
    case NEXT_MEMBER_VALUE:
        r->node->pos = json_cursor_pos(&r->cursor);
        return read_value(r);
    default:
        return read_comma(r);
    }
}

static int step(struct json_parser *r)
{
    int rc;
    switch (r->next) {
    case NEXT_VALUE:
        return read_value(r);
    case NEXT_LENGTH:
        return measure_string(r);
    case NEXT_STRING:
        return decode_string(r);
    case NEXT_CLOSED:
        rc = json_build_close_some(&r->build, r->node, &r->fuel);
        r->next = rc > 0 ? NEXT_COMMA : NEXT_CLOSED;
        return rc < 0 ? rc : 0;
    default:
        return skip_space(r) ? after_space(r) : 0;
    }
}

/* An empty string, and the like, take no fuel: the end of the text is the end of that. */
static int go_on(struct json_parser *r, size_t most, struct json **ret)
{
    int rc = 0;
    r->fuel = most;
    while (rc >= 0 && r->next != NEXT_NOTHING && r->fuel)
        rc = step(r);
    *ret = rc >= 0 && r->next == NEXT_NOTHING ? json_build_steal(&r->build) : NULL;
    return rc < 0 ? rc : r->next == NEXT_NOTHING;
}

static int begin(struct json_parser *r, const char *text, char *place, size_t len,
                 const struct json_limits *limits, struct err *err)
{
    r->cursor = (struct json_cursor){.text = text, .len = len, .line = 1};
    r->place = place;
    r->string = NULL;
    r->depth = 0;
    r->next = NEXT_ROOT;
    int rc = json_build_init(&r->build, limits, len, err);
    r->build.in_place = place != NULL;
    return rc;
}

static void done(struct json_parser *r)
{
    if (!r->place)
        free(r->string);
    json_build_done(&r->build);
}

static int parse(const char *text, char *place, size_t len, const struct json_limits *limits,
                 struct json **ret, struct err *err)
{
    struct json_parser r;
    *ret = NULL;
    int rc = begin(&r, text, place, len, limits, err);
    while (rc == 0)
        rc = go_on(&r, SIZE_MAX, ret);
    done(&r);
    return rc < 0 ? rc : 0;
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

/* ---- in pieces ---- */

struct json_parser *json_parser_new(char *text, size_t len, const struct json_limits *limits,
                                    struct err *err)
{
    struct json_parser *p = malloc(sizeof *p);
    if (!p) {
        err_memory(err);
        return NULL;
    }
    if (begin(p, text, text, len, limits, err) == 0)
        return p;
    json_parser_free(p);
    return NULL;
}

int json_parser_next(struct json_parser *p, size_t most, struct json **ret, struct err *err)
{
    p->build.err = err;
    return go_on(p, most, ret);
}

size_t json_parser_memory(const struct json_parser *p)
{
    if (!p)
        return 0;
    const struct json_sort *s = &p->build.sort; /* which needs its room twice, for a while */
    return p->build.memory + (s->to ? s->count * sizeof *s->to : 0);
}

void json_parser_free(struct json_parser *p)
{
    if (p)
        done(p);
    free(p);
}
