/* The list of keys of a policy document, and the message about an unknown one with the nearest that
 * is known. */
#include "policy/keys.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/fields.h"

#include <ctype.h>
#include <string.h>

/* Keys that are not scalar fields. */
static const struct {
    const char *section;
    const char *key;
} extra_keys[] = {
    {"", "version"},
    {"", "kernel"},
    {"", "filesystem"},
    {"", "network"},
    {"", "credentials"},
    {"", "lifecycle"},
    {"", "commands"},
    {"", "tools"},
    {"filesystem", "ro"},
    {"filesystem", "rw"},
    {"credentials", "env"},
    {"network", "allow"},
    {"network", "block"},
    {"network", "ask"},
    {"commands", "default"},
    {"commands", "dangerous"},
    {"commands", "allow"},
    {"commands", "ask"},
    {"commands", "deny"},
    {"credentials", "secrets"},
    {"network.allow", "host"},
    {"network.allow", "scheme"},
    {"network.allow", "port"},
    {"network.allow", "address"},
    {"network.allow", "methods"},
    {"network.allow", "paths"},
    {"network.allow", "pass"},
    {"network.allow", "upload"},
    {"network.allow", "max_connections"},
    {"network.allow", "requests"},
    {"credentials.secrets", "name"},
    {"credentials.secrets", "source"},
    {"credentials.secrets", "origin"},
    {"credentials.secrets", "methods"},
    {"credentials.secrets", "paths"},
    {"credentials.secrets", "header"},
    {"credentials.secrets", "query"},
    {"credentials.secrets", "basic"},
    {"credentials.secrets", "swap"},
    {"credentials.secrets", "ttl"},
    {"tools", "allow"},
    {"tools", "ask"},
    {"tools", "deny"},
    {"tools", "callbacks"},
    {"tools.allow", "name"},
    {"tools.allow", "arguments"},
    {"tools.ask", "name"},
    {"tools.ask", "arguments"},
    {"tools.deny", "name"},
    {"tools.deny", "arguments"},
};

static const char *const sections[] = {"kernel", "filesystem", "network", "credentials",
                                       "lifecycle"};

bool section_exists(const char *section)
{
    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        if (strcmp(sections[i], section) == 0)
            return true;
    }
    return false;
}

/* The i-th key of a section ("" is the top of the document), NULL after the last. */
static const char *key_at(const char *section, size_t i)
{
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (field_in_section(id, section) && i-- == 0)
            return field_key(id);
    }
    for (size_t k = 0; k < ARRAY_LEN(extra_keys); k++) {
        if (strcmp(extra_keys[k].section, section) == 0 && i-- == 0)
            return extra_keys[k].key;
    }
    return NULL;
}

#define KEY_MAX 24

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edits that turn a into b, letters compared without case. Both are at most KEY_MAX long. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[KEY_MAX + 1];
    size_t len = strlen(b);
    for (unsigned j = 0; j <= len; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            unsigned change = diagonal + !same;
            diagonal = row[j];
            row[j] = min3(row[j] + 1, row[j - 1] + 1, change);
        }
    }
    return row[len];
}

/* A typing slip in every three letters, or the beginning of the word. */
static bool is_near(const char *key, const char *known)
{
    size_t len = strlen(key);
    if (len == 0 || len > KEY_MAX)
        return false;
    if (len >= 3 && strncmp(key, known, len) == 0)
        return true;
    return distance(key, known) <= (strlen(known) + 2) / 3;
}

static const char *nearest(const char *section, const char *key)
{
    const char *best = NULL;
    const char *known;
    for (size_t i = 0; (known = key_at(section, i)); i++) {
        if (is_near(key, known) && (!best || distance(key, known) < distance(key, best)))
            best = known;
    }
    return best;
}

/* The key exists, but somewhere else: a section forgotten or mixed up. */
static const char *section_with(const char *key)
{
    for (size_t s = 0; s < ARRAY_LEN(sections); s++) {
        const char *known;
        for (size_t i = 0; (known = key_at(sections[s], i)); i++) {
            if (strcmp(known, key) == 0)
                return sections[s];
        }
    }
    return NULL;
}

static void suggest(const char *section, const char *key, struct buf *out)
{
    const char *home = section_with(key);
    const char *near = nearest(section, key);
    if (home)
        buf_fmt(out, ", did you mean %s.%s?", home, key);
    else if (near)
        buf_fmt(out, ", did you mean %s?", near);
}

int key_unknown(const char *section, const char *key, struct err *err)
{
    cleanup_buf struct buf text;
    struct quoted q;
    const char *known;
    buf_init(&text, sizeof err->message);
    buf_fmt(&text, "unknown key %s", quote(&q, key));
    if (*section)
        buf_fmt(&text, " in %s", section);
    suggest(section, key, &text);
    buf_str(&text, *section ? " (expected " : " (expected one of ");
    for (size_t i = 0; (known = key_at(section, i)); i++)
        buf_fmt(&text, "%s%s", i ? ", " : "", known);
    buf_str(&text, ")");
    return err_set(err, ERR_POLICY, "%s", buf_text(&text));
}
