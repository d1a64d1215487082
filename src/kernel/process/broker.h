/* Signals on a kernel without Landlock's signal scope (before 6.12), on the process tier: the code
 * shares the user's uid, so every signal call is sent by the supervisor instead, and only to tasks
 * of the sandbox. */
#pragma once

#include "kernel/kernel.h"

#include <linux/seccomp.h>

/* 0, or a negative errno for the caller. Both are for the hand alone (hand.h). */
int broker_signal(struct kernel *k, const struct seccomp_notif *n);

/* Landlock does not guard permissions and time stamps. On the process tier of an ordinary user, who
 * owns files elsewhere, the supervisor makes such changes instead: it opens the object itself,
 * looks where it lies, and changes what it opened. */
int broker_meta(struct kernel *k, const struct seccomp_notif *n, int mem);

/* What others read is nobody's business: which of the host's programs are started, and what other
 * sandboxes do, would show on the files that all of them share. Everything else that inotify tells
 * can also be found by looking again and again. Many libraries ask for all events and need few: the
 * watch is set, without those. `watch`: the code's inotify descriptor. */
int broker_watch(struct kernel *k, const struct seccomp_notif *n, int mem, int watch);

/* broker_shm.c: names in /dev/shm. What the call returns, or SHM_PASS: it is about something else,
 * and goes on. */
#define SHM_PASS INT_MAX
int broker_shm(struct kernel *k, const struct seccomp_notif *n, int mem);
/* The other calls need names that are there. */
bool broker_shm_opens(const struct seccomp_notif *n);
