/* The record of a run's network: reads the events of brig-proxy, counts them, keeps the last ones
 * and turns denials into entries of the run's list. */
#include "audit/netlog.h"

#include "base/cleanup.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EVENT_BYTES_MAX (16u * 1024)
#define RECENT_MAX      64
#define DENIED_MAX      64
#define ROWS_MAX        64

static const char other[] = "other";

/* One event, checked and cut to size. An empty text stands for null. */
struct entry {
    uint64_t time_ms;
    const char *entry;
    const char *verdict;
    char scheme[8];
    char method[24];
    char host[256];
    char path[512];
    char rule[288];
    char reason[32];
    char text[160];
    char hint[192];
    char note[160];
    uint64_t port, status, up, down, ms;
};

struct row {
    char key[256];
    uint64_t count;
};

/* Bounded: what comes when it is full is counted as one row. */
struct table {
    struct row rows[ROWS_MAX];
    size_t count;
    uint64_t other;
};

struct denied {
    char what[384];
    char reason[32];
    char text[160];
    char hint[192];
    uint64_t count;
};

struct netlog {
    uint64_t total, allowed, denied, errors;
    uint64_t bytes_up, bytes_down, lost;
    struct table methods, statuses, hosts;
    struct denied denials[DENIED_MAX];
    size_t denial_count;
    uint64_t denial_other;
    struct entry recent[RECENT_MAX];
    size_t recent_next; /* where the next one goes */
    size_t recent_count;
    bool changed;
    netlog_heard *heard;
    void *heard_ctx;
};

int netlog_new(struct netlog **ret, struct err *err)
{
    *ret = calloc(1, sizeof **ret);
    return *ret ? 0 : err_memory(err);
}

void netlog_free(struct netlog *n)
{
    free(n);
}

/* ---- reading ---- */

/* One of these words, or NULL. */
static const char *word_of(const struct json *event, const char *key, const char *const *words)
{
    const struct json *j = json_get(event, key);
    const char *text = j ? json_string(j) : NULL;
    for (size_t i = 0; text && words[i]; i++) {
        if (strcmp(words[i], text) == 0)
            return words[i];
    }
    return NULL;
}

/* Whole characters, and none that a terminal would obey. */
static void copy_clean(char *out, size_t size, const char *text)
{
    size_t used = 0;
    while (*text) {
        uint32_t code = 0;
        size_t len = utf8_decode(text, strnlen(text, 4), &code);
        bool control = len == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0);
        size_t room = control ? 1 : len;
        if (used + room >= size)
            break;
        if (control)
            out[used] = '?';
        else
            memcpy(out + used, text, len);
        used += room;
        text += len ? len : 1;
    }
    out[used] = '\0';
}

/* A text, null, or nothing. */
static bool read_text(const struct json *event, const char *key, char *out, size_t size)
{
    const struct json *j = json_get(event, key);
    out[0] = '\0';
    if (!j || json_type(j) == JSON_NULL)
        return true;
    if (json_type(j) != JSON_STRING)
        return false;
    copy_clean(out, size, json_string(j));
    return true;
}

static bool read_number(const struct json *event, const char *key, uint64_t max, uint64_t *ret)
{
    const struct json *j = json_get(event, key);
    *ret = 0;
    if (!j || json_type(j) == JSON_NULL)
        return true;
    if (json_type(j) != JSON_INT || json_int(j) < 0 || (uint64_t)json_int(j) > max)
        return false;
    *ret = (uint64_t)json_int(j);
    return true;
}

static bool read_texts(const struct json *event, struct entry *e)
{
    const struct {
        const char *key;
        char *out;
        size_t size;
    } texts[] = {
        {"scheme", e->scheme, sizeof e->scheme}, {"method", e->method, sizeof e->method},
        {"host", e->host, sizeof e->host},       {"path", e->path, sizeof e->path},
        {"rule", e->rule, sizeof e->rule},       {"reason", e->reason, sizeof e->reason},
        {"text", e->text, sizeof e->text},       {"hint", e->hint, sizeof e->hint},
        {"note", e->note, sizeof e->note},
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (!read_text(event, texts[i].key, texts[i].out, texts[i].size))
            return false;
    }
    /* The proxy leaves query strings out, but it is not trusted to do so. */
    e->path[strcspn(e->path, "?#")] = '\0';
    return true;
}

static bool read_event(const struct json *event, struct entry *e)
{
    static const char *const entries[] = {"proxy",   "connect", "transparent",
                                          "gateway", "dns",     NULL};
    static const char *const verdicts[] = {"allowed", "denied", "error", NULL};
    const struct {
        const char *key;
        uint64_t max;
        uint64_t *ret;
    } numbers[] = {
        {"time_ms", INT64_MAX, &e->time_ms}, {"port", UINT16_MAX, &e->port},
        {"status", 999, &e->status},         {"up", INT64_MAX, &e->up},
        {"down", INT64_MAX, &e->down},       {"ms", INT64_MAX, &e->ms},
    };
    if (json_type(event) != JSON_OBJECT)
        return false;
    e->entry = word_of(event, "entry", entries);
    e->verdict = word_of(event, "verdict", verdicts);
    if (!e->entry || !e->verdict || !read_texts(event, e))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        if (!read_number(event, numbers[i].key, numbers[i].max, numbers[i].ret))
            return false;
    }
    return true;
}

/* ---- counting ---- */

/* Up to what a JSON number holds. */
static void add(uint64_t *sum, uint64_t more)
{
    *sum = more > INT64_MAX - *sum ? INT64_MAX : *sum + more;
}

static void count(struct table *t, const char *key)
{
    size_t i = 0;
    while (i < t->count && strcmp(t->rows[i].key, key) != 0)
        i++;
    if (i == t->count && (i == ROWS_MAX || strcmp(key, other) == 0)) {
        add(&t->other, 1);
        return;
    }
    if (i == t->count)
        snprintf(t->rows[t->count++].key, sizeof t->rows[i].key, "%s", key);
    add(&t->rows[i].count, 1);
}

/* What was asked for, in one line: "GET https://evil.org:443/path", "dns evil.org". */
static void what_of(const struct entry *e, char *out, size_t size)
{
    bool v6 = strchr(e->host, ':') != NULL;
    bool with_path = strcmp(e->reason, "path") == 0 || strcmp(e->reason, "method") == 0;
    const char *host = e->host[0] ? e->host : "(no host)";
    char port[8] = "";
    if (strcmp(e->entry, "dns") == 0) {
        snprintf(out, size, "dns %s", host);
        return;
    }
    if (e->port)
        snprintf(port, sizeof port, ":%" PRIu64, e->port % 65536);
    snprintf(out, size, "%s%s%s%s%s%s%s%s%s", e->method, e->method[0] ? " " : "", e->scheme,
             e->scheme[0] ? "://" : "", v6 ? "[" : "", host, v6 ? "]" : "", port,
             with_path ? e->path : "");
}

static enum boundary_id boundary_of(const struct entry *e)
{
    bool secret = strcmp(e->reason, "credential") == 0 || strcmp(e->reason, "response") == 0;
    return secret ? BOUNDARY_CREDENTIALS : BOUNDARY_NETWORK;
}

static void add_denied(struct netlog *n, const struct entry *e, const char *what)
{
    size_t i = 0;
    while (i < n->denial_count &&
           (strcmp(n->denials[i].what, what) != 0 || strcmp(n->denials[i].reason, e->reason) != 0))
        i++;
    if (i == DENIED_MAX) {
        add(&n->denial_other, 1);
        return;
    }
    struct denied *d = &n->denials[i];
    if (i == n->denial_count) {
        n->denial_count++;
        snprintf(d->what, sizeof d->what, "%s", what);
        snprintf(d->reason, sizeof d->reason, "%s", e->reason);
        snprintf(d->text, sizeof d->text, "%s", e->text);
        snprintf(d->hint, sizeof d->hint, "%s", e->hint);
    }
    add(&d->count, 1);
}

void netlog_hear(struct netlog *n, netlog_heard *fn, void *ctx)
{
    n->heard = fn;
    n->heard_ctx = ctx;
}

static void tell(const struct netlog *n, const struct entry *e)
{
    struct netlog_denied d = {.entry = e->entry,
                              .scheme = e->scheme,
                              .method = e->method,
                              .host = e->host,
                              .path = e->path,
                              .reason = e->reason,
                              .text = e->text,
                              .hint = e->hint,
                              .port = (uint16_t)e->port};
    n->heard(n->heard_ctx, &d);
}

static void note(struct netlog *n, const struct entry *e, struct denial_list *denials)
{
    bool denied = strcmp(e->verdict, "denied") == 0;
    char status[8];
    n->total++;
    n->allowed += strcmp(e->verdict, "allowed") == 0;
    n->denied += denied;
    n->errors += strcmp(e->verdict, "error") == 0;
    add(&n->bytes_up, e->up);
    add(&n->bytes_down, e->down);
    count(&n->methods, e->method[0] ? e->method : strcmp(e->entry, "dns") == 0 ? "dns" : "tunnel");
    if (e->status) {
        snprintf(status, sizeof status, "%u", (unsigned)e->status);
        count(&n->statuses, status);
    }
    if (e->host[0])
        count(&n->hosts, e->host);
    char what[384];
    what_of(e, what, sizeof what);
    if (denied)
        add_denied(n, e, what);
    if (denied && n->heard)
        tell(n, e);
    if (denied && denials)
        denial_add(denials, boundary_of(e), what, e->text[0] ? e->text : e->reason, e->hint);
    /* A request that was allowed has a hint only where a placeholder went astray, or where its
     * answer held a secret. */
    if (!denied && e->hint[0] && denials)
        denial_add(denials, BOUNDARY_CREDENTIALS, what, "secrets stay with brig-proxy", e->hint);
    n->recent[n->recent_next] = *e;
    n->recent_next = (n->recent_next + 1) % RECENT_MAX;
    n->recent_count += n->recent_count < RECENT_MAX;
}

void netlog_add(struct netlog *n, const char *text, size_t len, struct denial_list *denials)
{
    static const struct json_limits limits = {EVENT_BYTES_MAX, 3, 64};
    struct json *event = NULL;
    struct entry e = {0};
    n->changed = true;
    if (json_parse(text, len, &limits, &event, NULL) == 0 && read_event(event, &e))
        note(n, &e, denials);
    else
        add(&n->lost, 1);
    json_free(event);
}

void netlog_lost(struct netlog *n, uint64_t events)
{
    add(&n->lost, events);
    n->changed |= events > 0;
}

bool netlog_changed(struct netlog *n)
{
    bool changed = n->changed;
    n->changed = false;
    return changed;
}

/* ---- writing ---- */

static int compare_rows(const void *a, const void *b)
{
    const struct row *const *x = a;
    const struct row *const *y = b;
    if ((*x)->count != (*y)->count)
        return (*x)->count > (*y)->count ? -1 : 1;
    return strcmp((*x)->key, (*y)->key);
}

/* The most frequent first. */
static void write_table(struct json_writer *w, const char *key, const struct table *t)
{
    const struct row *sorted[ROWS_MAX] = {NULL};
    for (size_t i = 0; i < t->count; i++)
        sorted[i] = &t->rows[i];
    qsort(sorted, t->count, sizeof *sorted, compare_rows);
    jw_key(w, key);
    jw_object_begin(w);
    for (size_t i = 0; i < t->count; i++)
        jw_kv_uint(w, sorted[i]->key, sorted[i]->count);
    if (t->other)
        jw_kv_uint(w, other, t->other);
    jw_object_end(w);
}

static void write_denied(struct json_writer *w, const struct netlog *n)
{
    jw_key(w, "denied_list");
    jw_array_begin(w);
    for (size_t i = 0; i < n->denial_count; i++) {
        const struct denied *d = &n->denials[i];
        jw_object_begin(w);
        jw_kv_string(w, "what", d->what);
        jw_kv_string(w, "reason", d->reason);
        jw_kv_string(w, "text", d->text);
        jw_kv_string(w, "hint", d->hint);
        jw_kv_uint(w, "count", d->count);
        jw_object_end(w);
    }
    if (n->denial_other) {
        jw_object_begin(w);
        jw_kv_string(w, "what", other);
        jw_kv_string(w, "reason", "");
        jw_kv_string(w, "text", "");
        jw_kv_string(w, "hint", "");
        jw_kv_uint(w, "count", n->denial_other);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_text(struct json_writer *w, const char *key, const char *text)
{
    jw_kv_string(w, key, text[0] ? text : NULL);
}

static void write_event(struct json_writer *w, const struct entry *e)
{
    jw_object_begin(w);
    jw_kv_uint(w, "time_ms", e->time_ms);
    jw_kv_string(w, "entry", e->entry);
    jw_kv_string(w, "verdict", e->verdict);
    write_text(w, "scheme", e->scheme);
    write_text(w, "method", e->method);
    write_text(w, "host", e->host);
    jw_kv_uint(w, "port", e->port);
    write_text(w, "path", e->path);
    jw_key(w, "status");
    if (e->status)
        jw_uint(w, e->status);
    else
        jw_null(w);
    write_text(w, "rule", e->rule);
    write_text(w, "reason", e->reason);
    write_text(w, "text", e->text);
    write_text(w, "hint", e->hint);
    write_text(w, "note", e->note);
    jw_kv_uint(w, "up", e->up);
    jw_kv_uint(w, "down", e->down);
    jw_kv_uint(w, "ms", e->ms);
    jw_object_end(w);
}

static void write_recent(struct json_writer *w, const struct netlog *n)
{
    size_t first = (n->recent_next + RECENT_MAX - n->recent_count) % RECENT_MAX;
    jw_key(w, "recent");
    jw_array_begin(w);
    for (size_t i = 0; i < n->recent_count; i++)
        write_event(w, &n->recent[(first + i) % RECENT_MAX]);
    jw_array_end(w);
}

void netlog_write_json(const struct netlog *n, struct json_writer *w, bool recent)
{
    jw_object_begin(w);
    jw_kv_uint(w, "total", n->total);
    jw_kv_uint(w, "allowed", n->allowed);
    jw_kv_uint(w, "denied", n->denied);
    jw_kv_uint(w, "errors", n->errors);
    write_table(w, "by_method", &n->methods);
    write_table(w, "by_status", &n->statuses);
    write_table(w, "by_host", &n->hosts);
    write_denied(w, n);
    if (recent)
        write_recent(w, n);
    jw_kv_uint(w, "bytes_up", n->bytes_up);
    jw_kv_uint(w, "bytes_down", n->bytes_down);
    jw_kv_uint(w, "lost", n->lost);
    jw_object_end(w);
}
