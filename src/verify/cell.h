/* All sandboxes of one level on one tier, at the same time, and the verdicts. */
#pragma once

#include "verify/judge.h"
#include "verify/scene.h"

/* The controls, once for all cells. */
struct controls {
    bool ran[ROWS_MAX];
    struct outcome outcomes[ROWS_MAX];
};
void controls_run(struct controls *ret, const struct canaries *canaries);

struct cell_progress {
    void (*tell)(void *ctx);
    void *ctx;
    int signal_fd; /* somebody wants us to stop */
};
int cell_run(struct verify_cell *cell, const struct cell_work *work,
             const struct controls *controls, const struct circumstances *c,
             const struct cell_progress *progress, unsigned *sandboxes, struct err *err);
