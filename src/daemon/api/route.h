/* The routes. Each handler file adds its rows; docs/openapi.yaml is compared with the table by a
 * test. */
#pragma once

#include "daemon/box/box.h"
#include "daemon/core/core.h"
#include "daemon/server/server.h"

struct call;
struct route {
    const char *method; /* NULL ends a table */
    const char *path;   /* "/sandboxes/{id}/timeout"; {id} is one segment */
    enum error_style style;
    bool operator_only;
    void (*fn)(struct call *call);
    /* Instead of `fn`: the request's body is a JSON object, which is read first; the message of a
     * stream where the style is a stream's. */
    void (*body)(struct call *call, const struct json *body);
};
/* Which face a request is meant for: by path and by the E2b-Sandbox-Port header, or its Host. */
extern const struct route control_routes[], process_routes[], files_routes[], interpreter_routes[],
    dify_routes[], brig_routes[], mcp_routes[], approval_routes[];
/* server_fn and server_auth_fn. ctx is the core. */
void api_serve(void *core, struct exchange *x);
int api_auth(void *core, const struct http_request *r, struct auth *ret, int *ret_status);
/* `brig-daemon --routes` prints "METHOD PATH" lines for the test. */
void api_print_routes(struct buf *out);
