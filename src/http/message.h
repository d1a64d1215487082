/* HTTP/1.1 heads: parsed strictly into a list, written anew from the list. Nothing that was not
 * understood is ever passed on, and nothing is passed on as it came.
 *
 * Refused, with a reason: bare CR or LF, NUL and other control bytes, obs-fold, blanks before the
 * colon or in names, empty names, a request line with other than three parts and two single blanks,
 * versions but HTTP/1.0 and HTTP/1.1, more than one Host, none in 1.1, Content-Length that is not
 * one plain number, twice, or together with Transfer-Encoding, Transfer-Encoding but exactly
 * "chunked" (and any in 1.0), names that a server could take for one of the headers that frame a
 * request ("Content_Length"), heads over the limits. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "http/url.h"

#include <sys/types.h>

#define HTTP_HEAD_MAX    (64u * 1024)
#define HTTP_HEADERS_MAX 128
#define HTTP_TARGET_MAX  (16u * 1024)

/* Both belong to the list and may lie in one block with others: they are changed in place or with
 * the functions below, never freed alone. */
struct http_header {
    char *name;  /* as it came; compared without case */
    char *value; /* without blanks around it */
};

struct http_headers {
    struct http_header *items;
    size_t count;
    size_t room; /* for so many items */
    char *block; /* what a parsed head left: the first items and their text */
    size_t block_len;
};
void http_headers_done(struct http_headers *h);
const char *http_header_get(const struct http_headers *h,
                            const char *name); /* the first, or NULL */
size_t http_header_count(const struct http_headers *h, const char *name);
void http_header_remove(struct http_headers *h, const char *name); /* all of them */
void http_header_remove_at(struct http_headers *h, size_t i);
/* Refuses CR, LF, NUL and control bytes in either. Blanks around the value are left out. */
int http_header_add(struct http_headers *h, const char *name, const char *value, struct err *err);
/* Another value for the i-th, checked in the same way. */
int http_header_replace(struct http_headers *h, size_t i, const char *value, struct err *err);

enum http_form {
    FORM_ORIGIN,    /* "/path?query" */
    FORM_ABSOLUTE,  /* "http://host/path" */
    FORM_AUTHORITY, /* CONNECT host:port */
    FORM_ASTERISK,  /* OPTIONS * */
};

enum http_body {
    BODY_NONE,
    BODY_LENGTH,
    BODY_CHUNKED,
    BODY_UNTIL_CLOSE, /* responses only */
};

struct http_request {
    char method[24];
    enum http_form form;
    char *target;     /* path and query, at least "/"; FORM_ASTERISK: "*"; FORM_AUTHORITY: NULL */
    struct url url;   /* FORM_ABSOLUTE: scheme, host, port (path and query are in `target`) */
    struct host host; /* FORM_AUTHORITY, and the Host header otherwise */
    uint16_t port;    /* of the same; 0 if the Host header names none */
    int minor;        /* HTTP/1.minor */
    struct http_headers headers;
    enum http_body body;
    uint64_t length; /* BODY_LENGTH */
    bool keep_alive;
    bool expects_continue;
    char *upgrade; /* the one protocol asked for ("websocket"), or NULL */
};

struct http_response {
    int status;
    int minor;
    char reason[128]; /* printable ASCII only, may be empty */
    struct http_headers headers;
    enum http_body body; /* knows about HEAD, 1xx, 204, 304 and CONNECT */
    uint64_t length;
    bool keep_alive;
};

/* Bytes of the head that ends at the first CRLF CRLF; 0 if more is needed; negative if it can never
 * be one (too long, bare LF, …). Cheap enough to be called after every read. */
ssize_t http_head_length(const char *data, size_t len, struct err *err);
/* The same, but goes on where the last call for this head left off: *scanned, 0 at first. */
ssize_t http_head_scan(const char *data, size_t len, size_t *scanned, struct err *err);
int http_request_parse(const char *head, size_t len, struct http_request *ret, struct err *err);
int http_response_parse(const char *head, size_t len, const char *request_method,
                        struct http_response *ret, struct err *err);
void http_request_done(struct http_request *r);
void http_response_done(struct http_response *r);

/* Connection, Keep-Alive, Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade and what Connection
 * names are taken out; framing headers are written from `body` and `length`. */
void http_strip_hop_by_hop(struct http_headers *h);
/* Origin form towards a server. `host_header` is what stands after "Host: ". Where r->upgrade is
 * not NULL that protocol is asked for. */
void http_request_write(const struct http_request *r, const char *host_header, struct buf *out);
/* Content-Length as it came for HEAD and 304; an Upgrade header is meant with 101 alone. */
void http_response_write(const struct http_response *r, bool keep_alive, struct buf *out);
