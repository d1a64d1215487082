/* Logs: opening them, and writing a line. See log.h. */
#include "oci/log.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "oci/judge.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define LINE_MAX_BYTES (256u * 1024)

void oci_log_init(struct oci_log *l)
{
    *l = (struct oci_log){.engine = -1, .operators = -1};
}

void oci_log_close(struct oci_log *l)
{
    if (l->engine >= 0)
        close(l->engine);
    if (l->operators >= 0)
        close(l->operators);
    oci_log_init(l);
}

int oci_log_file(const char *path)
{
    struct stat sb;
    cleanup_fd int fd = open(
        path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode) || sb.st_uid != geteuid())
        return -1;
    return fd_steal(&fd);
}

int oci_log_open(struct oci_log *l, const char *engine, bool json, const struct oci_operator *o,
                 struct err *err)
{
    l->engine = engine ? oci_log_file(engine) : -1;
    l->engine_json = json;
    if (!o->log || geteuid() != 0)
        return 0; /* an ordinary user has no hand in the operator's files */
    l->operators = oci_log_file(o->log);
    if (l->operators >= 0)
        return 0;
    err_set(err, ERR_SYSTEM, "the operator's log %.200s cannot be written", o->log);
    return err_hint(
        err,
        "it is a plain file of root's in a folder that is there; see log in " OCI_OPERATOR_FILE);
}

void oci_log_time(char out[static 40])
{
    struct tm tm;
    time_t now = time(NULL);
    strftime(out, 40, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
}

static void write_json(struct buf *out, const char *level, const char *message, const char *key,
                       const struct buf *detail)
{
    char when[40];
    struct json_writer w;
    oci_log_time(when);
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "level", level);
    jw_kv_string(&w, "msg", message);
    jw_kv_string(&w, "time", when);
    jw_key(&w, key);
    jw_written(&w, detail);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

/* The message has our words alone; what others had a hand in is in the JSON, which has no control
 * characters. */
static void write_text(struct buf *out, const char *level, const char *message,
                       const struct buf *detail)
{
    char when[40];
    oci_log_time(when);
    buf_fmt(out, "%s %s: %s: ", when, level, message);
    buf_add(out, detail->data, detail->len);
    buf_chr(out, '\n');
}

/* In one go: several may write to one file, and lines are not torn. */
static void append(int fd, const struct buf *line)
{
    if (fd >= 0 && !line->failed)
        (void)!write(fd, line->data, line->len);
}

void oci_log_tell(const struct oci_log *l, const char *level, const char *message, const char *key,
                  const struct buf *detail)
{
    cleanup_buf struct buf json, text;
    buf_init(&json, LINE_MAX_BYTES);
    buf_init(&text, LINE_MAX_BYTES);
    write_json(&json, level, message, key, detail);
    write_text(&text, level, message, detail);
    append(l->operators, &json);
    append(l->engine, l->engine_json ? &json : &text);
}
