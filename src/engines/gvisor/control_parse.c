/* Reads the Sentry's answers to calls: {"success":true,"err":"","result":0}; and the word of a
 * leader. The Sentry is what the code attacks first, so its words are as hostile as the code's. */
#include "engines/gvisor/gvisor.h"
#include "engines/gvisor/lead.h"

#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Where the object ends, or 0: objects come one after another, with nothing between them. */
static size_t object_end(const char *text, size_t len)
{
    unsigned depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && text[i] == '{')
            depth++;
        else if (!quoted && text[i] == '}' && --depth == 0)
            return i + 1;
    }
    return 0;
}

static void copy_printable(const char *from, char *to, size_t size)
{
    size_t n = 0;
    for (; from && from[n] && n + 1 < size; n++)
        to[n] = from[n] >= ' ' && from[n] <= '~' ? from[n] : '?';
    to[n] = '\0';
}

int control_parse(const char *text, size_t len, struct control_answer *ret)
{
    static const struct json_limits limits = {
        .max_bytes = 65536, .max_depth = 8, .max_nodes = 1024};
    struct err err = ERR_INIT;
    struct json *tree = NULL;
    *ret = (struct control_answer){0};
    if (len && text[0] != '{')
        return -EPROTO;
    size_t end = object_end(text, len);
    if (!end)
        return len < limits.max_bytes ? 0 : -EPROTO;
    if (json_parse(text, end, &limits, &tree, &err) < 0)
        return -EPROTO;
    ret->len = end;
    ret->success = json_flag(tree, "success");
    ret->result = json_number(tree, "result");
    copy_printable(json_shown(tree, "err"), ret->why, sizeof ret->why);
    json_free(tree);
    return 1;
}

/* GV-5: its bytes are the code's, if the code wants that. */
int lead_word_parse(const void *bytes, size_t len, struct lead_word *ret)
{
    if (len != sizeof *ret)
        return -EPROTO;
    memcpy(ret, bytes, sizeof *ret);
    if (ret->stage < LEAD_STARTED || ret->stage >= LEAD_STAGE_COUNT)
        return -EPROTO;
    if (ret->why <= 0 || ret->why > 133) /* the last that Linux has */
        ret->why = EIO;
    return 0;
}
