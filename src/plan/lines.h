/* Several streams over one: what a program in a guest reads and writes, on its way between
 * `brig-vmm join`, which stands in the program's place, and the process of init's in the guest that
 * stands beside it. The monitor carries the one stream and reads nothing of it.
 *
 * A frame is a head of four bytes (type, channel, length) and as many bytes. Each side is hostile
 * to the other: a guest may be taken over, and so may be who speaks for the host.
 *
 * VM-23  What one channel holds is bounded by the reader's own numbers: who sends more than was
 *       granted, or on a channel that does not lead this way, ends the stream.
 * VM-24  No channel waits for another, and no word for any of them: what a pipe does not take stays
 *       in that channel's buffer.
 * VM-25  A frame is copied as a whole, then checked; its length is that of its type. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_CHANNELS  5 /* descriptors of a program: three, and an interpreter's channel */
#define LINES_WINDOW    32768u
#define LINES_PIECE     8192u
#define LINES_HEAD      4u
#define LINES_FRAME_MAX (LINES_HEAD + LINES_PIECE)
#define LINES_FDS       (1 + LINES_CHANNELS)

enum lines_type {
    LINES_NONE,
    LINES_DATA,
    LINES_END,    /* nothing more comes on this channel */
    LINES_GONE,   /* who reads this channel has gone */
    LINES_CREDIT, /* so many bytes more are granted */
    /* Words; of the host: */
    LINES_SIGNAL, /* for the program's group */
    LINES_SIZE,   /* of its terminal */
    /* of the guest: */
    LINES_STARTED, /* the program was executed */
    LINES_FAILED,  /* or not: a struct err */
    LINES_EXIT,    /* it ended: a struct lines_exit */
    LINES_TYPE_COUNT,
};

struct lines_exit {
    int32_t status;     /* as wait(2) has it */
    uint32_t oom_kills; /* processes that the guest's kernel killed for want of memory meanwhile */
};

struct lines_frame {
    enum lines_type type;
    unsigned channel;
    const uint8_t *data;
    size_t len;
};

/* How many bytes the first frame takes; 0: it is not whole yet; negative: it is none. Pure. */
int lines_parse(const uint8_t *data, size_t len, struct lines_frame *ret);
/* A frame's bytes at `to`, which has room for its head and its data. */
size_t lines_write(uint8_t *to, enum lines_type type, unsigned channel, const void *data,
                   size_t len);

enum lines_way {
    LINES_CLOSED,
    LINES_IN,  /* from the stream to a descriptor */
    LINES_OUT, /* from a descriptor to the stream */
};

struct lines_channel {
    enum lines_way way;
    int fd;          /* -1: closed */
    bool over;       /* IN: its end was heard; OUT: it was said, or nobody reads */
    bool gone;       /* IN: the reader has gone, and the other side must be told; OUT: its end is */
    uint32_t credit; /* what the sender may still send */
    uint32_t owed;   /* IN: what was written on, and is not granted again yet */
    uint64_t due;    /* OUT: what was there when it was asked last, and is not sent yet */
    size_t at, len;  /* IN: what is held */
    uint8_t data[LINES_WINDOW];
};

struct lines {
    int fd; /* of the stream; -1: it has ended */
    /* Words of the other side. Negative: not now, or never; ends the stream. */
    int (*hear)(void *ctx, const struct lines_frame *frame);
    void *ctx;
    struct lines_channel channels[LINES_CHANNELS];
    size_t in_len, out_at, out_len;
    uint8_t in[LINES_FRAME_MAX];
    uint8_t out[4 * LINES_FRAME_MAX];
};

/* fd, and those of the channels, are non-blocking and belong to the lines from then on. */
void lines_init(struct lines *l, int fd, int (*hear)(void *ctx, const struct lines_frame *frame),
                void *ctx);
void lines_open(struct lines *l, unsigned channel, enum lines_way way, int fd);
void lines_watch(const struct lines *l, struct pollfd fds[LINES_FDS]);
/* After a poll. Negative: the stream broke VM-23 or VM-25 and is closed. */
int lines_step(struct lines *l, const struct pollfd fds[LINES_FDS]);
/* False: there is no room for the word now. */
bool lines_say(struct lines *l, enum lines_type type, const void *data, size_t len);
/* All that was said is on its way, and no channel that leads this way is open any more. */
bool lines_over(const struct lines *l, enum lines_way way);
/* Notes what the program has written and nobody has read; is all of that sent by now? */
void lines_note_due(struct lines *l);
bool lines_sent_due(const struct lines *l);
/* Nothing that came for a descriptor waits for room there. */
bool lines_written(const struct lines *l);
/* Reads of the program's descriptors what is there, as far as it is granted, and sends it. */
void lines_drain(struct lines *l);
void lines_close(struct lines *l);
