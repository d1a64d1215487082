/* Any state of a machine, put into devices that were just made, which are then used. Whatever it
 * says, nothing outside of the guest's memory is touched, and nothing beside the served folder is
 * read: a file with a mark lies there. */
#include "engines/vm/fs.h"
#include "engines/vm/vsock.h"
#include "os/remove.h"
#include "vm_driver.h"

#include <fcntl.h>
#include <stdio.h>
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

static void put_file(const char *name, const char *text)
{
    int fd = openat(outer, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
    close(fd);
}

static void begin(void)
{
    snprintf(place, sizeof place, "/tmp/fuzz-vm-state.%d", (int)getpid());
    mkdir(place, 0700);
    outer = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    self = open("/proc/self/fd", O_PATH | O_CLOEXEC);
    if (outer < 0 || self < 0 || mkdirat(outer, "view", 0755) < 0 ||
        mkdirat(outer, "view/folder", 0755) < 0 || symlinkat("../mark", outer, "view/link") < 0 ||
        symlinkat("..", outer, "view/up") < 0)
        abort();
    put_file("mark", MARK);
    put_file("view/file", "contents");
    put_file("view/folder/other", "contents");
    atexit(clean);
}

/* Each file that the guest is said to know lies beneath the served folder. */
static void check(struct fs *fs)
{
    char name[16], path[256], view[96];
    snprintf(view, sizeof view, "%s/view", place);
    for (uint32_t id = 1; id < fs->node_count; id++) {
        struct fs_node *node = fs_node(fs, id);
        if (!node)
            continue;
        snprintf(name, sizeof name, "%d", node->fd);
        ssize_t n = readlinkat(self, name, path, sizeof path - 1);
        if (n < (ssize_t)strlen(view) || strncmp(path, view, strlen(view)) != 0)
            abort();
    }
}

static void use(struct device *d)
{
    for (unsigned q = 0; q < d->queue_count; q++)
        device_notify(d, q);
}

/* First what is in the guest's memory, then the state. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver v = {0};
    static struct vsock vsock;
    struct fs fs;
    struct err err = ERR_INIT;
    size_t in_memory = size > 2 ? data[0] | (size_t)data[1] << 8 : 0;
    if (outer < 0)
        begin();
    if (in_memory > size - 2 || size < 2)
        return 0;
    driver_memory(&v);
    memcpy(v.memory.host, data + 2, in_memory);
    struct state_reader r = {.data = data + 2 + in_memory, .len = size - 2 - in_memory};
    if (fs_init(&fs, &v.memory, openat(outer, "view", O_PATH | O_CLOEXEC), self) < 0)
        abort();
    vsock_init(&vsock, &v.memory);
    if (vsock_restore(&vsock, &r) && fs_restore(&fs, &r, &err) >= 0) {
        check(&fs);
        use(&vsock.device);
        vsock_put(&vsock, 0, "answer", 6);
        vsock_flush(&vsock);
        use(&fs.device);
        check(&fs);
    }
    if (memmem(v.memory.host, DRIVER_MEMORY, MARK, sizeof MARK - 1) &&
        !memmem(data, size, "the mark", 8))
        abort();
    fs_done(&fs);
    free(v.memory.host);
    return 0;
}
