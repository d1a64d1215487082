/* Whom a request of envd's wants to be inside: `Authorization: Basic NAME:` of its calls,
 * `username` of /files.
 *
 * DM-7  A sandbox has one user, its template's, and root beside that one where the template says
 * so. A request that names another one is refused: nobody is silently somebody else, and nobody
 *       becomes root by asking where the template gives none. */
#include "daemon/e2b/user.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "daemon/api/target.h"
#include "daemon/e2b/frames.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_LEN 64

static const char basic[] = "Basic ";

/* The part before the colon. The password is nobody's: the token says who asks. Negative: it is
 * none that can be read. */
static int basic_user(const char *header, char out[static NAME_MAX_LEN + 1])
{
    cleanup_buf struct buf plain;
    const char *text = header + sizeof(basic) - 1;
    buf_init(&plain, 1024);
    if (base64_decode(text, strlen(text), &plain, NULL) < 0)
        return -1;
    size_t len = plain.len ? strcspn(buf_text(&plain), ":") : 0;
    /* A NUL in the name ends strcspn, not the name. */
    if (len > NAME_MAX_LEN || (len < plain.len && buf_text(&plain)[len] != ':'))
        return -1;
    memcpy(out, buf_text(&plain), len);
    out[len] = '\0';
    return 0;
}

/* Empty: none was named, the template's is meant. */
static int wanted(const struct http_request *r, char out[static NAME_MAX_LEN + 1])
{
    const char *header = http_header_get(&r->headers, "Authorization");
    out[0] = '\0';
    if (header && strncasecmp(header, basic, sizeof(basic) - 1) == 0 && basic_user(header, out) < 0)
        return -1;
    char named[NAME_MAX_LEN + 1];
    int found = target_query(r->target, "username", named, sizeof(named), NULL);
    if (found < 0 || (found > 0 && out[0] && strcmp(out, named) != 0))
        return -1;
    if (found > 0)
        memcpy(out, named, sizeof(named));
    /* It is repeated in the answer. */
    for (const char *at = out; *at; at++)
        if (*at <= ' ' || *at > '~')
            return -1;
    return 0;
}

/* As E2B's own says it. In a stream it must be a frame: clients do not look into the body of a 401
 * there. */
static void unknown(struct call *call, const char *name)
{
    char text[NAME_MAX_LEN + 32];
    snprintf(text, sizeof(text), *name ? "invalid username: '%s'" : "invalid username", name);
    if (call->route->style != ERRORS_CONNECT_STREAM) {
        call_fail(call, 401, "%s", text);
        return;
    }
    frames_start(call);
    frames_finish(call, "unauthenticated", text);
}

bool user_given(struct call *call, const struct box *b)
{
    char name[NAME_MAX_LEN + 1];
    const struct box_info *info = box_info(b);
    if (wanted(exchange_request(call->x), name) < 0) {
        unknown(call, "");
        return false;
    }
    call->as_root = info->root_beside && strcmp(name, "root") == 0;
    if (call->as_root)
        return true;
    if (!name[0] || strcmp(name, "user") == 0 || (info->root && strcmp(name, "root") == 0))
        return true;
    if (strcmp(name, "root") == 0)
        call_fail(call, 403,
                  "template %s gives no root: its sandboxes have one user, and it is not root; a "
                  "template whose policy says kernel: {root: true} has both, one with kernel: "
                  "{uid: 0} has root alone",
                  info->template_name);
    else
        unknown(call, name);
    return false;
}
