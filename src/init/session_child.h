/* init in session mode: instead of running one command it starts what the supervisor asks for, one
 * process after the other, for as long as the sandbox lives.
 *
 * Everything is already sealed when it begins to serve: whatever is started has init's rights, and
 * those are the code's. init itself reads nothing that the code wrote and parses nothing: each
 * request is carried out by a child of its own, which ends or becomes a program. */
#pragma once

#include "plan/apply.h"

#include <sys/types.h>

/* More children at one time than any policy needs; the pids limit comes first. */
#define SESSION_CHILDREN_MAX 4096

/* The plan is applied: say so, wait for the word, serve until the end. Returns the exit status. The
 * caller is the first process of the sandbox, and descriptors 0 to 2 are open. */
int session_serve(struct apply_state *st);
/* Before that: a child that is already there, whose end is to be reported like that of any other.
 * `go_fd`: one byte there, after the word, lets it go. 0, or negative. */
int session_adopt(pid_t pid, int go_fd);

/* spawn_child.c, connect_child.c: run in the child, and do not return. `fds` as CTL_SPAWN says. */
void spawn_child(struct apply_state *st, const int *fds, int count) __attribute__((noreturn));
void connect_child(uint32_t request, int port, int door) __attribute__((noreturn));
/* A connection to a port of this network's loopback; or negative. */
int connect_port(int port, struct err *err);
/* as_root_child.c: the same, for a connection of somebody inside. */
void as_root_child(struct apply_state *st, int connection) __attribute__((noreturn));
