/* What all that has to do with `brig serve` must agree on: where its state is, what a key is. */
#pragma once

#include "base/api_key.h"
#include "base/buf.h"
#include "base/err.h"

/* `given` (--state), else root: /var/lib/brig/serve, else $XDG_STATE_HOME/brig/serve or
 * ~/.local/state/brig/serve. */
int state_folder(const char *given, struct buf *out, struct err *err);

/* The folder of the caller's sockets, without the name of one; empty where there is none. */
#define STATE_RUNTIME_SIZE 96
void state_runtime(char ret[static STATE_RUNTIME_SIZE]);

/* A new one. The caller wipes it. */
int api_key_make(char ret[static API_KEY_SIZE], struct err *err);
/* One that was made before, or elsewhere: the first line of the file. The caller wipes it. */
int api_key_read(int fd, const char *file, char ret[static API_KEY_SIZE], struct err *err);
