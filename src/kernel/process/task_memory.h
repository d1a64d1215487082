/* Copying out of a task that waits for an answer. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* 0 or a negative errno. */
int task_copy(pid_t pid, uint64_t address, void *out, size_t size);
int task_copy_path(pid_t pid, uint64_t address, char out[PATH_MAX]);
