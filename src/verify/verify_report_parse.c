/* Reads a line that an attack printed inside a sandbox. */
#include "verify/report.h"

#include <stdlib.h>
#include <string.h>

struct cursor {
    const char *at, *end;
};

/* Up to the next tab, or to the end for the last one. */
static bool take_field(struct cursor *c, bool last, char *out, size_t size)
{
    const char *tab = last ? c->end : memchr(c->at, '\t', (size_t)(c->end - c->at));
    size_t len = tab ? (size_t)(tab - c->at) : 0;
    if (!tab || len >= size)
        return false;
    for (size_t i = 0; i < len; i++)
        if (c->at[i] < 0x20 || c->at[i] > 0x7e)
            return false;
    memcpy(out, c->at, len);
    out[len] = '\0';
    c->at = last ? c->end : tab + 1;
    return true;
}

static bool take_number(struct cursor *c, long low, long high, int *ret)
{
    char text[12], *end;
    if (!take_field(c, false, text, sizeof text) || !text[0])
        return false;
    long n = strtol(text, &end, 10);
    if (*end || n < low || n > high)
        return false;
    *ret = (int)n;
    return true;
}

static bool read_outcome(struct cursor *c, struct report *r)
{
    int worked;
    struct outcome *o = &r->outcome;
    if (!take_field(c, false, r->id, sizeof r->id) || !r->id[0] || !take_number(c, 0, 1, &worked) ||
        !take_number(c, ATTACK_NOTHING, 4095, &o->code) || !take_number(c, 0, 64, &o->signal) ||
        !take_field(c, true, o->detail, sizeof o->detail))
        return false;
    o->worked = worked;
    o->reported = true;
    return !(o->worked && (o->code || o->signal));
}

void report_parse(const char *line, size_t len, struct report *ret)
{
    struct cursor c = {line, line + len};
    *ret = (struct report){.kind = REPORT_NOTHING};
    if (len == 5 && memcmp(line, "@look", 5) == 0) {
        ret->kind = REPORT_LOOK;
    } else if (len > 6 && memcmp(line, "@home\t", 6) == 0) {
        c.at += 6;
        if (take_field(&c, true, ret->home, sizeof ret->home))
            ret->kind = REPORT_HOME;
    } else if (read_outcome(&c, ret)) {
        ret->kind = REPORT_OUTCOME;
    } else {
        *ret = (struct report){.kind = REPORT_NOTHING};
    }
}
