/* The front itself: `brig-daemon KIND...`, with its sockets at fixed descriptors (sandbox/launcher.h
 * has the other side). */
#pragma once

/* `kinds`: "unix" or "tcp" for each listener, NULL at the end. Returns the exit status. */
int front_run(char *const kinds[]);
