/* One process per sandbox of `brig serve`: provisions it, and serves it until the end. */
#pragma once

#include "sandbox/template.h"

/* `sock`: to the front, taken. `id`: 20 letters and digits. Returns the exit status. */
int warden_main(int sock, const struct template *t, const char *id);
