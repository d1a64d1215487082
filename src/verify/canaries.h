/* What the attacks are after, made for this run and removed with it: files, sockets, a process, a
 * key, shared memory. Each can tell whether somebody was there. */
#pragma once

#include "base/err.h"
#include "verify/lab.h"
#include "verify/place.h"

#include <stdbool.h>
#include <stdint.h>

#define TOKEN_SIZE 33

struct canaries {
    struct place place;
    char token[TOKEN_SIZE];  /* in files, memory and keys: seen inside, it proves a way out */
    char secret[TOKEN_SIZE]; /* brig-proxy's */
    struct lab lab;
    int folder_fd;
    int tcp, tcp6, udp, local, abstract, granted; /* listening */
    int shm_id;
    pid_t victim;
    int door;    /* bound and not listening: see open_numbers */
    int signals; /* a byte for each that the victim got */
    bool has_key, has_queue;
};

void canaries_init(struct canaries *c);
int canaries_open(struct canaries *c, struct err *err);
/* Resets the canaries after the controls. */
void canaries_reset(struct canaries *c);
/* Negative if their folder is left. */
int canaries_close(struct canaries *c, struct err *err);

/* Was somebody there? */
bool canary_connected(int listener);
bool canary_file_changed(const struct canaries *c);
bool canary_dropped(const struct canaries *c);
bool canary_granted_written(const struct canaries *c);
bool canary_module_written(const struct canaries *c);
bool canary_granted_mode(const struct canaries *c);
bool canary_set_id(const struct canaries *c);
bool canary_bound(const struct canaries *c);
bool canary_special(const struct canaries *c);
bool canary_signalled(const struct canaries *c);

/* Tasks of the host with this name: how many; those found are killed if asked for. */
unsigned marked_tasks(const char *mark, bool end);
/* It is this task, or one of its descendants. */
bool is_below(pid_t pid, pid_t top);
/* One of them below `top`, or 0. */
pid_t marked_below(const char *mark, pid_t top);
