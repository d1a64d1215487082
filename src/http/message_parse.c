/* Reads the heads of requests and responses, strictly; message.h says what is refused. */
#include "http/headers.h"
#include "http/name.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SPARE_ITEMS 8 /* places in the block for headers that are added later */

/* ---- where a head ends ---- */

ssize_t http_head_scan(const char *data, size_t len, size_t *scanned, struct err *err)
{
    size_t at = *scanned;
    size_t most = len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX;
    if (len && (data[0] == '\r' || data[0] == '\n'))
        return err_set(err, ERR_PROTOCOL, "an empty line where a message begins");
    while (at < most) {
        const char *lf = memchr(data + at, '\n', most - at);
        if (!lf)
            break;
        size_t i = (size_t)(lf - data);
        if (i < 1 || data[i - 1] != '\r')
            return err_set(err, ERR_PROTOCOL, "a line that ends with LF alone");
        at = i + 1;
        if (i >= 3 && data[i - 2] == '\n')
            return (ssize_t)at;
    }
    if (len >= HTTP_HEAD_MAX)
        return err_set(err, ERR_LIMIT, "the head of the message is over %u bytes", HTTP_HEAD_MAX);
    *scanned = most;
    return 0;
}

ssize_t http_head_length(const char *data, size_t len, struct err *err)
{
    size_t scanned = 0;
    return http_head_scan(data, len, &scanned, err);
}

/* ---- lines ---- */

struct lines {
    char *at; /* writable copy of the head; every line ends with CR LF */
    char *end;
};

/* The next line, NUL-terminated in place of its CR. A CR within it is refused where the line is
 * read: it is no byte of a token, a target or a value. */
static char *next_line(struct lines *l, size_t *ret_len)
{
    char *line = l->at;
    char *lf = memchr(line, '\n', (size_t)(l->end - line));
    if (!lf || lf == line || lf[-1] != '\r')
        return NULL;
    lf[-1] = '\0';
    *ret_len = (size_t)(lf - 1 - line);
    l->at = lf + 1;
    return line;
}

static int parse_field(char *line, size_t len, struct http_header *ret, struct err *err)
{
    size_t name = token_span(line, len);
    if (is_blank(line[0]))
        return err_set(err, ERR_PROTOCOL, "a header that goes on in the next line");
    if (!name)
        return err_set(err, ERR_PROTOCOL, "a header without a name");
    if (name == len || line[name] != ':')
        return err_set(err, ERR_PROTOCOL, "a byte in the name of a header that none has");
    char *value = line + name + 1;
    char *end = line + len;
    if (value_span(value, (size_t)(end - value)) != (size_t)(end - value))
        return err_set(err, ERR_PROTOCOL, "a control byte in the value of a header");
    while (is_blank(*value))
        value++;
    while (end > value && is_blank(end[-1]))
        end--;
    line[name] = '\0';
    *end = '\0';
    *ret = (struct http_header){.name = line, .value = value};
    return 0;
}

static int parse_fields(struct lines *l, struct http_headers *h, struct err *err)
{
    for (;;) {
        size_t len = 0;
        char *line = next_line(l, &len);
        if (!line)
            return err_set(err, ERR_PROTOCOL, "a line that does not end with CR LF");
        if (!len)
            break;
        if (h->count == h->room - SPARE_ITEMS || h->count == HTTP_HEADERS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d headers", HTTP_HEADERS_MAX);
        if (parse_field(line, len, &h->items[h->count], err) < 0)
            return err_number(err);
        h->count++;
    }
    if (l->at != l->end)
        return err_set(err, ERR_PROTOCOL, "bytes after the head");
    return 0;
}

static size_t count_lines(const char *head, size_t len)
{
    size_t n = 0;
    const char *end = head + len;
    for (const char *p = head; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        n++;
    return n;
}

/* One block for the items and a copy of the head; `ret` reads lines from that copy. */
static int make_block(const char *head, size_t len, struct http_headers *h, struct lines *ret,
                      struct err *err)
{
    if (len > HTTP_HEAD_MAX)
        return err_set(err, ERR_LIMIT, "the head of the message is over %u bytes", HTTP_HEAD_MAX);
    size_t lines = count_lines(head, len);
    if (lines > HTTP_HEADERS_MAX + 2)
        return err_set(err, ERR_LIMIT, "more than %d headers", HTTP_HEADERS_MAX);
    size_t room = lines + SPARE_ITEMS;
    size_t items = room * sizeof(struct http_header);
    h->block = malloc(items + len + 1);
    if (!h->block)
        return err_memory(err);
    h->block_len = items + len + 1;
    h->items = (struct http_header *)(void *)h->block;
    h->room = room;
    ret->at = h->block + items;
    ret->end = ret->at + len;
    memcpy(ret->at, head, len);
    *ret->end = '\0';
    return 0;
}

/* ---- framing ---- */

struct framing {
    const char *length; /* the one Content-Length */
    const char *coding; /* the one Transfer-Encoding */
    const char *host;
    const char *upgrade;
    unsigned upgrades;
    const char *expect;
    bool close;
    bool keep_alive;
    bool wants_upgrade;
};

static int set_once(const char **place, const char *value, const char *name, struct err *err)
{
    if (*place)
        return err_set(err, ERR_PROTOCOL, "more than one %s", name);
    *place = value;
    return 0;
}

static void read_connection(struct framing *f, const char *value)
{
    f->close = f->close || list_has_token(value, "close");
    f->keep_alive = f->keep_alive || list_has_token(value, "keep-alive");
    f->wants_upgrade = f->wants_upgrade || list_has_token(value, "upgrade");
}

/* The headers that say how the message is to be read; lengths sort out most others at once. */
static int read_field(struct framing *f, const struct http_header *h, struct err *err)
{
    switch (strlen(h->name)) {
    case 4:
        if (!strcasecmp(h->name, "Host"))
            return set_once(&f->host, h->value, "Host", err);
        break;
    case 6:
        if (!strcasecmp(h->name, "Expect"))
            return set_once(&f->expect, h->value, "Expect", err);
        break;
    case 7:
        if (!strcasecmp(h->name, "Upgrade")) {
            f->upgrade = h->value;
            f->upgrades++;
        }
        break;
    case 10:
        if (!strcasecmp(h->name, "Connection"))
            read_connection(f, h->value);
        break;
    case 14:
        if (!strcasecmp(h->name, "Content-Length"))
            return set_once(&f->length, h->value, "Content-Length", err);
        break;
    case 17:
        if (!strcasecmp(h->name, "Transfer-Encoding"))
            return set_once(&f->coding, h->value, "Transfer-Encoding", err);
        break;
    default:
        break;
    }
    return 0;
}

static int parse_length(const char *text, uint64_t *ret, struct err *err)
{
    size_t len = strlen(text);
    uint64_t value = 0;
    if (!len || len > 18 || (len > 1 && text[0] == '0'))
        return err_set(err, ERR_PROTOCOL, "Content-Length is not one plain number");
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return err_set(err, ERR_PROTOCOL, "Content-Length is not one plain number");
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *ret = value;
    return 0;
}

static int read_framing(const struct http_headers *h, int minor, struct framing *f,
                        enum http_body *ret_body, uint64_t *ret_length, struct err *err)
{
    *f = (struct framing){0};
    for (size_t i = 0; i < h->count; i++)
        if (read_field(f, &h->items[i], err) < 0)
            return err_number(err);
    if (f->coding) {
        if (f->length)
            return err_set(err, ERR_PROTOCOL, "Content-Length together with Transfer-Encoding");
        if (!minor)
            return err_set(err, ERR_PROTOCOL, "Transfer-Encoding in HTTP/1.0");
        if (strcasecmp(f->coding, "chunked") != 0)
            return err_set(err, ERR_PROTOCOL, "a Transfer-Encoding other than chunked");
        *ret_body = BODY_CHUNKED;
    } else if (f->length) {
        if (parse_length(f->length, ret_length, err) < 0)
            return err_number(err);
        *ret_body = BODY_LENGTH;
    }
    return 0;
}

/* ---- requests ---- */

static bool parse_version(const char *text, size_t len, int *ret_minor)
{
    if (len != 8 || memcmp(text, "HTTP/1.", 7) != 0 || (text[7] != '0' && text[7] != '1'))
        return false;
    *ret_minor = text[7] - '0';
    return true;
}

static int keep_target(struct http_request *r, const char *before, const char *text, size_t len,
                       struct err *err)
{
    size_t front = strlen(before);
    r->target = malloc(front + len + 1);
    if (!r->target)
        return err_memory(err);
    memcpy(r->target, before, front);
    memcpy(r->target + front, text, len);
    r->target[front + len] = '\0';
    return 0;
}

static int parse_absolute(struct http_request *r, const char *text, size_t len, struct err *err)
{
    r->form = FORM_ABSOLUTE;
    if (url_parse(text, len, &r->url, err) < 0)
        return err_number(err);
    const char *rest = r->url.path;
    size_t rest_len = (size_t)(text + len - rest);
    /* They are in `target`; what is here points into the head that was given. */
    r->url.path = "";
    r->url.path_len = 0;
    r->url.query = NULL;
    r->url.query_len = 0;
    return keep_target(r, rest_len && rest[0] == '/' ? "" : "/", rest, rest_len, err);
}

static int parse_target(struct http_request *r, const char *text, size_t len, struct err *err)
{
    size_t path_len;
    if (len > HTTP_TARGET_MAX)
        return err_set(err, ERR_LIMIT, "the target of the request is over %u bytes",
                       HTTP_TARGET_MAX);
    if (!strcmp(r->method, "CONNECT")) {
        r->form = FORM_AUTHORITY;
        return authority_parse(text, len, 0, &r->host, &r->port, err);
    }
    if (text[0] == '/') {
        r->form = FORM_ORIGIN;
        if (path_query_check(text, len, &path_len, err) < 0)
            return err_number(err);
        return keep_target(r, "", text, len, err);
    }
    if (len == 1 && text[0] == '*' && !strcmp(r->method, "OPTIONS")) {
        r->form = FORM_ASTERISK;
        return keep_target(r, "", text, len, err);
    }
    return parse_absolute(r, text, len, err);
}

static int parse_request_line(struct http_request *r, const char *line, size_t len, struct err *err)
{
    size_t method = token_span(line, len);
    const char *target = line + method + 1;
    if (!method || method == len || line[method] != ' ')
        return err_set(err, ERR_PROTOCOL, "a request line without a method");
    if (method >= sizeof(r->method))
        return err_set(err, ERR_PROTOCOL, "a method that is too long");
    memcpy(r->method, line, method);
    const char *blank = memchr(target, ' ', len - method - 1);
    if (!blank || blank == target)
        return err_set(err, ERR_PROTOCOL, "a request line that is not three parts");
    if (!parse_version(blank + 1, (size_t)(line + len - blank - 1), &r->minor))
        return err_set(err, ERR_PROTOCOL, "a version other than HTTP/1.0 and HTTP/1.1");
    return parse_target(r, target, (size_t)(blank - target), err);
}

static int read_host(struct http_request *r, const char *value, struct err *err)
{
    struct host host;
    uint16_t port;
    if (!value) {
        if (r->minor)
            return err_set(err, ERR_PROTOCOL, "no Host");
        return 0;
    }
    if (host_header_parse(value, strlen(value), &host, &port, err) < 0)
        return err_wrap(err, "Host");
    if (r->form != FORM_AUTHORITY) {
        r->host = host;
        r->port = port;
        return 0;
    }
    if (!host_equal(&host, &r->host) || (port && port != r->port))
        return err_set(err, ERR_PROTOCOL, "Host is not what CONNECT asks for");
    return 0;
}

/* Only one protocol, and only where Connection says so: everything else is as if it was not there.
 */
static int read_upgrade(struct http_request *r, const struct framing *f, struct err *err)
{
    if (!r->minor || !f->wants_upgrade || f->upgrades != 1)
        return 0;
    size_t len = strlen(f->upgrade);
    if (!len || token_span(f->upgrade, len) != len)
        return 0;
    r->upgrade = strdup(f->upgrade);
    return r->upgrade ? 0 : err_memory(err);
}

/* Servers that hand headers on as variables fold what is no letter and no digit: to them
 * "Transfer_Encoding" is the header that says how long this request is, "Content_Type" the one that
 * says what its body is, to us they are none. */
static int refuse_lookalikes(const struct http_headers *h, struct err *err)
{
    static const char *const framing[] = {"Host",       "Content-Length", "Transfer-Encoding",
                                          "Connection", "Upgrade",        "Trailer",
                                          "Expect",     "Content-Type",   "Content-Encoding"};
    for (size_t i = 0; i < h->count; i++) {
        const char *name = h->items[i].name;
        struct folded f;
        if (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") ==
                strlen(name) &&
            name[0] != '-' && name[strlen(name) - 1] != '-' && !strstr(name, "--"))
            continue;
        name_fold(name, strlen(name), false, &f);
        for (size_t k = 0; k < sizeof framing / sizeof framing[0]; k++)
            if (name_same(&f, framing[k]))
                return err_set(err, ERR_PROTOCOL, "a header that could be read as %s", framing[k]);
    }
    return 0;
}

static int read_request(struct http_request *r, struct err *err)
{
    struct framing f;
    if (refuse_lookalikes(&r->headers, err) < 0)
        return err_number(err);
    if (read_framing(&r->headers, r->minor, &f, &r->body, &r->length, err) < 0 ||
        read_host(r, f.host, err) < 0 || read_upgrade(r, &f, err) < 0)
        return err_number(err);
    if (r->form == FORM_AUTHORITY && (r->body == BODY_CHUNKED || r->length))
        return err_set(err, ERR_PROTOCOL, "CONNECT with a body");
    r->keep_alive = !f.close && (r->minor || f.keep_alive);
    if (f.expect && strcasecmp(f.expect, "100-continue") != 0)
        return err_set(err, ERR_PROTOCOL, "an Expect other than 100-continue");
    r->expects_continue = f.expect && r->minor;
    return 0;
}

int http_request_parse(const char *head, size_t len, struct http_request *ret, struct err *err)
{
    struct http_request r = {.body = BODY_NONE};
    struct lines lines = {0};
    size_t line_len = 0;
    if (make_block(head, len, &r.headers, &lines, err) < 0)
        return err_number(err);
    const char *line = next_line(&lines, &line_len);
    int result = line ? parse_request_line(&r, line, line_len, err)
                      : err_set(err, ERR_PROTOCOL, "no request line");
    if (!result)
        result = parse_fields(&lines, &r.headers, err);
    if (!result)
        result = read_request(&r, err);
    if (result < 0)
        http_request_done(&r);
    else
        *ret = r;
    return result;
}

void http_request_done(struct http_request *r)
{
    http_headers_done(&r->headers);
    if (r->target) /* a credential may stand in the query */
        explicit_bzero(r->target, strlen(r->target));
    free(r->target);
    free(r->upgrade);
    *r = (struct http_request){0};
}

/* ---- responses ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The reason is for people: what is not plain text is left out, what could break the line refused.
 */
static int keep_reason(struct http_response *r, const char *text, size_t len, struct err *err)
{
    if (value_span(text, len) != len)
        return err_set(err, ERR_PROTOCOL, "a control byte in the status line");
    if (len >= sizeof(r->reason))
        len = sizeof(r->reason) - 1;
    for (size_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            return 0;
    memcpy(r->reason, text, len);
    return 0;
}

static int parse_status_line(struct http_response *r, const char *line, size_t len, struct err *err)
{
    if (len < 12 || !parse_version(line, 8, &r->minor) || line[8] != ' ')
        return err_set(err, ERR_PROTOCOL, "not an HTTP/1.x status line");
    const char *s = line + 9;
    if (!is_digit(s[0]) || !is_digit(s[1]) || !is_digit(s[2]) || s[0] == '0' ||
        (len > 12 && line[12] != ' '))
        return err_set(err, ERR_PROTOCOL, "a status that is not three digits");
    r->status = (s[0] - '0') * 100 + (s[1] - '0') * 10 + (s[2] - '0');
    return len > 13 ? keep_reason(r, line + 13, len - 13, err) : 0;
}

static bool has_no_body(const struct http_response *r, const char *method)
{
    if (r->status < 200 || r->status == 204 || r->status == 304 || !strcmp(method, "HEAD"))
        return true;
    return !strcmp(method, "CONNECT") && r->status < 300;
}

static int read_response(struct http_response *r, const char *method, struct err *err)
{
    struct framing f;
    r->body = BODY_UNTIL_CLOSE;
    if (read_framing(&r->headers, r->minor, &f, &r->body, &r->length, err) < 0)
        return err_number(err);
    if (has_no_body(r, method)) {
        r->body = BODY_NONE;
        r->length = 0;
    }
    r->keep_alive = r->body != BODY_UNTIL_CLOSE && !f.close && (r->minor || f.keep_alive);
    return 0;
}

int http_response_parse(const char *head, size_t len, const char *request_method,
                        struct http_response *ret, struct err *err)
{
    struct http_response r = {0};
    struct lines lines = {0};
    size_t line_len = 0;
    if (make_block(head, len, &r.headers, &lines, err) < 0)
        return err_number(err);
    const char *line = next_line(&lines, &line_len);
    int result = line ? parse_status_line(&r, line, line_len, err)
                      : err_set(err, ERR_PROTOCOL, "no status line");
    if (!result)
        result = parse_fields(&lines, &r.headers, err);
    if (!result)
        result = read_response(&r, request_method, err);
    if (result < 0)
        http_response_done(&r);
    else
        *ret = r;
    return result;
}

void http_response_done(struct http_response *r)
{
    http_headers_done(&r->headers);
    *r = (struct http_response){0};
}
