/* brig-wasm: runs one WASI command. brig starts it as the code of a sandbox (sandbox/engine.c), so
 * that all walls stand around it, and tells it by arguments what the module was given:
 *
 *   brig-wasm [--no-exec] [--cells] [--fd N] [--ro NAME=FOLDER]… [--rw NAME=FOLDER]… --
 *     FILE ARG0 [ARG…]
 *
 * With --fd the module is open as that descriptor, and FILE is what it is called.
 *
 * With --cells it is an interpreter of a sandbox that lives (wire/interp.h): the module gets the
 * two pipes of that channel, and one that can be read once the cell is to be interrupted, since
 * WASI has no signals. It is told by two arguments more: `--cells=REQUESTS,ANSWERS,INTERRUPTS`, the
 * numbers that they have in its own table, and the folder that it starts in.
 *
 * Of its environment the module gets what stands behind the mark "brig:". Exit status: the
 * module's; 126 if it cannot be run. A trap ends it as abort() would, a stack that overflows as
 * SIGSEGV. */
#include "base/text.h"
#include "engines/wasm/engine.h"
#include "engines/wasm/seal.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <jsc/jsc.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOT_EXECUTABLE 126
#define MODULE_MAX     (256u << 20)
/* Of the engine's own, in which a module's calls lie as well: what recurses in it (a parser) takes
 * much more of this one than of the stack that it keeps in its memory. Only what is used costs. */
#define STACK_BYTES    (64u << 20)
#define STACK_USED_MAX (STACK_BYTES - (2u << 20))
/* How much a function runs (15 for a call, 1 for each round of a loop) before the engine compiles
 * it a second time, with all of its optimizations. By itself it does so after a tenth of that: half
 * of what CPython's start costs went into code that was hardly run again. */
#define OPTIMIZED_AFTER 500000
#define VARIABLE        "brig:" /* as credentials/credentials.h has it */
/* As wire/interp.h has them. */
#define REQUESTS 3
#define ANSWERS  4

static struct wasi world;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("brig-wasm: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(NOT_EXECUTABLE);
}

static void give_folder(char *spec, bool writable)
{
    char *equals = strchr(spec, '=');
    if (!equals)
        fail("%s names no folder", spec);
    *equals = '\0';
    int fd = open(equals + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fail("cannot open the folder %s: %s", equals + 1, strerror(errno));
    if (wasi_preopen(&world, fd, spec, writable) < 0)
        fail("more folders than a module can be given");
}

/* All of it, into memory that the engine may keep. */
static void *read_module(int fd, const char *name, size_t *size)
{
    struct stat sb;
    if (fd < 0 || fstat(fd, &sb) < 0)
        fail("cannot read %s: %s", name, strerror(errno));
    if (!S_ISREG(sb.st_mode) || sb.st_size > MODULE_MAX)
        fail("%s is not a file of at most %u MiB", name, MODULE_MAX >> 20);
    char *bytes = malloc((size_t)sb.st_size + 1);
    size_t have = 0;
    while (bytes && have < (size_t)sb.st_size) {
        ssize_t n = read(fd, bytes + have, (size_t)sb.st_size - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    if (!bytes)
        fail("%s is too large for the memory here", name);
    close(fd);
    *size = have;
    return bytes;
}

struct job {
    const char *name; /* of the module */
    void *bytes;
    size_t size;
};

__attribute__((noreturn)) static void *run(void *arg)
{
    const struct job *job = arg;
    char why[512];
    switch (engine_run(&world, job->bytes, job->size, why, sizeof why)) {
    case ENGINE_RETURNED:
        _exit(0);
    case ENGINE_NOT_A_MODULE:
        fail("%s cannot be run: %s", job->name, why);
    case ENGINE_OVERFLOWED:
        fprintf(stderr, "brig-wasm: the stack of the module overflowed\n");
        engine_end_by(SIGSEGV);
    case ENGINE_TRAPPED:
        break;
    }
    fprintf(stderr, "brig-wasm: the module trapped: %s\n", why);
    engine_end_by(SIGABRT);
}

/* In a thread of its own: where a thread's stack ends the engine can ask without /proc, which the
 * process tier does not show; where the first one's ends it cannot. */
__attribute__((noreturn)) static void run_apart(struct job *job)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int r = pthread_attr_init(&attributes);
    if (r == 0)
        r = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (r == 0)
        r = pthread_create(&thread, &attributes, run, job);
    if (r == 0)
        r = pthread_join(thread, NULL);
    fail("cannot start a thread: %s", strerror(r));
}

/* The module's own variables, which stand among those of this program behind a mark. */
static void take_variables(void)
{
    uint32_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **found = calloc((size_t)count + 1, sizeof *found);
    if (!found)
        fail("no memory");
    for (uint32_t i = 0; i < count; i++)
        if (text_begins(environ[i], VARIABLE))
            found[used++] = environ[i] + strlen(VARIABLE);
    world.env = found;
    world.env_count = used;
}

/* Of a test build alone (os/weaken.h): which guard is to be left out stands among the module's
 * variables. */
static void take_switch(void)
{
    const char *left = weaken_setting(VARIABLE "BRIG_WEAKEN");
    if (left)
        setenv("BRIG_WEAKEN", left, 1);
}

/* ---- cells ---- */

static int interrupts[2];

static void on_interrupt(int number)
{
    int kept = errno;
    ssize_t n = write(interrupts[1], "", 1); /* full: it is known already */
    (void)n;
    (void)number;
    errno = kept;
}

static unsigned give_stream(int fd, uint64_t rights)
{
    uint32_t number = 0;
    if (wasi_add(&world, fd, rights | WR(WR_POLL), 0, &number) != WE_SUCCESS)
        fail("cannot give the module its channel: descriptor %d", fd);
    return number;
}

/* Behind the folders: a module looks for those from the first number on, without a gap. */
static void give_channel(const char *here[static 2])
{
    static char numbers[64], folder[PATH_MAX];
    struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    if (pipe2(interrupts, O_CLOEXEC | O_NONBLOCK) < 0 || sigaction(SIGINT, &act, NULL) < 0)
        fail("cannot listen for interrupts: %s", strerror(errno));
    unsigned requests = give_stream(REQUESTS, WR(WR_READ));
    unsigned answers = give_stream(ANSWERS, WR(WR_WRITE));
    snprintf(numbers, sizeof numbers, "--cells=%u,%u,%u", requests, answers,
             give_stream(interrupts[0], WR(WR_READ)));
    here[0] = numbers;
    here[1] = getcwd(folder, sizeof folder) ? folder : "/";
}

/* argv[0] of the module, and what stands in the place of other arguments. */
static void take_cells(char *argv[])
{
    static char *args[3];
    const char *here[2];
    give_channel(here);
    args[0] = argv[0];
    args[1] = (char *)here[0];
    args[2] = (char *)here[1];
    world.args = args;
    world.arg_count = 3;
}

struct options {
    bool executable, cells;
    int fd; /* of the module; -1: it has a path */
};

/* Returns where the options end. */
static int take_options(int argc, char *argv[], struct options *ret)
{
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool folder = strcmp(argv[i], "--ro") == 0 || strcmp(argv[i], "--rw") == 0;
        bool fd = strcmp(argv[i], "--fd") == 0;
        if (strcmp(argv[i], "--no-exec") == 0)
            ret->executable = false;
        else if (strcmp(argv[i], "--cells") == 0)
            ret->cells = true;
        else if ((!folder && !fd) || i + 1 >= argc)
            fail("%s: brig starts this program, as brig run --tier wasm", argv[i]);
        else if (fd)
            ret->fd = (int)strtol(argv[++i], NULL, 10);
        else {
            give_folder(argv[i + 1], argv[i][3] == 'w');
            i++;
        }
    }
    return i;
}

int main(int argc, char *argv[])
{
    struct options options = {.executable = true, .fd = -1};
    take_switch();
    wasi_init(&world);
    int i = take_options(argc, argv, &options);
    if (i + 2 >= argc)
        fail("no module: brig run --tier wasm -- FILE.wasm");
    take_variables();
    world.args = &argv[i + 2];
    world.arg_count = (uint32_t)(argc - i - 2);
    if (options.cells)
        take_cells(&argv[i + 2]);
    struct job job = {.name = argv[i + 2]};
    int fd = options.fd >= 0 ? options.fd : open(argv[i + 1], O_RDONLY | O_CLOEXEC);
    job.bytes = read_module(fd, argv[i + 2], &job.size);
    if (!options.executable && !guard_left_out(GUARD_WASM_NOEXEC)) {
        int r = seal_executable();
        if (r < 0)
            fail("cannot do without executable memory: %s", strerror(-r));
        jsc_options_set_boolean(JSC_OPTIONS_USE_JIT, FALSE);
    }
    jsc_options_set_uint("maxPerThreadStackUsage", STACK_USED_MAX);
    jsc_options_set_int("thresholdForOMGOptimizeAfterWarmUp", OPTIMIZED_AFTER);
    run_apart(&job);
}
