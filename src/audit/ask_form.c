/* Members of a request of `brig audit` or `brig keys`, and the lines of its answer. */
#include "audit/ask.h"

#include <errno.h>
#include <unistd.h>

uint64_t ask_number(const struct ask *a, const char *name, uint64_t otherwise)
{
    const struct json *j = json_get(a->request, name);
    return j && json_type(j) == JSON_INT && json_int(j) >= 0 ? (uint64_t)json_int(j) : otherwise;
}

const char *ask_text(const struct ask *a, const char *name)
{
    const struct json *j = json_get(a->request, name);
    return j ? json_string(j) : NULL;
}

bool ask_flag(const struct ask *a, const char *name)
{
    const struct json *j = json_get(a->request, name);
    return j && json_type(j) == JSON_BOOL && json_bool(j);
}

const char *ask_since(const struct ask *a, char room[static RECORD_TIME_SIZE])
{
    uint64_t us = ask_number(a, "since_us", 0);
    if (!us)
        return NULL;
    record_time((int64_t)us, room);
    return room;
}

int ask_end(struct ask *a, const char *how, struct err *err)
{
    buf_fmt(&a->out, "{\"end\":%s}\n", how);
    return ask_flush(a, err);
}

int ask_flush(struct ask *a, struct err *err)
{
    const char *p = buf_text(&a->out);
    size_t left = a->out.len;
    if (a->out.failed)
        return err_set(err, ERR_LIMIT, "a line of the answer is too long");
    while (left > 0) {
        ssize_t n = write(STDOUT_FILENO, p, left);
        if (n < 0 && errno != EINTR)
            return err_sys(err, "write");
        p += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    buf_reset(&a->out);
    return 0;
}
