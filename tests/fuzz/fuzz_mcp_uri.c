/* Any text as the address of a resource: what is taken reads the same when it is written anew. */
#include "mcp/uri.h"

#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct mcp_uri uri, again;
    struct err err = ERR_INIT;
    struct buf out;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (uri_parse(text, &uri, &err) < 0) {
        require(err.message[0]);
    } else {
        require(uri.session[0] && uri.path[0] == '/');
        buf_init(&out, 4 * MCP_URI_MAX);
        uri_write(&out, uri.session, uri.path);
        require(!out.failed);
        if (out.len <= MCP_URI_MAX) {
            require(uri_parse(buf_text(&out), &again, NULL) == 0);
            require(!strcmp(again.session, uri.session) && !strcmp(again.path, uri.path));
        }
        buf_done(&out);
    }
    free(text);
    return 0;
}
