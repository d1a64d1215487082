/* Reads what brig-unpack reports at its end. It is trusted as little as the archive that it read.
 * No I/O. */
#include "base/quote.h"
#include "images/load/load.h"

#include <stdio.h>

static int read_failure(const struct json *doc, struct err *err)
{
    struct quoted q;
    int64_t code = json_number(doc, "code");
    bool limit = code == ERR_LIMIT || code == ERR_SYSTEM;
    char message[400];
    const char *text = json_shown(doc, "message");
    if (!text[0])
        return err_set(err, ERR_REFUSED, "brig-unpack failed without a word");
    snprintf(message, sizeof message, "%s", text_has_control(text) ? quote(&q, text) : text);
    err_set(err, limit ? ERR_LIMIT : ERR_REFUSED, "%s", message);
    const char *hint = json_shown(doc, "hint");
    return hint[0] && !text_has_control(hint) ? err_hint(err, "%.200s", hint) : err_number(err);
}

int unpack_report_read(const char *text, size_t len, int status, bool hashed, struct unpacked *ret,
                       struct err *err)
{
    struct json *doc = NULL;
    if (json_parse(text, len, &json_default_limits, &doc, err) < 0)
        return err_set(err, ERR_REFUSED, "brig-unpack ended with status %d and no answer", status);
    int result = 0;
    if (status != 0)
        result = read_failure(doc, err);
    else if (hashed && !digest_valid(json_text(doc, "diff_id")))
        result = err_set(err, ERR_PROTOCOL, "brig-unpack gave no answer");
    if (result == 0) {
        ret->bytes = json_uint(doc, "bytes");
        ret->entries = json_uint(doc, "entries");
        ret->left_out = json_uint(doc, "left_out");
        if (hashed)
            snprintf(ret->diff_id, sizeof ret->diff_id, "%s", json_text(doc, "diff_id"));
    }
    json_free(doc);
    return result;
}
