/* What the sandboxes of the gvisor tier that live on have agreed on: the warden, who writes the
 * block of a request; brig-gvisor join, which init starts for it; and the leader that stands behind
 * the Sentry (engines/gvisor/). */
#pragma once

/* The status pipe of the request, in the process that init starts (OP_KEEP_STATUS). */
#define JOIN_STATUS 5

/* The name of the Sentry's control socket, as the kernel makes one: hexadecimal digits. */
#define JOIN_NAME_LEN 5

/* The one argument of the first process behind the Sentry. */
#define JOIN_REAP "reap"

/* What stands for SIGSTOP, which would stop who is to pass it on. The number itself, the last of
 * the real-time signals, cannot be sent to a process. */
#define JOIN_STOP 64
