/* Reads bodies of requests far enough to know the names of their members: see form.h. */
#include "http/form.h"

#include "base/hex.h"
#include "http/multipart.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of a longer name so much is looked at: there are readers to whom it ends early, at a NUL. */
#define NAME_ROOM 256

struct form_reader {
    enum form_kind kind;
    form_name_fn *wanted;
    char name[NAME_ROOM];
    size_t len;    /* of what was read of it */
    bool in_value; /* FORM_URLENCODED */

    unsigned depth; /* FORM_JSON: of arrays and objects */
    bool object;    /* the outermost one is */
    bool key_next;  /* the next string is a name */
    bool in_string, in_name;
    bool begun;      /* something other than a byte order mark was read */
    unsigned escape; /* 1: after a backslash; 2 to 5: so many digits of \u, less one, were read */
    uint32_t code;

    struct multipart *parts; /* FORM_MULTIPART */
};

static bool type_has(const char *type, const char *word)
{
    return strcasestr(type, word) != NULL;
}

/* The type itself, without its parameters. */
static bool type_is(const char *type, const char *name)
{
    size_t len = strlen(name);
    return strncasecmp(type, name, len) == 0 && (!type[len] || strchr("; \t", type[len]));
}

/* Some servers look for a word in all of it, others compare what stands before the parameters: what
 * has the word of one kind and is of another one is both. */
enum form_kind form_kind_of(const char *type)
{
    if (!type || !type[strspn(type, " \t")])
        return FORM_URLENCODED;
    bool parts = type_has(type, "multipart/"), json = type_has(type, "json");
    if (type_has(type, "urlencoded"))
        return parts || json ? FORM_UNCLEAR : FORM_URLENCODED;
    if (type_has(type, "multipart/form-data"))
        return type_is(type, "multipart/form-data") ? FORM_MULTIPART : FORM_UNCLEAR;
    if (parts)
        return FORM_WORDS;
    return json ? FORM_JSON : FORM_NONE;
}

int form_open(enum form_kind kind, const char *type, form_name_fn *wanted, struct form_reader **ret,
              struct err *err)
{
    struct form_reader *f = calloc(1, sizeof *f);
    if (!f)
        return err_memory(err);
    f->kind = kind;
    f->wanted = wanted;
    if (kind == FORM_MULTIPART) {
        f->parts = malloc(sizeof *f->parts);
        int r = f->parts ? multipart_init(f->parts, type, err)
                         : err_sys(err, "memory to look at a form");
        if (r < 0) {
            form_close(f);
            return r;
        }
    }
    *ret = f;
    return 0;
}

void form_close(struct form_reader *f)
{
    if (!f)
        return;
    free(f->parts);
    free(f);
}

static void add(struct form_reader *f, char c)
{
    if (f->len < NAME_ROOM)
        f->name[f->len++] = c;
}

static bool is_wanted(const struct form_reader *f)
{
    return f->wanted(f->name, f->len);
}

/* ---- a=1&b=2 ---- */

/* Blanks in front are cut off by some, and could be many. */
static void skip_blanks(struct form_reader *f)
{
    if (f->len == 1 && (f->name[0] == '+' || f->name[0] == ' '))
        f->len = 0;
    else if (f->len == 3 && memcmp(f->name, "%20", 3) == 0)
        f->len = 0;
}

static int feed_urlencoded(struct form_reader *f, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (c == '&' || c == ';') {
            f->len = 0;
            f->in_value = false;
        } else if (c == '=' && !f->in_value) {
            if (is_wanted(f))
                return 1;
            f->in_value = true;
        } else if (!f->in_value) {
            add(f, c);
            skip_blanks(f);
        }
    }
    return 0;
}

/* ---- JSON ---- */

/* One character after a backslash. */
static void read_escape(struct form_reader *f, char c)
{
    if (f->escape == 1 && c == 'u') {
        f->escape = 2;
        f->code = 0;
        return;
    }
    if (f->escape == 1) {
        f->escape = 0;
        if (f->in_name)
            add(f, c);
        return;
    }
    f->code = f->code << 4 | (uint32_t)(hex_digit(c) & 15);
    if (++f->escape < 6)
        return;
    f->escape = 0;
    if (f->in_name)
        add(f, f->code < 0x80 ? (char)f->code : '?');
}

/* True: a name has ended, and it is the one. */
static bool read_in_string(struct form_reader *f, char c)
{
    if (f->escape) {
        read_escape(f, c);
    } else if (c == '\\') {
        f->escape = 1;
    } else if (c == '"') {
        bool name = f->in_name;
        f->in_string = f->in_name = false;
        return name && is_wanted(f);
    } else if (f->in_name) {
        add(f, c);
    }
    return false;
}

/* Comments, names without quotes or in single ones, UTF-16: what some readers take for JSON and
 * others do not would be read there in another way than here. */
static bool is_json(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr(" \t\r\n\x1e,:{}[]\"+-.", c));
}

static void read_between(struct form_reader *f, char c)
{
    switch (c) {
    case '"':
        f->in_string = true;
        f->in_name = f->depth == 1 && f->object && f->key_next;
        f->key_next = false;
        f->len = 0;
        break;
    case '{':
    case '[':
        f->object = f->depth == 0 ? c == '{' : f->object;
        f->depth += f->depth < UINT32_MAX;
        f->key_next = f->depth == 1;
        break;
    case '}':
    case ']':
        f->depth -= f->depth > 0;
        break;
    case ',':
        f->key_next = f->depth == 1;
        break;
    default:
        break;
    }
}

static int feed_json(struct form_reader *f, const char *data, size_t len, struct err *err)
{
    for (size_t i = 0; i < len; i++) {
        if (!f->begun && data[i] && strchr("\xef\xbb\xbf", data[i]))
            continue;
        f->begun = true;
        if (f->in_string) {
            if (read_in_string(f, data[i]))
                return 1;
        } else if (is_json(data[i])) {
            read_between(f, data[i]);
        } else {
            return err_set(err, ERR_USAGE, "JSON with a byte between its values that none has");
        }
    }
    return 0;
}

/* ---- multipart ---- */

static int feed_multipart(struct form_reader *f, const char *data, size_t len, struct err *err)
{
    while (len > 0) {
        enum multipart_event event;
        ssize_t n = multipart_read(f->parts, data, len, &event, err);
        if (n < 0)
            return (int)n;
        if (event == MULTIPART_PART && f->parts->escapes)
            return err_set(err, ERR_USAGE, "multipart: a quote within a name, not written as %%22");
        if (event == MULTIPART_PART && f->wanted(f->parts->name, strlen(f->parts->name)))
            return 1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* ---- every word ---- */

/* Up to any byte that ends a name somewhere, in a header, in quotes or in a form. */
static int feed_words(struct form_reader *f, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] && !strchr("\"'=;:,<>& \t\r\n", data[i])) {
            add(f, data[i]);
            continue;
        }
        if (f->len && is_wanted(f))
            return 1;
        f->len = 0;
    }
    return 0;
}

int form_feed(struct form_reader *f, const char *data, size_t len, struct err *err)
{
    switch (f->kind) {
    case FORM_URLENCODED:
        return feed_urlencoded(f, data, len);
    case FORM_JSON:
        return feed_json(f, data, len, err);
    case FORM_MULTIPART:
        return feed_multipart(f, data, len, err);
    case FORM_WORDS:
        return feed_words(f, data, len);
    case FORM_NONE:
    case FORM_UNCLEAR:
        break;
    }
    return 0;
}
