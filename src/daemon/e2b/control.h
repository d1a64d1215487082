/* What the files of the control plane share. */
#pragma once

#include "daemon/api/call.h"

#define ENVD_VERSION "0.6.4" /* what clients make of us by it is in docs/serve.md */

#define CONTROL_KEEPS_MEMORY                                                                       \
    "a sandbox is paused as it is, with its memory: \"%s\": false is not offered"

/* control_create.c */
void control_create(struct call *call, const struct json *body);
void control_network(struct call *call, const struct json *body);

/* control_logs.c */
void control_logs(struct call *call);

/* control_review.c */
void control_review(struct call *call);
void control_review_apply(struct call *call, const struct json *body);
void control_review_discard(struct call *call);

/* control_sandboxes.c */
void control_list(struct call *call);

/* control_info.c */
/* The body of a create and connect answer: ids and tokens. */
void control_write_handle(struct json_writer *w, const struct box_info *info, const char *domain);
/* What is known of a sandbox; `full`: as GET /sandboxes/{id} shows it. */
void control_write_info(struct json_writer *w, const struct box_info *info, const char *domain,
                        bool full);
/* Under which domain this client reaches ports: "<port>-<id>.<domain>". */
#define DOMAIN_SIZE 280
void control_domain(const struct call *call, char out[static DOMAIN_SIZE]);
#define TIME_TEXT_SIZE 32
void control_time(int64_t wall_ms, char out[static TIME_TEXT_SIZE]); /* RFC 3339, UTC */
void control_metrics(struct call *call);
void control_templates(struct call *call);
void control_alias(struct call *call);
