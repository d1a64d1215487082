/* Secrets, as far as a policy knows them: a name, a source, and the one origin they are for. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"
#include "http/name.h"
#include "policy/egress/internal.h"
#include "policy/paths.h"

#include <string.h>
#include <strings.h>

#define SOURCE_MAX 4096
#define FORM_MAX   256

void secret_init(struct egress_secret *s, const struct origin *origin)
{
    *s = (struct egress_secret){
        .form = INJECT_HEADER, .swap_header = true, .ttl_ms = POLICY_UNLIMITED, .origin = *origin};
}

void secret_done(struct egress_secret *s)
{
    list_done(&s->methods);
    list_done(&s->paths);
    free(s->name);
    free(s->source);
    free(s->inject_name);
    free(s->template);
    free(s->placeholder);
    *s = (struct egress_secret){0};
}
#define cleanup_secret __attribute__((cleanup(secret_done)))

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool secret_equal(const struct egress_secret *a, const struct egress_secret *b)
{
    return same_text(a->name, b->name) && same_text(a->source, b->source) &&
           a->scheme == b->scheme && a->port == b->port && host_equal(&a->host, &b->host) &&
           a->form == b->form && same_text(a->inject_name, b->inject_name) &&
           same_text(a->template, b->template) && a->swap_header == b->swap_header &&
           a->swap_body == b->swap_body && a->ttl_ms == b->ttl_ms &&
           list_equal(&a->methods, &b->methods) && list_equal(&a->paths, &b->paths);
}

static int set_text(char **slot, const char *text, size_t len, struct err *err)
{
    char *copy = strndup(text, len);
    if (!copy)
        return err_memory(err);
    free(*slot);
    *slot = copy;
    return 0;
}

int secret_set_name(struct egress_secret *s, const char *name, struct err *err)
{
    struct quoted q;
    /* Without these the code inside would not find its programs or its way out. */
    static const char *const taken[] = {"PATH",        "HOME",       "HTTP_PROXY",
                                        "HTTPS_PROXY", "http_proxy", "https_proxy"};
    if (!variable_name_ok(name))
        return err_set(err, ERR_USAGE,
                       "%s is not a variable name, expected letters, digits and _, not beginning "
                       "with a digit",
                       quote(&q, name));
    for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
        if (strcmp(taken[i], name) == 0)
            return err_set(err, ERR_USAGE, "%s is set by brig itself, expected another name", name);
    }
    return set_text(&s->name, name, strlen(name), err);
}

/* ---- sources ---- */

static int check_env(const char *name, struct err *err)
{
    struct quoted q;
    if (variable_name_ok(name))
        return 0;
    return err_set(err, ERR_USAGE, "%s is not a variable name, expected env:NAME", quote(&q, name));
}

static int check_file(const char *path, struct err *err)
{
    cleanup_free char *normal = NULL;
    struct quoted q;
    int r = path_normalise(path, &normal, err);
    if (r == 0 && strcmp(normal, "/") == 0)
        return err_set(err, ERR_USAGE, "%s is not a file", quote(&q, path));
    return r;
}

static int check_cmd(const char *line, struct err *err)
{
    if (line[0] == '\0' || line[0] == ' ')
        return err_set(err, ERR_USAGE, "no program, expected cmd:PROGRAM with its arguments");
    return 0;
}

static int check_vault(const char *path, struct err *err)
{
    struct quoted q;
    const char *hash = strchr(path, '#');
    size_t len = hash ? (size_t)(hash - path) : 0;
    bool odd = len == 0 || hash[1] == '\0' || strchr(hash + 1, '#') || path[0] == '/' ||
               strpbrk(path, " ?%\\") || strstr(path, "..") || strstr(path, "//") ||
               path[len - 1] == '/';
    if (!odd)
        return 0;
    return err_set(err, ERR_USAGE,
                   "%s is not a place in Vault, expected vault:PATH#FIELD such as "
                   "vault:secret/data/ci#token",
                   quote(&q, path));
}

static int check_source(const char *source, struct err *err)
{
    static const struct {
        const char *prefix;
        int (*check)(const char *rest, struct err *err);
    } kinds[] = {
        {"env:", check_env},
        {"file:", check_file},
        {"cmd:", check_cmd},
        {"vault:", check_vault},
    };
    struct quoted q;
    if (strlen(source) > SOURCE_MAX || text_has_control(source) || !text_is_utf8(source))
        return err_set(err, ERR_USAGE,
                       "%s is not a source: control characters, not UTF-8, or too long",
                       quote(&q, source));
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t len = strlen(kinds[i].prefix);
        if (strncmp(source, kinds[i].prefix, len) == 0)
            return kinds[i].check(source + len, err);
    }
    /* It may be the value itself, by mistake: do not repeat it. */
    return err_set(err, ERR_USAGE,
                   "unknown source, expected env:NAME, file:/PATH, cmd:PROGRAM ARG… or "
                   "vault:PATH#FIELD");
}

int secret_set_source(struct egress_secret *s, const char *source, struct err *err)
{
    int r = check_source(source, err);
    return r < 0 ? r : set_text(&s->source, source, strlen(source), err);
}

/* ---- origins ---- */

int secret_set_origin(struct egress_secret *s, const char *text, struct err *err)
{
    struct place_spec p;
    struct quoted q;
    int r = place_parse(text, false, false, &p, err);
    if (r < 0)
        return r;
    if (!p.has_scheme || (p.scheme != SCHEME_HTTP && p.scheme != SCHEME_HTTPS))
        return err_set(err, ERR_USAGE,
                       "%s is not an origin, expected https://HOST or "
                       "https://HOST:PORT",
                       quote(&q, text));
    s->scheme = p.scheme;
    s->host = p.host.host;
    s->port = p.port ? p.port : scheme_port(p.scheme);
    if (!p.path)
        return 0;
    r = path_pattern_check(p.path, err);
    if (r == 0)
        r = list_add(&s->paths, p.path, err);
    return r < 0 ? err_wrap(err, "%s", quote(&q, text)) : 0;
}

/* ---- forms ---- */

static bool is_printable(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
            return false;
    }
    return true;
}

/* Headers that say where a request goes, how long it is, what its body or its answer is read as, or
 * whose connection it is: what was decided on, or could be searched, would be something else. */
static bool is_framing(const char *name)
{
    static const char *const names[] = {"Host",           "Content-Length", "Transfer-Encoding",
                                        "Connection",     "Keep-Alive",     "TE",
                                        "Trailer",        "Upgrade",        "HTTP2-Settings",
                                        "Expect",         "Range",          "If-Range",
                                        "Content-Type",   "Content-Range",  "Content-Encoding",
                                        "Accept-Encoding"};
    static const char *const families[] = {"proxy-", "sec-websocket-"};
    struct folded f;
    name_fold(name, strlen(name), false, &f);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (name_same(&f, names[i]))
            return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (text_begins(f.text, families[i]))
            return true;
    }
    return false;
}

static int set_form(struct egress_secret *s, enum inject_form form, const char *name, size_t len,
                    const char *template, struct err *err)
{
    int r = set_text(&s->inject_name, name, len, err);
    if (r == 0 && template)
        r = set_text(&s->template, template, strlen(template), err);
    s->form = form;
    return r;
}

int secret_set_header(struct egress_secret *s, const char *text, struct err *err)
{
    static const char token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    struct quoted q;
    size_t len = strspn(text, token);
    const char *value = text[len] == ':' ? text + len + 1 : "";
    value += strspn(value, " ");
    const char *hole = strstr(value, "{}");
    size_t size = strlen(value);
    if (len == 0 || !hole || strstr(hole + 2, "{}") || !is_printable(text) ||
        strlen(text) > FORM_MAX || value[size - 1] == ' ')
        return err_set(err, ERR_USAGE,
                       "%s is not a header, expected one such as \"Authorization: Bearer {}\", "
                       "with {} once",
                       quote(&q, text));
    cleanup_free char *name = strndup(text, len);
    if (!name)
        return err_memory(err);
    if (is_framing(name))
        return err_set(err, ERR_USAGE, "the header %s belongs to the proxy, expected another",
                       name);
    return set_form(s, INJECT_HEADER, name, len, value, err);
}

int secret_set_query(struct egress_secret *s, const char *name, struct err *err)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    struct quoted q;
    size_t len = strspn(name, safe);
    if (len == 0 || name[len] || len > FORM_MAX)
        return err_set(err, ERR_USAGE,
                       "%s is not a query parameter, expected letters, digits and "
                       "-_.~",
                       quote(&q, name));
    return set_form(s, INJECT_QUERY, name, len, NULL, err);
}

int secret_set_basic(struct egress_secret *s, const char *user, struct err *err)
{
    struct quoted q;
    size_t len = strlen(user);
    if (len == 0 || len > FORM_MAX || !is_printable(user) || strchr(user, ':'))
        return err_set(err, ERR_USAGE, "%s is not a user name, expected ASCII without a colon",
                       quote(&q, user));
    return set_form(s, INJECT_BASIC, user, len, NULL, err);
}

/* ---- into the list ---- */

static int imply_rule(struct egress *e, const struct egress_secret *s, struct err *err)
{
    struct rule_draft d;
    rule_draft_init(&d, &s->origin);
    d.implied = true;
    d.place = (struct place_spec){
        .host.host = s->host, .has_scheme = true, .scheme = s->scheme, .port = s->port};
    int r = list_copy(&d.methods, &s->methods, err);
    if (r == 0)
        r = list_copy(&d.paths, &s->paths, err);
    if (r == 0)
        r = rule_draft_add(e, &d, err);
    rule_draft_done(&d);
    return r;
}

/* A secret of that name that is there already: 1 if it stands, 0 if the new one takes its place. */
static int settle(struct egress_secret *old, const struct egress_secret *s, struct err *err)
{
    bool both_in_file = old->origin.kind == ORIGIN_FILE && s->origin.kind == ORIGIN_FILE &&
                        strcmp(old->origin.name, s->origin.name) == 0;
    if (both_in_file)
        return err_set(err, ERR_USAGE, "%s is there already (line %u), expected each name once",
                       s->name, old->origin.line);
    if (secret_equal(old, s))
        return 1;
    if (old->origin.kind == s->origin.kind)
        return err_set(err, ERR_USAGE, "%s was given before with another source or origin",
                       s->name);
    return old->origin.kind > s->origin.kind;
}

static int finish(struct egress_secret *s, struct err *err)
{
    if (!s->name || !s->source || !s->host.text[0])
        return err_set(err, ERR_USAGE, "a secret has a name, a source and an origin");
    if (s->form == INJECT_HEADER && !s->inject_name)
        return secret_set_header(s, "Authorization: Bearer {}", err);
    if (s->form == INJECT_NONE && !s->swap_header && !s->swap_body)
        return err_set(err, ERR_USAGE,
                       "neither sent nor swapped: %s would never be used, expected one of the two",
                       s->name);
    return 0;
}

/* The rule that the old one brought along goes with it. */
static void drop_implied(struct egress *e, const struct egress_secret *s)
{
    for (size_t i = e->rule_count; i-- > 0;) {
        struct egress_rule *r = &e->rules[i];
        if (!r->implied || r->scheme != s->scheme || r->port != s->port ||
            !host_equal(&r->host.host, &s->host) || !list_equal(&r->paths, &s->paths) ||
            !list_equal(&r->methods, &s->methods))
            continue;
        rule_done(r);
        memmove(r, r + 1, (--e->rule_count - i) * sizeof *r);
    }
}

static int put(struct egress *e, struct egress_secret *s, struct err *err)
{
    for (size_t i = 0; i < e->secret_count; i++) {
        if (strcmp(e->secrets[i].name, s->name) != 0)
            continue;
        int r = settle(&e->secrets[i], s, err);
        if (r != 0)
            return r < 0 ? r : 0;
        drop_implied(e, &e->secrets[i]);
        secret_done(&e->secrets[i]);
        e->secrets[i] = *s;
        *s = (struct egress_secret){0};
        return 0;
    }
    if (e->secret_count >= EGRESS_SECRETS_MAX)
        return err_set(err, ERR_LIMIT, "too many secrets, expected at most %d", EGRESS_SECRETS_MAX);
    struct egress_secret *secrets = realloc(e->secrets, (e->secret_count + 1) * sizeof *secrets);
    if (!secrets)
        return err_memory(err);
    e->secrets = secrets;
    secrets[e->secret_count++] = *s;
    *s = (struct egress_secret){0};
    return 0;
}

int secret_insert(struct egress *e, struct egress_secret *s, struct err *err)
{
    cleanup_secret struct egress_secret own = *s;
    *s = (struct egress_secret){0};
    int r = finish(&own, err);
    if (r < 0 || (r = put(e, &own, err)) < 0)
        return r;
    return egress_check_text(e, err);
}

/* A replaced secret may have shared its rule with another one: ask for all of them again. */
int secrets_imply(struct egress *e, struct err *err)
{
    for (size_t i = 0; i < e->secret_count; i++) {
        int r = imply_rule(e, &e->secrets[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* NAME=SOURCE@ORIGIN. A source may have an @ of its own, an origin begins with its scheme. */
static const char *find_origin(const char *source)
{
    const char *found = NULL;
    for (const char *at = source; (at = strchr(at, '@')); at++) {
        if (strstr(at, "://") && strcspn(at + 1, ":/@ ") == (size_t)(strstr(at, "://") - at - 1))
            found = at;
    }
    return found;
}

static int parse_spec(struct egress_secret *s, const char *spec, struct err *err)
{
    const char *equals = strchr(spec, '=');
    const char *at = equals ? find_origin(equals + 1) : NULL;
    /* What was meant as a source may be the value: the text is not repeated. */
    if (!at)
        return err_set(err, ERR_USAGE,
                       "not a secret, expected NAME=SOURCE@https://HOST such as "
                       "TOKEN=env:TOKEN@https://api.example.org");
    cleanup_free char *name = strndup(spec, (size_t)(equals - spec));
    cleanup_free char *source = strndup(equals + 1, (size_t)(at - equals - 1));
    if (!name || !source)
        return err_memory(err);
    int r = secret_set_name(s, name, err);
    if (r == 0 && (r = secret_set_source(s, source, err)) == 0)
        r = secret_set_origin(s, at + 1, err);
    return r;
}

int egress_secret(struct egress *e, const char *spec, const struct origin *origin, struct err *err)
{
    cleanup_secret struct egress_secret s;
    secret_init(&s, origin);
    int r = parse_spec(&s, spec, err);
    if (r < 0 || (r = secret_insert(e, &s, err)) < 0)
        return r;
    return secrets_imply(e, err);
}
