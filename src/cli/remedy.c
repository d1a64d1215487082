/* What helps against each thing that `brig doctor` finds missing. */
#include "cli/remedy.h"

#include "base/cleanup.h"
#include "os/cgroup.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One file of settings, so that what was changed is found again, and undone by removing it. */
#define SYSCTL_FILE "/etc/sysctl.d/60-brig.conf"

static bool setting_is(const char *path, char value)
{
    char text[32];
    return file_read(AT_FDCWD, path, text, sizeof text) > 0 && text[0] == value &&
           (text[1] == '\n' || text[1] == '\0');
}

static void by_setting(struct remedy *m, const char *name, const char *value)
{
    m->root = true;
    snprintf(m->command, sizeof m->command,
             "echo '%s = %s' >>" SYSCTL_FILE " && sysctl -q -w %s=%s", name, value, name, value);
}

/* The same three settings that the report knows (kernel/tier.c). In a container it is the engine
 * that forbids them, and nothing inside can help. */
static void for_namespaces(struct remedy *m)
{
    if (setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1') && geteuid()) {
        by_setting(m, "kernel.apparmor_restrict_unprivileged_userns", "0");
        snprintf(m->words, sizeof m->words,
                 "this allows user namespaces to every program; an AppArmor profile for brig with "
                 "`userns,` allows them to brig alone");
    } else if (setting_is("/proc/sys/kernel/unprivileged_userns_clone", '0')) {
        by_setting(m, "kernel.unprivileged_userns_clone", "1");
    } else if (setting_is("/proc/sys/user/max_user_namespaces", '0')) {
        by_setting(m, "user.max_user_namespaces", "15000");
    }
}

static bool has_systemd(void)
{
    return access("/run/systemd/system", F_OK) == 0;
}

/* systemd hands groups to its users' managers: which controllers, a drop-in says; that the manager
 * is there without a login, lingering does. */
static void by_delegation(struct remedy *m, unsigned uid)
{
    m->root = true;
    snprintf(m->command, sizeof m->command,
             "mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu "
             "cpuset io memory pids\\n' >/etc/systemd/system/user@.service.d/60-brig.conf && "
             "systemctl daemon-reload && loginctl enable-linger %u",
             uid);
    snprintf(m->words, sizeof m->words,
             "then log in again, and start brig in a group of its own: systemd-run --user --scope "
             "-p Delegate=yes -- brig ...");
}

static void for_cgroups(struct remedy *m)
{
    struct cgroup_host h;
    unsigned uid = (unsigned)geteuid();
    cgroup_discover(&h);
    bool v1 = access("/sys/fs/cgroup/memory/tasks", F_OK) == 0;
    bool v2 = access("/sys/fs/cgroup/cgroup.subtree_control", F_OK) == 0;
    if (uid && v2 && has_systemd()) {
        by_delegation(m, uid);
    } else if (!uid && v2) {
        m->root = true;
        snprintf(m->command, sizeof m->command,
                 "echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control");
    } else if (!uid && !v1 && h.version == CGROUP_NONE) {
        m->root = true;
        snprintf(m->command, sizeof m->command, "mount -t cgroup2 none /sys/fs/cgroup");
    }
}

/* For what none of the commands here can do: the report's own words. */
static void for_nothing(struct remedy *m)
{
    (void)m;
}

static const struct {
    const char *fact;
    void (*find)(struct remedy *m);
} table[] = {
    {"kernel 5.13 or newer", for_nothing},
    {"seccomp notification", for_nothing},
    {"Landlock", for_nothing},
    {"user namespaces", for_namespaces},
    {"cgroup limits", for_cgroups},
    {"two users", for_nothing},
    {"names of ports", for_nothing},
    {"brig-proxy", for_nothing},
};

static void find(const struct host_fact *f, struct remedy *m)
{
    *m = (struct remedy){.fact = f->name};
    snprintf(m->why, sizeof m->why, "%s", f->why);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcmp(table[i].fact, f->name) == 0)
            table[i].find(m);
    if (f->command[0]) {
        m->root = true;
        snprintf(m->command, sizeof m->command, "%s", f->command);
    }
    if (!m->command[0] && !m->words[0])
        snprintf(m->words, sizeof m->words, "%s",
                 f->how[0] ? f->how : "install a newer kernel from your distribution, and boot it");
}

/* A thing that is there, and of which a part is missing, has a reason too: limits without `cpu`. */
unsigned remedies_find(const struct host_report *r, struct remedy out[static REMEDIES_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < r->fact_count && count < REMEDIES_MAX; i++)
        if (!r->facts[i].present || (r->facts[i].why[0] && r->facts[i].how[0]))
            find(&r->facts[i], &out[count++]);
    return count;
}

bool remedy_can_run(const struct remedy *m)
{
    return m->command[0] && (!m->root || geteuid() == 0);
}

/* One word of the shell's. */
static void shell_word(const char *text, struct buf *out)
{
    buf_chr(out, '\'');
    for (; *text; text++)
        if (*text == '\'')
            buf_str(out, "'\\''");
        else
            buf_chr(out, *text);
    buf_chr(out, '\'');
}

void remedy_show(const struct remedy *m, struct buf *out)
{
    if (remedy_can_run(m)) {
        buf_str(out, m->command);
        return;
    }
    buf_str(out, "sudo sh -c ");
    shell_word(m->command, out);
}

static void become_shell(const char *command)
{
    char *const argv[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};
    /* root's own programs, whatever the caller's variables say. */
    char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", NULL};
    execve("/bin/sh", argv, envp);
    _exit(127);
}

int remedy_run(struct remedy *m, struct err *err)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        become_shell(m->command);
    if (pid < 0)
        return err_sys(err, "start a shell");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    m->tried = true;
    m->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}
