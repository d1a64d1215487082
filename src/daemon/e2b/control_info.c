/* Sandboxes as the control plane shows them. */
#include "base/text.h"
#include "daemon/api/sign.h"
#include "daemon/e2b/control.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void control_time(int64_t wall_ms, char out[static TIME_TEXT_SIZE])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm))
        memset(&tm, 0, sizeof(tm));
    snprintf(out, TIME_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(wall_ms % 1000));
}

/* "api.example.org" serves sandboxes below example.org, as clients expect. An address has no names
 * below it; localhost does. */
void control_domain(const struct call *call, char out[static DOMAIN_SIZE])
{
    static const char api[] = "api.";
    const struct http_request *r = exchange_request(call->x);
    if (core_domain(call->core)) {
        snprintf(out, DOMAIN_SIZE, "%s", core_domain(call->core));
        return;
    }
    const char *name = r->host.kind == HOST_NAME ? r->host.text : "localhost";
    if (text_begins(name, api) && strchr(name + sizeof(api) - 1, '.'))
        name += sizeof(api) - 1;
    if (r->port)
        snprintf(out, DOMAIN_SIZE, "%s:%u", name, r->port);
    else
        snprintf(out, DOMAIN_SIZE, "%s", name);
}

static void write_ids(struct json_writer *w, const struct box_info *info)
{
    jw_kv_string(w, "sandboxID", info->id);
    jw_kv_string(w, "templateID", info->template_name);
    jw_kv_string(w, "alias", info->template_name);
    jw_kv_string(w, "clientID", "brig");
    jw_kv_string(w, "envdVersion", ENVD_VERSION);
}

static void write_tokens(struct json_writer *w, const struct box_info *info, const char *domain)
{
    char traffic[TRAFFIC_TOKEN_LEN + 1];
    traffic_token(info->token, traffic);
    jw_kv_string(w, "envdAccessToken", info->token);
    jw_kv_string(w, "trafficAccessToken", traffic);
    jw_kv_string(w, "domain", domain);
}

void control_write_handle(struct json_writer *w, const struct box_info *info, const char *domain)
{
    jw_object_begin(w);
    write_ids(w, info);
    write_tokens(w, info, domain);
    jw_object_end(w);
}

/* A text that was JSON when it was kept. */
static void write_json_text(struct json_writer *w, const char *key, const char *text,
                            const char *otherwise)
{
    struct json *tree = NULL;
    if (!text || json_parse(text, strlen(text), NULL, &tree, NULL) < 0)
        json_parse(otherwise, strlen(otherwise), NULL, &tree, NULL);
    jw_key(w, key);
    if (tree)
        jw_json(w, tree);
    else
        jw_null(w);
    json_free(tree);
}

static void write_items(struct json_writer *w, const struct json *list)
{
    for (size_t i = 0; list && i < json_count(list); i++)
        jw_string(w, json_string(json_at(list, i)));
}

static void write_internet(struct json_writer *w, const struct box_info *info,
                           const struct json *network)
{
    enum said said = info->internet;
    if (network) /* the last word */
        said = !json_get(network, "internet")   ? SAID_NOTHING
               : json_flag(network, "internet") ? SAID_YES
                                                : SAID_NO;
    jw_key(w, "allowInternetAccess");
    if (said == SAID_NOTHING)
        jw_null(w);
    else
        jw_bool(w, said == SAID_YES);
}

static void write_network(struct json_writer *w, const struct box_info *info)
{
    struct json *tree = NULL;
    if (info->network && json_parse(info->network, strlen(info->network), NULL, &tree, NULL) < 0)
        return;
    write_internet(w, info, tree);
    if (!tree && !info->public_ports && !info->mask_host[0])
        return;
    jw_kv_object(w, "network");
    if (tree) {
        jw_kv_array(w, "allowOut");
        write_items(w, json_get(tree, "allow"));
        jw_array_end(w);
        jw_kv_array(w, "denyOut");
        write_items(w, json_get(tree, "everything"));
        write_items(w, json_get(tree, "block"));
        jw_array_end(w);
    }
    jw_kv_bool(w, "allowPublicTraffic", info->public_ports);
    if (info->mask_host[0])
        jw_kv_string(w, "maskRequestHost", info->mask_host);
    jw_object_end(w);
    json_free(tree);
}

static void write_lifecycle(struct json_writer *w, const struct box_info *info)
{
    jw_kv_object(w, "lifecycle");
    jw_kv_string(w, "onTimeout", info->auto_pause ? "pause" : "kill");
    jw_kv_bool(w, "autoResume", info->auto_resume);
    jw_object_end(w);
}

void control_write_info(struct json_writer *w, const struct box_info *info, const char *domain,
                        bool full)
{
    char started[TIME_TEXT_SIZE], end[TIME_TEXT_SIZE];
    control_time(info->started_ms, started);
    control_time(info->end_ms, end);
    jw_object_begin(w);
    write_ids(w, info);
    jw_kv_string(w, "startedAt", started);
    jw_kv_string(w, "endAt", end);
    jw_kv_string(w, "state", info->state == BOX_PAUSED ? "paused" : "running");
    jw_kv_uint(w, "cpuCount", (info->cpus_milli + 999) / 1000);
    jw_kv_uint(w, "memoryMB", info->memory >> 20);
    jw_kv_uint(w, "diskSizeMB", info->disk >> 20);
    if (info->project)
        jw_kv_string(w, "project", info->project);
    if (*info->policy_hash)
        jw_kv_string(w, "policyHash", info->policy_hash);
    write_json_text(w, "metadata", info->metadata, "{}");
    if (full) {
        write_tokens(w, info, domain);
        write_network(w, info);
        write_lifecycle(w, info);
    }
    jw_object_end(w);
}
