/* Until the first part of the daemon is here. */
typedef int daemon_nothing;
