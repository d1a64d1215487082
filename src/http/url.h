/* URLs and request targets, strictly. */
#pragma once

#include "http/target.h"

struct url {
    enum scheme scheme; /* SCHEME_HTTP or SCHEME_HTTPS */
    struct host host;
    uint16_t port;     /* given, or the scheme's own */
    const char *path;  /* into the text, starts with '/', or "" */
    size_t path_len;   /* without the query */
    const char *query; /* after '?', or NULL */
    size_t query_len;
};

/* "http://host[:port][/path][?query]". No user-info, no fragment, no blanks or control bytes. */
int url_parse(const char *text, size_t len, struct url *ret, struct err *err);
/* "host:port", "[v6]:port"; the port is optional where default_port is not 0. */
int authority_parse(const char *text, size_t len, uint16_t default_port, struct host *ret_host,
                    uint16_t *ret_port, struct err *err);
/* 1 to 65535, digits only, no leading zero. */
int port_parse(const char *text, size_t len, uint16_t *ret);
/* What stands in a Host header: as authority_parse, but *ret_port is 0 where none is given. */
int host_header_parse(const char *text, size_t len, struct host *ret_host, uint16_t *ret_port,
                      struct err *err);
/* "/path?query", or empty: printable ASCII, no fragment, no backslash in the path. */
int path_query_check(const char *text, size_t len, size_t *ret_path_len, struct err *err);
