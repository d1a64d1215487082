/* Resource URIs: see uri.h. */
#include "mcp/uri.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <ctype.h>
#include <string.h>

/* What a URI may have as it is; of a query or a fragment we have none. */
static bool is_plain(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-._~!$&'()*+,;=:@/", c));
}

static int decode(const char *at, char *out, size_t size, struct err *err)
{
    size_t n = 0;
    while (*at) {
        int escaped = *at == '%' ? hex_byte(at + 1) : -1;
        char c = escaped < 0 ? *at : (char)escaped;
        if (escaped < 0 ? !is_plain(c) : !c)
            return err_set(err, ERR_USAGE, "the URI has a byte that must be percent-encoded");
        if (n + 1 >= size)
            return err_set(err, ERR_USAGE, "the path is too long");
        out[n++] = c;
        at += escaped < 0 ? 1 : 3;
    }
    out[n] = '\0';
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t code;
        if (!(len = utf8_decode(out + i, n - i, &code)))
            return err_set(err, ERR_USAGE, "the path is not UTF-8");
    }
    return 0;
}

int uri_parse(const char *text, struct mcp_uri *ret, struct err *err)
{
    size_t scheme = strlen(MCP_URI_SCHEME), id;
    if (strnlen(text, MCP_URI_MAX + 1) > MCP_URI_MAX)
        return err_set(err, ERR_USAGE, "the URI is too long");
    if (strncmp(text, MCP_URI_SCHEME, scheme) != 0)
        return err_set(err, ERR_USAGE, "expected %sSESSION/path", MCP_URI_SCHEME);
    text += scheme;
    id = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (!id || id > MCP_ID_MAX || text[id] != '/')
        return err_set(err, ERR_USAGE, "expected %sSESSION/path", MCP_URI_SCHEME);
    memcpy(ret->session, text, id);
    ret->session[id] = '\0';
    return decode(text + id, ret->path, sizeof(ret->path), err);
}

/* By hand: whoever names a file may make all of its bytes such. */
static const char *escape(char c, char out[static 3])
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned char byte = (unsigned char)c;
    out[0] = '%';
    out[1] = digits[byte >> 4];
    out[2] = digits[byte & 15];
    return out;
}

void uri_write(struct buf *out, const char *session, const char *path)
{
    buf_fmt(out, "%s%s%s", MCP_URI_SCHEME, session, *path == '/' ? "" : "/");
    for (char room[3]; *path; path++) {
        if (is_plain(*path))
            buf_chr(out, *path);
        else
            buf_add(out, escape(*path, room), sizeof room);
    }
}
