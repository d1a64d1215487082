/* What is kept of a machine that was parked. */
#include "engines/vm/state.h"

#include "../../fuzz/vm_driver.h"
#include "base/cleanup.h"
#include "engines/vm/fs.h"
#include "engines/vm/memory.h"
#include "engines/vm/vsock.h"
#include "engines/vm/x86-64/msrs.h"
#include "os/fd.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONE STATE_TAG('o', 'n', 'e', '!')
#define TWO STATE_TAG('t', 'w', 'o', '!')

static uint8_t room[256];

static struct state_reader written(void)
{
    struct state_writer w = {.data = room, .room = sizeof room};
    const uint16_t items[] = {1, 2, 3};
    const uint64_t value = 42;
    state_put(&w, ONE, &value, sizeof value);
    state_put(&w, TWO, items, sizeof items);
    state_put(&w, ONE, "text", 4);
    state_put(&w, TWO, NULL, 0);
    cr_assert(!w.failed);
    return (struct state_reader){.data = room, .len = w.len};
}

Test(vm_state, blocks_come_back_in_order)
{
    struct state_reader r = written();
    uint64_t value;
    uint16_t items[4];
    size_t count;
    char text[5];
    cr_assert(state_get(&r, ONE, &value, sizeof value));
    cr_expect_eq(value, 42u);
    cr_assert(state_get_counted(&r, TWO, items, sizeof *items, 4, &count));
    cr_expect_eq(count, 3u);
    cr_expect_eq(items[2], 3);
    cr_assert(state_get_text(&r, ONE, text, sizeof text));
    cr_expect_str_eq(text, "text");
    cr_expect_not(state_ended(&r));
    cr_assert(state_get(&r, TWO, NULL, 0));
    cr_expect(state_ended(&r));
}

Test(vm_state, another_tag_or_length_fails_for_good)
{
    uint64_t value = 7;
    uint16_t items[2];
    size_t count;
    char text[4];
    struct state_reader r = written();
    cr_expect_not(state_get(&r, TWO, &value, sizeof value), "another tag");
    cr_expect_not(state_get(&r, ONE, &value, sizeof value), "it stays failed");
    cr_expect_eq(value, 7u);
    r = written();
    cr_expect_not(state_get(&r, ONE, &value, 4), "a shorter one");
    cr_expect_eq(value, 7u);
    r = written();
    cr_assert(state_get(&r, ONE, &value, sizeof value));
    cr_expect_not(state_get_counted(&r, TWO, items, sizeof *items, 2, &count), "more than room");
    cr_expect_eq(count, 0u);
    r = written();
    cr_assert(state_get(&r, ONE, &value, sizeof value));
    cr_expect_not(state_get_counted(&r, TWO, &value, 4, 2, &count), "a part of an item");
    r = written();
    cr_expect_not(state_get_text(&r, ONE, text, sizeof text), "a text that is too long");
    r = written();
    room[8] = 0;
    char eight[9];
    cr_expect_not(state_get_text(&r, ONE, eight, sizeof eight), "a text that ends in the middle");
}

/* Of each length but the whole one something is missing. */
Test(vm_state, one_that_is_cut_off_fails)
{
    for (size_t len = 0; len < 16; len++) {
        struct state_reader r = written();
        uint64_t value;
        r.len = len;
        cr_expect_not(state_get(&r, ONE, &value, sizeof value), "%zu", len);
        cr_expect_not(state_ended(&r));
    }
    struct state_reader r = written();
    uint64_t value;
    r.len = 16;
    cr_expect(state_get(&r, ONE, &value, sizeof value), "control: it is whole");
    cr_expect(state_ended(&r));
}

Test(vm_state, without_room_the_writer_fails_for_good)
{
    uint8_t little[32] = {0};
    struct state_writer w = {.data = little, .room = 24};
    state_put(&w, ONE, "0123456789abcdef", 16);
    cr_expect_not(w.failed);
    state_put(&w, TWO, NULL, 0);
    cr_expect(w.failed);
    cr_expect_eq(w.len, 24u);
    for (size_t i = 24; i < sizeof little; i++)
        cr_expect_eq(little[i], 0);
    w = (struct state_writer){.data = little, .room = 24};
    state_put(&w, ONE, "0123456789abcdefg", 17);
    state_put(&w, ONE, "0", 1);
    cr_expect(w.failed && w.len == 0);
}

/* ---- devices ---- */

static struct driver v;
static struct vsock vsock;
static struct fs fs;
static char place[64];
static uint8_t big[STATE_MAX];

static void dial(uint32_t port)
{
    const struct vsock_packet p = {
        .from = 3, .to = 2, .from_port = 1000, .to_port = port, .type = 1, .op = 1, .room = 4096};
    driver_buffers(&v, 0);
    driver_request(&v, 1, &p, sizeof p, 0);
}

static void start_silent(void)
{
    free(v.memory.host);
    driver_memory(&v);
    vsock_init(&vsock, &v.memory);
    vsock_silence(&vsock);
    driver_start(&v, &vsock.device);
}

static struct state_reader parked(void)
{
    struct state_writer w = {.data = big, .room = sizeof big};
    vsock_save(&vsock, &w);
    cr_assert_not(w.failed);
    return (struct state_reader){.data = big, .len = w.len};
}

Test(vm_state, who_dials_for_its_identity_is_not_answered)
{
    start_silent();
    cr_expect_eq(vsock_dialled(&vsock), VSOCK_UNDIALLED);
    dial(1);
    cr_expect_eq(vsock_dialled(&vsock), VSOCK_WAITS);
    cr_expect_eq(driver_used(&v, 0), 0, "nothing was sent");
    vsock.silent = false;
    vsock_flush(&vsock);
    cr_expect_eq(driver_used(&v, 0), 1, "control: else it is");
    cr_expect_eq(vsock_dialled(&vsock), VSOCK_ASTRAY);
    start_silent();
    dial(4);
    cr_expect_eq(vsock_dialled(&vsock), VSOCK_ASTRAY, "another port");
    dial(1);
    cr_expect_eq(vsock_dialled(&vsock), VSOCK_ASTRAY, "and then its own");
    start_silent();
    dial(1);
    dial(99);
    cr_expect_eq(vsock_dialled(&vsock), VSOCK_ASTRAY, "one that is to be refused");
}

/* The same memory, another monitor. */
Test(vm_state, a_clone_answers)
{
    struct vsock_packet answer;
    start_silent();
    dial(1);
    struct state_reader r = parked();
    vsock_init(&vsock, &v.memory);
    cr_assert(vsock_restore(&vsock, &r));
    cr_expect(state_ended(&r));
    cr_expect_eq(driver_used(&v, 0), 0);
    vsock_put(&vsock, 0, "hello", 5);
    device_notify(&vsock.device, 0);
    cr_assert_eq(driver_used(&v, 0), 2, "the answer, and what was put");
    memcpy(&answer, v.memory.host + DRIVER_PART + 0x20000, sizeof answer); /* the last one */
    cr_expect_eq(answer.to_port, 1000u);
    cr_expect_eq(answer.op, 5, "data");
    cr_expect_eq(answer.len, 5u);
    dial(1);
    cr_expect_eq(vsock.reset_count + driver_used(&v, 0), 3u, "it is dialled once (VM-7)");
}

/* Each word of the state that a device's order depends on. */
Test(vm_state, what_no_driver_can_have_done_is_refused)
{
    static const struct {
        const char *what;
        size_t at;
        uint8_t value;
    } changes[] = {
        {"another device", 8 + 8, 26},
        {"another number of queues", 8 + 12, 2},
        {"features that there are not", 8, 1},
        {"a status before it works", 8 + 16, 3},
        {"a status that is none", 8 + 17, 1},
        {"an interrupt that is none", 8 + 20, 2},
        {"a ring that is not one", 48 + 8, 1},
        {"a ring outside of memory", 48 + 8 + 7, 1},
        {"a size that is not one", 48 + 8 + 24, 3},
        {"ready, and more", 48 + 8 + 28, 2},
    };
    start_silent();
    dial(1);
    struct state_reader r = parked();
    size_t len = r.len;
    vsock_init(&vsock, &v.memory);
    cr_assert(vsock_restore(&vsock, &r), "control");
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        uint8_t was = big[changes[i].at];
        big[changes[i].at] = changes[i].value;
        r = (struct state_reader){.data = big, .len = len};
        vsock_init(&vsock, &v.memory);
        cr_expect_not(vsock_restore(&vsock, &r), "%s", changes[i].what);
        big[changes[i].at] = was;
    }
}

/* ---- files ---- */

static void make_view(void)
{
    char path[96];
    snprintf(place, sizeof place, "/tmp/test-vm-XXXXXX");
    cr_assert(mkdtemp(place));
    static const char *const folders[] = {"view", "view/folder", "view/folder/deep", "beside"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof path, "%s/%s", place, folders[i]);
        cr_assert_eq(mkdir(path, 0755), 0);
    }
    snprintf(path, sizeof path, "%s/view/link", place);
    cr_assert_eq(symlink("../beside", path), 0);
    driver_memory(&v);
}

static void remove_view(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", place);
    cr_assert_eq(system(command), 0);
}

static void new_fs(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/view", place);
    cr_assert_eq(fs_init(&fs, &v.memory, open(path, O_PATH | O_CLOEXEC),
                         open("/proc/self/fd", O_PATH | O_CLOEXEC)),
                 0);
}

static int64_t know(const char *name)
{
    char path[96];
    snprintf(path, sizeof path, "%s/view/%s", place, name);
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fs_remember(&fs, fd, false);
}

static struct state_reader saved(void)
{
    struct err err = ERR_INIT;
    struct state_writer w = {.data = big, .room = sizeof big};
    cr_assert_eq(fs_save(&fs, &w, &err), 0, "%s", err.message);
    cr_assert_not(w.failed);
    fs_done(&fs);
    new_fs();
    return (struct state_reader){.data = big, .len = w.len};
}

static void start_files(void)
{
    make_view();
    new_fs();
    driver_start(&v, &fs.device);
}

static void stop_files(void)
{
    fs_done(&fs);
    remove_view();
}

Test(vm_files, are_found_again_by_their_numbers, .init = start_files, .fini = stop_files)
{
    struct err err = ERR_INIT;
    int64_t folder = know("folder"), gone = know("folder/deep"), link = know("link");
    struct stat was, is;
    cr_assert_eq(know("link"), link, "known twice");
    fs_forget(&fs, (uint64_t)gone, 1);
    cr_assert_eq(fstat(fs_node(&fs, (uint64_t)folder)->fd, &was), 0);
    struct state_reader r = saved();
    cr_assert_eq(fs_restore(&fs, &r, &err), 0, "%s", err.message);
    cr_expect(state_ended(&r));
    cr_assert(fs_node(&fs, (uint64_t)folder));
    cr_assert_eq(fstat(fs_node(&fs, (uint64_t)folder)->fd, &is), 0);
    cr_expect_eq(is.st_ino, was.st_ino);
    cr_expect_null(fs_node(&fs, (uint64_t)gone));
    cr_assert_eq(fstat(fs_node(&fs, (uint64_t)link)->fd, &is), 0);
    cr_expect(S_ISLNK(is.st_mode), "a link is known, and not followed");
    cr_expect_eq(fs_node(&fs, (uint64_t)link)->known, 2u);
    cr_expect_eq(know("folder/deep"), gone, "a number that is free is given again");
    cr_expect_eq(know("folder"), folder, "what is known has its number");
    cr_expect(device_live(&fs.device));
}

static void becomes(const char *command)
{
    char line[256];
    snprintf(line, sizeof line, "cd %s/view && %s", place, command);
    cr_assert_eq(system(line), 0);
}

Test(vm_files, that_are_not_there_or_are_others_fail_it, .init = start_files, .fini = stop_files)
{
    static const char *const changes[] = {
        "rm -r folder",
        "rm -r folder && touch folder",
        "rm -r folder && ln -s ../beside folder",
        "rm -r folder/deep",
        "rm -r folder && mkdir ../beside/deep && ln -s ../beside folder",
    };
    for (size_t i = 0; i <= ARRAY_LEN(changes); i++) {
        struct err err = ERR_INIT;
        know("folder");
        know("folder/deep");
        struct state_reader r = saved();
        if (i < ARRAY_LEN(changes))
            becomes(changes[i]);
        int result = fs_restore(&fs, &r, &err);
        cr_expect_eq(result == 0, i == ARRAY_LEN(changes), "%zu: %s", i, err.message);
        becomes("rm -rf folder ../beside/deep && mkdir -p folder/deep");
        fs_done(&fs);
        new_fs();
        driver_start(&v, &fs.device);
    }
}

/* A path is cut into names, and none of them leads up. */
Test(vm_files, lie_beneath_the_root, .init = start_files, .fini = stop_files)
{
    static const char *const paths[] = {
        "../beside", "folder/../../beside", "/etc", "folder//deep", "./folder", "link/.", ""};
    for (size_t i = 0; i <= ARRAY_LEN(paths); i++) {
        struct err err = ERR_INIT;
        const char *path = i < ARRAY_LEN(paths) ? paths[i] : "folder/deep";
        const struct {
            uint64_t id, known;
            uint32_t kind, closed;
        } node = {.id = 2, .known = 1, .kind = S_IFDIR};
        const uint32_t one = 1;
        struct state_writer w = {.data = big, .room = sizeof big};
        device_save(&fs.device, &w);
        state_put(&w, STATE_TAG('f', 'i', 'l', 'e'), &one, sizeof one);
        state_put(&w, STATE_TAG('n', 'o', 'd', 'e'), &node, sizeof node);
        state_put(&w, STATE_TAG('p', 'a', 't', 'h'), path, strlen(path));
        struct state_reader r = {.data = big, .len = w.len};
        fs_done(&fs);
        new_fs();
        int result = fs_restore(&fs, &r, &err);
        cr_expect_eq(result == 0, i == ARRAY_LEN(paths), "\"%s\": %s", path, err.message);
        fs_done(&fs);
        new_fs();
        driver_start(&v, &fs.device);
    }
}

Test(vm_files, that_are_open_are_not_parked, .init = start_files, .fini = stop_files)
{
    struct err err = ERR_INIT;
    struct state_writer w = {.data = big, .room = sizeof big};
    int64_t folder = know("folder");
    int fd = fs_open_node(&fs, fs_node(&fs, (uint64_t)folder), O_RDONLY);
    int64_t handle = fs_handle_new(&fs, fd, true, (uint64_t)folder);
    cr_assert_geq(handle, 0);
    cr_expect_lt(fs_save(&fs, &w, &err), 0);
    fs_handle_drop(&fs, (uint64_t)handle, true);
    w = (struct state_writer){.data = big, .room = sizeof big};
    cr_expect_eq(fs_save(&fs, &w, &err), 0, "control");
}

/* ---- registers of a processor (x86-64) ---- */

/* VM-21: what is closed to a guest does not come back from a state. */
Test(vm_msrs, what_is_closed_is_not_kept)
{
    static const uint32_t closed[] = {0xc1,       0x18d,      0x38f,      0xc0010000, 0xc001020b,
                                      0x3a,       0x480,      0xc0010117, 0xc0010114, 0x4b564d02,
                                      0x4b564d03, 0x4b564d05, 0x40000000, 0x570,      0x600};
    static const uint32_t kept[] = {0x10,       0x6e0,      0x277, 0xc0000081, 0xc0000102,
                                    0x4b564d00, 0x4b564d01, 0x174, 0x48};
    for (size_t i = 0; i < ARRAY_LEN(closed); i++)
        cr_expect_not(msr_kept(closed[i]), "%#x", closed[i]);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        cr_expect(msr_kept(kept[i]), "%#x", kept[i]);
}

/* ---- memory ---- */

#define MEMORY (64u << 20)

static int64_t taken(int file)
{
    struct stat sb;
    cr_assert_eq(fstat(file, &sb), 0);
    return (int64_t)sb.st_blocks * 512;
}

/* Some of it was touched: two pages near each other, and the last one. */
static int parked_memory(void)
{
    struct err err = ERR_INIT;
    int file = memfd_empty("memory", false, &err);
    cr_assert_eq(ftruncate(file, MEMORY), 0);
    cr_assert_eq(pwrite(file, "one", 3, 1 << 20), 3);
    cr_assert_eq(pwrite(file, "two", 3, (1 << 20) + 8192), 3);
    cr_assert_eq(pwrite(file, "end", 3, MEMORY - 3), 3);
    cr_assert_eq(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return file;
}

Test(vm_state, memory_that_was_not_touched_is_the_clones_own)
{
    int file = parked_memory();
    int64_t before = taken(file);
    uint8_t *copy = memory_copy(file, MEMORY);
    cr_assert_neq(copy, MAP_FAILED);
    cr_assert_eq(memcmp(copy + (1 << 20), "one", 4), 0);
    cr_assert_eq(memcmp(copy + (1 << 20) + 8192, "two", 4), 0);
    cr_assert_eq(memcmp(copy + MEMORY - 3, "end", 3), 0);
    memset(copy + (8 << 20), 1, 8 << 20);
    copy[1 << 20] = copy[MEMORY - 1] = 'x';
    cr_expect_eq(taken(file), before);
    uint8_t *plain = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    cr_assert_neq(plain, MAP_FAILED);
    cr_expect_eq(memcmp(plain + (1 << 20), "one", 4), 0, "what is written is its own");
    memset(plain + (8 << 20), 1, 8 << 20);
    cr_expect_gt(taken(file), before, "control: without the care it takes more");
    munmap(plain, MEMORY);
    munmap(copy, MEMORY);
    close(file);
}

Test(vm_state, memory_is_not_mapped_in_too_many_pieces)
{
    struct err err = ERR_INIT;
    int file = memfd_empty("memory", false, &err);
    cr_assert_eq(ftruncate(file, MEMORY), 0);
    for (off_t at = 0; at < MEMORY; at += 8192) /* every other page */
        cr_assert_eq(pwrite(file, &at, sizeof at, at), (ssize_t)sizeof at);
    uint8_t *copy = memory_copy(file, MEMORY);
    cr_assert_neq(copy, MAP_FAILED);
    for (off_t at = 0; at < MEMORY; at += 8192)
        cr_assert_eq(memcmp(copy + at, &at, sizeof at), 0);
    unsigned pieces = 0;
    char line[400];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        pieces += strstr(line, "/memfd:memory") != NULL;
    fclose(maps);
    cr_expect(pieces > 0 && pieces <= 4096, "%u", pieces);
    munmap(copy, MEMORY);
    close(file);
}

Test(vm_state, memory_of_no_file)
{
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    cr_expect_eq(memory_copy(pipes[0], MEMORY), MAP_FAILED);
    close(pipes[0]);
    close(pipes[1]);
}
