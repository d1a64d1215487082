/* WASI's calls with any arguments on a memory of any size: nothing outside of that memory is read
 * or written (the sanitizer looks), no descriptor that the module was not given is touched, and a
 * path opened step by step leads where the kernel leads.
 *
 * The input: two bytes for the size of the memory, a length and as many bytes of its beginning,
 * then calls: a number, and for each argument a kind and what the kind needs. Whether the input's
 * own length is odd says for which state of the preview the module was built. */
#include "engines/wasm/beneath.h"
#include "engines/wasm/wasi.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int folder = -1, null_fd = -1, kept = -1;

struct input {
    const uint8_t *at;
    size_t left;
};

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && in->left; i++, in->at++, in->left--)
        value |= (uint64_t)*in->at << (8 * i);
    return value;
}

static char place[] = "/tmp/fuzz-wasi-XXXXXX";

static int remove_entry(const char *path, const struct stat *sb, int kind, struct FTW *at)
{
    (void)sb;
    (void)kind;
    (void)at;
    (void)remove(path);
    return 0;
}

static void remove_place(void)
{
    nftw(place, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void prepare(void)
{
    /* What is allocated on the module's word stays small here. */
    struct rlimit small = {1 << 20, 1 << 20};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    if (!mkdtemp(place) || (folder = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        abort();
    mkdirat(folder, "a", 0700);
    close(openat(folder, "a/b", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    if (symlinkat("a/../a/b", folder, "l") < 0)
        abort();
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    kept = dup(null_fd);
    atexit(remove_place);
}

static uint64_t argument(struct input *in, char kind, const struct wasi *w)
{
    switch (take(in, 1) % 6) {
    case 0:
        return take(in, 1);
    case 1: /* near the end of the memory */
        return (uint32_t)(w->memory_size + (uint64_t)(int8_t)take(in, 1));
    case 2: /* in it */
        return w->memory_size ? take(in, 2) % w->memory_size : 0;
    case 3:
        return UINT32_MAX - take(in, 1);
    case 4:
        return 3 + take(in, 1) % 3;
    default:
        return kind == 'I' ? take(in, 8) : take(in, 4);
    }
}

/* Nobody waits for a time that the input says. */
static void hurry(struct wasi *w, const uint64_t *a)
{
    uint64_t clock = w->older ? 8 : 0, each = 48 + clock;
    for (uint64_t i = 0; i < a[2] && i < WASI_FDS_MAX; i++) {
        uint8_t *s = wasi_span(w, a[0] + each * i, each);
        if (s && s[8] == 0)
            memset(s + 24 + clock, 0, 18);
    }
}

/* By the kernel and step by step: both get there or both do not. */
static void compare(const char *path)
{
    static const uint64_t ways[] = {O_PATH, O_PATH | O_NOFOLLOW, O_RDONLY | O_DIRECTORY};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct stat a, b;
        int one = open_beneath(folder, path, ways[i], 0),
            two = walk_beneath(folder, path, ways[i], 0);
        if ((one < 0) != (two < 0) && strlen(path) < 200)
            abort();
        if (one >= 0 && two >= 0 &&
            (fstat(one, &a) < 0 || fstat(two, &b) < 0 || a.st_ino != b.st_ino ||
             a.st_dev != b.st_dev))
            abort();
        if (one >= 0)
            close(one);
        if (two >= 0)
            close(two);
    }
}

static void run(struct wasi *w, struct input *in)
{
    size_t count = 0;
    while (wasi_call_at(count))
        count++;
    for (int n = 0; n < 64 && in->left; n++) {
        const struct wasi_call *call = wasi_call_at(take(in, 1) % count);
        uint64_t a[WASI_ARGS_MAX] = {0};
        for (size_t i = 0; call->takes[i]; i++)
            a[i] = argument(in, call->takes[i], w);
        if (strcmp(call->name, "poll_oneoff") == 0)
            hurry(w, a);
        if (call->handler(w, a) > WE_NOTCAPABLE)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *const texts[] = {"one", "A=B", "three"};
    struct input in = {data, size};
    struct wasi *w = malloc(sizeof *w);
    if (folder < 0)
        prepare();
    if (!w)
        abort();
    wasi_init(w);
    w->older = size % 2 == 1;
    for (int i = 0; i < 3; i++)
        w->fds[i].fd = fcntl(null_fd, F_DUPFD_CLOEXEC, 3);
    w->args = w->env = texts;
    w->arg_count = w->env_count = 3;
    wasi_preopen(w, fcntl(folder, F_DUPFD_CLOEXEC, 3), "/given", true);
    wasi_preopen(w, fcntl(folder, F_DUPFD_CLOEXEC, 3), ".", false);
    w->memory_size = take(&in, 2);
    w->memory = w->memory_size ? calloc(1, w->memory_size) : NULL;
    uint64_t len = take(&in, 1);
    char path[256] = "";
    for (uint64_t i = 0; i < len && in.left; i++) {
        uint8_t byte = (uint8_t)take(&in, 1);
        path[i] = (char)byte;
        if (i < w->memory_size)
            w->memory[i] = byte;
    }
    if (path[0])
        compare(path);
    run(w, &in);
    wasi_done(w);
    free(w->memory);
    free(w);
    if (fcntl(kept, F_GETFD) < 0 || fcntl(folder, F_GETFD) < 0)
        abort();
    return 0;
}
