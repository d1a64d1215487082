/* Files of a sandbox as resources: brig://SESSION/absolute/path, percent-encoded. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define MCP_URI_SCHEME "brig://"
#define MCP_URI_MAX    16384u
#define MCP_ID_MAX     40u
#define MCP_PATH_MAX   4096u

struct mcp_uri {
    char session[MCP_ID_MAX + 1]; /* letters and digits, at least one */
    char path[MCP_PATH_MAX + 1];  /* absolute; any bytes but NUL; UTF-8 */
};
int uri_parse(const char *text, struct mcp_uri *ret, struct err *err);
void uri_write(struct buf *out, const char *session, const char *path);
