/* The plan of the container tier's root, in the order in which init builds it. Pure. */
#include "filesystem/filesystem.h"

#include "base/quote.h"
#include "base/text.h"
#include "os/weaken.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define ROOT_BYTES  (4u << 20)
#define ROOT_INODES 4096u
#define NO_TREE     UINT64_MAX
/* Of a test build, in the place of the policy's. */
#define LEFT_OUT_BYTES  (64u << 20)
#define LEFT_OUT_INODES 65536u

static void expect_own(struct filesystem *fs, const char *dest, uint64_t flags, const char *type)
{
    if (fs->mount_count == MOUNTS_MAX)
        return;
    struct expected_mount *m = &fs->mounts[fs->mount_count++];
    *m = (struct expected_mount){.flags = flags, .type = type};
    snprintf(m->dest, sizeof m->dest, "%s", dest);
}

/* A folder or file of the host's, on whatever it lies. */
static void expect(struct filesystem *fs, const char *dest, uint64_t flags)
{
    expect_own(fs, dest, flags, NULL);
}

/* Is the folder of this length of `path` the one made last, or above it? */
static bool made_already(const char *made, const char *path, size_t len)
{
    return strncmp(made, path, len) == 0 && (made[len] == '/' || made[len] == '\0');
}

/* All folders above `path`, outermost first. Existing ones are left alone by init; those of the
 * path before are not even mentioned. */
static void parents(struct filesystem *fs, struct plan *plan, const char *path)
{
    char partial[sizeof fs->made];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);
        if (len >= sizeof partial)
            return;
        if (made_already(fs->made, path, len))
            continue;
        memcpy(partial, path, len);
        partial[len] = '\0';
        plan_str(plan, OP_DIR, partial, NULL, 0755);
        memcpy(fs->made, partial, len + 1);
    }
}

static void file(struct plan *plan, const char *path, const char *text)
{
    plan_add(
        plan,
        &(struct op){
            .kind = OP_FILE, .a = path, .num = {0644}, .data = text, .data_len = strlen(text)});
}

/* What is planned is expected; a test build plans less. */
static uint64_t bind_flags(uint64_t flags)
{
    return guard_left_out(GUARD_READ_ONLY) ? flags | BIND_WRITABLE : flags;
}

/* FS-8: of what is not the host's own view, nothing comes along that is mounted below. */
static uint64_t alone(const struct filesystem *fs)
{
    return fs->policy->submounts ? 0 : BIND_ALONE;
}

/* num: flags, tree, device and inode, as OP_BIND has them. */
static void bind_this(struct filesystem *fs, struct plan *plan, const char *source,
                      const char *dest, const uint64_t num[static 4])
{
    if (num[0] & BIND_FILE)
        file(plan, dest, "");
    else
        plan_str(plan, OP_DIR, dest, NULL, 0755);
    plan_add(plan, &(struct op){.kind = OP_BIND,
                                .a = source,
                                .b = dest,
                                .num = {bind_flags(num[0]), num[1], num[2], num[3]}});
    expect(fs, dest, num[0]);
}

static void bind(struct filesystem *fs, struct plan *plan, const char *source, const char *dest,
                 uint64_t flags)
{
    bind_this(fs, plan, source, dest, (uint64_t[4]){flags, NO_TREE});
}

/* FS-13: a folder of the system in a writable root. */
static void layer_this(struct filesystem *fs, struct plan *plan, const char *source,
                       const struct view_entry *e, uint64_t tree)
{
    uint64_t flags = BIND_WRITABLE | BIND_ALONE | (e->foreign ? BIND_FOLDERS : 0);
    plan_str(plan, OP_DIR, e->path, NULL, 0755);
    plan_add(plan, &(struct op){.kind = OP_LAYER,
                                .a = source,
                                .b = e->path,
                                .num = {flags, tree, e->dev, e->ino}});
    expect_own(fs, e->path, flags, "overlay");
}

static void host_entry(struct filesystem *fs, struct plan *plan, const struct view_entry *e)
{
    parents(fs, plan, e->path);
    if (e->target[0])
        plan_str(plan, OP_SYMLINK, e->path, e->target, 0);
    else if (fs->policy->writable_root && e->is_dir)
        layer_this(fs, plan, e->path, e, NO_TREE);
    else if (fs->policy->writable_root)
        plan_str(plan, OP_COPY, e->path, e->path, 0644);
    else
        bind(fs, plan, e->path, e->path, e->is_dir ? 0 : BIND_FILE);
}

/* The accounts of Debian's base-passwd, which have had these numbers for ever. Installers give
 * files to them by name (`install -o man`), and fail where there is no such name; that it is done
 * is pretended (K-19), and nobody can become one of them. Without _apt: apt would try to. */
static const char installers_passwd[] = "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                                        "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                                        "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
                                        "games:x:5:60:games:/usr/games:/usr/sbin/nologin\n"
                                        "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
                                        "lp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin\n"
                                        "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
                                        "news:x:9:9:news:/var/spool/news:/usr/sbin/nologin\n"
                                        "uucp:x:10:10:uucp:/var/spool/uucp:/usr/sbin/nologin\n"
                                        "proxy:x:13:13:proxy:/bin:/usr/sbin/nologin\n"
                                        "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                                        "backup:x:34:34:backup:/var/backups:/usr/sbin/nologin\n"
                                        "list:x:38:38:list:/var/list:/usr/sbin/nologin\n"
                                        "irc:x:39:39:irc:/run/ircd:/usr/sbin/nologin\n";
static const char installers_group[] =
    "daemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\nmail:x:8:\n"
    "news:x:9:\nuucp:x:10:\nman:x:12:\nproxy:x:13:\nkmem:x:15:\ndialout:x:20:\nfax:x:21:\n"
    "voice:x:22:\ncdrom:x:24:\nfloppy:x:25:\ntape:x:26:\nsudo:x:27:\naudio:x:29:\ndip:x:30:\n"
    "www-data:x:33:\nbackup:x:34:\noperator:x:37:\nlist:x:38:\nirc:x:39:\nsrc:x:40:\n"
    "shadow:x:42:\nutmp:x:43:\nvideo:x:44:\nsasl:x:45:\nplugdev:x:46:\nstaff:x:50:\n"
    "games:x:60:\nusers:x:100:\n";

/* Names without the host's: one user, and root and nobody because programs look them up. Where the
 * one user is root, "user" is another name for it. */
static void synthesised_etc(struct filesystem *fs, struct plan *plan)
{
    char passwd[320 + sizeof installers_passwd], group[160 + sizeof installers_group];
    unsigned uid = (unsigned)fs->inside_uid;
    bool installers = fs->policy->writable_root && filesystem_has_root(fs);
    plan_str(plan, OP_DIR, "/etc", NULL, 0755);
    snprintf(passwd, sizeof passwd,
             "root:x:0:0:root:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
             "user:x:%u:%u:user:%s:/bin/sh\n%s",
             fs->root_beside ? ROOT_HOME_DIR
             : uid == 0      ? HOME_DIR
                             : "/",
             uid, uid, HOME_DIR, installers ? installers_passwd : "");
    snprintf(group, sizeof group, "root:x:0:\nnogroup:x:65534:\nuser:x:%u:\n%s", uid,
             installers ? installers_group : "");
    file(plan, "/etc/passwd", passwd);
    file(plan, "/etc/group", group);
    file(plan, "/etc/hostname", "brig\n");
    file(plan, "/etc/hosts", "127.0.0.1 localhost brig\n::1 localhost\n");
    file(plan, "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
    file(plan, "/etc/resolv.conf",
         fs->resolver ? "nameserver 127.0.0.1\n" : "# no resolver: the sandbox has no network\n");
}

/* Does a grant stand there, or below it? Nothing can be mounted on or behind a link. */
static bool granted_at(const struct filesystem *fs, const char *place)
{
    for (unsigned i = 0; i < fs->grant_count; i++)
        if (path_within(fs->grants[i].dest, place))
            return true;
    return false;
}

bool workspace_is_granted(const struct filesystem *fs)
{
    for (unsigned i = 0; i < fs->grant_count; i++)
        if (strcmp(fs->grants[i].dest, WORKSPACE) == 0)
            return true;
    return false;
}

static void host_view(struct filesystem *fs, struct plan *plan)
{
    synthesised_etc(fs, plan);
    for (unsigned i = 0; i < fs->host.view_count; i++)
        host_entry(fs, plan, &fs->host.view[i]);
    /* Where programs look for root's home, whatever /etc/passwd says. */
    if (fs->inside_uid == 0 && !granted_at(fs, ROOT_HOME_DIR))
        plan_str(plan, OP_SYMLINK, ROOT_HOME_DIR, HOME_DIR, 0);
}

/* A folder as root: its entries appear one by one below a root of our own, so that no place that
 * brig mounts on can be a link or a file that the folder brought (FS-2). */
static void image_view(struct filesystem *fs, struct plan *plan, uint64_t *next_tree)
{
    for (unsigned i = 0; i < fs->host.view_count; i++) {
        const struct view_entry *e = &fs->host.view[i];
        char source[PATH_MAX];
        snprintf(source, sizeof source, "%s%s", fs->root_path, e->path);
        uint64_t tree = fs->privileged && !e->target[0] ? (*next_tree)++ : NO_TREE;
        if (e->target[0])
            plan_str(plan, OP_SYMLINK, e->path, e->target, 0);
        else if (fs->policy->writable_root && e->is_dir)
            layer_this(fs, plan, source, e, tree);
        else
            bind_this(fs, plan, source, e->path,
                      (uint64_t[4]){(e->is_dir ? 0 : BIND_FILE) | alone(fs), tree, e->dev, e->ino});
    }
}

/* A folder of the root that nobody writes to: in a root that is writable, a mount of its own. */
static void kept_dir(struct filesystem *fs, struct plan *plan, const char *name, const char *dest)
{
    plan_str(plan, OP_DIR, dest, NULL, 0755);
    if (!fs->policy->writable_root)
        return;
    plan_str(plan, OP_KEPT_DIR, name, dest, 0);
    expect_own(fs, dest, 0, "tmpfs");
    fs->kept[fs->kept_count++] = dest;
}

static void shut_kept(struct filesystem *fs, struct plan *plan)
{
    for (unsigned i = 0; i < fs->kept_count; i++)
        plan_str(plan, OP_SHUT, fs->kept[i], NULL, 0);
}

/* Opened for writing it gives memory that only a cgroup counts. Elsewhere a Landlock rule refuses
 * that; in a writable root no rule can, and a read-only mount does not keep anybody from a device.
 */
static bool hides_zero(const struct filesystem *fs)
{
    return fs->policy->writable_root && fs->strict_memory;
}

static void devices(struct filesystem *fs, struct plan *plan)
{
    static const char *const nodes[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                        "/dev/random", "/dev/urandom", "/dev/tty"};
    kept_dir(fs, plan, "dev", "/dev");
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        if (!(hides_zero(fs) && strcmp(nodes[i], "/dev/zero") == 0))
            bind(fs, plan, nodes[i], nodes[i], BIND_FILE | BIND_DEVICE | BIND_NOEXEC);
    plan_str(plan, OP_DIR, "/dev/pts", NULL, 0755);
    plan_str(plan, OP_DEVPTS, "/dev/pts", NULL, 0);
    expect_own(fs, "/dev/pts", BIND_WRITABLE | BIND_DEVICE | BIND_NOEXEC, "devpts");
    plan_str(plan, OP_SYMLINK, "/dev/ptmx", "pts/ptmx", 0);
    plan_str(plan, OP_SYMLINK, "/dev/fd", "/proc/self/fd", 0);
    plan_str(plan, OP_SYMLINK, "/dev/stdin", "/proc/self/fd/0", 0);
    plan_str(plan, OP_SYMLINK, "/dev/stdout", "/proc/self/fd/1", 0);
    plan_str(plan, OP_SYMLINK, "/dev/stderr", "/proc/self/fd/2", 0);
}

static void owned_dir(struct filesystem *fs, struct plan *plan, const char *name, const char *dest,
                      unsigned mode, uid_t owner)
{
    parents(fs, plan, dest);
    plan_str(plan, OP_DIR, dest, NULL, 0755);
    plan_add(plan, &(struct op){.kind = OP_WORK_DIR, .a = name, .b = dest, .num = {mode, owner}});
    expect_own(fs, dest, BIND_WRITABLE | (fs->policy->exec ? 0 : BIND_NOEXEC), "tmpfs");
}

static void work_dir(struct filesystem *fs, struct plan *plan, const char *name, const char *dest,
                     unsigned mode)
{
    owned_dir(fs, plan, name, dest, mode, 0);
}

/* One tmpfs for all that is writable: one quota for bytes and inodes, freed as a whole. */
static void work(const struct filesystem *fs, struct plan *plan)
{
    plan_num(plan, OP_WORK, guard_left_out(GUARD_DISK) ? LEFT_OUT_BYTES : fs->policy->disk,
             guard_left_out(GUARD_INODES) ? LEFT_OUT_INODES : fs->policy->inodes,
             (fs->policy->exec ? 0 : BIND_NOEXEC) | (fs->keeps_changes ? BIND_HANDED : 0));
}

static void writable(struct filesystem *fs, struct plan *plan)
{
    if (!fs->policy->workspace) {
        plan_str(plan, OP_DIR, "/tmp", NULL, 0755);
        return;
    }
    /* Where there are two users, all that init makes is root's. */
    uid_t user = fs->root_beside ? fs->inside_uid : 0;
    if (!fs->policy->writable_root)
        work(fs, plan);
    if (!workspace_is_granted(fs))
        owned_dir(fs, plan, "workspace", WORKSPACE, 0755, user);
    work_dir(fs, plan, "tmp", "/tmp", 01777);
    if (!fs->root || image_has_folder(fs, "/var/tmp"))
        work_dir(fs, plan, "vartmp", "/var/tmp", 01777);
    owned_dir(fs, plan, "home", HOME_DIR, 0755, user);
    if (fs->root_beside && !granted_at(fs, ROOT_HOME_DIR))
        work_dir(fs, plan, "root-home", ROOT_HOME_DIR, 0700);
    /* Both have always had it: services of root's, and whatever an ordinary program keeps there. */
    work_dir(fs, plan, "run", "/run", fs->root_beside ? 01777 : 0755);
    work_dir(fs, plan, "shm", "/dev/shm", 01777);
}

/* A place below another grant lies in a folder of the host: it must be there already, since what
 * brig would make to mount on would stay when the sandbox is gone. */
static bool lies_in_a_grant(const struct filesystem *fs, const struct pinned_grant *g)
{
    for (unsigned i = 0; i < fs->grant_count; i++)
        if (path_below(g->dest, fs->grants[i].dest))
            return true;
    return false;
}

static void mount_point(struct filesystem *fs, struct plan *plan, const struct pinned_grant *g)
{
    if (lies_in_a_grant(fs, g))
        return;
    parents(fs, plan, g->dest);
    if (g->is_dir)
        plan_str(plan, OP_DIR, g->dest, NULL, 0755);
    else
        file(plan, g->dest, "");
}

/* The layers' tree comes right after the project's. */
static void overlay(struct filesystem *fs, struct plan *plan, const struct pinned_grant *g,
                    uint64_t flags, uint64_t tree_index)
{
    char layers[sizeof fs->review_path + 8];
    int len = snprintf(layers, sizeof layers, "%s/layers", fs->review_path);
    plan_add(plan, &(struct op){.kind = OP_OVERLAY,
                                .a = g->source,
                                .b = g->dest,
                                .num = {flags, tree_index, g->dev, g->ino},
                                .data = layers,
                                .data_len = (size_t)len + 1});
    expect_own(fs, g->dest, flags, "overlay");
}

/* One mount at a place, and nothing of the sandbox's own below a grant: it would be hidden. Of the
 * host's view some may be, who wants another /etc loses what the host shows there. */
static int check_place(const struct filesystem *fs, const char *dest, struct err *err)
{
    struct quoted q, r;
    size_t len = strlen(dest);
    for (unsigned i = 0; i < fs->mount_count; i++) {
        const struct expected_mount *m = &fs->mounts[i];
        if (strncmp(m->dest, dest, len) != 0 || (m->dest[len] && (m->dest[len] != '/' || !m->type)))
            continue;
        err_set(err, ERR_USAGE, "a grant cannot stand at %s: the sandbox has its own %s",
                quote(&q, dest), quote(&r, m->dest));
        return err_hint(err,
                        "show it at another place: --rw DIR:" WORKSPACE ", --ro DIR:/mnt/NAME");
    }
    return 0;
}

static void grant(struct filesystem *fs, struct plan *plan, const struct pinned_grant *g,
                  uint64_t tree_index)
{
    uint64_t flags = (g->writable ? BIND_WRITABLE : 0) | (g->is_dir ? 0 : BIND_FILE) | alone(fs);
    if (g->writable && !fs->policy->exec)
        flags |= BIND_NOEXEC;
    mount_point(fs, plan, g);
    if (g->review) {
        overlay(fs, plan, g, flags, tree_index);
        return;
    }
    plan_add(plan, &(struct op){.kind = OP_BIND,
                                .a = g->source,
                                .b = g->dest,
                                .num = {bind_flags(flags), tree_index, g->dev, g->ino}});
    expect(fs, g->dest, flags);
}

static void shown(struct filesystem *fs, struct plan *plan)
{
    for (unsigned i = 0; i < fs->shown_count; i++) {
        const struct shown_file *f = &fs->shown[i];
        plan_add(
            plan,
            &(struct op){
                .kind = OP_FILE, .a = f->path, .num = {0644}, .data = f->data, .data_len = f->len});
    }
    for (unsigned i = 0; i < fs->cover_count; i++) {
        plan_str(plan, OP_COVER, fs->covers[i].source, fs->covers[i].dest, 0);
        expect_own(fs, fs->covers[i].dest, BIND_FILE | BIND_NOEXEC, "tmpfs");
    }
}

static bool is_expected(const struct filesystem *fs, const char *dest)
{
    for (unsigned i = 0; i < fs->mount_count; i++)
        if (strcmp(fs->mounts[i].dest, dest) == 0)
            return true;
    return false;
}

/* Files of /proc that are not the kernel's; of a folder, the top is what is mounted. */
static void plan_own_proc(struct filesystem *fs, struct plan *plan)
{
    for (int f = 0; f < PROC_FILE_COUNT; f++) {
        const struct buf *text = &fs->own.text[f];
        const char *path = proc_file_path((enum proc_file)f);
        char dest[64];
        if (!text->len)
            continue;
        plan_add(plan, &(struct op){.kind = OP_PROC_FILE,
                                    .a = path,
                                    .num = {(uint64_t)f, f < PROC_FILES_LIVE},
                                    .data = text->data,
                                    .data_len = text->len});
        snprintf(dest, sizeof dest, "/proc/%.*s", (int)strcspn(path, "/"), path);
        if (!is_expected(fs, dest))
            expect_own(fs, dest, BIND_NOEXEC, "tmpfs");
    }
}

/* The C library counts the CPUs that are online here, older ones the folders. What could ever be
 * there is the machine's: programs have tables by the number of the CPU that they run on. */
static void plan_own_sys(struct filesystem *fs, struct plan *plan)
{
    static const char cpus[] = "/sys/devices/system/cpu";
    char path[64], online[32];
    snprintf(path, sizeof path, "%s/online", cpus);
    snprintf(online, sizeof online, fs->own.cpus > 1 ? "0-%u\n" : "%u\n", fs->own.cpus - 1);
    if (fs->policy->writable_root)
        kept_dir(fs, plan, "sys", "/sys");
    parents(fs, plan, path);
    file(plan, path, online);
    snprintf(path, sizeof path, "%s/present", cpus);
    file(plan, path, fs->own.possible);
    snprintf(path, sizeof path, "%s/possible", cpus);
    file(plan, path, fs->own.possible);
    for (unsigned i = 0; i < fs->own.cpus; i++) {
        snprintf(path, sizeof path, "%s/cpu%u", cpus, i);
        plan_str(plan, OP_DIR, path, NULL, 0755);
    }
}

static void plan_own(struct filesystem *fs, struct plan *plan)
{
    plan_own_proc(fs, plan);
    plan_own_sys(fs, plan);
}

static void program(struct plan *plan, const char *path, const char *text)
{
    plan_add(
        plan,
        &(struct op){
            .kind = OP_FILE, .a = path, .num = {0755}, .data = text, .data_len = strlen(text)});
}

/* The code is root already, with the rights of one ordinary uid and no way to more: there is
 * nothing to become, and a set-id program could not. What sudo's users write before a command is
 * read, and the command started. Another user than root is refused. */
#define SUDO_TEXT                                                                                  \
    "while [ $# -gt 0 ]; do\n"                                                                     \
    "    case $1 in\n"                                                                             \
    "    --) shift && break ;;\n"                                                                  \
    "    --user=* | --group=*) is_root \"${1#*=}\" ;;\n"                                           \
    "    --user | --group) is_root \"${2-}\" && shift ;;\n"                                        \
    "    --login | --shell) shell=1 ;;\n"                                                          \
    "    --validate | --list | --reset-timestamp | --remove-timestamp) exit 0 ;;\n"                \
    "    --non-interactive | --preserve-env* | --set-home | --stdin | --askpass) ;;\n"             \
    "    --*) echo \"sudo: $1 is not known here\" >&2 && exit 1 ;;\n"                              \
    "    -?*)\n"                                                                                   \
    "        letters=${1#-}\n"                                                                     \
    "        while [ \"$letters\" ]; do\n"                                                         \
    "            rest=${letters#?}\n"                                                              \
    "            case $letters in\n"                                                               \
    "            [ugpCDRTh]*)\n"                                                                   \
    "                [ \"$rest\" ] || { shift && rest=${1-}; }\n"                                  \
    "                case $letters in [ug]*) is_root \"$rest\" ;; esac\n"                          \
    "                break ;;\n"                                                                   \
    "            [is]*) shell=1 ;;\n"                                                              \
    "            [vlK]*) exit 0 ;;\n"                                                              \
    "            [AbEHknNPS]*) ;;\n"                                                               \
    "            *) echo \"sudo: -$letters is not known here\" >&2 && exit 1 ;;\n"                 \
    "            esac\n"                                                                           \
    "            letters=$rest\n"                                                                  \
    "        done ;;\n"                                                                            \
    "    [A-Za-z_]*=*) export \"$1\" ;;\n"                                                         \
    "    *) break ;;\n"                                                                            \
    "    esac\n"                                                                                   \
    "    [ $# -eq 0 ] || shift\n"                                                                  \
    "done\n"                                                                                       \
    "if [ \"$shell\" ] && [ $# -gt 0 ]; then exec $as \"${SHELL:-/bin/sh}\" -c '\"$@\"' sudo "     \
    "\"$@\"; fi\n"                                                                                 \
    "[ \"$shell\" ] && exec $as \"${SHELL:-/bin/sh}\"\n"                                           \
    "[ $# -gt 0 ] || { echo 'usage: sudo COMMAND' >&2 && exit 1; }\n"                              \
    "exec $as \"$@\"\n"
static const char sudo_text[] = "#!/bin/sh\n"
                                "shell= as=\n"
                                "is_root() {\n"
                                "    case $1 in root | user | 0 | '#0') return 0 ;; esac\n"
                                "    echo \"sudo: there is no $1 in this sandbox, only root\" >&2\n"
                                "    exit 1\n"
                                "}\n" SUDO_TEXT;

/* With two users nobody can become the other one: root's part of init starts the command, with the
 * caller's input and output (init/as_root.c). */
static const char beside_sudo_text[] =
    "#!/bin/sh\n"
    "shell= as=\n"
    "is_root() {\n"
    "    case $1 in root | 0 | '#0') return 0 ;; esac\n"
    "    echo \"sudo: here it starts a command as root, not as $1\" >&2\n"
    "    exit 1\n"
    "}\n"
    "if [ \"$(id -u)\" != 0 ]; then\n"
    "    as=" AS_ROOT_PATH "\n"
    "    if [ ! -x $as ]; then\n"
    "        echo 'sudo: nobody can be asked: this sandbox has no UNIX sockets "
    "(kernel.unix_sockets); a process can be started as root from outside (user: root)' >&2\n"
    "        exit 1\n"
    "    fi\n"
    "    export HOME=" ROOT_HOME_DIR " USER=root LOGNAME=root SUDO_USER=user\n"
    "    export PIP_ROOT_USER_ACTION=ignore npm_config_prefix=" ROOT_HOME_DIR "/.local\n"
    "    export PATH=" ROOT_HOME_DIR "/.local/bin:" FIRST_TOOLS_DIR
    ":/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:" TOOLS_DIR "\n"
    "fi\n" SUDO_TEXT;

/* A set-id program gains nothing here, and would say so in words of its own. */
static const char no_sudo_text[] =
    "#!/bin/sh\n"
    "echo 'sudo: nobody is root in this sandbox, and nobody can become it: whoever makes it must "
    "ask "
    "for that (brig run --uid 0, or kernel: {uid: 0} in the policy of its template)' >&2\n"
    "exit 1\n";

/* Programs of agents say `python`, which Debian does not have. A script and no link: which python3
 * there is, and where, is the view's business. */
static void tools(struct filesystem *fs, struct plan *plan)
{
    kept_dir(fs, plan, "brig", SHOWN_DIR);
    plan_str(plan, OP_DIR, TOOLS_DIR, NULL, 0755);
    program(plan, TOOLS_DIR "/python", "#!/bin/sh\nexec python3 \"$@\"\n");
    plan_str(plan, OP_DIR, FIRST_TOOLS_DIR, NULL, 0755);
    program(plan, FIRST_TOOLS_DIR "/sudo",
            fs->root_beside       ? beside_sudo_text
            : fs->inside_uid == 0 ? sudo_text
                                  : no_sudo_text);
    if (fs->as_root)
        plan_add(plan, &(struct op){.kind = OP_FILE,
                                    .a = AS_ROOT_PATH,
                                    .num = {0755},
                                    .data = fs->as_root,
                                    .data_len = fs->as_root_len});
}

static void plan_proc(struct filesystem *fs, struct plan *plan)
{
    bool whole = fs->whole_proc || guard_left_out(GUARD_PROC);
    plan_str(plan, OP_DIR, "/proc", NULL, 0555);
    /* A /proc of its own can only be made in a pid namespace of its own. */
    if (guard_left_out(GUARD_NS_PID)) {
        bind(fs, plan, "/proc", "/proc", BIND_WRITABLE | BIND_NOEXEC);
        return;
    }
    plan_add(plan, &(struct op){.kind = OP_PROC,
                                .a = "/proc",
                                .num = {fs->proc, whole, fs->own.clock, fs->watched_proc}});
    expect_own(fs, "/proc", BIND_WRITABLE | BIND_NOEXEC, "proc");
    if (filesystem_has_own(fs))
        plan_own(fs, plan);
}

int container_plan(struct filesystem *fs, struct plan *plan, struct err *err)
{
    bool all = fs->policy->writable_root;
    fs->kept_count = 0;
    plan_op(plan, OP_MOUNTS_PRIVATE);
    if (fs->root_beside && !fs->privileged)
        plan_num(plan, OP_LOOK_AS, fs->inside_uid, 0, 0);
    if (all)
        work(fs, plan);
    plan_num(plan, OP_ROOT, ROOT_BYTES, ROOT_INODES, all);
    expect_own(fs, "/", all ? BIND_WRITABLE : 0, "tmpfs");
    uint64_t next_tree = INIT_FD_TREES;
    if (!fs->root)
        host_view(fs, plan);
    else
        image_view(fs, plan, &next_tree);
    if (all)
        packages_plan(fs, plan);
    devices(fs, plan);
    plan_proc(fs, plan);
    writable(fs, plan);
    for (unsigned i = 0; i < fs->grant_count; i++) {
        if (check_place(fs, fs->grants[i].dest, err) < 0)
            return err_number(err);
        grant(fs, plan, &fs->grants[i], fs->privileged ? next_tree : NO_TREE);
        next_tree += fs->grants[i].review ? 2 : 1;
    }
    tools(fs, plan);
    shown(fs, plan);
    /* Covered by no Landlock rule: opening it must fail once the layer is in force. */
    if (!all)
        file(plan, "/.landlock", "");
    shut_kept(fs, plan);
    plan_num(plan, OP_PIVOT, all, 0, 0);
    return 0;
}
