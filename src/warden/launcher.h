/* The launcher of `brig serve`: has the templates, starts the front (brig-daemon) and one warden
 * for each sandbox that the front asks for. It reads nothing that comes from a client.
 *
 * LA-1  The front is not trusted: it can ask for a sandbox of a template, by an id, with one of the
 *       operator's projects, a text for its warden that can only make the template's policy
 *       stricter, and headers for hosts that it may reach, and nothing else. What a sandbox may do
 *       at most stands in the template.
 * LA-2  The end of the front is the end of all wardens, and of the launcher. */
#pragma once

#include "base/err.h"
#include "warden/template.h"

#include <stdbool.h>
#include <stddef.h>

#define LAUNCHER_LISTENERS_MAX 8
#define LAUNCHER_PROJECTS_MAX  16

/* Descriptors that the front starts with; its arguments are the kinds of the listeners, in order.
 * With TLS the socket of brig-tls stands in the place of those that brig-tls listens on. */
enum {
    FRONT_FD_LAUNCHER = 3,
    FRONT_FD_STATE = 4,
    FRONT_FD_LISTENERS = 5,
};

struct listener {
    int fd;
    const char *kind;  /* "unix" or "tcp" */
    char address[160]; /* "unix:/run/brig/brig.sock", "http://127.0.0.1:8080" */
    char host[48];     /* the numeric address alone, or empty: a UNIX socket, or all addresses */
};

struct launcher_config {
    const char *program; /* the front; NULL: brig-daemon */
    const char *state;   /* path of the state folder, for messages */
    int state_fd;
    struct listener listeners[LAUNCHER_LISTENERS_MAX];
    unsigned listener_count;
    char *projects[LAUNCHER_PROJECTS_MAX]; /* folders that sandboxes may work on copies of */
    unsigned project_count;
    unsigned max_boxes;                        /* 0: as the front has it */
    const char *domain;                        /* that ports are below, or NULL */
    const char *certificate, *certificate_key; /* paths: TCP speaks TLS; or NULL */
    char key_id[16];
    char key_hash[65]; /* SHA-256 of the operator's key, as text */
    /* At the start and at SIGHUP. */
    int (*load)(void *ctx, struct templates *t, struct err *err);
    /* The front serves. */
    void (*ready)(void *ctx);
    /* Something that a person should know. */
    void (*say)(void *ctx, const char *text);
    /* Something that must be known. */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};
/* Until the end: 0 after an orderly one, or negative. *ret_started: the front was started; without
 * it nothing ever ran. */
int launcher_run(const struct launcher_config *c, bool *ret_started, struct err *err);
