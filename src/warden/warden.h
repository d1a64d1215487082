/* One process per sandbox of `brig serve`: provisions it, and serves it until the end. */
#pragma once

#include "sandbox/clone.h"
#include "warden/template.h"

/* `sock`: to the front, taken. `id`: 20 letters and digits. `source`: where to clone it from, NULL
 * to start it; its descriptors are closed. `project`: a folder of which it gets a copy-on-write
 * view, or NULL. Returns the exit status. */
int warden_main(int sock, const struct template *t, const char *id,
                const struct clone_source *source, const char *project);
