/* Signals on a kernel without Landlock's signal scope (before 6.12), on the process tier: the code
 * shares the user's uid, so every signal call is sent by the supervisor instead, and only to tasks
 * of the sandbox. */
#pragma once

#include "kernel/kernel.h"

#include <linux/seccomp.h>

/* 0, or a negative errno for the caller. */
int broker_signal(struct kernel *k, const struct seccomp_notif *n);

/* Landlock does not guard permissions and time stamps. On the process tier of an ordinary user, who
 * owns files elsewhere, the supervisor makes such changes instead: it opens the object itself,
 * looks where it lies, and changes what it opened. */
int broker_meta(struct kernel *k, const struct seccomp_notif *n);
