/* The attacks of modules (the W rows): what a module tries that has no system call, only WASI. Each
 * is reported beside its control: the same call in the same module, for what it was given. */
#include "verify/modules.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "verify/module.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors: the first two folders that a module is given. */
#define RO NUMBER(3)
#define RW NUMBER(4)

/* Rights, by WASI's bits. */
#define READ        (UINT64_C(1) << 1)
#define WRITE       (UINT64_C(1) << 6)
#define OPEN        (UINT64_C(1) << 13)
#define READ_FOLDER (UINT64_C(1) << 14)

#define OPEN_CREATE   NUMBER(1)
#define OPEN_FOLDER   NUMBER(2)
#define OPEN_TRUNCATE NUMBER(8)
#define FOLLOW        NUMBER(1)
#define NONE          NUMBER(0)
#define NARROW        MODULE_SLOT(1) /* a folder without the right to make anything in it */
#define GIVEN         MODULE_SLOT(2)
#define READABLE      MODULE_SLOT(3) /* a file without the right to write */
#define ANY           MODULE_SLOT(4)

#define FOLDER(look, path)                                                                         \
    {                                                                                              \
        RW, look, TEXT(path), OPEN_FOLDER, NUMBER(READ_FOLDER), NONE, NONE, NUMBER(ANY)            \
    }
/* Exists in every root, and is no folder that anybody granted. */
#define UP "../../../../../usr"

/* clang-format off */
static const struct module_step files[] = {
    {NULL, CALL_path_create_directory, {RW, TEXT("sub")}},
    {"=W-01.climb", CALL_path_open, FOLDER(NONE, "sub/../sub")},
    {"W-01.climb", CALL_path_open, FOLDER(NONE, "sub/../" UP)},
    {"=W-01.absolute", CALL_path_open, FOLDER(NONE, "sub")},
    {"W-01.absolute", CALL_path_open, FOLDER(NONE, "/usr")},
    {"=W-02.absolute", CALL_path_symlink, {TEXT("sub"), RW, TEXT("inner")}},
    {"W-02.absolute", CALL_path_symlink, {TEXT("/usr"), RW, TEXT("absolute")}},
    {"=W-02.follow", CALL_path_open, FOLDER(FOLLOW, "inner")},
    {NULL, CALL_path_symlink, {TEXT(UP), RW, TEXT("outer")}},
    {"W-02.follow", CALL_path_open, FOLDER(FOLLOW, "outer")},

    {"=W-03.reopen", CALL_path_open, {RW, NONE, TEXT("given"), OPEN_CREATE, NUMBER(READ | WRITE), NONE, NONE, NUMBER(GIVEN)}},
    {NULL, CALL_path_open, {RW, NONE, TEXT("sub"), OPEN_FOLDER, NUMBER(OPEN | READ_FOLDER), NUMBER(READ), NONE, NUMBER(NARROW)}},
    {"W-03.reopen", CALL_path_open, {AT(NARROW), NONE, TEXT("new"), OPEN_CREATE, NUMBER(WRITE), NONE, NONE, NUMBER(ANY)}},
    {NULL, CALL_path_open, {RW, NONE, TEXT("given"), NONE, NUMBER(READ), NONE, NONE, NUMBER(READABLE)}},
    {"=W-03.raise", CALL_fd_fdstat_set_rights, {AT(READABLE), NUMBER(READ), NONE}},
    {"W-03.raise", CALL_fd_fdstat_set_rights, {AT(READABLE), NUMBER(READ | WRITE), NONE}},
    {"=W-03.write", CALL_path_open, {RO, NONE, TEXT("module"), NONE, NUMBER(READ), NONE, NONE, NUMBER(ANY)}},
    {"W-03.write", CALL_path_open, {RO, NONE, TEXT("module"), OPEN_TRUNCATE, NUMBER(READ | WRITE), NONE, NONE, NUMBER(ANY)}},
    {"=W-03.link", CALL_path_link, {RW, NONE, TEXT("given"), RW, TEXT("linked")}},
    {"W-03.link", CALL_path_link, {RO, NONE, TEXT("module"), RW, TEXT("stolen")}},
};

/* After it was looked at, which takes its input. */
static const struct module_step table[] = {
    {"=W-04.closed", CALL_fd_filestat_get, {NUMBER(0), NUMBER(ANY)}},
    {NULL, CALL_fd_close, {NUMBER(0)}},
    {"W-04.closed", CALL_fd_filestat_get, {NUMBER(0), NUMBER(ANY)}},
    {"W-06.count", CALL_poll_oneoff, {NUMBER(MODULE_SLOT(5)), NUMBER(MODULE_SLOT(6)), NUMBER(UINT32_MAX), NUMBER(ANY)}},
    {"=W-04.onto", CALL_fd_renumber, {AT(GIVEN), AT(READABLE)}},
    {"W-04.onto", CALL_fd_renumber, {AT(READABLE), RO}},
    {"=W-07", CALL_path_open, FOLDER(NONE, "sub")},
    {"W-07", CALL_path_open, FOLDER(NONE, "sub"), .times = 100000},
};

/* Each answers with an error, or the runner reads and writes what is its own, which may end it: all
 * controls come first. */
static const struct module_step edge[] = {
    {"=W-05.past", CALL_clock_time_get, {NUMBER(1), NONE, NUMBER(MODULE_BYTES - 8)}},
    {"=W-05.pieces", CALL_fd_write, {NUMBER(1), NUMBER(MODULE_BYTES - 4), NONE, NUMBER(ANY)}},
    {"=W-05.wrap", CALL_random_get, {NUMBER(MODULE_BYTES - 16), NUMBER(16)}},
    {"W-05.past", CALL_clock_time_get, {NUMBER(1), NONE, NUMBER(MODULE_BYTES - 4)}},
    {"W-05.pieces", CALL_fd_write, {NUMBER(1), NUMBER(MODULE_BYTES - 4), NUMBER(1), NUMBER(ANY)}},
    {"W-05.wrap", CALL_random_get, {NUMBER(MODULE_BYTES - 16), NUMBER(UINT32_MAX)}},
};
/* clang-format on */

static void add_all(struct module *m, const struct module_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        module_add(m, &steps[i]);
}

static void fill(struct module *m, enum scene_id scene, const struct place *place)
{
    uint64_t limit = (uint64_t)place->limit;
    uint64_t patience = (uint64_t)place->patience * 1000000u, past = limit * 1000000u + patience;
    switch (scene) {
    case SCENE_MODULE:
        add_all(m, files, ARRAY_LEN(files));
        module_sleep(m, 1);
        module_say(m, "=W-06.count");
        module_print(m, "@look\n");
        module_wait(m);
        add_all(m, table, ARRAY_LEN(table));
        break;
    case SCENE_MODULE_EDGE:
        module_say(m, "=W-09");
        add_all(m, edge, ARRAY_LEN(edge));
        break;
    case SCENE_MODULE_IMPORT:
        m->import = "toString"; /* every object of JavaScript has it */
        module_say(m, "W-09");
        break;
    case SCENE_MODULE_MEMORY:
        module_grow(m, 1, 0);
        module_say(m, "=W-08.memory");
        module_grow(m, (unsigned)limit * 2 * 16, patience);
        module_say(m, "W-08.memory");
        break;
    case SCENE_MODULE_CPU:
        module_spin(m, 1);
        module_say(m, "=W-08.loop");
        module_spin(m, past);
        module_say(m, "W-08.loop");
        break;
    default:
        module_sleep(m, 1);
        module_say(m, "=W-06.sleep");
        module_sleep(m, past);
        module_say(m, "W-06.sleep");
    }
}

bool modules_text(enum scene_id scene, const struct place *place, struct buf *out)
{
    struct module m;
    module_init(&m);
    fill(&m, scene, place);
    bool fits = module_write(&m, out);
    module_done(&m);
    return fits;
}

int modules_place(enum scene_id scene, const struct place *place, char *path, size_t size,
                  struct err *err)
{
    cleanup_buf struct buf bytes;
    buf_init(&bytes, 1 << 18);
    snprintf(path, size, "%s/module-%d.wasm", place->folder, (int)scene);
    if (!modules_text(scene, place, &bytes))
        return err_memory(err);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes.data, bytes.len) != (ssize_t)bytes.len || fchmod(fd, 0644) < 0)
        return err_sys(err, "write the module %s", path);
    return 0;
}
