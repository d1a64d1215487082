/* The description of the container that runsc is given. Nothing of it comes from inside of the
 * sandbox: brig alone says what the Sentry is asked for (GV-4). */
#include "engines/gvisor/gvisor.h"

#include "base/json.h"

#include <string.h>

static void write_strings(struct json_writer *w, const char *key, char *const *list)
{
    jw_kv_array(w, key);
    for (; *list; list++)
        jw_string(w, *list);
    jw_array_end(w);
}

static void write_limit(struct json_writer *w, const char *type, uint64_t value)
{
    jw_object_begin(w);
    jw_kv_string(w, "type", type);
    jw_kv_uint(w, "soft", value);
    jw_kv_uint(w, "hard", value);
    jw_object_end(w);
}

/* How large a file may be is the Sentry's to keep: its own memory is one. */
static void write_limits(struct json_writer *w, const struct sentry_code *code)
{
    jw_kv_array(w, "rlimits");
    write_limit(w, "RLIMIT_NOFILE", code->files);
    if (code->file_size)
        write_limit(w, "RLIMIT_FSIZE", code->file_size);
    jw_array_end(w);
}

/* No capability is named: the code has none, whatever its uid is called. */
static void write_process(struct json_writer *w, const struct sentry_code *code)
{
    jw_kv_object(w, "process");
    jw_kv_bool(w, "terminal", code->terminal);
    jw_kv_object(w, "user");
    jw_kv_uint(w, "uid", code->uid);
    jw_kv_uint(w, "gid", code->uid);
    jw_object_end(w);
    write_strings(w, "args", code->argv);
    write_strings(w, "env", code->env);
    jw_kv_string(w, "cwd", code->cwd);
    jw_kv_bool(w, "noNewPrivileges", true);
    write_limits(w, code);
    jw_object_end(w);
}

static void write_mount(struct json_writer *w, const char *type, const char *place)
{
    jw_object_begin(w);
    jw_kv_string(w, "destination", place);
    jw_kv_string(w, "type", type);
    jw_kv_string(w, "source", place);
    if (strcmp(type, "tmpfs") == 0) {
        jw_kv_array(w, "options");
        jw_string(w, "mode=1777");
        jw_array_end(w);
    }
    jw_object_end(w);
}

/* Of a container: what brig oci says of it, and our mounts. */
static void write_given(struct json_writer *w, const struct json *spec)
{
    for (size_t i = 0; i < json_count(spec); i++)
        jw_kv_json(w, json_key_at(spec, i), json_value_at(spec, i));
}

static void write_own(struct json_writer *w, const struct sentry_code *code)
{
    jw_kv_string(w, "ociVersion", "1.0.2");
    write_process(w, code);
    jw_kv_string(w, "hostname", "brig");
    jw_kv_object(w, "linux");
    jw_object_end(w);
}

/* /proc, /sys and /dev are the Sentry's own; its /dev/shm would be root's alone. /tmp is named
 * because the Sentry would else put memory of its own there: the workspace's quota is to hold for
 * it. */
void spec_write(const struct sentry_code *code, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    if (code->contained)
        write_given(&w, code->spec);
    else
        write_own(&w, code);
    jw_kv_object(&w, "root");
    jw_kv_string(&w, "path", "/");
    jw_object_end(&w);
    jw_kv_array(&w, "mounts");
    write_mount(&w, "proc", "/proc");
    if (!code->contained || code->tmp)
        write_mount(&w, "bind", "/tmp");
    write_mount(&w, "tmpfs", "/dev/shm");
    jw_array_end(&w);
    jw_object_end(&w);
}
