/* One sandbox of the suite, while it lives. */
#pragma once

#include "policy/policy.h"
#include "verify/canaries.h"
#include "verify/report.h"
#include "verify/row.h"
#include "verify/tasks.h"

#define SCENE_LINE_MAX 1024

/* What the supervisor says at the end. */
struct scene_end {
    int32_t result; /* of sandbox_run */
    bool by_pids;   /* its limit of tasks ended it */
    bool by_other;  /* another one did */
    int32_t status; /* what `brig run` would have exited with */
    struct err err;
};

struct scene {
    enum scene_id id;
    struct place place;
    pid_t supervisor;
    int out_fd, in_fd, end_fd;
    char line[SCENE_LINE_MAX];
    size_t line_len;
    bool line_long; /* the rest of it is thrown away */
    uint64_t bytes;
    bool over, ended, looked, killed;
    uint64_t begun_us, up_us; /* started, and said its first word */
    struct scene_end end;
    char home[160];
    char group[512]; /* the folder of its control group */
    bool had_files;
    struct tasks tasks;     /* the engine's, where the code is behind one */
    struct outcome allowed; /* what must work in the scene of the network */
    struct outcome outcomes[ROWS_MAX];
    struct outcome controls[ROWS_MAX]; /* those that ran inside */
    bool seen[ROWS_MAX];
    char what[ROWS_MAX][200];
};

struct cell_work {
    /* The policy of its sandboxes. */
    int (*build)(void *ctx, enum level level, enum tier tier, struct policy *ret, struct err *err);
    void *ctx;
    const struct canaries *canaries;
    enum level level;
    enum tier tier;       /* that it will have */
    enum tier tier_asked; /* TIER_AUTO: not asked for */
    bool writable_root;
    bool sentry;          /* the code is behind a kernel in user space */
    bool guest;           /* the code is behind a guest's kernel */
    const bool *left_out; /* of each row: it was not asked for */
    uint64_t boot_ms;     /* that a guest may take to come up */
    uint64_t up_ms;       /* that one took: the start of a guest counts against limits of time */
};

/* What a scene is limited to, in the unit of its attack. */
int scene_limit(enum scene_id id, bool sentry, bool guest);
int scene_start(struct scene *s, enum scene_id id, const struct cell_work *work, struct err *err);
/* Something can be read. */
void scene_read(struct scene *s, const struct cell_work *work);
void scene_take_end(struct scene *s);
/* Its tasks are gone, or not; waits for the kernel a little. */
bool scene_tasks_left(const struct scene *s);
bool scene_files_left(const struct scene *s);
void scene_close(struct scene *s);
