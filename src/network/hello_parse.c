/* Reads a TLS ClientHello: server name, protocols, and whether the name is encrypted. */
#include "network/hello_parse.h"

#include <stdbool.h>
#include <string.h>

#define RECORD_HEAD 5
#define RECORD_MAX  (16u * 1024)
/* Today's clients send less than a third of this. */
#define EXTENSIONS_MAX 96

enum {
    CONTENT_HANDSHAKE = 22,
    HANDSHAKE_CLIENT_HELLO = 1,
    EXT_SERVER_NAME = 0,
    EXT_ALPN = 16,
    EXT_ECH = 0xfe0d,
    EXT_ESNI = 0xffce, /* its draft ancestor */
};

/* What is left to read; `bad` once something did not fit, and then there is nothing left. */
struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static const uint8_t *take(struct reader *r, size_t n)
{
    const uint8_t *at = r->at;
    if (r->bad || n > r->left) {
        r->bad = true;
        r->left = 0;
        return NULL;
    }
    r->at += n;
    r->left -= n;
    return at;
}

static unsigned take_number(struct reader *r, size_t bytes)
{
    unsigned value = 0;
    const uint8_t *at = take(r, bytes);
    /* take() has counted the bytes, which the analyser does not follow. */
    for (size_t i = 0; at && i < bytes; i++)
        value = value << 8 | at[i]; // NOLINT(clang-analyzer-core.*)
    return value;
}

/* A vector with a length of `bytes` bytes in front. */
static struct reader take_vector(struct reader *r, size_t bytes)
{
    size_t len = take_number(r, bytes);
    const uint8_t *at = take(r, len);
    return (struct reader){at, at ? len : 0, !at};
}

static int refuse(const char *why, struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "TLS: %s", why);
}

/* One name, of the only kind there is; RFC 6066 knows no trailing dot and no address here. */
static int read_server_name(struct reader ext, struct hello *ret, struct err *err)
{
    struct reader list = take_vector(&ext, 2);
    unsigned type = take_number(&list, 1);
    struct reader name = take_vector(&list, 2);
    if (ext.bad || list.bad || name.bad || ext.left || list.left || type != 0 || name.left == 0)
        return refuse("malformed server name", err);
    if (name.at[name.left - 1] == '.')
        return refuse("the server name ends in a dot", err);
    if (host_parse((const char *)name.at, name.left, false, &ret->sni, err) < 0)
        return err_wrap(err, "TLS server name");
    if (ret->sni.kind != HOST_NAME)
        return refuse("the server name is an address", err);
    ret->has_sni = true;
    return 0;
}

static bool is_protocol(const struct reader *r, const char *name)
{
    return r->left == strlen(name) && memcmp(r->at, name, r->left) == 0;
}

static int read_alpn(struct reader ext, struct hello *ret, struct err *err)
{
    struct reader list = take_vector(&ext, 2);
    ret->offers_http11 = false;
    if (ext.bad || ext.left || list.left == 0)
        return refuse("malformed list of protocols", err);
    while (list.left) {
        struct reader name = take_vector(&list, 1);
        if (name.bad || name.left == 0)
            return refuse("malformed list of protocols", err);
        ret->offers_http11 |= is_protocol(&name, "http/1.1");
        ret->offers_h2 |= is_protocol(&name, "h2");
    }
    return 0;
}

static int read_extension(unsigned type, struct reader ext, struct hello *ret, struct err *err)
{
    switch (type) {
    case EXT_SERVER_NAME:
        return read_server_name(ext, ret, err);
    case EXT_ALPN:
        return read_alpn(ext, ret, err);
    case EXT_ECH:
    case EXT_ESNI:
        ret->has_ech = true;
        return 0;
    default:
        return 0;
    }
}

/* Each extension at most once: of two, a server could use the other one than we do. */
static int read_extensions(struct reader all, struct hello *ret, struct err *err)
{
    uint16_t seen[EXTENSIONS_MAX];
    size_t count = 0;
    while (all.left) {
        unsigned type = take_number(&all, 2);
        struct reader ext = take_vector(&all, 2);
        if (all.bad || ext.bad || count == EXTENSIONS_MAX)
            return refuse("malformed extensions", err);
        for (size_t i = 0; i < count; i++)
            if (seen[i] == type)
                return refuse("an extension stands there twice", err);
        seen[count++] = (uint16_t)type;
        if (read_extension(type, ext, ret, err) < 0)
            return -ERR_PROTOCOL;
    }
    return 0;
}

static int read_hello(struct reader body, struct hello *ret, struct err *err)
{
    unsigned version = take_number(&body, 2);
    take(&body, 32); /* random */
    struct reader session = take_vector(&body, 1);
    struct reader suites = take_vector(&body, 2);
    struct reader compression = take_vector(&body, 1);
    if (body.bad || version >> 8 != 3 || session.left > 32 || suites.left < 2 || suites.left % 2 ||
        compression.left < 1)
        return refuse("malformed ClientHello", err);
    if (body.left == 0) /* an old client without extensions */
        return 0;
    struct reader extensions = take_vector(&body, 2);
    if (body.bad || extensions.bad || body.left)
        return refuse("malformed ClientHello", err);
    return read_extensions(extensions, ret, err);
}

/* Puts the handshake bytes of the leading records together. 1: there is a whole message in out;
 * 0: not yet. */
static int gather(const uint8_t *data, size_t len, uint8_t out[static HELLO_MAX], size_t *ret_len,
                  struct err *err)
{
    size_t at = 0, have = 0, need = 4;
    while (at < len) {
        const uint8_t *head = data + at;
        size_t left = len - at;
        if (head[0] != CONTENT_HANDSHAKE || (left > 1 && head[1] != 3) || (left > 2 && head[2] > 4))
            return refuse("not a handshake", err);
        if (left < RECORD_HEAD)
            return 0;
        size_t record = (size_t)(head[3] << 8 | head[4]);
        if (record == 0 || record > RECORD_MAX || have + record > HELLO_MAX)
            return refuse("a record of impossible length", err);
        size_t part = left - RECORD_HEAD < record ? left - RECORD_HEAD : record;
        memcpy(out + have, head + RECORD_HEAD, part);
        have += part;
        if (have >= 1 && out[0] != HANDSHAKE_CLIENT_HELLO)
            return refuse("not a ClientHello", err);
        if (have >= 4)
            need = 4 + ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]);
        if (need > HELLO_MAX)
            return refuse("a ClientHello of impossible length", err);
        if (part < record)
            return have > need ? refuse("something follows the ClientHello", err) : 0;
        at += RECORD_HEAD + record;
        if (have >= need)
            break;
    }
    if (have < need)
        return 0;
    if (have > need)
        return refuse("something follows the ClientHello", err);
    *ret_len = need;
    return 1;
}

int hello_parse(const uint8_t *data, size_t len, struct hello *ret, struct err *err)
{
    uint8_t message[HELLO_MAX];
    size_t message_len = 0;
    memset(ret, 0, sizeof *ret);
    ret->offers_http11 = true;
    int result = gather(data, len, message, &message_len, err);
    if (result == 0 && len >= HELLO_MAX)
        return refuse("the ClientHello does not end", err);
    if (result <= 0)
        return result;
    struct reader body = {message + 4, message_len - 4, false};
    result = read_hello(body, ret, err);
    return result < 0 ? result : 1;
}
