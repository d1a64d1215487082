/* Headers that a request sets on what its sandbox sends: {"network","headers"}, as a warden gets
 * them. Whatever it says, nothing is wider than the template, and no message has a value in it. */
#include "warden/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARK "sekret"

static void check_policy(const struct policy *p, const struct run_values *values)
{
    struct buf text;
    for (size_t i = 0; i < p->egress.secret_count; i++) {
        const struct egress_secret *s = &p->egress.secrets[i];
        bool http = s->scheme == SCHEME_HTTP && s->port == 80;
        bool https = s->scheme == SCHEME_HTTPS && s->port == 443;
        bool a = strcmp(s->host.text, "a.org") == 0, x = strcmp(s->host.text, "x.b.org") == 0;
        if (!s->hidden || !((a && (http || https)) || (x && https)) ||
            !run_values_find(values, s->source + strlen("env:")))
            abort();
    }
    buf_init(&text, 1u << 20);
    policy_canonical(p, &text);
    /* Names of headers are no secrets, and may be anything. */
    if (!p->egress.secret_count && strstr(buf_text(&text), MARK))
        abort();
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char policy[] =
        "policy: {network: {allow: [a.org, 'https://x.b.org'], block: [c.org]}}\n";
    struct templates t = {.count = 0};
    struct run_values values = {.count = 0};
    struct err err = ERR_INIT;
    struct json *root = NULL;
    if (templates_add(&t, "own", policy, sizeof policy - 1, &err) < 0)
        abort();
    if (json_parse((const char *)data, size, &json_default_limits, &root, NULL) == 0 &&
        json_type(root) == JSON_OBJECT && json_get(root, "headers")) {
        int r = template_set_headers(t.items[0], json_get(root, "network"),
                                     json_get(root, "headers"), &values, &err);
        if ((r < 0) != (err.code != ERR_NONE))
            abort();
        if (r == 0 && !json_get(json_get(root, "network"), "beyond"))
            check_policy(&t.items[0]->policy, &values);
    }
    json_free(root);
    run_values_wipe(&values);
    templates_done(&t);
    return 0;
}
