/* One process per sandbox of `brig serve`: provisions it, and serves it until the end. */
#pragma once

#include "warden/stems.h"
#include "warden/template.h"

/* What a request wants otherwise than its template has it; a sandbox with any of it is started, not
 * cloned: a source has the template's own walls. */
struct warden_order {
    const char *project;        /* a folder of which it gets a copy-on-write view, or NULL */
    const char *policy;         /* the text that tightens the template's, or NULL */
    const struct json *network; /* what `headers` are judged with, or NULL */
    const struct json *headers; /* to be set on what it sends, or NULL; their values are secrets */
    char *message;              /* that all of this stands in: overwritten as soon as it is read */
    size_t message_len;
};

/* `sock`: to the front, taken. `id`: 20 letters and digits. `source`: where to clone it from, NULL
 * to start it; its descriptors are closed. `t` is this process's copy, and is changed. Returns the
 * exit status. */
int warden_main(int sock, struct template *t, const char *id, const struct stem_source *source,
                const struct warden_order *order);
