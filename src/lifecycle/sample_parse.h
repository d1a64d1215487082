/* What /proc says of the code's processes. They choose their names, and those of the files that
 * they map. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* "\nName:" in /proc/PID/status, or "Name:" at the beginning of /proc/meminfo: bytes, 0 if it is
 * not there. */
uint64_t sample_kib_parse(const char *text, const char *name);

/* /proc/PID/status: memory that belongs to this process, page tables and what was swapped out
 * included. Shared memory is counted for everyone who maps it: where nothing better than sampling
 * is available, too much is the safe side. */
uint64_t sample_memory_parse(const char *text);
bool sample_has_memory(const char *text); /* it tells of memory at all */

/* A line of /proc/PID/maps, without its end. False: it is no file that was deleted. */
struct sample_mapping {
    uint64_t from, to, ino;
    dev_t dev;
    const char *path; /* in the line; ends with " (deleted)" */
};
#define SAMPLE_DELETED " (deleted)"
bool sample_mapping_parse(const char *line, struct sample_mapping *ret);

/* /proc/PID/fdinfo/N of a socket: how many descriptors wait in it. */
uint64_t sample_flight_parse(const char *text);
/* /proc/PID/net/sockstat: how many sockets there are. */
uint64_t sample_sockstat_parse(const char *text);
/* A line of fdinfo: does it tell of a lock? */
bool sample_is_lock(const char *line);
/* A line of /proc/PID/net/netlink: bytes that wait in the socket. */
uint64_t sample_netlink_parse(const char *line);
