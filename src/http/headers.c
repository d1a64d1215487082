/* Lists of header fields. A parsed head is one block; what is added later has memory of its own and
 * is wiped when it goes, because it may be a credential. */
#include "http/headers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ADDED_MAX 32 /* headers of our own, on top of those that came */

#define TOKEN_CHAR 1
#define VALUE_CHAR 2
static const unsigned char classes[256] = {
    ['\t'] = VALUE_CHAR, [' '] = VALUE_CHAR,
    ['!'] = 3,           ['"'] = VALUE_CHAR,
    ['#' ... '\''] = 3,  ['(' ... ')'] = VALUE_CHAR,
    ['*' ... '+'] = 3,   [','] = VALUE_CHAR,
    ['-' ... '.'] = 3,   ['/'] = VALUE_CHAR,
    ['0' ... '9'] = 3,   [':' ... '@'] = VALUE_CHAR,
    ['A' ... 'Z'] = 3,   ['[' ... ']'] = VALUE_CHAR,
    ['^' ... 'z'] = 3,   ['{'] = VALUE_CHAR,
    ['|'] = 3,           ['}'] = VALUE_CHAR,
    ['~'] = 3,           [0x80 ... 0xff] = VALUE_CHAR,
};

size_t token_span(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && classes[(unsigned char)text[i]] & TOKEN_CHAR)
        i++;
    return i;
}

size_t value_span(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && classes[(unsigned char)text[i]] & VALUE_CHAR)
        i++;
    return i;
}

bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool in_block(const struct http_headers *h, const void *p)
{
    uintptr_t at = (uintptr_t)p;
    uintptr_t block = (uintptr_t)h->block;
    return h->block && at >= block && at < block + h->block_len;
}

static void release(struct http_headers *h, char *text)
{
    if (!text || in_block(h, text))
        return;
    explicit_bzero(text, strlen(text));
    free(text);
}

static void release_item(struct http_headers *h, const struct http_header *item)
{
    release(h, item->name);
    release(h, item->value);
}

void http_headers_done(struct http_headers *h)
{
    for (size_t i = 0; i < h->count; i++)
        release_item(h, &h->items[i]);
    if (!in_block(h, h->items))
        free(h->items);
    free(h->block);
    *h = (struct http_headers){0};
}

const char *http_header_get(const struct http_headers *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++)
        if (!strcasecmp(h->items[i].name, name))
            return h->items[i].value;
    return NULL;
}

size_t http_header_count(const struct http_headers *h, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < h->count; i++)
        n += !strcasecmp(h->items[i].name, name);
    return n;
}

void http_header_remove(struct http_headers *h, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->count; i++) {
        if (!strcasecmp(h->items[i].name, name))
            release_item(h, &h->items[i]);
        else
            h->items[kept++] = h->items[i];
    }
    h->count = kept;
}

void http_header_remove_at(struct http_headers *h, size_t i)
{
    release_item(h, &h->items[i]);
    memmove(&h->items[i], &h->items[i + 1], (--h->count - i) * sizeof *h->items);
}

static int make_room(struct http_headers *h, struct err *err)
{
    if (h->count < h->room)
        return 0;
    if (h->count >= HTTP_HEADERS_MAX + ADDED_MAX)
        return err_set(err, ERR_LIMIT, "too many headers");
    size_t room = h->count + 8;
    struct http_header *items = calloc(room, sizeof(*items));
    if (!items)
        return err_memory(err);
    if (h->count)
        memcpy(items, h->items, h->count * sizeof(*items));
    if (!in_block(h, h->items))
        free(h->items);
    h->items = items;
    h->room = room;
    return 0;
}

/* A copy without the blanks around it. */
static char *copy_value(const char *value, struct err *err)
{
    while (is_blank(*value))
        value++;
    size_t len = strlen(value);
    if (value_span(value, len) != len) {
        err_set(err, ERR_PROTOCOL, "a control byte in the value of a header");
        return NULL;
    }
    while (len && is_blank(value[len - 1]))
        len--;
    char *copy = strndup(value, len);
    if (!copy)
        err_sys(err, "memory for a header");
    return copy;
}

int http_header_add(struct http_headers *h, const char *name, const char *value, struct err *err)
{
    size_t len = strlen(name);
    if (!len || token_span(name, len) != len)
        return err_set(err, ERR_PROTOCOL, "a byte in the name of a header that none has");
    if (make_room(h, err) < 0)
        return err_number(err);
    char *value_copy = copy_value(value, err);
    if (!value_copy)
        return err_number(err);
    char *name_copy = strdup(name);
    if (!name_copy) {
        release(h, value_copy);
        return err_sys(err, "memory for a header");
    }
    h->items[h->count++] = (struct http_header){.name = name_copy, .value = value_copy};
    return 0;
}

int http_header_replace(struct http_headers *h, size_t i, const char *value, struct err *err)
{
    char *copy = copy_value(value, err);
    if (!copy)
        return err_number(err);
    release(h, h->items[i].value);
    h->items[i].value = copy;
    return 0;
}

bool list_has_token(const char *list, const char *token)
{
    size_t want = strlen(token);
    for (const char *p = list; *p;) {
        while (is_blank(*p) || *p == ',')
            p++;
        size_t len = strcspn(p, ",");
        size_t word = len;
        while (word && is_blank(p[word - 1]))
            word--;
        if (word == want && !strncasecmp(p, token, want))
            return true;
        p += len;
    }
    return false;
}

/* Is this word in a comma-separated list of tokens (Connection, Upgrade)? */
static bool http_header_has_token(const struct http_headers *h, const char *name, const char *token)
{
    for (size_t i = 0; i < h->count; i++)
        if (!strcasecmp(h->items[i].name, name) && list_has_token(h->items[i].value, token))
            return true;
    return false;
}

/* ---- hop by hop ---- */

static bool is_hop_by_hop(const char *name)
{
    static const char *const names[] = {
        "Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcasecmp(name, names[i]))
            return true;
    return !strncasecmp(name, "Proxy-", 6);
}

void http_strip_hop_by_hop(struct http_headers *h)
{
    /* Marked first: what Connection names is read from the list as it was. */
    bool marked[HTTP_HEADERS_MAX + ADDED_MAX];
    size_t kept = 0;
    bool named = http_header_count(h, "Connection") != 0;
    for (size_t i = 0; i < h->count; i++)
        marked[i] = is_hop_by_hop(h->items[i].name) ||
                    (named && http_header_has_token(h, "Connection", h->items[i].name));
    for (size_t i = 0; i < h->count; i++) {
        if (marked[i])
            release_item(h, &h->items[i]);
        else
            h->items[kept++] = h->items[i];
    }
    h->count = kept;
}
