/* The guards of a living sandbox, read from the host's /proc by somebody who is neither the
 * supervisor nor the sandbox. Each is first turned on ourselves, who have none of them: that is the
 * control. */
#include "verify/row.h"

#include "base/cleanup.h"
#include "os/coredump.h"
#include "os/procfs.h"
#include "verify/canaries.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static bool unreadable(char *seen, size_t size, const struct err *err)
{
    snprintf(seen, size, "it cannot be looked at: %.150s", err->message);
    return true;
}

bool look_capabilities(const struct sight *s, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    struct proc_status st;
    if (procfs_status(s->pid, &st, &err) < 0)
        return unreadable(seen, size, &err);
    uint64_t caps = st.cap_inh | st.cap_prm | st.cap_eff | st.cap_amb;
    snprintf(seen, size, "capabilities %#" PRIx64, caps);
    /* An ordinary user has none to drop: that it gains none is the next rows' business. */
    return caps != 0 || (s->outside && st.cap_bnd != 0);
}

bool look_no_new_privs(const struct sight *s, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    struct proc_status st;
    if (procfs_status(s->pid, &st, &err) < 0)
        return unreadable(seen, size, &err);
    snprintf(seen, size, "no_new_privs is %d", st.no_new_privs);
    return st.no_new_privs != 1;
}

bool look_seccomp(const struct sight *s, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    struct proc_status st, own;
    if (procfs_status(s->pid, &st, &err) < 0 || procfs_status(getpid(), &own, &err) < 0)
        return unreadable(seen, size, &err);
    /* We may ourselves be under somebody's filter. */
    int more = st.seccomp_filters - own.seccomp_filters;
    snprintf(seen, size, "seccomp mode %d, %d filters of brig's", st.seccomp, more);
    /* An engine puts one of its own on top. */
    return st.seccomp != 2 || more < (s->engine ? 2 : 1);
}

bool look_identity(const struct sight *s, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    struct proc_status st;
    if (procfs_status(s->pid, &st, &err) < 0)
        return unreadable(seen, size, &err);
    for (int i = 0; i < 4; i++)
        if (st.uid[i] == 0 || st.gid[i] == 0) {
            snprintf(seen, size, "it runs as root of the host");
            return true;
        }
    return false;
}

bool look_groups(const struct sight *s, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    struct proc_status st;
    if (procfs_status(s->pid, &st, &err) < 0)
        return unreadable(seen, size, &err);
    snprintf(seen, size, "%u supplementary groups", st.group_count);
    return st.group_count != 0;
}

bool look_maps(const struct sight *s, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    char text[128];
    if (procfs_id_map(s->pid, "uid_map", text, sizeof text, &err) < 0)
        return unreadable(seen, size, &err);
    snprintf(seen, size, "its ids are mapped \"%s\"", text);
    size_t len = strlen(text);
    return len < 2 || strcmp(text + len - 2, " 1") != 0; /* one id, and no more */
}

static bool look_ns(const struct sight *s, enum proc_ns ns, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    uint64_t theirs[NS_COUNT], own[NS_COUNT];
    if (procfs_namespaces(s->pid, theirs, &err) < 0 || procfs_namespaces(0, own, &err) < 0)
        return unreadable(seen, size, &err);
    snprintf(seen, size, "it is in the host's %s namespace", proc_ns_name(ns));
    return theirs[ns] == own[ns];
}

#define LOOK_NS(name, which)                                                                       \
    bool look_ns_##name(const struct sight *s, char *seen, size_t size)                            \
    {                                                                                              \
        return look_ns(s, which, seen, size);                                                      \
    }
LOOK_NS(user, NS_USER)
LOOK_NS(mnt, NS_MNT)
LOOK_NS(pid, NS_PID)
LOOK_NS(net, NS_NET)
LOOK_NS(ipc, NS_IPC)
LOOK_NS(uts, NS_UTS)
LOOK_NS(cgroup, NS_CGROUP)

struct mount_search {
    bool (*bad)(const struct proc_mount *m);
    unsigned kept; /* mounts of the sandbox's that nobody may write */
    char *seen;
    size_t size;
    bool found;
};

/* In a root that can be written these two are read-only by mounts of their own. */
static bool is_kept(const struct proc_mount *m)
{
    return strcmp(m->dest, "/dev") == 0 || strcmp(m->dest, "/.brig") == 0;
}

static int search_mount(void *context, const struct proc_mount *m, struct err *err)
{
    struct mount_search *s = context;
    (void)err;
    s->kept += is_kept(m);
    if (!s->found && s->bad(m)) {
        s->found = true;
        snprintf(s->seen, s->size, "the mount %.100s (%s)", m->dest, m->type);
    }
    return 0;
}

static bool search(const struct sight *s, struct mount_search *m)
{
    struct err err = ERR_INIT;
    if (procfs_mounts(s->pid, search_mount, m, &err) < 0)
        return unreadable(m->seen, m->size, &err);
    return m->found;
}

static bool honours_set_id(const struct proc_mount *m)
{
    return !m->nosuid;
}

bool look_mount_flags(const struct sight *s, char *seen, size_t size)
{
    return search(s, &(struct mount_search){.bad = honours_set_id, .seen = seen, .size = size});
}

/* The system is to be read; what may be written lies elsewhere. */
static bool is_writable_system(const struct proc_mount *m)
{
    static const char *const places[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/"};
    for (size_t i = 0; !m->read_only && i < ARRAY_LEN(places); i++)
        if (strcmp(m->dest, places[i]) == 0)
            return true;
    return false;
}

/* A writable root lies on memory of its own, and the host's system below a layer. */
static bool is_writable_host(const struct proc_mount *m)
{
    if (is_kept(m))
        return !m->read_only;
    const char *own = strcmp(m->dest, "/") == 0 ? "tmpfs" : "overlay";
    return is_writable_system(m) && strcmp(m->type, own) != 0;
}

bool look_system_writable(const struct sight *s, char *seen, size_t size)
{
    struct mount_search m = {.bad = is_writable_system, .seen = seen, .size = size};
    if (!s->writable_root)
        return search(s, &m);
    m.bad = is_writable_host;
    if (search(s, &m))
        return true;
    snprintf(seen, size, "/dev and /.brig are no mounts of their own");
    return m.kept < 2;
}

bool look_limits(const struct sight *s, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    char text[PROC_LIMITS_SIZE];
    uint64_t soft, hard;
    if (procfs_limits(s->pid, text, &err) < 0)
        return unreadable(seen, size, &err);
    if (procfs_limit(text, "Max core file size", &soft, &hard) < 0)
        return false;
    uint64_t want = 0;
    if (coredump_limit(&want, &err) < 0)
        return unreadable(seen, size, &err);
    snprintf(seen, size, "%s",
             hard > 1 ? "core files may be written"
                      : "what crashes is given to a program of the host");
    return soft != want || hard != want;
}

/* Inside listens on the number that the canary has outside; whoever gets there came in. */
bool look_inbound(const struct sight *s, char *seen, size_t size)
{
    const struct place *p = &s->canaries->place;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(s->outside ? p->tcp : p->udp),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(seen, size, "a port that was opened inside was reached from outside");
    return fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
}

/* Memory that no file stands behind and that can be executed; or a file's that can be written too.
 * "FROM-TO rwxp OFFSET DEVICE INODE NAME"; what begins with '[' is the kernel's own. */
static bool is_writable_code(const char *line)
{
    char rights[8] = "", file[16] = "";
    if (sscanf(line, "%*s %7s %*s %*s %*s %15s", rights, file) < 1)
        return true;
    return rights[2] == 'x' && (rights[1] == 'w' || (!file[0]));
}

static bool has_writable_code(pid_t pid, char *seen, size_t size)
{
    char path[64], line[512];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *f = fopen(path, "re");
    snprintf(seen, size, "its memory cannot be looked at: %s", f ? "it is gone" : strerror(errno));
    unsigned lines = 0;
    for (; f && !found && fgets(line, sizeof line, f); lines++)
        found = is_writable_code(line);
    if (f)
        fclose(f);
    if (found)
        snprintf(seen, size, "executable memory: %.100s", line);
    return found || !lines;
}

/* We have no such memory: the control makes some. */
bool look_executable(const struct sight *s, char *seen, size_t size)
{
    void *page = s->outside
                     ? mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : MAP_FAILED;
    bool found = has_writable_code(s->pid, seen, size);
    if (page != MAP_FAILED)
        munmap(page, 4096);
    return found;
}
