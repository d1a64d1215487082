/* Any bytes from the other side of a stream that carries several. Whatever they are, no channel
 * holds more than its window, and what breaks the rules ends the stream. */
#include "plan/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct lines lines;
static int outer[LINES_CHANNELS];

static int hear(void *ctx, const struct lines_frame *f)
{
    (void)ctx;
    if (f->type <= LINES_CREDIT || f->type >= LINES_TYPE_COUNT || f->channel != 0)
        abort();
    return 0;
}

static void open_all(void)
{
    static const enum lines_way ways[LINES_CHANNELS] = {LINES_OUT, LINES_IN, LINES_IN, LINES_OUT,
                                                        LINES_CLOSED};
    for (unsigned i = 0; i < LINES_CHANNELS; i++) {
        int ends[2];
        outer[i] = -1;
        if (ways[i] == LINES_CLOSED)
            continue;
        if (pipe2(ends, O_NONBLOCK) < 0)
            abort();
        outer[i] = ends[ways[i] != LINES_IN];
        lines_open(&lines, i, ways[i], ends[ways[i] == LINES_IN]);
    }
}

static void check(void)
{
    for (unsigned i = 0; i < LINES_CHANNELS; i++) {
        const struct lines_channel *c = &lines.channels[i];
        if (c->len > LINES_WINDOW || c->at + c->len > sizeof c->data || c->credit > LINES_WINDOW ||
            (c->way == LINES_IN && c->credit + c->len > LINES_WINDOW))
            abort();
    }
    if (lines.in_len >= sizeof lines.in || lines.out_len > sizeof lines.out)
        abort();
}

/* Who has the pipes reads, writes, or goes. */
static void play(uint8_t how)
{
    char piece[3000] = "";
    if (how & 1)
        (void)!read(outer[1], piece, sizeof piece);
    if (how & 2)
        (void)!write(outer[0], piece, sizeof piece);
    if ((how & 0x30) == 0x30)
        for (unsigned i = 0; i < LINES_CHANNELS; i++)
            if (outer[i] >= 0 && (how & 0xc0) >> 6 == (int)i) {
                close(outer[i]);
                outer[i] = -1;
            }
}

static int step(void)
{
    struct pollfd fds[LINES_FDS];
    lines_watch(&lines, fds);
    while (poll(fds, LINES_FDS, 0) < 0)
        if (errno != EINTR) /* the fuzzer's own timer */
            abort();
    int r = lines_step(&lines, fds);
    check();
    if (r < 0 && lines.fd >= 0)
        abort();
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    signal(SIGPIPE, SIG_IGN); /* as both sides do */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    lines_init(&lines, pair[0], hear, NULL);
    open_all();
    /* Each piece of the input has a byte before it: what happens first, and how long it is. */
    while (size > 1) {
        char none[9000];
        size_t len = data[0] == 255 ? size - 1 : 1 + data[0] % 64u;
        len = len < size - 1 ? len : size - 1;
        play(data[0]);
        if (send(pair[1], data + 1, len, MSG_NOSIGNAL) < 0 || step() < 0)
            break;
        (void)!read(pair[1], none, sizeof none);
        data += len + 1;
        size -= len + 1;
    }
    lines_close(&lines);
    close(pair[1]);
    for (unsigned i = 0; i < LINES_CHANNELS; i++)
        if (outer[i] >= 0)
            close(outer[i]);
    return 0;
}
