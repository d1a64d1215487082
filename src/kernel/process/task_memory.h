/* Copying out of a task that waits for an answer. For the hand alone (hand.h): a page may lie on a
 * file system that does not answer. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* `mem`: its /proc/PID/mem. 0 or a negative errno. */
int task_copy(int mem, uint64_t address, void *out, size_t size);
int task_copy_path(int mem, uint64_t address, char out[PATH_MAX]);
