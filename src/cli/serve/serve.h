/* What `brig serve` makes before anything is served: its folder, its key, its sockets. */
#pragma once

#include "base/api_key.h"
#include "base/err.h"
#include "warden/launcher.h"

#include <stdbool.h>

/* serve_state.c */
struct serve_state {
    char path[3072];
    int fd;
    int lock_fd;
    bool key_is_new;
    char key[API_KEY_SIZE]; /* only while it is new, to be shown once */
    char key_path[3200];
};
/* Opens or makes the folder and takes its lock. `path` NULL: where the caller's state belongs. */
int serve_state_open(struct serve_state *s, const char *path, struct err *err);
/* Reads or makes the operator's key; only its hash goes on. `file` NULL: STATE/key. */
int serve_key(struct serve_state *s, const char *file, struct launcher_config *c, struct err *err);
/* A key file or a socket that lies elsewhere is not let into sandboxes either. */
void serve_keep(const char *file);
/* STATE/address, for the shell's verbs. */
int serve_address_write(const struct serve_state *s, const struct launcher_config *c,
                        struct err *err);
void serve_address_remove(const struct serve_state *s);
/* Only what was opened and locked. */
void serve_state_remove(const struct serve_state *s);
void serve_state_done(struct serve_state *s);

/* serve_listen.c */
struct serve_sockets {
    char unix_path[108]; /* to be removed at the end, or empty */
};
/* Those that a service manager handed over (LISTEN_FDS), or our own. */
int serve_listen(struct serve_sockets *s, const struct serve_state *state, const char *listen,
                 const char *socket, struct launcher_config *c, struct err *err);
void serve_sockets_done(struct serve_sockets *s, struct launcher_config *c);
/* To the service manager, where there is one. */
void serve_notify(const char *text);
