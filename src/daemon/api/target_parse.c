/* Which sandbox and which face: see target.h. */
#include "daemon/api/target.h"

#include "base/hex.h"
#include "base/utf8.h"
#include "http/query.h"
#include "http/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static enum face face_of_port(uint16_t port)
{
    return port == ENVD_PORT ? FACE_ENVD : port == INTERPRETER_PORT ? FACE_INTERPRETER : FACE_PORT;
}

/* "3000-<id>" as the first label. Anything else is a name of the daemon itself. */
static bool target_by_host(const char *host, struct api_target *ret)
{
    size_t label = strcspn(host, ".");
    size_t dash = strcspn(host, "-");
    uint16_t port;
    if (!host[label] || dash >= label || label - dash - 1 != BOX_ID_LEN)
        return false;
    if (port_parse(host, dash, &port) < 0)
        return false;
    memcpy(ret->id, host + dash + 1, BOX_ID_LEN);
    ret->id[BOX_ID_LEN] = '\0';
    if (!box_id_valid(ret->id)) {
        ret->id[0] = '\0';
        return false;
    }
    ret->port = port;
    return true;
}

static int target_by_headers(const struct target_head *head, struct api_target *ret,
                             struct err *err)
{
    uint16_t port = ENVD_PORT;
    if (!box_id_valid(head->id))
        return err_set(err, ERR_USAGE, "E2b-Sandbox-Id: a sandbox id is %d letters and digits",
                       BOX_ID_LEN);
    if (head->port && port_parse(head->port, strlen(head->port), &port) < 0)
        return err_set(err, ERR_USAGE, "E2b-Sandbox-Port: expected a port from 1 to 65535");
    if (ret->id[0] && (strcmp(ret->id, head->id) != 0 || ret->port != port))
        return err_set(err, ERR_USAGE,
                       "the Host and the E2b-Sandbox headers name different "
                       "sandboxes or ports");
    memcpy(ret->id, head->id, BOX_ID_LEN + 1);
    ret->port = port;
    return 0;
}

static bool is_signed_file(const char *target)
{
    char signature[PARAM_LEN];
    size_t path = strcspn(target, "?");
    return path == strlen("/files") && !memcmp(target, "/files", path) &&
           target_query(target, "signature", signature, sizeof(signature), NULL) != 0;
}

int target_parse(const struct target_head *head, struct api_target *ret, struct err *err)
{
    *ret = (struct api_target){.face = FACE_API};
    if (head->host)
        target_by_host(head->host, ret);
    if (head->id) {
        if (target_by_headers(head, ret, err) < 0)
            return -EINVAL;
    } else if (head->port && !ret->id[0]) {
        return err_set(err, ERR_USAGE, "E2b-Sandbox-Port without E2b-Sandbox-Id");
    }
    if (ret->id[0])
        ret->face = face_of_port(ret->port);
    if (ret->face <= FACE_ENVD && head->target && is_signed_file(head->target)) {
        ret->face = FACE_ENVD;
        ret->is_signed = true;
    }
    return 0;
}

static bool is_utf8(const char *text, size_t len)
{
    uint32_t code;
    while (len) {
        size_t n = utf8_decode(text, len, &code);
        if (!n)
            return false;
        text += n;
        len -= n;
    }
    return true;
}

int percent_decode(const char *text, size_t len, bool form, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)text[i];
        if (n + 1 >= size)
            return -ENAMETOOLONG;
        if (c == '%') {
            c = len - i > 2 ? hex_byte(text + i + 1) : -1;
            if (c < 0)
                return -EINVAL;
            i += 2;
        } else if (c == '+' && form) {
            c = ' ';
        }
        if (!c)
            return -EINVAL;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return is_utf8(out, n) ? 0 : -EILSEQ;
}

int target_query(const char *target, const char *name, char *out, size_t size, struct err *err)
{
    const char *text = strchr(target, '?');
    struct query q;
    const char *value;
    int result = 0;
    if (!text)
        return 0;
    if (query_parse(text + 1, strlen(text + 1), &q, err) < 0)
        return err_wrap(err, "%s", name);
    value = query_get(&q, name);
    if (value && (strlen(value) >= size || !is_utf8(value, strlen(value))))
        result = err_set(err, ERR_USAGE, "%s: malformed or too long", name);
    else if (value)
        result = snprintf(out, size, "%s", value) >= 0;
    query_done(&q);
    return result;
}

static size_t segment_len(const char *text)
{
    return strcspn(text, "/");
}

bool path_match(const char *pattern, const char *path, struct params *ret)
{
    ret->count = 0;
    while (*pattern == '/' && *path == '/') {
        size_t want = segment_len(++pattern);
        size_t have = segment_len(++path);
        if (*pattern == '{') {
            if (!have || have >= PARAM_LEN || ret->count == PARAMS_MAX)
                return false;
            memcpy(ret->value[ret->count], path, have);
            ret->value[ret->count++][have] = '\0';
        } else if (want != have || memcmp(pattern, path, want) != 0) {
            return false;
        }
        pattern += want;
        path += have;
    }
    return !*pattern && !*path;
}
