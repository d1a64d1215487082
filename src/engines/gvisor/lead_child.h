/* The parts of brig-lead. lead.c tells the story. */
#pragma once

#include "engines/gvisor/lead.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#define TERMINAL_PIECE  16384
#define TERMINAL_POLLED 4

struct piece {
    char bytes[TERMINAL_PIECE];
    size_t at, len;
};

struct lead {
    int down, up; /* as lead.h has them; up is -1 once it was told how the start went */
    int signals;
    int status; /* of the child, until it is the program; then -1 */
    const char *folder;
    char **argv;
    pid_t pid;
    bool ended;
    int end_status;

    bool terminal;
    struct winsize size;
    int master, slave;
    struct piece in, out; /* on their way to the program; from it */
    bool in_ended, out_ended, sizes_ended;
    char record[sizeof(struct winsize)];
    size_t record_len;
    unsigned after_end; /* pieces since the program ended */
};

/* lead_terminal.c. Descriptors 0 to 2 of a leader with a terminal are pipes: what is typed, what is
 * shown, and structs winsize. Negative: errno says why. */
bool terminal_size(struct lead *l, const char *text); /* "-": none is wanted */
int terminal_open(struct lead *l);
int terminal_take(struct lead *l); /* in the child */
/* What is to be waited for now: fills in at most TERMINAL_POLLED; how many. */
unsigned terminal_poll(struct lead *l, struct pollfd *fds);
/* After the wait. True: there is something left to be shown. Both do nothing without a terminal. */
bool terminal_carry(struct lead *l, const struct pollfd *fds);
/* Whoever has it as his terminal now is told that it is gone. */
void terminal_hang_up(const struct lead *l);
