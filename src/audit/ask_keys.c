/* API keys, as the daemon keeps them. What is written here is recorded by the recorder: see
 * recorder_keys.c. */
#include "audit/ask.h"

#include "base/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#define TELL_MS 5000

static int print_key(void *ctx, const char *table, const char *key, const char *value,
                     struct err *err)
{
    struct ask *a = ctx;
    struct json_writer w;
    jw_init(&w, &a->out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "id", key);
    jw_key(&w, "value");
    buf_str(&a->out, value);
    w.after_key = false;
    jw_object_end(&w);
    buf_chr(&a->out, '\n');
    return ask_flush(a, err);
}

int ask_keys_list(struct ask *a, struct err *err)
{
    if (store_each(a->store, "keys", print_key, a, err) < 0)
        return err_number(err);
    return ask_end(a, "{}", err);
}

/* True once the recorder has written it down and told the front. */
static bool await_told(struct ask *a, const char *id)
{
    struct timespec pause = {.tv_nsec = 5000000};
    for (int waited = 0; waited < TELL_MS; waited += 5) {
        if (store_has(a->store, "keys", id, true))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* "now", "next start", or why not. */
static const char *tell_daemon(struct ask *a, const char *id)
{
    pid_t owner = store_owner(a->folder);
    if (owner == 0)
        return "next start";
    if (owner < 0 || kill(owner, SIGHUP) < 0)
        return "unknown";
    return await_told(a, id) ? "now" : "unknown";
}

int ask_keys_put(struct ask *a, struct err *err)
{
    const char *id = ask_text(a, "id");
    const struct json *value = json_get(a->request, "value");
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, 16384);
    if (!id || !value || json_type(value) != JSON_OBJECT)
        return err_set(err, ERR_USAGE, "which key?");
    jw_init(&w, &text, false);
    jw_json(&w, value);
    if (text.failed)
        return err_set(err, ERR_LIMIT, "the key's row is too long");
    if (store_put_key(a->store, id, buf_text(&text), err) < 0)
        return err_number(err);
    return ask_end(a, JSON_SMALL(JSON_TEXT("effect", tell_daemon(a, id))), err);
}
