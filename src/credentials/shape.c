/* The table of names that look like a credential, by their shape: each service invents a header of
 * its own, but calls a token a token. docs/credentials.md shows it. */
#include "credentials/shape.h"

#include "base/cleanup.h"
#include "http/name.h"

#include <string.h>
#include <strings.h>

#define HEADERS 1u
#define MEMBERS 2u
#define BOTH    (HEADERS | MEMBERS)

enum how {
    WHOLE, /* the name is that */
    FRONT, /* it begins with it */
    WORD,  /* one of its words */
    PART,  /* anywhere, borders between words aside */
};

static const struct shape {
    const char *text;
    enum how how;
    unsigned where;
    const char *const *unless; /* ends that make it something else; NULL: none */
} shapes[] = {
    {"authorization", PART, BOTH, NULL},
    {"auth", WORD, BOTH, NULL},
    {"oauth", PART, BOTH, NULL},
    {"authentication", WORD, BOTH, NULL},
    {"authenticated", PART, HEADERS, NULL},
    {"webauth", PART, HEADERS, NULL},
    {"remoteuser", PART, HEADERS, NULL},
    {"cookie", PART, HEADERS, NULL},
    /* Tokens for the next page of a list, and numbers of tokens, are no credentials. */
    {"token", PART, BOTH,
     (const char *const[]){"nexttoken", "pagetoken", "pagingtoken", "paginationtoken",
                           "continuationtoken", "cursortoken", "synctoken", "deltatoken",
                           "skiptoken", "resumetoken", "resumptiontoken", "tokens", NULL}},
    {"apikey", PART, BOTH, NULL},
    {"accesskey", PART, BOTH, NULL},
    {"authkey", PART, BOTH, NULL},
    {"secretkey", PART, BOTH, NULL},
    {"privatekey", PART, BOTH, NULL},
    {"subscriptionkey", PART, BOTH, NULL},
    {"consumerkey", PART, BOTH, NULL},
    {"appkey", PART, BOTH, NULL},
    {"keypairid", PART, MEMBERS, NULL},
    {"googleaccessid", WHOLE, MEMBERS, NULL},
    {"key", WHOLE, MEMBERS, NULL},
    {"key", WORD, HEADERS,
     (const char *const[]){"idempotencykey", "secwebsocketkey", "surrogatekey", "cachekey", NULL}},
    {"secret", PART, BOTH, NULL},
    {"passw", PART, BOTH, NULL},
    {"passphrase", PART, BOTH, NULL},
    {"pass", WORD, BOTH, NULL},
    {"passwd", WORD, BOTH, NULL},
    {"pwd", WORD, BOTH, NULL},
    {"otp", WORD, BOTH, NULL},
    {"totp", WORD, BOTH, NULL},
    {"credential", PART, BOTH, NULL},
    {"session", WORD, BOTH, (const char *const[]){"mcpsessionid", NULL}},
    {"sessionid", PART, BOTH, (const char *const[]){"mcpsessionid", NULL}},
    {"sessid", PART, BOTH, NULL},
    {"sid", WORD, BOTH, NULL},
    {"jwt", PART, BOTH, NULL},
    {"bearer", PART, BOTH, NULL},
    {"macaroon", PART, BOTH, NULL},
    {"assertion", WORD, BOTH, NULL},
    {"dpop", WORD, HEADERS, NULL},
    {"clientcert", PART, HEADERS, NULL},
    {"sslclient", PART, HEADERS, NULL},
    {"signature", PART, BOTH, NULL},
    {"hmac", PART, BOTH, NULL},
    {"sig", WORD, BOTH, NULL},
    {"sign", WORD, BOTH, NULL},
    {"sas", WORD, HEADERS, NULL},
    {"x-amz", FRONT, MEMBERS, NULL}, /* signed links */
    {"x-goog", FRONT, MEMBERS, NULL},
    {"x-honeycomb-team", WHOLE, HEADERS, NULL},
    /* Names of whom to act for: with the injected secret the code could act as somebody else. */
    {"impersonate", PART, BOTH, NULL},
    {"sudo", WORD, BOTH, NULL},
    {"behalf", WORD, BOTH, NULL},
    {"asuser", PART, HEADERS, NULL},
    {"actas", PART, HEADERS, NULL},
    {"runas", PART, HEADERS, NULL},
};

static bool fits(const struct shape *s, const struct folded *name)
{
    size_t len = strlen(s->text);
    switch (s->how) {
    case WHOLE:
        return strcmp(name->text, s->text) == 0;
    case FRONT:
        return strncmp(name->text, s->text, len) == 0 && name->text[len] == '-';
    case WORD:
        return name_has_word(name, s->text);
    case PART:
        return name_has_part(name, s->text);
    }
    return true;
}

/* Only the end tells what it is: "page_access_token" is a credential, "access_page_token" is not,
 * and the "page" of "pagerduty" says nothing. */
static bool ends_so(const struct folded *name, const char *end)
{
    size_t len = strlen(name->tight), most = strlen(end);
    return len >= most && strcmp(name->tight + len - most, end) == 0;
}

static bool is_listed(const struct folded *name, unsigned where)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        if (!(shapes[i].where & where) || !fits(&shapes[i], name))
            continue;
        bool other = false;
        for (const char *const *part = shapes[i].unless; part && *part && !other; part++)
            other = ends_so(name, *part);
        if (!other)
            return true;
    }
    return false;
}

/* Browsers cannot set headers on a WebSocket, so some servers take a token as a subprotocol. */
static bool hides_in_protocols(const char *value)
{
    struct folded f;
    for (const char *at = value; *at;) {
        size_t len = strcspn(at, ",");
        name_fold(at, len, false, &f);
        if (is_listed(&f, HEADERS))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

bool shape_is_credential_header(const char *name, const char *value)
{
    struct folded f;
    if (strcasecmp(name, "Sec-WebSocket-Protocol") == 0)
        return hides_in_protocols(value);
    name_fold(name, strlen(name), false, &f);
    return is_listed(&f, HEADERS);
}

bool shape_is_credential_member(const char *name, size_t len)
{
    struct folded f;
    name_fold(name, len, true, &f);
    return is_listed(&f, MEMBERS);
}
