/* Any bytes as what brig-proxy is told, as a short rule, as a short secret: a message, or rules
 * that come out of their own text the same, in an order that does not depend on how they came. */
#include "policy/egress/egress.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static void write(const struct egress *e, struct buf *out)
{
    struct json_writer w;
    buf_init(out, 64 << 20);
    jw_init(&w, out, false);
    egress_write_json(e, &w);
    require(!out->failed);
}

static int parse(const char *text, size_t len, struct egress *e)
{
    struct json *tree = NULL;
    struct err err = ERR_INIT;
    int r = json_parse(text, len, NULL, &tree, &err);
    if (r == 0)
        r = egress_read_json(e, tree, &err);
    require(r == 0 || err.message[0]);
    json_free(tree);
    return r;
}

static void reads_back(const struct egress *e)
{
    struct egress again;
    struct buf one;
    struct buf two;
    write(e, &one);
    require(parse(one.data, one.len, &again) == 0);
    write(&again, &two);
    require(strcmp(one.data, two.data) == 0);
    buf_done(&one);
    buf_done(&two);
    egress_done(&again);
}

static void is_sound(const struct egress *e)
{
    uint16_t ports[EGRESS_RULES_MAX + 1];
    size_t count = egress_ports(e, ports, EGRESS_RULES_MAX + 1);
    for (size_t i = 1; i < count; i++)
        require(ports[i - 1] < ports[i]);
    for (size_t i = 0; i < e->rule_count; i++) {
        const struct egress_rule *r = &e->rules[i];
        require(r->port && r->host.host.text[0] && r->text[0]);
        require(r->scheme == SCHEME_HTTP || r->scheme == SCHEME_HTTPS ||
                (!r->methods.count && !r->paths.count));
        for (size_t k = 0; k < i; k++)
            require(strcmp(r->text, e->rules[k].text) != 0);
    }
    for (size_t i = 0; i < e->secret_count; i++)
        require(e->secrets[i].name && e->secrets[i].source && e->secrets[i].port);
    egress_needs_ca(e);
}

/* Each line: as a rule, a secret and a blocked host. */
static void lines(const char *text)
{
    const struct origin origin = {.kind = ORIGIN_OPTION, .name = "--allow"};
    struct egress e;
    char *copy = strdup(text);
    char *rest = copy;
    egress_init(&e);
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct err err = ERR_INIT;
        require(egress_allow(&e, line, &origin, &err) == 0 || err.message[0]);
        require(egress_secret(&e, line, &origin, &err) == 0 || err.message[0]);
        require(egress_block(&e, line, &err) == 0 || err.message[0]);
    }
    is_sound(&e);
    reads_back(&e);
    egress_done(&e);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct egress e;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    if (parse(text, size, &e) == 0) {
        is_sound(&e);
        reads_back(&e);
        egress_done(&e);
    }
    lines(text);
    free(text);
    return 0;
}
