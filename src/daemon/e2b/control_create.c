/* POST /sandboxes, and what a request may say about the network.
 *
 * A request only narrows what the template allows. Hosts that the template does not name may be
 * asked for with an operator key alone; the warden decides, since it knows the rules. */
#include "daemon/e2b/control.h"

#include "base/cleanup.h"
#include "daemon/e2b/ports.h"
#include "http/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MAX (24 * 3600)
#define HOSTS_MAX   256

struct wanted {
    const char *template_name, *project;
    int64_t timeout;
    const struct json *metadata, *env, *network, *policy;
    bool internet, has_internet, auto_pause, auto_resume;
};

struct wanted_network {
    const struct json *allow, *block;
    const struct json *rules; /* headers to be set; read by the warden alone */
    const char *mask_host;
    bool public_traffic, has_public_traffic;
    bool internet, has_internet; /* PUT …/network has it at this level */
};

/* ---- lists of hosts ---- */

/* "0.0.0.0/0", "::/0". */
static bool is_everything(const char *text)
{
    struct host_pattern p;
    return strchr(text, '/') && host_pattern_parse(text, strlen(text), &p, NULL) >= 0 &&
           p.stars == STARS_RANGE && p.bits == 0;
}

/* A rule for all addresses would open no name, which is not what is meant by it. */
static int check_allowed(const struct json *list, struct err *err)
{
    for (size_t i = 0; list && i < json_count(list); i++) {
        const char *text = json_string(json_at(list, i));
        if (!is_everything(text))
            continue;
        err_set(err, ERR_USAGE,
                "\"allowOut\": %.64s: hosts are allowed by name, by address, or a "
                "range of addresses at a time",
                text);
        return err_hint(err, "nothing is open that no rule names: docs/serve.md");
    }
    return 0;
}

static int read_network(const struct json *body, struct wanted_network *n, struct err *err)
{
    const struct field fields[] = {
        {"allowOut", FIELD_STRINGS, &n->allow},
        {"denyOut", FIELD_STRINGS, &n->block},
        {"allowPublicTraffic", FIELD_BOOL, &n->public_traffic, .has = &n->has_public_traffic},
        {"maskRequestHost", FIELD_STRING, &n->mask_host},
        {"rules", FIELD_OBJECT, &n->rules},
        {"egressProxy", FIELD_REFUSED, .why = "brig-proxy dials the hosts that are allowed itself"},
        {"httpsPorts", FIELD_REFUSED, .why = "ports inside are spoken to without TLS"},
        {"allow_internet_access", FIELD_BOOL, &n->internet, .has = &n->has_internet},
    };
    int r = FIELDS_READ(body, FIELDS_STRICT, fields, err);
    if (r < 0)
        return r;
    if ((n->allow && json_count(n->allow) > HOSTS_MAX) ||
        (n->block && json_count(n->block) > HOSTS_MAX))
        return err_set(err, ERR_USAGE, "\"network\": more than %d hosts", HOSTS_MAX);
    return check_allowed(n->allow, err);
}

/* ---- which hosts ---- */

/* "Everything" in denyOut is how it is here anyway; as a rule of its own it would win over
 * allowOut. */
static void write_hosts(struct json_writer *w, const char *key, const struct json *list)
{
    jw_kv_array(w, key);
    for (size_t i = 0; list && i < json_count(list); i++) {
        const char *text = json_string(json_at(list, i));
        if (!is_everything(text))
            jw_string(w, text);
    }
    jw_array_end(w);
}

static enum said what_is_said(bool has, bool value)
{
    return !has ? SAID_NOTHING : value ? SAID_YES : SAID_NO;
}

static void write_everything(struct json_writer *w, const struct json *list)
{
    jw_kv_array(w, "everything");
    for (size_t i = 0; list && i < json_count(list); i++)
        if (is_everything(json_string(json_at(list, i))))
            jw_string(w, json_string(json_at(list, i)));
    jw_array_end(w);
}

static bool blocks_everything(const struct json *list)
{
    for (size_t i = 0; list && i < json_count(list); i++)
        if (is_everything(json_string(json_at(list, i))))
            return true;
    return false;
}

/* {"allow":[…],"block":[…],"beyond":…}; without "allow" the template's own rules stay.
 * "everything", what is left out of "block", and "internet" are kept, to be shown later as the
 * client said them. */
static struct json *network_tree(const struct call *call, const struct wanted_network *n,
                                 enum said internet, struct err *err)
{
    bool nothing = internet == SAID_NO;
    struct buf text cleanup_buf = {0};
    struct json_writer w;
    struct json *tree = NULL;
    jw_begin(&w, &text, 1u << 20);
    if (n->allow || nothing || blocks_everything(n->block))
        write_hosts(&w, "allow", nothing ? NULL : n->allow);
    write_hosts(&w, "block", n->block);
    write_everything(&w, n->block);
    if (internet != SAID_NOTHING)
        jw_kv_bool(&w, "internet", internet == SAID_YES);
    jw_kv_bool(&w, "beyond", call->key->operator_key);
    jw_object_end(&w);
    if (text.failed)
        err_set(err, ERR_LIMIT, "\"network\": too long");
    else
        json_parse(text.data, text.len, NULL, &tree, err);
    return tree;
}

/* ---- create ---- */

static int read_wanted(const struct json *body, struct wanted *ret, struct err *err)
{
    const struct json *resume = NULL;
    bool memory = true;
    const struct field fields[] = {
        {"templateID", FIELD_STRING, &ret->template_name},
        {"timeout", FIELD_INT, &ret->timeout, 1, TIMEOUT_MAX},
        {"metadata", FIELD_MAP, &ret->metadata},
        {"envVars", FIELD_MAP, &ret->env},
        {"allow_internet_access", FIELD_BOOL, &ret->internet, .has = &ret->has_internet},
        {"network", FIELD_OBJECT, &ret->network},
        {"autoPause", FIELD_BOOL, &ret->auto_pause},
        {"autoPauseMemory", FIELD_BOOL, &memory},
        {"autoResume", FIELD_OBJECT, &resume},
        {"secure", FIELD_UNUSED}, /* always */
        {"project", FIELD_STRING, &ret->project},
        {"policy", FIELD_DOCUMENT, &ret->policy},
        {"volumeMounts", FIELD_REFUSED,
         .why = "a sandbox can work on a view of a project (brig serve --project)"},
        {"mcp", FIELD_REFUSED,
         .why = "brig runs an MCP server in a sandbox by brig mcp --wrap, and is one at /mcp"},
        {"iam", FIELD_REFUSED,
         .why = "what is sent as somebody is credentials.secrets of a template"},
    };
    int r = FIELDS_READ(body, FIELDS_STRICT, fields, err);
    const struct field resume_fields[] = {{"enabled", FIELD_BOOL, &ret->auto_resume}};
    if (r == 0 && resume)
        r = FIELDS_READ(resume, FIELDS_PROTO, resume_fields, err);
    if (r < 0)
        return r;
    if (!memory)
        return err_set(err, ERR_UNSUPPORTED, CONTROL_KEEPS_MEMORY, "autoPauseMemory");
    if (ret->metadata && json_count(ret->metadata) > 256)
        return err_set(err, ERR_USAGE, "\"metadata\": more than 256 entries");
    return fields_check_env(ret->env, "envVars", err);
}

/* "localhost:${PORT}" once the port stands in it must be what a client could have sent. */
static int check_mask(const char *text, struct err *err)
{
    char host[MASK_HOST_SIZE];
    struct host h;
    uint16_t port;
    if (strlen(text) < MASK_HOST_SIZE && mask_host_write(text, 65535, host) &&
        host_header_parse(host, strlen(host), &h, &port, NULL) == 0)
        return 0;
    return err_set(err, ERR_USAGE,
                   "\"network.maskRequestHost\": expected HOST or HOST:PORT, where ${PORT} may "
                   "stand for the port");
}

static void created(void *ctx, struct box *b, const struct err *err)
{
    struct call *call = ctx;
    char domain[DOMAIN_SIZE];
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    /* A sandbox whose id nobody got to know belongs to nobody. */
    if (!call->x && b)
        box_end(b, "the client went away", NULL, NULL);
    if (!call_came(call, b ? NULL : err))
        return;
    buf_init(&out, 16384);
    jw_init(&w, &out, false);
    control_domain(call, domain);
    control_write_handle(&w, box_info(b), domain);
    call_reply(call, 201, &out);
}

static int start_create(struct call *call, const struct wanted *want, struct err *err)
{
    struct wanted_network n = {.internet = true};
    struct json *network = NULL;
    struct box_request r = {
        .template_name = want->template_name,
        .owner = call->key,
        .timeout_ms = want->timeout * 1000,
        .metadata = want->metadata,
        .env = want->env,
        .project = want->project,
        .policy = want->policy,
        .auto_pause = want->auto_pause,
        .auto_resume = want->auto_resume,
    };
    int result = want->network ? read_network(want->network, &n, err) : 0;
    if (result < 0)
        return result;
    r.internet = what_is_said(want->has_internet || n.has_internet, want->internet && n.internet);
    if (n.mask_host && check_mask(n.mask_host, err) < 0)
        return err_number(err);
    r.mask_host = n.mask_host;
    r.headers = n.rules && json_count(n.rules) ? n.rules : NULL;
    r.public_ports = n.has_public_traffic ? n.public_traffic
                                          : core_template_public(call->core, want->template_name);
    if (r.internet == SAID_NO || n.allow || n.block) {
        network = network_tree(call, &n, r.internet, err);
        if (!network)
            return err_number(err);
        r.network = network;
    }
    call_wait(call);
    box_create(call->core, &r, created, call);
    json_free(network);
    return 0;
}

void control_create(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    struct wanted want = {.template_name = "base", .timeout = 300, .internet = true};
    if (read_wanted(body, &want, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    if (!core_has_template(call->core, want.template_name)) {
        call_fail(call, 404,
                  "there is no template \"%.100s\"; GET /templates lists those that there are, and "
                  "a file NAME.yaml of the operator's (brig serve --templates) makes one",
                  want.template_name);
        return;
    }
    if (start_create(call, &want, &err) < 0)
        call_fail_err(call, &err);
}

/* ---- PUT /sandboxes/{id}/network ---- */

void control_network(struct call *call, const struct json *body)
{
    /* Dropped, a request to close ports would be answered as if they were. */
    static const char *const at_creation[] = {"maskRequestHost", "allowPublicTraffic", "rules"};
    struct err err = ERR_INIT;
    struct wanted_network n = {0};
    struct box *b = call_box(call);
    struct json *tree = NULL;
    if (!b)
        return;
    for (size_t i = 0; i < ARRAY_LEN(at_creation); i++) {
        if (!json_get(body, at_creation[i]))
            continue;
        call_fail(call, 400, "\"%s\" is said when a sandbox is made", at_creation[i]);
        return;
    }
    if (read_network(body, &n, &err) < 0 ||
        !(tree = network_tree(call, &n, what_is_said(n.has_internet, n.internet), &err))) {
        call_fail_err(call, &err);
        return;
    }
    call_wait(call);
    box_set_network(b, tree, call_done, call);
    json_free(tree);
}
