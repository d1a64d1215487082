/* Whatever the names are that a program asked for: what learn mode writes is a policy that reads
 * back as it was meant (learn_write checks that), it has no byte that a terminal would obey, and
 * nothing in it is wider than what was asked for or what the caller agreed to (LN-2). The last is
 * judged by the policy that is read back, not by its text: a star in the name of a file is a star.
 */
#include "policy/learn/learn.h"
#include "policy/paths.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* What was asked for, as paths; and the folders that were agreed to instead. */
static char *asked[4096];
static size_t asked_count;

static void note(const char *text)
{
    char *path = NULL;
    require(asked_count < sizeof asked / sizeof *asked);
    if (path_normalise(text, &path, NULL) >= 0)
        asked[asked_count++] = path;
}

static bool was_asked(const char *path)
{
    for (size_t i = 0; i < asked_count; i++)
        if (strcmp(asked[i], path) == 0)
            return true;
    return false;
}

static void forget(void)
{
    while (asked_count)
        free(asked[--asked_count]);
}

static bool may(void *ctx, const char *folder)
{
    (void)ctx;
    require(folder[0] == '/' && folder[1]);
    bool agreed = !strstr(folder, "secret");
    if (agreed && !was_asked(folder))
        note(folder);
    return agreed;
}

/* One record: a byte that says what it is, and a text up to a NUL. */
static void feed(struct learn *l, const struct policy *base, uint8_t kind, const char *text)
{
    char dest[512] = "/workspace/";
    struct learn_line line = {.kind = kind & 1 ? LEARN_RW : LEARN_RO,
                              .value = (char *)text,
                              .is_dir = kind & 2,
                              .looked = kind & 4,
                              .asked = (char *)text,
                              .risk = "low: it is a test",
                              .count = kind};
    switch (kind >> 5) {
    case 0:
        learn_host(l, text, text, "medium: it is a test", kind);
        break;
    case 1:
        learn_refuse(l, text, text, kind);
        break;
    case 2:
        learn_field(l, kind % FIELD_COUNT, text, text, NULL, 1);
        break;
    case 3:
        learn_limit(l, base, FIELD_DISK + kind % 8, text);
        break;
    case 4:
        strncat(dest, text, sizeof dest - strlen(dest) - 1);
        line.dest = dest;
        note(text);
        learn_grant(l, &line);
        break;
    default:
        note(text);
        learn_grant(l, &line);
        break;
    }
}

static void check_text(const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->data[i];
        require(c == '\n' || (c >= 0x20 && c != 0x7f));
    }
}

/* LN-2 */
static void check_meaning(const struct buf *text)
{
    struct policy p;
    require(policy_init(&p, LEVEL_HIGH) == 0 &&
            policy_load(&p, "learned", text->data, text->len, NULL) == 0);
    for (size_t i = 0; i < p.grant_count; i++)
        require(was_asked(p.grants[i].source));
    for (size_t i = 0; i < p.egress.rule_count; i++) {
        const struct egress_rule *r = &p.egress.rules[i];
        require(r->host.stars == 0 && r->paths.count == 0 && !r->pinned);
    }
    require(p.egress.secret_count == 0 && !p.egress.asks);
    policy_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct policy base;
    struct err err = ERR_INIT;
    struct learn *l = learn_new();
    char *copy = malloc(size + 1);
    require(l && copy && policy_init(&base, LEVEL_HIGH) == 0);
    memcpy(copy, data, size);
    copy[size] = '\0';
    for (size_t at = 0; at < size; at += strlen(copy + at) + 1)
        if (copy[at])
            feed(l, &base, (uint8_t)copy[at], copy + at + 1);
    learn_merge(l, may, NULL);
    /* A field that contradicts the rest is the one thing that may make the whole impossible; only a
     * caller's mistake could propose such a one. */
    if (learn_write(l, &base, &err) >= 0) {
        check_text(&l->policy);
        check_meaning(&l->policy);
    } else {
        require(err.code != ERR_INTERNAL && !strstr(err.message, "learned:"));
    }
    learn_free(l);
    forget();
    free(copy);
    policy_done(&base);
    return 0;
}
