/* A pump: a child that carries bytes between pipes of the code's and pipes of ours.
 *
 * The kernel locks a pipe while it copies to or from the memory of the writer or reader. If that
 * memory lies on a file system that does not answer (a file behind a grant, mapped), everybody else
 * at that pipe waits as well, with O_NONBLOCK or without, also to close it. So the
 * other end of a pipe of the code's is held by a process that may be made to wait.
 *
 * The same holds for a terminal, also for setting its size. And what init says is a terminal need
 * not be one once code runs: it may be whatever the code can open, and shared with it, with
 * O_NONBLOCK as the code likes. So each terminal has a pump, and what init makes for one goes to
 * the pump alone.
 *
 * PU-1  Who has a pump neither reads nor writes a pipe or a terminal of the code's, nor closes it
 * last. PU-2  Nobody waits for the pump's end longer than a moment, and it dies with its parent.
 * PU-3  It can do nothing but carry: it has no descriptor but its lines, no path, no right of its
 * parent's, and no system call beyond. PU-4  A run whose pump was killed does not look as if all of
 * its output had come. PU-5  A descriptor that init hands out for a terminal is taken by the pump,
 * after that was sealed, and by nobody else. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PUMP_LINES 5

/* Bytes go from one to the other until the first ends or nobody listens at the second. Lines that
 * are not used are -1. */
enum pump_kind {
    PUMP_BYTES,
    PUMP_WORDS, /* bytes too, but only after all that the code had written to its other lines */
    PUMP_WHOLE, /* bytes to the code, whose end says that these were all: who gave up before, and
                   listens no more to the other lines, is heard to do so first */
    PUMP_SIZES, /* each a struct winsize, for the terminal that is the second */
};
struct pump_line {
    int from, to;
    enum pump_kind kind;
    bool out;    /* from the code */
    bool handed; /* its end that is the code's is a socket, by which that will come: a terminal */
    bool socket; /* or a connection; what ends in one direction goes on in the other */
};

struct pump {
    pid_t pid; /* 0: none */
    int pidfd; /* readable when it has ended */
};

void pump_init(struct pump *p);
void pump_lines_init(struct pump_line lines[PUMP_LINES]);
/* A line for what the code writes (or, not `out`, reads): its end and ours of two pipes, of which
 * the pump has the others. Without a line: of one pipe, where no pump is needed. Ours does not
 * block. 0 or a negative errno. */
int pump_lay(struct pump_line *line, bool out, int *theirs, int *ours);
/* The same where the code has the other side of a terminal: the pump has a copy of it. Without a
 * line the copy is ours. */
int pump_lay_terminal(struct pump_line *line, bool out, int master, int *ours);
/* What is written to ours is the terminal's size. */
int pump_lay_sizes(struct pump_line *line, int master, int *ours);
/* The same for a terminal that somebody else makes and sends over `theirs`, in three lines: what
 * comes out of it, what goes in, its size. */
#define PUMP_TERMINAL 3
int pump_lay_handed(struct pump_line lines[PUMP_LINES], int *theirs, int ours[PUMP_TERMINAL]);
/* The same for a TCP connection; ours is a socket. */
int pump_lay_connection(struct pump_line lines[PUMP_LINES], int *theirs, int *ours);
/* The same for one that somebody carries by two pipes, to be read from and written to. */
int pump_lay_stream(struct pump_line lines[PUMP_LINES], int theirs[2], int *ours);
/* Closes the lines here in any case: the pump has copies by then. 0 or a negative errno; also where
 * no line is used, and no pump started. */
int pump_start(struct pump *p, struct pump_line lines[PUMP_LINES]);
/* To be asked when the descriptor is readable: did it end before its work was done? */
bool pump_failed(struct pump *p);
void pump_end(struct pump *p);
/* The same in two steps, where there are many: all are killed first, and waited for together. */
#define PUMP_END_US 1000000u
void pump_kill(const struct pump *p);
void pump_let_go(struct pump *p, uint64_t deadline_us);
/* Lines that come to nothing. */
void pump_close(struct pump_line lines[PUMP_LINES]);
