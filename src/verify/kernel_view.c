/* Attacks on the kernel boundary: what the code can see and reach of the host's tasks, objects and
 * control files. */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/syscalls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* A folder of the host, forgotten open by the supervisor. */
int attack_inherited(struct attempt *a)
{
    char text[160];
    ssize_t n = file_read(a->place->leaked, "canary", text, sizeof text);
    if (n < 0)
        return (int)-n;
    attack_say(a, "%s", text);
    return 0;
}

/* /dev/kvm, the guest's kernel, its initramfs and its plan. */
static bool is_handed(const struct attempt *a, int fd)
{
    return a->monitor && fd >= 5 && fd <= 8;
}

int attack_descriptors(struct attempt *a)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct stat sb;
        if (!is_handed(a, fd) && fstat(fd, &sb) == 0) {
            attack_say(a, "descriptor %d is open", fd);
            return 0;
        }
    }
    return ATTACK_NOTHING;
}

/* What runs the sandbox is overwritten through its own entry in /proc. */
int attack_own_image(struct attempt *a)
{
    if (a->outside) { /* a program that does not run can be opened; the file is ours */
        cleanup_fd int fd = open(a->place->drop, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0700);
        return fd < 0 ? errno : 0;
    }
    static const char *const images[] = {"/proc/1/exe", "/proc/self/exe"};
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(images); i++) {
        code = attack_open(images[i], O_WRONLY);
        if (code == 0 || code == ETXTBSY)
            return code == 0 ? 0 : attack_open(a->place->tool, O_WRONLY);
    }
    return code;
}

int attack_see_host(struct attempt *a)
{
    char path[32], name[32];
    snprintf(path, sizeof path, "/proc/%d/comm", a->place->victim);
    ssize_t n = file_read(AT_FDCWD, path, name, sizeof name);
    if (n < 0)
        return (int)-n;
    if (!text_begins(name, "brig-victim"))
        return ATTACK_NOTHING;
    attack_say(a, "process %d of the host: %s", a->place->victim, name);
    return 0;
}

/* The canary counts it; a signal that does nothing else. Where the number is our own, or that of
 * the program that runs the attacks, it is nobody's of the host. */
int attack_signal(struct attempt *a)
{
    if (a->place->victim == getpid() || a->place->victim == getppid())
        return ATTACK_NOTHING;
    return attack_result(kill(a->place->victim, SIGUSR1));
}

int attack_other_memory(struct attempt *a)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/mem", a->place->victim);
    return attack_open(path, O_RDONLY);
}

int attack_shm(struct attempt *a)
{
    int id = shmget(a->place->shm_key, 0, 0);
    if (id < 0)
        return errno;
    const char *text = shmat(id, NULL, SHM_RDONLY);
    if (text == (void *)-1)
        return errno;
    attack_say(a, "%.100s", text);
    shmdt(text);
    return 0;
}

int attack_mqueue(struct attempt *a)
{
    cleanup_fd int fd = (int)syscall(SYS_mq_open, a->place->mqueue, O_RDONLY | O_NONBLOCK, 0, NULL);
    if (fd < 0)
        return errno;
    attack_say(a, "the host's message queue %s was opened", a->place->mqueue);
    return 0;
}

/* Where in the host's tree of control groups it is; "/" everywhere says nothing. */
int attack_cgroup_path(struct attempt *a)
{
    char text[2048];
    ssize_t n = file_read(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);
    if (n < 0)
        return (int)-n;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        const char *path = strchr(line, '/');
        if (path && path[1]) {
            attack_say(a, "its place among the host's groups: %.150s", path);
            return 0;
        }
    }
    return ATTACK_NOTHING;
}

int attack_cgroup_files(struct attempt *a)
{
    static const char *const files[] = {"/sys/fs/cgroup/cgroup.procs",
                                        "/sys/fs/cgroup/memory/cgroup.procs",
                                        "/sys/fs/cgroup/pids/cgroup.procs"};
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        code = attack_open(files[i], O_RDONLY);
        if (code == 0) {
            attack_say(a, "%s can be opened", files[i]);
            return 0;
        }
    }
    return code;
}

int attack_proc_sys(struct attempt *a)
{
    int code = attack_open("/proc/sys/kernel/core_pattern", O_RDONLY);
    if (code == 0)
        attack_say(a, "/proc/sys/kernel/core_pattern can be opened");
    return code;
}

/* Files of the kernel that tell about the host or take orders. */
int attack_proc_kernel(struct attempt *a)
{
    static const char *const files[] = {"/proc/kallsyms", "/proc/sysrq-trigger", "/proc/kcore",
                                        "/proc/modules",  "/proc/partitions",    "/proc/cmdline"};
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char text[8];
        ssize_t n = file_read(AT_FDCWD, files[i], text, sizeof text);
        if (n > 0) {
            attack_say(a, "%s can be read", files[i]);
            return 0;
        }
        code = n < 0 ? (int)-n : code;
    }
    return code;
}

int attack_devices(struct attempt *a)
{
    static const char *const nodes[] = {
        "/dev/mem",     "/dev/kmsg", "/dev/kvm",      "/dev/fuse",    "/dev/port",
        "/dev/vda",     "/dev/sda",  "/dev/nvme0n1",  "/dev/net/tun", "/dev/loop-control",
        "/dev/console", "/dev/hpet", "/dev/vhost-net"};
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        int each = attack_open(nodes[i], O_RDONLY);
        if (each == 0) {
            attack_say(a, "%s can be opened", nodes[i]);
            return 0;
        }
        code = each != ENOENT ? each : code;
    }
    return code;
}

int attack_sysfs(struct attempt *a)
{
    int code = attack_open("/sys/kernel", O_RDONLY | O_DIRECTORY);
    if (code == 0)
        attack_say(a, "/sys/kernel can be listed");
    return code;
}

int attack_host_name(struct attempt *a)
{
    struct utsname u;
    if (uname(&u) < 0)
        return errno;
    if (strcmp(u.nodename, "brig") == 0)
        return ATTACK_NOTHING;
    attack_say(a, "the host's name is %.100s", u.nodename);
    return 0;
}
