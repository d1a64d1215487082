/* multipart/form-data: see multipart.h. */
#include "http/multipart.h"

#include "base/text.h"
#include "http/headers.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { AT_START, IN_HEAD, IN_DATA, AFTER_DELIMITER, AT_END };

#define NOT_AT_LINE SIZE_MAX

/* ---- the boundary ---- */

/* No comma, although RFC 2046 has it: there are readers whose boundary ends before it. */
static bool is_boundary_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c && strchr("'()+_-./:=?", c));
}

/* The value of one parameter, quoted or not; returns what stands after it, NULL if malformed. */
static const char *read_value(const char *at, char *out, size_t size)
{
    size_t n = 0;
    bool quoted = *at == '"';
    at += quoted;
    while (*at && (quoted ? *at != '"' : !strchr("; \t", *at))) {
        if (quoted && *at == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        if (n + 1 >= size)
            return NULL;
        out[n++] = *at++;
    }
    out[n] = '\0';
    if (quoted && *at++ != '"')
        return NULL;
    return at;
}

/* Steps to the next parameter of "value; a=b; c="d"": its name, and where its value stands. */
static const char *next_param(const char *at, char *name, size_t size)
{
    size_t len;
    while (*at == ' ' || *at == '\t')
        at++;
    if (*at++ != ';')
        return NULL;
    while (*at == ' ' || *at == '\t')
        at++;
    len = token_span(at, strlen(at));
    if (!len || len >= size || at[len] != '=')
        return NULL;
    memcpy(name, at, len);
    name[len] = '\0';
    return at + len + 1;
}

int multipart_init(struct multipart *m, const char *content_type, struct err *err)
{
    static const char type[] = "multipart/form-data";
    char name[32], boundary[MULTIPART_BOUNDARY_MAX + 1] = "";
    const char *at = content_type + sizeof(type) - 1;
    memset(m, 0, sizeof(*m));
    if (strncasecmp(content_type, type, sizeof(type) - 1) != 0)
        return err_set(err, ERR_USAGE, "expected multipart/form-data");
    while (*at && (at = next_param(at, name, sizeof(name)))) {
        char value[MULTIPART_BOUNDARY_MAX + 1];
        at = read_value(at, value, sizeof(value));
        if (!at)
            break;
        bool own = text_begins(name, "boundary");
        if (!own && !strcasestr(name, "boundary") && !strcasestr(value, "boundary"))
            continue;
        /* Of two boundaries, one reader takes the first and another the last; "boundary*" is read
         * by some, and others look for the word wherever it stands: "xboundary=a", "a=boundary",
         * and in its own value, where browsers have it too. */
        if (!own || boundary[0] || name[8] || strcasestr(value, "boundary="))
            return err_set(err, ERR_USAGE, "multipart/form-data with a second boundary");
        memcpy(boundary, value, sizeof(boundary));
    }
    size_t len = strlen(boundary);
    for (size_t i = 0; i < len; i++)
        if (!is_boundary_char(boundary[i]))
            len = 0;
    if (!at || !len)
        return err_set(err, ERR_USAGE, "multipart/form-data without a good boundary");
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary, len);
    m->delimiter_len = len + 4;
    m->matched = 2; /* the first one has no line before it */
    return 0;
}

/* ---- the head of a part ---- */

/* Browsers write a quote and line ends in a name as %22, %0D and %0A, and nothing else so. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (!strncasecmp(at, "%22", 3) || !strncasecmp(at, "%0D", 3) ||
            !strncasecmp(at, "%0A", 3)) {
            *to++ = at[1] == '2' ? '"' : (at[2] | 0x20) == 'd' ? '\r' : '\n';
            at += 2;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
}

static int read_disposition(struct multipart *m, const char *value, struct err *err)
{
    static const char type[] = "form-data";
    char key[32];
    bool has_name = false;
    const char *at = value + sizeof(type) - 1;
    if (strncasecmp(value, type, sizeof(type) - 1) != 0)
        return err_set(err, ERR_USAGE, "multipart: a part that is no form-data");
    m->escapes = strstr(value, "\\\"") != NULL;
    while (*at) {
        char ignored[MULTIPART_NAME_MAX + 1];
        bool is_name, is_file;
        at = next_param(at, key, sizeof(key));
        is_name = at && !strcasecmp(key, "name");
        is_file = at && !strcasecmp(key, "filename");
        /* "name*": the name in another coding, which forms do not have and some readers take. */
        bool second = at && (is_name ? has_name : !strncasecmp(key, "name*", 5));
        if (!at || second || (is_file && m->has_filename))
            return err_set(err, ERR_USAGE, "multipart: malformed Content-Disposition");
        at = read_value(at,
                        is_name   ? m->name
                        : is_file ? m->filename
                                  : ignored,
                        MULTIPART_NAME_MAX + 1);
        if (!at)
            return err_set(err, ERR_USAGE, "multipart: a name that is too long or never ends");
        has_name |= is_name;
        m->has_filename |= is_file;
    }
    if (!has_name)
        return err_set(err, ERR_USAGE, "multipart: a part without a name");
    unescape(m->name);
    unescape(m->filename);
    return 0;
}

static int read_line(struct multipart *m, char *line, bool *seen, struct err *err)
{
    static const char disposition[] = "Content-Disposition:";
    size_t len = strlen(line);
    const char *value = line + sizeof(disposition) - 1;
    size_t name = token_span(line, len);
    if (!name || line[name] != ':' || value_span(line + name + 1, len - name - 1) != len - name - 1)
        return err_set(err, ERR_USAGE, "multipart: a malformed header of a part");
    /* Some readers look for the words wherever they stand. */
    if (strncasecmp(line, disposition, sizeof(disposition) - 1) != 0)
        return !strcasestr(line, "content-disposition")
                   ? 0
                   : err_set(err, ERR_USAGE, "multipart: Content-Disposition in another header");
    if (*seen)
        return err_set(err, ERR_USAGE, "multipart: Content-Disposition twice");
    *seen = true;
    while (is_blank(*value))
        value++;
    return read_disposition(m, value, err);
}

/* m->head holds all lines, each with its CRLF, and the empty one at the end. */
static int read_head(struct multipart *m, struct err *err)
{
    bool seen = false;
    char *at = m->head;
    m->name[0] = m->filename[0] = '\0';
    m->has_filename = false;
    if (memchr(m->head, '\0', m->head_len))
        return err_set(err, ERR_USAGE, "multipart: a malformed header of a part");
    m->head[m->head_len - 2] = '\0';
    while (*at) {
        char *end = strstr(at, "\r\n");
        if (!end)
            return err_set(err, ERR_USAGE, "multipart: a malformed header of a part");
        *end = '\0';
        int r = read_line(m, at, &seen, err);
        if (r < 0)
            return r;
        at = end + 2;
    }
    return seen ? 0 : err_set(err, ERR_USAGE, "multipart: a part without Content-Disposition");
}

static bool head_complete(const struct multipart *m)
{
    size_t n = m->head_len;
    return (n == 2 && !memcmp(m->head, "\r\n", 2)) ||
           (n >= 4 && !memcmp(m->head + n - 4, "\r\n\r\n", 4));
}

static ssize_t take_head(struct multipart *m, const char *data, size_t len,
                         enum multipart_event *ret, struct err *err)
{
    size_t n = 0;
    while (n < len) {
        if (m->head_len + 1 >= sizeof(m->head))
            return err_set(err, ERR_LIMIT, "multipart: the head of a part is too long");
        m->head[m->head_len++] = data[n++];
        if (!head_complete(m))
            continue;
        int r = read_head(m, err);
        if (r < 0)
            return r;
        m->state = IN_DATA;
        m->head_len = 0;
        m->matched = 0;
        m->of_line = 0;
        *ret = MULTIPART_PART;
        break;
    }
    return (ssize_t)n;
}

/* ---- what is in it ---- */

static size_t match_delimiter(struct multipart *m, const char *data, size_t len)
{
    size_t n = 0;
    while (n < len && m->matched < m->delimiter_len && data[n] == m->delimiter[m->matched]) {
        m->matched++;
        n++;
    }
    return n;
}

static ssize_t take_data(struct multipart *m, const char *data, size_t len,
                         enum multipart_event *ret)
{
    if (m->matched) {
        size_t n = match_delimiter(m, data, len);
        if (m->matched == m->delimiter_len) {
            m->state = AFTER_DELIMITER;
            m->matched = 0;
            *ret = MULTIPART_END;
            return (ssize_t)n;
        }
        if (n == len)
            return (ssize_t)n;
        /* It was data after all. CR stands nowhere in the delimiter but at its start, so that
         * nothing of what was held can begin another one. */
        m->data = m->delimiter;
        m->data_len = m->matched;
        m->matched = 0;
        *ret = MULTIPART_DATA;
        return (ssize_t)n;
    }
    const char *cr = memchr(data, '\r', len);
    m->data = data;
    m->data_len = cr ? (size_t)(cr - data) : len;
    if (m->data_len) {
        *ret = MULTIPART_DATA;
        return (ssize_t)m->data_len;
    }
    m->matched = 1;
    return 1;
}

static ssize_t take_after(struct multipart *m, const char *data, size_t len,
                          enum multipart_event *ret, struct err *err)
{
    size_t n = 0;
    while (n < len && m->head_len < 2)
        m->head[m->head_len++] = data[n++];
    if (m->head_len < 2)
        return (ssize_t)n;
    m->head_len = 0;
    if (!memcmp(m->head, "\r\n", 2)) {
        m->state = IN_HEAD;
    } else if (!memcmp(m->head, "--", 2)) {
        m->state = AT_END;
        *ret = MULTIPART_DONE;
    } else {
        return err_set(err, ERR_USAGE, "multipart: malformed delimiter");
    }
    return (ssize_t)n;
}

/* One or two line ends after the last delimiter, nothing more. */
static ssize_t take_end(const char *data, size_t len, enum multipart_event *ret, struct err *err)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] != '\r' && data[i] != '\n')
            return err_set(err, ERR_USAGE, "multipart: text after the end");
    *ret = MULTIPART_DONE;
    return (ssize_t)len;
}

/* The next end of a line, of any kind; `end` if there is none. */
static const char *line_end(const char *at, const char *end)
{
    const char *lf = memchr(at, '\n', (size_t)(end - at));
    const char *cr = memchr(at, '\r', (size_t)((lf ? lf : end) - at));
    return cr ? cr : lf ? lf : end;
}

/* To some readers a delimiter also begins after CR or LF alone: what is data here would be the next
 * part there. True: one stands in these bytes, or ends in them. */
static bool has_lone_delimiter(struct multipart *m, const char *data, size_t len)
{
    const char *at = data, *end = data + len;
    size_t most = m->delimiter_len - 2; /* without CR LF */
    while (at < end) {
        if (m->of_line == NOT_AT_LINE) {
            at = line_end(at, end);
            if (at == end)
                break;
            m->of_line = 0;
            at++;
        } else if (*at == '\n' || *at == '\r') {
            m->of_line = 0;
            at++;
        } else if (*at++ != m->delimiter[2 + m->of_line]) {
            m->of_line = NOT_AT_LINE;
        } else if (++m->of_line == most) {
            return true;
        }
    }
    return false;
}

static ssize_t take_checked(struct multipart *m, const char *data, size_t len,
                            enum multipart_event *ret, struct err *err)
{
    ssize_t n = take_data(m, data, len, ret);
    if (has_lone_delimiter(m, data, (size_t)n) && m->state == IN_DATA)
        return err_set(err, ERR_USAGE, "multipart: a delimiter that does not begin with CR LF");
    return n;
}

static ssize_t take_start(struct multipart *m, const char *data, size_t len, struct err *err)
{
    size_t n = match_delimiter(m, data, len);
    if (m->matched == m->delimiter_len) {
        m->state = AFTER_DELIMITER;
        m->matched = 0;
    } else if (n < len) {
        return err_set(err, ERR_USAGE, "multipart: expected the first delimiter");
    }
    return (ssize_t)n;
}

static ssize_t step(struct multipart *m, const char *data, size_t len, enum multipart_event *ret,
                    struct err *err)
{
    switch (m->state) {
    case AT_START:
        return take_start(m, data, len, err);
    case IN_HEAD:
        return take_head(m, data, len, ret, err);
    case IN_DATA:
        return take_checked(m, data, len, ret, err);
    case AFTER_DELIMITER:
        return take_after(m, data, len, ret, err);
    default:
        return take_end(data, len, ret, err);
    }
}

ssize_t multipart_read(struct multipart *m, const char *data, size_t len, enum multipart_event *ret,
                       struct err *err)
{
    size_t taken = 0;
    *ret = MULTIPART_MORE;
    while (taken < len && *ret == MULTIPART_MORE) {
        ssize_t n = step(m, data + taken, len - taken, ret, err);
        if (n < 0)
            return n;
        taken += (size_t)n;
    }
    return (ssize_t)taken;
}

bool multipart_complete(const struct multipart *m)
{
    return m->state == AT_END;
}
