/* Looking at a sandbox's tasks from outside. */
#pragma once

#include "lifecycle/inodes.h"
#include "lifecycle/lifecycle.h"

/* A pipe has so many pages, and the filter lets nobody enlarge it where memory is only watched. */
#define SAMPLE_PIPE_PAGES 16u

/* One process, as the last look saw it. */
struct process_seen {
    pid_t pid, ppid;
    uint64_t start;         /* tells it from another one that got its number */
    uint64_t own, reaped;   /* CPU time in ticks: its threads', its waited-for children's */
    uint64_t reaped_growth; /* since the look before, less what has been explained by it */
};

struct process {
    struct process_seen seen;
    uint64_t tasks;
    bool ended;                                                 /* its first thread has */
    bool ending;                                                /* or has begun to */
    enum side { SIDE_UNKNOWN, SIDE_INSIDE, SIDE_OUTSIDE } side; /* of the sandbox */
};

struct processes {
    struct process *items;
    size_t count, room;
    int proc; /* the /proc that names them */
    bool own; /* the sandbox's */
};

/* What is kept from one sample to the next. */
struct sampler {
    struct process_seen *before;
    size_t before_count;
    uint64_t lost_ticks; /* of processes that nobody waited for */
    uint64_t last_us;
    /* For how long without a break: something could not be read; descriptors were in flight; the
     * child that samples did not answer. */
    uint64_t blind_us, flight_us, silent_us;
    uint64_t late_us;                  /* the same, with the time in which it had no processor */
    uint64_t looker_us;                /* CPU time that it had taken by the last sample */
    uint64_t pipe_bytes, socket_bytes; /* what one of them can hold */
    uint64_t sockets_before;           /* in its network before the code ran */
    bool locks_due;                    /* locks.c: to be counted by the next look */
    uint64_t locks_cpu;                /* CPU time of the code when it was last decided */
    uint64_t kernel_low;               /* what of the kernel's memory was the least since */
    uint64_t kernel_grown;             /* by how much it grew since the start */

    /* Used in the child that samples (aside.c); empty in the supervisor. */
    struct inodes open;   /* pipes, sockets and deleted files of this look: each counts once */
    struct inodes known;  /* sizes of files that were seen in the folder or open */
    struct inodes layers; /* devices of the overlays that the code sees */
    uint64_t folder_max;  /* the largest folder on one of them, as stat tells its size */
    struct inodes ending, ending_before; /* processes by start and number; "bytes": since when */
    uint64_t maps_us;                    /* when mappings were looked at last, and what they held */
    uint64_t mapped_bytes, mapped_inodes, shared;
};

struct sampler *sampler_new(void);
void sampler_free(struct sampler *s);

/* What looks returns 0, or a negative errno if not all could be seen; what was seen is good in any
 * case. A process that ends meanwhile is none. */
bool sample_is_gone(int error);

/* processes.c */
bool process_is_named(const char *name); /* is it a process that this entry of /proc stands for? */
/* 1: it is there; 0: it is gone. */
int process_read(int proc, const char *pid, struct process *ret);
/* 1: a process of this user's can see to it that /proc does not show it to this user; 0: none can;
 * or a negative errno. */
int processes_can_hide(void);
/* The processes of the sandbox. */
int processes_read(const struct lifecycle *l, struct processes *ret);
struct process *processes_find(const struct processes *list, pid_t pid); /* NULL: not in it */
void processes_done(struct processes *list);
/* init holds nothing of the code's, and is hidden from everybody who has no right to it. */
bool process_is_init(const struct lifecycle *l, const struct processes *list,
                     const struct process *p);
/* So is what init starts for the file API: lifecycle_started_own. */
bool process_is_own(const struct lifecycle *l, const struct process *p);
/* The name in /proc of a thread that shows what the process has: "12", or "12/task/34" of one whose
 * first thread has ended. */
#define PROCESS_NAME_SIZE 48
void process_name(const struct processes *list, const struct process *p,
                  char out[static PROCESS_NAME_SIZE]);

/* sample_files.c: what the processes hold open or mapped. Touches objects of theirs: on an errand.
 */
int sample_files(const struct lifecycle *l, struct looked *ret);
/* In the network namespace of the process. */
int sample_sockets(pid_t pid, uint64_t *ret);
/* Bytes that wait in netlink sockets of that namespace: no cgroup counts them. */
int sample_netlink(pid_t pid, uint64_t *ret);
int sample_host_memory(struct host_memory *ret);
/* The most that each of the two buffers of a socket can hold, by the host's settings. */
uint64_t sample_socket_buffer(void);
