/* Any requests for files. Whatever they say, nothing beside the served folder is read or changed: a
 * file with a mark lies there. */
#include "engines/vm/fs.h"
#include "os/remove.h"
#include "vm_driver.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARK "the mark of what is not served"
static int outer = -1, self = -1;
static char place[64];

static void clean(void)
{
    remove_folder(AT_FDCWD, place, outer);
}

static void fill(void)
{
    int fd = openat(outer, "view/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "contents", 8) != 8)
        abort();
    close(fd);
    mkdirat(outer, "view/folder", 0755);
    if (symlinkat("../mark", outer, "view/link") < 0)
        abort();
}

static void begin(void)
{
    struct rlimit size = {1u << 20, 1u << 20};
    snprintf(place, sizeof place, "/tmp/fuzz-vm-fs.%d", (int)getpid());
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &size);
    mkdir(place, 0700);
    outer = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    self = open("/proc/self/fd", O_PATH | O_CLOEXEC);
    int fd = openat(outer, "mark", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (outer < 0 || self < 0 || write(fd, MARK, sizeof MARK) != sizeof MARK)
        abort();
    close(fd);
    atexit(clean);
}

static void check(const struct driver *v)
{
    char mark[64];
    int fd = openat(outer, "mark", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, mark, sizeof mark) != sizeof MARK || strcmp(mark, MARK) != 0)
        abort();
    close(fd);
    if (memmem(v->memory.host, DRIVER_MEMORY, MARK, sizeof MARK - 1))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver v = {0};
    struct fs fs;
    if (outer < 0)
        begin();
    if (memmem(data, size, "the mark", 8))
        return 0;
    mkdirat(outer, "view", 0755);
    fill();
    driver_memory(&v);
    if (fs_init(&fs, &v.memory, openat(outer, "view", O_PATH | O_CLOEXEC), self) < 0)
        abort();
    driver_start(&v, &fs.device);
    for (size_t at = 0; at + 2 < size;) {
        size_t len = data[at] | (size_t)data[at + 1] << 8;
        if (len > size - at - 2)
            len = size - at - 2;
        uint8_t request[0x8000];
        if (len > sizeof request)
            len = sizeof request;
        memcpy(request, data + at + 2, len);
        /* A length that is right lets more pass. */
        uint32_t whole = (uint32_t)len;
        if (len > 40 && (data[at] & 1))
            memcpy(request, &whole, sizeof whole);
        if (len > 0)
            driver_request(&v, 1, request, (uint32_t)len, 4096);
        at += len + 2;
    }
    check(&v);
    fs_done(&fs);
    int view = openat(outer, "view", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (view >= 0)
        remove_folder(outer, "view", view);
    if (view >= 0)
        close(view);
    free(v.memory.host);
    return 0;
}
