/* The launcher's side of the stems: starts one when the first sandbox of its template is asked for,
 * replaces it when it is old, dead or worn, and keeps it while clones of it live. Of a parked
 * machine there are two sealed files, which the launcher neither reads nor maps (VM-32).
 *
 * Each start of a stem has its own hash seed, address layout and stack guard, which its clones
 * share: STEMS_CLONES_MAX and STEMS_AGE_MS bound with how many others. */
#pragma once

#include "os/loop.h"
#include "sandbox/clone.h"
#include "sandbox/parked.h"
#include "warden/template.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STEMS_MAX        (2 * TEMPLATES_MAX)
#define STEMS_CLONES_MAX 1000
#define STEMS_AGE_MS     (60u * 60 * 1000)
/* Parked machines of a template that are of no more use and that clones keep in memory. */
#define STEMS_KEPT_MAX 8

struct stem;

/* Where a sandbox is cloned from: a process or a machine. */
struct stem_source {
    bool machine;
    struct clone_source process;
    struct parked parked;
    int door; /* of a machine: where it is said why no clone could be made */
};

struct stems {
    struct loop *loop;
    void (*say)(void *ctx, const char *text); /* something that a person should know */
    void *ctx;
    /* In a child of fork: it becomes the stem's warden. Closes all that is the launcher's. */
    void (*become)(void *ctx, int sock, int door, const struct template *t, uid_t lease,
                   const struct parked *park);
    struct stem *items[STEMS_MAX];
    unsigned count;
    int image;
    bool closed;
    struct {
        char name[TEMPLATE_NAME_MAX + 1];
        unsigned failures;
        uint64_t not_before_ms;
    } past[TEMPLATES_MAX];
};

void stems_init(struct stems *s, struct loop *loop);
/* NULL: start it cold. Otherwise the sandbox is to be cloned from here, and stems_drop is called
 * when it has ended. `patient`: nobody waits for the sandbox yet, so that it may wait for a stem
 * that is still loading its modules. While a machine is parked, others are booted. */
struct stem *stems_take(struct stems *s, const struct template *t, bool patient,
                        struct stem_source *ret);
void stems_drop(struct stems *s, struct stem *stem);
/* Is this child the warden of a stem? Then it is taken note of. */
bool stems_child(struct stems *s, pid_t pid, int status);
/* No clone of this template (NULL: of any) is wanted from what runs now. */
void stems_retire(struct stems *s, const char *name);
/* The end: no new ones, and all go. stems_done frees what is left. */
void stems_close(struct stems *s);
void stems_done(struct stems *s);
