/* WASI without an engine: what a module's calls leave behind when something runs out. */
#include "engines/wasm/wasi.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool no_memory;

/* In the place of the C library's. */
DIR *fdopendir(int fd)
{
    static DIR *(*real)(int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fdopendir");
    errno = ENOMEM;
    return no_memory ? NULL : real(fd);
}

static struct wasi w;
static uint8_t memory[4096];

static void setup(void)
{
    wasi_init(&w);
    w.memory = memory;
    w.memory_size = sizeof memory;
    cr_assert_eq(wasi_preopen(&w, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "/", false), 0);
}

static void done(void)
{
    wasi_done(&w);
}
TestSuite(wasi, .init = setup, .fini = done);

static int next_descriptor(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return fd;
}

static uint32_t list_folder(void)
{
    return wasi_fd_readdir(&w, (uint64_t[WASI_ARGS_MAX]){3, 8, 512, 0, 0});
}

Test(wasi, a_folder_that_there_is_no_memory_to_list_costs_no_descriptor)
{
    int before = next_descriptor();
    no_memory = true;
    for (int i = 0; i < 100; i++)
        cr_assert_eq(list_folder(), WE_NOMEM);
    cr_assert_eq(next_descriptor(), before);
    no_memory = false;
    cr_assert_eq(list_folder(), WE_SUCCESS, "control: with memory it is listed");
    cr_assert_neq(next_descriptor(), before, "by a descriptor of its own");
}
