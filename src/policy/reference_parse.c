/* Names of images and digests: the grammar, without looking at anything. */
#include "base/hex.h"
#include "base/quote.h"
#include "base/text.h"
#include "policy/reference.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SHA256_BYTES 32
#define TAG_MAX      128

bool digest_valid(const char *text)
{
    uint8_t bytes[SHA256_BYTES];
    return text && text_begins(text, "sha256:") && hex_decode(text + 7, bytes, sizeof bytes);
}

const char *reference_of_root(const char *root)
{
    return root && text_begins(root, IMAGE_ROOT) ? root + strlen(IMAGE_ROOT) : NULL;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Words with ".", "_", "__" or dashes between them. */
static bool component_ok(const char *at, size_t len)
{
    size_t i = 0;
    for (;;) {
        size_t start = i;
        while (i < len && is_word(at[i]))
            i++;
        if (i == start)
            return false;
        if (i == len)
            return true;
        size_t mark = i;
        while (i < len && at[i] == at[mark] && strchr("._-", at[i]))
            i++;
        size_t marks = i - mark;
        if (marks == 0 || (at[mark] == '.' && marks > 1) || (at[mark] == '_' && marks > 2))
            return false;
    }
}

/* HOST:PORT, before the first slash. */
static bool host_ok(const char *at, size_t len)
{
    const char *colon = memchr(at, ':', len);
    if (!colon)
        return component_ok(at, len);
    size_t port = len - (size_t)(colon - at) - 1;
    unsigned number = 0;
    for (size_t i = 0; i < port; i++) {
        char c = colon[1 + i];
        if (c < '0' || c > '9' || port > 5)
            return false;
        number = number * 10 + (unsigned)(c - '0');
    }
    return port > 0 && colon[1] != '0' && number <= 65535 && component_ok(at, (size_t)(colon - at));
}

static bool path_ok(const char *at, size_t len)
{
    for (bool first = true; len; first = false) {
        const char *slash = memchr(at, '/', len);
        size_t part = slash ? (size_t)(slash - at) : len;
        if (!(first && slash ? host_ok(at, part) : component_ok(at, part)))
            return false;
        if (!slash)
            return true;
        at += part + 1;
        len -= part + 1;
    }
    return false;
}

static bool tag_ok(const char *at, size_t len)
{
    if (len == 0 || len > TAG_MAX || at[0] == '.' || at[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_word(at[i]) && !(at[i] >= 'A' && at[i] <= 'Z') && !(at[i] && strchr("._-", at[i])))
            return false;
    return true;
}

static int bad(const char *text, const char *why, struct err *err)
{
    struct quoted q;
    err_set(err, ERR_USAGE, "%s is not the name of an image: %s", quote(&q, text), why);
    return err_hint(err, "expected NAME[:TAG][@sha256:…], such as python:3.12-slim or "
                         "localhost:5000/team/tool:v1");
}

int reference_parse(const char *text, struct reference *ret, struct err *err)
{
    *ret = (struct reference){.name = ""};
    const char *at = strchr(text, '@');
    size_t len = at ? (size_t)(at - text) : strlen(text);
    if (at && !digest_valid(at + 1))
        return bad(text, "behind @ stands sha256: and 64 digits", err);
    size_t name = len;
    while (name > 0 && text[name - 1] != ':' && text[name - 1] != '/')
        name--;
    bool tagged = name > 0 && text[name - 1] == ':';
    size_t path = tagged ? name - 1 : len;
    if (len > REFERENCE_MAX - (tagged ? 0 : strlen(":latest")))
        return bad(text, "it is too long", err);
    if (tagged && !tag_ok(text + name, len - name))
        return bad(text, "its tag", err);
    if (!path_ok(text, path))
        return bad(text, "lower-case words, with . _ - between them, in parts with / between them",
                   err);
    snprintf(ret->name, sizeof ret->name, "%.*s%s", (int)len, text, tagged ? "" : ":latest");
    if (at)
        snprintf(ret->digest, sizeof ret->digest, "%s", at + 1);
    return 0;
}
