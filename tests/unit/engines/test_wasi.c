/* WASI without an engine: what a module's calls leave behind when something runs out. */
#include "engines/wasm/wasi.h"

#include "../../lib/unit/no_memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* ---- the older state of the preview, "wasi_unstable" ---- */

static uint64_t at(uint32_t place, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, memory + place, size);
    return value;
}

/* Its number in the table. */
static uint32_t open_file(void)
{
    uint32_t number;
    int fd = memfd_create("file", MFD_CLOEXEC);
    cr_assert_eq(write(fd, "0123456789", 10), 10);
    cr_assert_eq(wasi_add(&w, fd, WR_ALL, 0, &number), WE_SUCCESS);
    return number;
}

static uint64_t seek_to(uint32_t number, int64_t by, uint32_t whence)
{
    uint32_t r = wasi_fd_seek(&w, (uint64_t[WASI_ARGS_MAX]){number, (uint64_t)by, whence, 8});
    cr_assert_eq(r, WE_SUCCESS);
    return at(8, 8);
}

Test(wasi, a_place_counts_from_where_the_state_says)
{
    uint32_t number = open_file();
    cr_assert_eq(seek_to(number, 4, 0), 4, "from the beginning");
    cr_assert_eq(seek_to(number, -1, 1), 3, "from here");
    cr_assert_eq(seek_to(number, -1, 2), 9, "from the end");
    w.older = true;
    cr_assert_eq(seek_to(number, 4, 2), 4);
    cr_assert_eq(seek_to(number, -1, 0), 3);
    cr_assert_eq(seek_to(number, -1, 1), 9);
    cr_assert_eq(wasi_fd_seek(&w, (uint64_t[WASI_ARGS_MAX]){number, 0, 3, 8}), WE_INVAL);
}

Test(wasi, what_a_file_is_told_as_lies_where_the_state_says)
{
    uint64_t wanted[WASI_ARGS_MAX] = {open_file(), sizeof memory - 56};
    cr_assert_eq(wasi_fd_filestat_get(&w, wanted), WE_FAULT, "it has 64 bytes");
    w.older = true;
    memset(memory, 0xff, sizeof memory);
    cr_assert_eq(wasi_fd_filestat_get(&w, wanted), WE_SUCCESS, "and once had 56");
    uint32_t place = sizeof memory - 56;
    cr_assert_eq(memory[place - 1], 0xff);
    cr_assert_eq(at(place + 16, 4), WT_FILE);
    cr_assert_eq(at(place + 20, 4), 0, "a file in memory has no name");
    cr_assert_eq(at(place + 24, 8), 10);
    uint64_t changed = at(place + 40, 8);
    w.older = false;
    wanted[1] = 0;
    cr_assert_eq(wasi_fd_filestat_get(&w, wanted), WE_SUCCESS);
    cr_assert(at(16, 8) == WT_FILE && at(24, 8) == 0 && at(32, 8) == 10 && at(48, 8) == changed);
}

static uint32_t wait_for_clock(uint32_t subscription, uint32_t place, uint64_t flags)
{
    uint32_t id = 1; /* the monotonic one */
    uint64_t soon = 1000;
    memset(memory, 0, sizeof memory);
    memset(memory + subscription, 0xff, 8); /* userdata */
    memset(memory + subscription + 16, 0xff, place - 16);
    memcpy(memory + subscription + place, &id, sizeof id);
    memcpy(memory + subscription + place + 8, &soon, sizeof soon);
    memcpy(memory + subscription + place + 24, &flags, sizeof flags);
    return wasi_poll_oneoff(&w, (uint64_t[WASI_ARGS_MAX]){subscription, 256, 1, 512});
}

Test(wasi, a_clock_to_wait_for_lies_where_the_state_says)
{
    for (int older = 0; older < 2; older++) {
        w.older = older;
        uint32_t place = older ? 24 : 16, end = sizeof memory - (older ? 56 : 48);
        cr_assert_eq(wait_for_clock(0, place, 0), WE_SUCCESS);
        cr_assert(at(512, 4) == 1 && at(256, 8) == UINT64_MAX && at(264, 2) == WE_SUCCESS);
        cr_assert_eq(wait_for_clock(0, place, 2), WE_SUCCESS);
        cr_assert_eq(at(264, 2), WE_INVAL, "flags are looked at");
        cr_assert_eq(wait_for_clock(end, place, 0), WE_SUCCESS, "to the memory's last byte");
        cr_assert_eq(wasi_poll_oneoff(&w, (uint64_t[WASI_ARGS_MAX]){end + 1, 256, 1, 512}),
                     WE_FAULT);
    }
}
