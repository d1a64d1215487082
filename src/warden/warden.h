/* One process per sandbox of `brig serve`: provisions it, and serves it until the end. */
#pragma once

#include "sandbox/clone.h"
#include "warden/template.h"

/* `sock`: to the front, taken. `id`: 20 letters and digits. `source`: where to clone it from, NULL
 * to start it; its descriptors are closed. `project`: a folder of which it gets a copy-on-write
 * view, or NULL. `policy`: the text that a request tightens the template's with, or NULL; not
 * together with a source, which has the template's own walls. `t` is this process's copy, and is
 * changed. Returns the exit status. */
int warden_main(int sock, struct template *t, const char *id, const struct clone_source *source,
                const char *project, const char *policy);
