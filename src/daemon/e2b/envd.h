/* What the files of envd share. */
#pragma once

#include "daemon/api/work.h"

#include <errno.h>

void envd_process_list(struct call *call, const struct json *body);
void envd_upload(struct call *call);
void envd_watch_dir(struct call *call, const struct json *body);
void envd_watcher_create(struct call *call, const struct json *body);
void envd_watcher_events(struct call *call, const struct json *body);
void envd_watcher_remove(struct call *call, const struct json *body);
