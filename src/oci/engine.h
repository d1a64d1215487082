/* The program of brig's own that stands in the place of the container's, on a tier with one. */
#pragma once

#include "oci/judge.h"

#include <limits.h>

/* A module's engine needs files that no image has. It stands in a room, a small file system around
 * the container's view, which is a folder there (room_child.c). */
#define OCI_ROOM_FOLDER "root"
#define OCI_ROOM_ROOT   "/" OCI_ROOM_FOLDER
#define OCI_ROOM_ENGINE "/engine"
#define OCI_VARIABLE    "brig:" /* as credentials/credentials.h has it */
#define OCI_NUMBER_SIZE 12

struct oci_engine {
    enum tier tier;
    bool room;
    char program[PATH_MAX]; /* of the host */
};

/* What a process, the first or one of exec, cannot have there. */
int oci_engine_judge(enum tier tier, const struct oci_process *p, unsigned keep, struct err *err);
/* Finds it. A tier without an engine has none, and nothing is done. */
int oci_engine_open(struct oci_engine *e, enum tier tier, bool rules, struct err *err);
/* In the place of the arguments, and marks the variables. *ret_number is a place among the former:
 * the number of the descriptor that the module is open by. */
int oci_engine_become(const struct oci_engine *e, const struct oci_process *p, char ***argv,
                      char **env, char **ret_number, struct err *err);
/* A list whose entries are owned. */
void oci_engine_free(char **list);
