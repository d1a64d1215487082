/* What a run asked of the network: counts, and a bounded list of the last requests. Fed with the
 * events of brig-proxy, which are hostile input; written into the receipt and for `brig net`.
 *
 * An event is a JSON object:
 *   {"time_ms": since the start, "entry": "proxy|connect|transparent|gateway|dns",
 *    "verdict": "allowed|denied|error", "scheme": "https", "method": "GET" or null, "host": "h",
 *    "port": 443, "path": "/p" or null, "status": 200 or null, "rule": "https://h:443" or null,
 *    "reason": "no-rule" or null, "text": "no rule for this host" or null, "hint": "…" or null,
 *    "note": "…" or null, "up": bytes, "down": bytes, "ms": duration} */
#pragma once

#include "audit/denial.h"
#include "base/json.h"

struct netlog;
int netlog_new(struct netlog **ret, struct err *err);
void netlog_free(struct netlog *n);
/* A malformed or oversized event is counted and dropped. Denied ones also go into `denials`
 * (boundary network; credentials for reason "credential" and "response"); NULL: nowhere. */
void netlog_add(struct netlog *n, const char *text, size_t len, struct denial_list *denials);
void netlog_lost(struct netlog *n, uint64_t events); /* the proxy could not deliver so many */
/* {"total", "allowed", "denied", "errors", "by_method": {}, "by_status": {}, "by_host": {},
 * "denied_list":
 * [{what, reason, hint, count}], "recent": [events], "bytes_up", "bytes_down", "lost"}; every table
 * is bounded and ends with "other". `recent` may be left out (receipts). */
void netlog_write_json(const struct netlog *n, struct json_writer *w, bool recent);
/* Hears of each denied request, as it was checked and cut to size. */
struct netlog_denied {
    const char *entry, *scheme, *method, *host, *path, *reason, *text, *hint;
    uint16_t port;
};
typedef void netlog_heard(void *ctx, const struct netlog_denied *d);
void netlog_hear(struct netlog *n, netlog_heard *fn, void *ctx);
bool netlog_changed(struct netlog *n); /* since the last call */
