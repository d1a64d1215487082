/* What /proc says, from given texts and from this process. */
#include "os/procfs.h"
#include "os/sys.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS                                                                                     \
    "Name:\tcat\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t9\nPid:\t9\nPPid:\t7\n"                \
    "Uid:\t1\t2\t3\t4294967295\nGid:\t5\t6\t7\t8\nFDSize:\t64\nGroups:\t4 24 1000 \nThreads:\t3\n" \
    "CapInh:\t0000000000000001\nCapPrm:\t0000000000000002\nCapEff:\t0000000000000004\n"            \
    "CapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000008\nNoNewPrivs:\t1\nSeccomp:\t2\n"          \
    "Seccomp_filters:\t4\n"

Test(procfs, a_task_may_choose_its_name_but_nothing_else)
{
    struct proc_stat s;
#define REST "S 7 8 9 0 -1 4194560 1 2 3 4 14 15 16 17 20 0 3 0 222 5 6\n"
    cr_assert(procfs_stat_parse("12 (cat) " REST, &s));
    cr_assert_str_eq(s.name, "cat");
    cr_assert(s.ppid == 7 && s.pgrp == 8 && s.own == 29 && s.reaped == 33 && s.tasks == 3);
    cr_assert(s.start == 222 && !s.ended);
    cr_assert(procfs_stat_parse("12 (x) Z 1 1 (y) " REST, &s));
    cr_assert_str_eq(s.name, "x) Z 1 1 (y");
    cr_assert(s.ppid == 7 && !s.ended);
    cr_assert(procfs_stat_parse("12 (cat) Z 7 8", &s) && s.ended && !s.ready);
    cr_assert(procfs_stat_parse("12 (R) S 7 8", &s) && !s.ready);
    cr_assert(procfs_stat_parse("12 (cat) R 7 8", &s) && s.ready);
    static const char *const none[] = {"", "12 cat S 7 8", "12 (cat)", "12 (cat) S", ") S 7 ("};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        cr_expect_not(procfs_stat_parse(none[i], &s), "%s", none[i]);
#undef REST
}

Test(procfs, a_task_is_found_and_one_that_is_gone_is_not)
{
    struct proc_stat s;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    cr_assert(procfs_stat(child, &s));
    cr_assert(s.ended && s.ppid == getpid());
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_not(procfs_stat(child, &s));
    cr_assert(procfs_stat(getpid(), &s) && s.ppid == getppid() && s.pgrp == getpgrp() && !s.ended);
}

Test(procfs, status_has_every_field)
{
    struct proc_status s;
    cr_assert_eq(procfs_status_parse(STATUS, &s), 0);
    cr_assert(s.uid[0] == 1 && s.uid[1] == 2 && s.uid[2] == 3 && s.uid[3] == UINT32_MAX);
    cr_assert(s.gid[0] == 5 && s.gid[3] == 8);
    cr_assert_eq(s.group_count, 3);
    cr_assert(s.cap_inh == 1 && s.cap_prm == 2 && s.cap_eff == 4 && s.cap_amb == 8);
    cr_assert_eq(s.cap_bnd, 0x1ffffffffffull);
    cr_assert(s.no_new_privs == 1 && s.seccomp == 2 && s.seccomp_filters == 4);
    cr_assert(s.ppid == 7 && s.threads == 3);
}

/* A status text without the line that begins with `name`. */
static void without(const char *name, char out[1024])
{
    const char *at = strstr(STATUS, name);
    cr_assert(at, "%s is in the text", name);
    const char *next = strchr(at, '\n') + 1;
    snprintf(out, 1024, "%.*s%s", (int)(at - STATUS), STATUS, next);
}

Test(procfs, status_that_lacks_a_field_is_refused)
{
    static const char *const needed[] = {
        "Uid:",    "Gid:",  "CapInh:",  "CapPrm:",     "CapEff:", "CapBnd:",
        "CapAmb:", "PPid:", "Threads:", "NoNewPrivs:", "Seccomp:"};
    struct proc_status s;
    char text[1024];
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        without(needed[i], text);
        cr_assert_eq(procfs_status_parse(text, &s), -ENODATA, "without %s", needed[i]);
    }
    without("Seccomp_filters:", text);
    cr_assert_eq(procfs_status_parse(text, &s), 0);
    cr_assert_eq(s.seccomp_filters, -1);
    cr_assert_lt(procfs_status_parse("", &s), 0);
}

Test(procfs, a_field_is_found_at_the_start_of_a_line_only)
{
    struct proc_status s;
    char text[1200];
    snprintf(text, sizeof text, "Name:\tSeccomp:\t0\n%s", strchr(STATUS, '\n') + 1);
    cr_assert_eq(procfs_status_parse(text, &s), 0);
    cr_assert_eq(s.seccomp, 2);
}

Test(procfs, no_groups)
{
    struct proc_status s;
    char text[1024];
    snprintf(text, sizeof text, "%s", STATUS);
    memcpy(strstr(text, "4 24 1000"), "         ", 9);
    cr_assert_eq(procfs_status_parse(text, &s), 0);
    cr_assert_eq(s.group_count, 0);
}

Test(procfs, status_of_this_process)
{
    struct proc_status s;
    struct err err = ERR_INIT;
    cr_assert_eq(procfs_status(getpid(), &s, &err), 0, "%s", err.message);
    cr_assert(s.uid[1] == geteuid() && s.gid[1] == getegid() && s.ppid == getppid());
    cr_assert_lt(procfs_status(0x7ffffff0, &s, &err), 0);
    cr_assert_eq(err.sys_errno, ENOENT);
}

static int mount_line(const char *text, struct proc_mount *m)
{
    char line[4096];
    snprintf(line, sizeof line, "%s", text);
    return procfs_mount_line(line, m);
}

Test(procfs, a_line_of_mountinfo)
{
    struct proc_mount m;
    cr_assert_eq(
        mount_line("36 35 98:0 /src /dest rw,nosuid,relatime shared:1 master:2 - ext4 /dev/x rw,ro",
                   &m),
        0);
    cr_assert_str_eq(m.dest, "/dest");
    cr_assert_str_eq(m.type, "ext4");
    cr_assert_eq(m.dev, makedev(98, 0));
    cr_assert(!m.read_only && m.nosuid && !m.nodev && !m.noexec && m.shared);
    cr_assert_eq(mount_line("1 0 0:1 / / ro,nodev,noexec - tmpfs none rw", &m), 0);
    cr_assert(m.read_only && !m.nosuid && m.nodev && m.noexec && !m.shared);
}

Test(procfs, options_are_whole_words)
{
    struct proc_mount m;
    cr_assert_eq(mount_line("1 0 0:1 / / rw,nosuidx,xnodev,norox - tmpfs none ro,nosuid", &m), 0);
    cr_assert(!m.read_only && !m.nosuid && !m.nodev && !m.noexec,
              "options of the file system are not the mount's");
}

Test(procfs, escapes_of_a_place_are_undone)
{
    struct proc_mount m;
    cr_assert_eq(mount_line("1 0 0:1 / /a\\040b\\134c\\011d\\012e\\9 rw - tmpfs none rw", &m), 0);
    cr_assert_str_eq(m.dest, "/a b\\c\td\ne\\9");
}

Test(procfs, a_malformed_line_is_refused)
{
    static const char *const bad[] = {
        "",
        " ",
        "36",
        "36 35 98:0 /src /dest",
        "36 35 98:0 /src /dest rw",
        "36 35 98:0 /src /dest rw shared:1",
        "36 35 98:0 /src /dest rw -",
        "36 35 98:0 /src /dest rw shared:1 - ",
    };
    struct proc_mount m;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_lt(mount_line(bad[i], &m), 0, "\"%s\"", bad[i]);
}

Test(procfs, a_place_too_long_to_be_compared_is_refused)
{
    struct proc_mount m;
    char line[1024], dest[600];
    memset(dest, 'd', sizeof dest - 1);
    dest[sizeof dest - 1] = '\0';
    snprintf(line, sizeof line, "1 0 0:1 / /%s rw - tmpfs none rw", dest);
    cr_assert_eq(mount_line(line, &m), -ENAMETOOLONG);
}

static int count_mount(void *context, const struct proc_mount *m, struct err *err)
{
    (void)err;
    *(int *)context += m->dest[0] == '/';
    return 0;
}

Test(procfs, mounts_of_this_process)
{
    int count = 0;
    struct err err = ERR_INIT;
    cr_assert_eq(procfs_mounts(getpid(), count_mount, &count, &err), 0, "%s", err.message);
    cr_assert_gt(count, 0);
}

#define LIMITS                                                                                     \
    "Limit                     Soft Limit           Hard Limit           Units     \n"             \
    "Max cpu time              unlimited            unlimited            seconds   \n"             \
    "Max processes             96000                unlimited            processes \n"             \
    "Max open files            123                  456                  files     \n"             \
    "Max nice priority         0                    0                    \n"

Test(procfs, limits)
{
    uint64_t soft, hard;
    cr_assert_eq(procfs_limit(LIMITS, "Max open files", &soft, &hard), 0);
    cr_assert(soft == 123 && hard == 456);
    cr_assert_eq(procfs_limit(LIMITS, "Max cpu time", &soft, &hard), 0);
    cr_assert(soft == UINT64_MAX && hard == UINT64_MAX);
    cr_assert_eq(procfs_limit(LIMITS, "Max processes", &soft, &hard), 0);
    cr_assert(soft == 96000 && hard == UINT64_MAX);
    cr_assert_eq(procfs_limit(LIMITS, "Max nice priority", &soft, &hard), 0);
    cr_assert(soft == 0 && hard == 0);
    cr_assert_lt(procfs_limit(LIMITS, "Max nonsense", &soft, &hard), 0);
    cr_assert_lt(procfs_limit("", "Max open files", &soft, &hard), 0);
}

Test(procfs, descriptors_that_survive_exec)
{
    uint64_t fds;
    struct err err = ERR_INIT;
    int kept = fcntl(open("/dev/null", O_RDONLY | O_CLOEXEC), F_DUPFD, 40);
    cr_assert_eq(procfs_inherited_fds(getpid(), &fds, &err), 0, "%s", err.message);
    cr_assert(fds & (1ull << kept));
    fcntl(kept, F_SETFD, FD_CLOEXEC);
    cr_assert_eq(procfs_inherited_fds(getpid(), &fds, &err), 0);
    cr_assert_not(fds & (1ull << kept));
    cr_assert_geq(fcntl(0, F_DUPFD, 64), 64);
    cr_assert_lt(procfs_inherited_fds(getpid(), &fds, &err), 0,
                 "one above 63 is an error, never overlooked");
}

Test(procfs, an_identity_map_has_its_blanks_folded)
{
    char text[64];
    struct err err = ERR_INIT;
    cr_assert_eq(procfs_id_map(getpid(), "uid_map", text, sizeof text, &err), 0, "%s", err.message);
    cr_assert(strstr(text, "  ") == NULL && text[0] != ' ' && text[strlen(text) - 1] != ' ',
              "\"%s\"", text);
}

Test(procfs, all_descriptors_are_listed_and_the_inherited_ones)
{
    uint64_t all, inherited;
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 40);
    cr_assert_geq(fd, 40);
    cr_assert_eq(procfs_fds(getpid(), &all, NULL), 0);
    cr_assert_eq(procfs_inherited_fds(getpid(), &inherited, NULL), 0);
    cr_assert(all & 1ull << fd);
    cr_assert_not(inherited & 1ull << fd);
    cr_assert_eq(inherited & ~all, 0u);
    close(fd);
}

Test(procfs, whom_a_pidfd_stands_for)
{
    int fd = sys_pidfd_open(getpid());
    cr_assert_eq(procfs_pidfd(fd), getpid());
    close(fd);
    cr_assert_eq(procfs_pidfd(fd), 0);
    cr_assert_eq(procfs_pidfd(0), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    fd = sys_pidfd_open(child);
    cr_assert_geq(fd, 0);
    waitpid(child, NULL, 0);
    cr_assert_eq(procfs_pidfd(fd), 0);
    close(fd);
}

static int find_mount(void *ctx, const struct mount_place *m, struct err *err)
{
    (void)err;
    if (m->id == *(uint64_t *)ctx && strcmp(m->type, "proc") == 0 && m->place[0] == '/')
        *(uint64_t *)ctx = 0;
    return 0;
}

Test(procfs, each_mount_has_its_number_and_type)
{
    struct err err = ERR_INIT;
    int fd = open("/proc", O_PATH | O_CLOEXEC);
    uint64_t id = procfs_mount_of(fd);
    cr_assert_gt(id, 0);
    cr_assert_eq(procfs_each_mount(find_mount, &id, &err), 0, "%s", err.message);
    cr_assert_eq(id, 0, "it was among them");
    close(fd);
}
