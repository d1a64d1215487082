/* libbrig-template.so: what a template process is besides an interpreter with its modules loaded.
 *
 * A template (T) waits for requests of wardens. For each it starts a process (A) in new namespaces
 * that borrows T's memory while T waits, as after vfork. A applies the sandbox's plan to itself,
 * which is the same plan that a cold sandbox gets, and when nothing is left to be given up it forks
 * once more (B) and becomes init by executing init's image. B, the clone, owns a copy-on-write copy
 * of T's memory and nothing else of T's: it returns from template_serve into the interpreter.
 *
 * T-1  T never sees data of a user: requests carry descriptors and four numbers.
 * T-2  A clone has no descriptor, namespace, identity or right of T's.
 * T-3  A clone runs no instruction of the interpreter before its warden has attested it.
 * T-4  T has no memory that a clone of it would not have for itself (template.py). */
#pragma once

#include <stddef.h>

#define TEMPLATE_API __attribute__((visibility("default")))

/* Memory that is the state of a random generator: each clone's is filled anew. */
TEMPLATE_API int template_random(void *state, size_t len);
/* Serves until the door ends (0) or breaks (negative errno). Returns 1 in a clone, attested,
 * and 2 where the clone's environment is not the expected one. */
TEMPLATE_API int template_serve(int door);
/* The environment is now as that of every clone is expected to be. */
TEMPLATE_API int template_remember(void);
/* In a clone: its environment, NULL-terminated, "NAME=value". */
TEMPLATE_API char **template_environ(void);
