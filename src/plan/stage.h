/* The order in which the boundaries add their operations: for each stage, each boundary in turn. */
#pragma once

enum plan_stage {
    STAGE_BIRTH,    /* tie to the supervisor, names, a network namespace on its way */
    STAGE_VIEW,     /* the new root */
    STAGE_RESTRICT, /* limits, no-new-privs, Landlock: still with the rights to do it */
    STAGE_SEAL,     /* identity, capabilities, system call filter: nothing comes after */
    STAGE_CODE,     /* what to run: folder, environment, arguments */
    STAGE_COUNT,
};
