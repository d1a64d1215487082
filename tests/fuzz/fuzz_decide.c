/* Any rules, any target: what is allowed is allowed by a rule that names it, a blocked host never
 * is, a rule more takes nothing away, and the rule that a hint would add does allow it.
 *
 * One line each: "+HOST SCHEME PORT [METHOD|-] [PATH]" a rule, "-HOST" blocked, "?HOST SCHEME PORT
 * [METHOD] [PATH]" a target. */
#include "network/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX 16

struct world {
    struct egress egress;
    struct egress_rule rules[MAX + 1];
    struct host_pattern blocked[MAX];
    char methods[MAX][32], paths[MAX][128];
    char *method_items[MAX], *path_items[MAX];
};

static void require(int condition)
{
    if (!condition)
        abort();
}

struct line {
    char host[256], scheme[8], method[32], path[128];
    unsigned port;
};

static bool read_line(const char *text, struct line *l)
{
    memset(l, 0, sizeof *l);
    return sscanf(text, "%255s %7s %u %31s %127s", l->host, l->scheme, &l->port, l->method,
                  l->path) >= 3;
}

static enum scheme scheme_of(const char *name)
{
    for (enum scheme s = SCHEME_ANY; s < SCHEME_COUNT; s++)
        if (strcmp(name, scheme_name(s)) == 0)
            return s;
    return SCHEME_ANY;
}

static void add_rule(struct world *w, const char *text)
{
    struct line l;
    struct err err = ERR_INIT;
    size_t i = w->egress.rule_count;
    struct egress_rule r = {.scheme = SCHEME_ANY};
    if (i == MAX || !read_line(text, &l) ||
        host_pattern_parse(l.host, strlen(l.host), &r.host, &err) < 0)
        return;
    r.scheme = scheme_of(l.scheme);
    r.port = (uint16_t)l.port;
    w->method_items[i] = w->methods[i];
    w->path_items[i] = w->paths[i];
    memcpy(w->methods[i], l.method, sizeof l.method);
    memcpy(w->paths[i], l.path, sizeof l.path);
    if (l.method[0] && strcmp(l.method, "-") != 0)
        r.methods = (struct text_list){&w->method_items[i], 1};
    if (l.path[0] && path_pattern_check(l.path, &err) == 0)
        r.paths = (struct text_list){&w->path_items[i], 1};
    w->rules[i] = r;
    w->egress.rule_count++;
}

static void add_blocked(struct world *w, const char *text)
{
    struct err err = ERR_INIT;
    if (w->egress.blocked_count < MAX &&
        host_pattern_parse(text, strlen(text), &w->blocked[w->egress.blocked_count], &err) == 0)
        w->egress.blocked_count++;
}

static bool blocked(const struct world *w, const struct target *t)
{
    for (size_t i = 0; i < w->egress.blocked_count; i++)
        if (host_pattern_match(&w->blocked[i], &t->host))
            return true;
    return false;
}

static void check_allowed(const struct world *w, const struct target *t, const struct verdict *v)
{
    require(v->reason == DENY_NONE && v->rule < w->egress.rule_count && !v->hint[0]);
    const struct egress_rule *r = &w->rules[v->rule];
    bool known = t->method[0] || t->path;
    require(host_pattern_match(&r->host, &t->host) && r->port == t->port);
    require(t->scheme == SCHEME_ANY || r->scheme == SCHEME_ANY || r->scheme == t->scheme);
    require(!known || !r->methods.count || strcmp(r->methods.items[0], t->method) == 0);
    require(!known || !r->paths.count || path_pattern_match(r->paths.items[0], t->path));
    require(t->scheme != SCHEME_TCP || (!r->methods.count && !r->paths.count));
    require(t->host.kind == HOST_NAME || r->host.stars == STARS_NONE ||
            r->host.stars == STARS_RANGE);
}

/* With the plainest rule for exactly this target everything that is not blocked is allowed. */
static void check_more(struct world *w, const struct target *t)
{
    struct verdict v;
    w->rules[w->egress.rule_count++] =
        (struct egress_rule){.host = {.host = t->host}, .scheme = t->scheme, .port = t->port};
    egress_decide(&w->egress, t, &v);
    require(v.allow == !blocked(w, t));
    w->egress.rule_count--;
}

static void ask(struct world *w, const char *text)
{
    struct line l;
    struct err err = ERR_INIT;
    struct target t = {.scheme = SCHEME_ANY};
    struct verdict v;
    if (!read_line(text, &l) ||
        host_parse(l.host, strlen(l.host), l.host[0] == '[', &t.host, &err) < 0)
        return;
    t.scheme = scheme_of(l.scheme);
    t.port = (uint16_t)l.port;
    snprintf(t.method, sizeof t.method, "%s", l.method);
    t.path = l.path[0] ? l.path : NULL;
    egress_decide(&w->egress, &t, &v);
    require(!v.allow || !blocked(w, &t));
    require(strlen(v.hint) < sizeof v.hint && !strpbrk(v.hint, "\r\n\033"));
    if (v.allow)
        check_allowed(w, &t, &v);
    else
        require(v.reason != DENY_NONE);
    check_more(w, &t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *w = calloc(1, sizeof *w);
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    w->egress.rules = w->rules;
    w->egress.blocked = w->blocked;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));)
        switch (line[0]) {
        case '+':
            add_rule(w, line + 1);
            break;
        case '-':
            add_blocked(w, line + 1);
            break;
        case '?':
            ask(w, line + 1);
            break;
        }
    free(text);
    free(w);
    return 0;
}
