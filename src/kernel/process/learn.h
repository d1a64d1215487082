/* Learn mode: what the code asks the kernel for is written down, and the call goes on. The same
 * walls stand as in any run; nothing here decides, and nothing that is read from the code's memory
 * is opened on the host's side while it runs (how long that takes would tell the code what is
 * there). */
#pragma once

#include "kernel/kernel.h"

#include <linux/seccomp.h>

/* A call that names a file, or makes a socket, and that the plain filter allows. */
void learn_call(struct kernel *k, const struct seccomp_notif *n);
/* A connect: to the file of a socket? */
void learn_connect(struct kernel *k, const struct seccomp_notif *n);
/* The root that the sandbox has, and what there is of a path (ASKED_…). For the hand alone
 * (hand.h). */
int learn_root(pid_t pid);
unsigned learn_look(const struct kernel *k, pid_t pid, const char *path);
/* A refused call. */
void learn_refused(struct kernel *k, const struct filter_denial *d);
