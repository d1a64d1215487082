/* Reads brig-proxy's configuration out of the memory file that the supervisor sends. */
#include "proxy/config.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_MAX     (1024u * 1024)
#define CONNECTIONS    4096
#define NOBODY         65534
#define SEALS_EXPECTED (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

/* fstat is not used: the C library may make it a call that takes paths, which the filter refuses.
 * Reads from the beginning, wherever the writer left the offset. */
static ssize_t read_all(int fd, char *out, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = pread(fd, out + len, size - len, (off_t)len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : (ssize_t)len;
        len += (size_t)n;
    }
    return -EFBIG;
}

static int optional_string(const struct json *j, const char *key, const char **ret, struct err *err)
{
    const struct json *v = json_get(j, key);
    *ret = v ? json_string(v) : NULL;
    if (v && !*ret && json_type(v) != JSON_NULL)
        return err_set(err, ERR_PROTOCOL, "configuration: %s is no text", key);
    return 0;
}

static int optional_number(const struct json *j, const char *key, uint32_t *ret, struct err *err)
{
    const struct json *v = json_get(j, key);
    if (!v)
        return 0;
    if (json_type(v) != JSON_INT || json_int(v) < 0 || json_int(v) >= UINT32_MAX)
        return err_set(err, ERR_PROTOCOL, "configuration: %s is no number", key);
    *ret = (uint32_t)json_int(v);
    return 0;
}

static int read_members(struct config *c, struct err *err)
{
    const struct json *j = c->tree, *egress = json_get(j, "egress");
    c->who = (struct seal){NOBODY, NOBODY};
    c->max_connections = CONNECTIONS;
    if (!egress)
        return err_set(err, ERR_PROTOCOL, "configuration: no egress");
    if (optional_string(j, "auth", &c->auth, err) < 0 ||
        optional_string(j, "resolver", &c->resolver, err) < 0 ||
        optional_string(j, "roots", &c->roots, err) < 0 ||
        optional_number(j, "uid", &c->who.uid, err) < 0 ||
        optional_number(j, "gid", &c->who.gid, err) < 0 ||
        optional_number(j, "connections", &c->max_connections, err) < 0 ||
        optional_number(j, "cpus", &c->cpus_milli, err) < 0 ||
        optional_number(j, "learn", &c->learn, err) < 0)
        return err_number(err);
    c->rules = calloc(1, sizeof *c->rules);
    if (!c->rules)
        return err_memory(err);
    c->rules->refs = 1;
    egress_init(&c->rules->egress);
    return egress_read_json(&c->rules->egress, egress, err);
}

int config_read(int fd, struct config *ret, struct err *err)
{
    cleanup_free char *text = malloc(CONFIG_MAX);
    *ret = (struct config){0};
    if (!text)
        return err_memory(err);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS_EXPECTED) != SEALS_EXPECTED)
        return err_set(err, ERR_PROTOCOL, "configuration: not a sealed memory file");
    ssize_t len = read_all(fd, text, CONFIG_MAX);
    if (len < 0)
        return err_set(err, ERR_PROTOCOL, "configuration: cannot be read");
    int r = json_parse(text, (size_t)len, NULL, &ret->tree, err);
    if (r >= 0)
        r = read_members(ret, err);
    if (r < 0) {
        rules_drop(ret->rules);
        ret->rules = NULL;
        config_done(ret);
    }
    return r;
}

void config_done(struct config *c)
{
    json_free(c->tree);
    c->tree = NULL;
}

char *config_auth(const char *token)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    cleanup_free char *plain = NULL;
    int len = asprintf(&plain, "brig:%s", token);
    if (len < 0)
        return NULL;
    struct buf b;
    buf_init(&b, 64 * 1024);
    buf_str(&b, "Basic ");
    for (int i = 0; i < len; i += 3) {
        int have = len - i < 3 ? len - i : 3;
        uint32_t v = 0;
        for (int k = 0; k < 3; k++)
            v = v << 8 | (k < have ? (uint8_t)plain[i + k] : 0);
        for (int k = 0; k < 4; k++)
            buf_chr(&b, k <= have ? digits[v >> (18 - 6 * k) & 63] : '=');
    }
    if (b.failed) {
        buf_done(&b);
        return NULL;
    }
    return b.data;
}
