/* Templates: what sandboxes of `brig serve` are made from. Built in, or the operator's files; read
 * by the launcher alone, at its start and when it is told to. */
#pragma once

#include "base/json.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stddef.h>

#define TEMPLATE_NAME_MAX    63
#define TEMPLATE_ALIASES_MAX 8
#define TEMPLATE_MODULES_MAX 64
#define TEMPLATES_MAX        64
#define TEMPLATE_FILE_MAX    (256u * 1024)
#define TEMPLATE_REQUEST     "policy" /* what messages call the policy in a request */

struct template
{
    char name[TEMPLATE_NAME_MAX + 1];
    char aliases[TEMPLATE_ALIASES_MAX][TEMPLATE_NAME_MAX + 1];
    unsigned alias_count;
    char description[256];
    char interpreter[16];                /* started before anybody asks for it; "" for none */
    char *modules[TEMPLATE_MODULES_MAX]; /* loaded into it beforehand */
    unsigned module_count;
    unsigned pool_min, pool_max;
    uint64_t pool_idle_ms;
    bool cold;         /* its sandboxes are never clones */
    bool public_ports; /* whoever knows the name of a port may use it, unless a request says no */
    struct policy policy;
};

struct templates {
    struct template *items[TEMPLATES_MAX];
    size_t count;
};

void templates_done(struct templates *t);
/* The built-in ones. */
int templates_init(struct templates *t, struct err *err);
/* One file's text, JSON or YAML: {"policy","aliases","description","interpreter","modules","pool",
 * "ports","clones"}; what it leaves out is as in `base`. Takes the place of a template of the same
 * name. */
int templates_add(struct templates *t, const char *name, const char *text, size_t len,
                  struct err *err);
/* Like `base`, on a folder as root. */
int templates_add_folder(struct templates *t, const char *name, const char *folder,
                         struct err *err);
/* Every NAME.yaml, NAME.yml and NAME.json of a folder; one that is not there has none. */
int templates_load(struct templates *t, int dir, const char *folder, struct err *err);
/* By name or alias; NULL: there is none. */
struct template *templates_find(const struct templates *t, const char *name);
/* Lays the policy of a request, JSON or YAML, over the template's: refused where it would widen.
 * After a failure t is only good for being freed. */
int template_tighten(struct template *t, const char *text, size_t len, struct err *err);
/* Binds the headers that a request sets on what its sandbox sends (headers.c) to what the template
 * and `network`, the rest of what the request says about the network (policy/egress/live.h, or
 * null), allow; the values go into `values`. After a failure t is only good for being freed. */
int template_set_headers(struct template *t, const struct json *network, const struct json *headers,
                         struct run_values *values, struct err *err);
/* The rules on command lines, for the front: the members "commands" and "roots", or none. */
void template_write_commands(const struct template *t, struct json_writer *w);
/* The member "templates": an array, as daemon/core/core.h says. */
void templates_write_json(const struct templates *t, struct json_writer *w);
