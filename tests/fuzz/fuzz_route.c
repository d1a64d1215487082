/* Host, headers, target and pattern of a request, as lines: what is aimed at has a good id and
 * port, what is decoded is shorter than its text and free of NUL, and a path is matched segment by
 * segment. */
#include "daemon/api/target.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *next_line(char **at)
{
    char *line = *at;
    if (!line)
        return NULL;
    char *end = strchr(line, '\n');
    *at = end ? end + 1 : NULL;
    if (end)
        *end = '\0';
    return *line == '-' && !line[1] ? NULL : line;
}

static void check_target(const struct target_head *head)
{
    struct err err = ERR_INIT;
    struct api_target target;
    if (target_parse(head, &target, &err) < 0) {
        if (!err.message[0])
            abort();
        return;
    }
    if (target.id[0] && (!box_id_valid(target.id) || !target.port || target.face == FACE_API))
        abort();
    if (!target.id[0] && target.face != (target.is_signed ? FACE_ENVD : FACE_API))
        abort();
}

static void check_query(const char *target)
{
    char out[256];
    if (target_query(target, "path", out, sizeof(out), NULL) == 1 && strlen(out) > strlen(target))
        abort();
    if (percent_decode(target, strlen(target), true, out, sizeof(out)) == 0) {
        uint32_t code;
        for (size_t at = 0, n; out[at]; at += n)
            if (!(n = utf8_decode(out + at, strlen(out + at), &code)))
                abort();
    }
}

static void check_path(const char *pattern, const char *path)
{
    struct params params;
    if (!path_match(pattern, path, &params))
        return;
    if (params.count > PARAMS_MAX)
        abort();
    for (unsigned i = 0; i < params.count; i++)
        if (!params.value[i][0] || strchr(params.value[i], '/'))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    char *at = text;
    struct target_head head;
    if (!text)
        return 0;
    head.host = next_line(&at);
    head.id = next_line(&at);
    head.port = next_line(&at);
    head.target = next_line(&at);
    check_target(&head);
    if (head.target) {
        check_query(head.target);
        check_path("/sandboxes/{id}/timeout", head.target);
        check_path("/{a}/{b}/{c}", head.target);
        if (at)
            check_path(at, head.target);
    }
    free(text);
    return 0;
}
