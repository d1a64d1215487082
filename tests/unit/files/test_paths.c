/* The file worker against paths, links, special files and a sandbox that changes things while it
 * works. What must not be reached is a folder beside the root ("outside") and one in it that was
 * not asked for ("/precious"). */
#include "../../lib/unit/part.h"
#include "lab.h"

#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static char secret[128]; /* host path of the file outside */

static void begin(void)
{
    char folder[96];
    lab_begin();
    snprintf(folder, sizeof folder, "%s/outside", lab.base);
    cr_assert_eq(mkdir(folder, 0777), 0);
    snprintf(secret, sizeof secret, "%s/f", folder);
    int fd = open(secret, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    cr_assert_eq(write(fd, "secret", 6), 6);
    close(fd);
}

TestSuite(files_paths, .init = begin, .fini = lab_end, .timeout = 100);

static bool outside_is_untouched(void)
{
    char folder[96], text[16] = "";
    struct stat sb;
    snprintf(folder, sizeof folder, "%s/outside", lab.base);
    int fd = open(secret, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n == 6 && strcmp(text, "secret") == 0 && stat(folder, &sb) == 0 &&
           lab_count("../outside") == 1;
}

/* ---- traversal ---- */

LAB_TEST(files_paths, paths_that_climb_stay_inside)
{
    static const char *const same[] = {"/home/user/f",  "f",
                                       "./f",           "//home///user//f",
                                       "/home/user/f/", "/home/user/f/.",
                                       "../user/f",     "/../../../home/user/f",
                                       "x/../f",        "../../../../../../home/user/./f"};
    lab_dir("home");
    lab_dir("home/user");
    lab_file("home/user/f", "mine", 0644);
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        struct answer *a = lab_do(FILES_READ, same[i]);
        cr_assert_str_eq(a->start, "mine", "%s: %d", same[i], a->error);
        cr_assert_str_eq(lab_do(FILES_STAT, same[i])->entry[0].path, "/home/user/f");
    }
    assert_error(lab_do(FILES_READ, "../../../outside/f"), ENOENT);
    assert_error(lab_do(FILES_READ, secret), ENOENT);
    assert_error(lab_do(FILES_LIST, "/../outside"), ENOENT);
    assert_error(lab_do(FILES_REMOVE, "../../../outside"), ENOENT);
    cr_assert_eq(lab_do(FILES_REMOVE, "..")->error, 0);
    cr_assert(!lab_has("home"), "\"..\" of home is /home");
    cr_assert_eq(lab_write("/../../outside/f", "mine")->error, 0);
    cr_assert_str_eq(lab_text("outside/f"), "mine", "a folder of that name inside");
    cr_assert(outside_is_untouched());
}

LAB_TEST(files_paths, a_path_that_is_too_long_is_refused)
{
    static char path[FILES_PATH_MAX + 1];
    memset(path, 'a', FILES_PATH_MAX);
    for (size_t i = 0; i < FILES_PATH_MAX; i += 100)
        path[i] = '/';
    assert_error(lab_do(FILES_MKDIR, path), ENAMETOOLONG);
    /* Longer than it looks: what is left of it is short. */
    for (size_t i = 0; i + 1 < FILES_PATH_MAX; i += 2)
        memcpy(path + i, "./", 2);
    memcpy(path, "/a//", 4);
    cr_assert_eq(lab_do(FILES_MKDIR, path)->error, 0);
    cr_assert(lab_has("a"));
}

/* ---- links ---- */

LAB_TEST(files_paths, links_lead_no_further_than_the_root)
{
    char up[256];
    lab_dir("d");
    lab_link(secret, "d/absolute");
    snprintf(up, sizeof up, "../../../../../../../..%s", secret);
    lab_link(up, "d/relative");
    snprintf(up, sizeof up, "%s/outside", lab.base);
    lab_link(up, "d/parent");
    lab_link("../../outside", "d/beside");
    static const char *const files[] = {"/d/absolute", "/d/relative", "/d/parent/f", "/d/beside/f"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        assert_error(lab_do(FILES_READ, files[i]), ENOENT);
    assert_error(lab_do(FILES_LIST, "/d/parent"), ENOENT);
    assert_error(lab_do(FILES_REMOVE, "/d/parent/f"), ENOENT);
    assert_error(lab_move("/d/parent/f", "/got"), ENOENT);
    assert_error(lab_write("/d/parent/f", "x"), ENOENT);
    assert_error(lab_do(FILES_MKDIR, "/d/parent/x"), ENOENT);
    /* The control: the host, which has that root beside other things, does follow. */
    int fd = openat(lab.root, "d/parent/f", O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    close(fd);
    /* A link at the end is replaced, or removed, itself. */
    cr_assert_eq(lab_write("/d/absolute", "mine")->error, 0);
    cr_assert(S_ISREG(lab_stat("d/absolute").st_mode));
    cr_assert_eq(lab_do(FILES_REMOVE, "/d/relative")->error, 0);
    cr_assert_eq(lab_do(FILES_REMOVE, "/d")->error, 0);
    cr_assert(outside_is_untouched());
}

LAB_TEST(files_paths, links_inside_are_followed_on_the_way)
{
    lab_dir("real");
    lab_dir("real/sub");
    lab_file("real/f", "mine", 0644);
    lab_link("/real", "absolute");
    lab_link("real/sub/..", "dotted");
    lab_link("absolute", "twice");
    lab_link("twice/f", "file");
    cr_assert_str_eq(lab_do(FILES_READ, "/absolute/f")->start, "mine");
    cr_assert_str_eq(lab_do(FILES_READ, "/dotted/f")->start, "mine");
    cr_assert_str_eq(lab_do(FILES_READ, "/twice/f")->start, "mine");
    cr_assert_str_eq(lab_do(FILES_READ, "/file")->start, "mine");
    cr_assert_eq(lab_write("/twice/new/deep/g", "g")->error, 0);
    cr_assert_str_eq(lab_text("real/new/deep/g"), "g");
    cr_assert_eq(lab_do(FILES_MKDIR, "/dotted/made")->error, 0);
    cr_assert(lab_has("real/made"));
    lab_link("loop", "loop");
    assert_error(lab_do(FILES_READ, "/loop"), ELOOP);
    assert_error(lab_write("/loop/x", "x"), ELOOP);
    lab_link("nowhere", "dangling");
    assert_error(lab_do(FILES_READ, "/dangling"), ENOENT);
    assert_error(lab_write("/dangling/x", "x"), ENOENT);
    cr_assert_eq(lab_do(FILES_STAT, "/dangling")->entry[0].kind, FILES_SYMLINK);
}

static int mount_proc(void)
{
    return mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL);
}

LAB_TEST(files_paths, nothing_of_proc_is_served)
{
    static const char *const files[] = {"/proc/self/status", "/proc/version", "/proc/self/exe",
                                        "/proc/self/root/plain", "/proc/self/cwd/plain"};
    char path[128];
    lab_dir("proc");
    lab_file("plain", "plain", 0644);
    lab_link("/proc/self/root", "root");
    lab_link("/proc/self/fd", "fds");
    lab_link("/proc/self/fd/1", "out");
    lab.before = mount_proc;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct answer *a = lab_do(FILES_READ, files[i]);
        cr_assert(a->error == ELOOP || a->error == EACCES, "%s: %d", files[i], a->error);
    }
    for (int fd = 0; fd < 12; fd++) {
        snprintf(path, sizeof path, "/fds/%d", fd);
        cr_assert_neq(lab_do(FILES_READ, path)->error, 0);
    }
    cr_assert_neq(lab_do(FILES_READ, "/root/plain")->error, 0);
    cr_assert_neq(lab_write("/root/plain", "x")->error, 0);
    cr_assert_neq(lab_do(FILES_REMOVE, "/root/plain")->error, 0);
    assert_error(lab_do(FILES_READ, "/out"), ELOOP);
    cr_assert_neq(lab_write("/proc/self/oom_score_adj", "1000")->error, 0);
    cr_assert_neq(lab_do(FILES_LIST, "/proc")->error, 0);
    cr_assert_neq(lab_do(FILES_WATCH, "/proc/self")->error, 0);
    cr_assert_neq(lab_do(FILES_STAT, "/proc/self/maps")->error, 0);
    struct files_request r = lab_request(FILES_LIST, "/");
    r.depth = 3;
    cr_assert_eq(lab_run(&r, NULL, 0)->entries, 5, "not entered on the way either");
    cr_assert_str_eq(lab_do(FILES_READ, "/plain")->start, "plain");
}

/* ---- special files ---- */

LAB_TEST(files_paths, special_files_block_nobody)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    lab_dir("s");
    cr_assert_eq(mkfifoat(lab.root, "s/fifo", 0666), 0);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%s/root/s/socket", lab.base);
    cr_assert_eq(bind(sock, (struct sockaddr *)&name, sizeof name), 0);
    close(sock);
    bool device = mknodat(lab.root, "s/zero", S_IFCHR | 0666, makedev(1, 5)) == 0;
    static const char *const paths[] = {"/s/fifo", "/s/socket", "/s/zero"};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < 2 + (size_t)device; i++) {
            assert_error(lab_do(FILES_READ, paths[i]), EINVAL);
            assert_error(lab_write(paths[i], "x"), EINVAL);
            cr_assert_eq(lab_do(FILES_STAT, paths[i])->entry[0].kind, FILES_OTHER);
            assert_error(lab_do(FILES_LIST, paths[i]), ENOTDIR);
            assert_error(lab_do(FILES_WATCH, paths[i]), ENOTDIR);
        }
    cr_assert_eq(lab_do(FILES_LIST, "/s")->entries, 2 + device);
    cr_assert_eq(lab_do(FILES_REMOVE, "/s")->error, 0);
}

/* ---- races ---- */

#define ROUNDS part_of(2000)

static atomic_bool stop;

/* Two names of one folder change places, as fast as they can: a real folder and a link. */
static void *flip(void *ctx)
{
    int dir = *(int *)ctx;
    while (!stop)
        syscall(SYS_renameat2, dir, "a", dir, "b", 2 /* RENAME_EXCHANGE */);
    return NULL;
}

/* One process that does the same request again and again, in the root, and looks at the answers
 * itself. Exit status 0: `bad` never appeared in them. */
static int race(const struct files_request *r, const char *data, const char *bad,
                int (*prepare)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        static char block[1 << 16];
        lab_enter();
        for (size_t i = 0; i < ROUNDS; i++) {
            int in[2], out[2];
            if ((prepare && prepare() < 0) || pipe(in) < 0 || pipe(out) < 0)
                _exit(2);
            if (data && write(in[1], data, strlen(data)) < 0)
                _exit(3);
            close(in[1]);
            files_work_child(r, in[0], out[1]);
            ssize_t n = read(out[0], block, sizeof block);
            if (n <= 0 || memmem(block, (size_t)n, bad, strlen(bad)))
                _exit(4);
            close(in[0]);
            close(out[0]);
            close(out[1]);
        }
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct flipping {
    pthread_t thread;
    int dir;
};

/* /work/a is a folder with a file "f", /work/b a link to `target`; and the other way round. */
static void start_flipping(struct flipping *f, const char *target)
{
    lab_dir("work");
    lab_dir("work/a");
    lab_file("work/a/f", "mine", 0666);
    lab_link(target, "work/b");
    f->dir = openat(lab.root, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    stop = false;
    cr_assert_eq(pthread_create(&f->thread, NULL, flip, &f->dir), 0);
}

static void stop_flipping(struct flipping *f)
{
    stop = true;
    pthread_join(f->thread, NULL);
    close(f->dir);
}

LAB_TEST(files_paths, a_race_never_reads_outside)
{
    struct flipping f;
    char folder[96], text[8];
    bool followed = false;
    struct files_request r = lab_request(FILES_READ, "/work/a/f");
    snprintf(folder, sizeof folder, "%s/outside", lab.base);
    start_flipping(&f, folder);
    cr_assert_eq(race(&r, NULL, "secret", NULL), 0);
    /* The control: who opens the path on the host is led outside. */
    for (int i = 0; i < 100000 && !followed; i++) {
        int fd = openat(lab.root, "work/a/f", O_RDONLY | O_CLOEXEC);
        followed = fd >= 0 && read(fd, text, 6) == 6 && memcmp(text, "secret", 6) == 0;
        if (fd >= 0)
            close(fd);
    }
    stop_flipping(&f);
    cr_assert(followed);
}

LAB_TEST(files_paths, a_race_never_writes_outside)
{
    struct flipping f;
    char folder[96];
    struct files_request r = lab_request(FILES_WRITE, "/work/a/f");
    snprintf(folder, sizeof folder, "%s/outside", lab.base);
    start_flipping(&f, folder);
    cr_assert_eq(race(&r, "written", "no such text", NULL), 0);
    cr_assert(outside_is_untouched());
    bool followed = false;
    for (int i = 0; i < 100000 && !followed; i++) {
        int fd = openat(lab.root, "work/a/f", O_WRONLY | O_CLOEXEC);
        if (fd >= 0) {
            cr_assert_eq(write(fd, "Secret", 6), 6);
            close(fd);
        }
        followed = !outside_is_untouched();
    }
    stop_flipping(&f);
    cr_assert(followed, "the control");
}

static int refill(void)
{
    mkdir("/work/a", 0755);
    int fd = open("/work/a/f", O_CREAT | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
    if (symlink("/precious", "/work/b") < 0 && errno != EEXIST)
        return -1;
    return 0;
}

/* "/precious" lies in the root: only not following keeps it. Its file has another name, so that
 * refilling does not hide its loss. */
LAB_TEST(files_paths, a_race_never_removes_what_a_link_points_to)
{
    struct flipping f;
    struct files_request r = lab_request(FILES_REMOVE, "/work/a");
    lab_dir("precious");
    lab_file("precious/g", "kept", 0666);
    start_flipping(&f, "/precious");
    cr_assert_eq(race(&r, NULL, "no such text", refill), 0);
    cr_assert_str_eq(lab_text("precious/g"), "kept");
    stop_flipping(&f);
    /* The control: by path, a folder that is a link in a moment loses what is in it. */
    syscall(SYS_unlinkat, lab.root, "work/a", 0);
    syscall(SYS_unlinkat, lab.root, "work/b", 0);
    lab_do(FILES_REMOVE, "/work");
    start_flipping(&f, "../precious");
    for (int i = 0; i < 100000 && lab_has("precious/g"); i++)
        unlinkat(lab.root, "work/a/g", 0);
    stop_flipping(&f);
    cr_assert(!lab_has("precious/g"));
}

/* The same with the folder in the middle of the tree that is removed. */
LAB_TEST(files_paths, a_race_inside_a_tree_stays_in_it)
{
    struct flipping f;
    struct files_request r = lab_request(FILES_REMOVE, "/work/a/nothing"), all;
    lab_dir("precious");
    lab_file("precious/g", "kept", 0666);
    start_flipping(&f, "/precious");
    all = lab_request(FILES_REMOVE, "/work");
    for (size_t i = 0; i < part_of(100); i++) {
        lab_run(&all, NULL, 0);
        cr_assert_str_eq(lab_text("precious/g"), "kept");
        mkdirat(lab.root, "work", 0755);
        stop_flipping(&f);
        lab_do(FILES_REMOVE, "/work");
        start_flipping(&f, "/precious");
    }
    cr_assert_eq(race(&r, NULL, "no such text", NULL), 0);
    stop_flipping(&f);
    cr_assert_str_eq(lab_text("precious/g"), "kept");
}

/* ---- the same, with certainty: between any two calls of the worker ---- */

static const int stopped_at[] = {SYS_openat,     SYS_openat2,    SYS_unlinkat,  SYS_renameat,
                                 SYS_newfstatat, SYS_linkat,     SYS_mkdirat,   SYS_readlinkat,
                                 SYS_fstat,      SYS_llistxattr, SYS_getdents64};

/* Every call in the list waits for us. The listener is told to the parent by its number. */
static int stop_at_calls(void)
{
    struct sock_filter code[2 * ARRAY_LEN(stopped_at) + 2];
    size_t n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ARRAY_LEN(stopped_at); i++) {
        code[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)stopped_at[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static int take_listener(pid_t pid, int word)
{
    int number = -1, pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    cr_assert_eq(read(word, &number, sizeof number), (ssize_t)sizeof number);
    cr_assert_geq(number, 0);
    int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
    cr_assert_geq(fd, 0);
    close(pidfd);
    return fd;
}

static void exchange(void)
{
    syscall(SYS_renameat2, lab.root, "work/a", lab.root, "work/b", 2 /* RENAME_EXCHANGE */);
}

/* Lets the worker run, with an exchange before its call number `when` and every `again` after it.
 * Returns how many calls it made. */
static unsigned let_run(int listener, unsigned when, unsigned again)
{
    unsigned calls = 0;
    for (;;) {
        struct seccomp_notif n = {0};
        struct pollfd p = {.fd = listener, .events = POLLIN};
        poll(&p, 1, -1);
        if (!(p.revents & POLLIN) || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
            return calls;
        calls++;
        if (calls == when || (again && calls > when && (calls - when) % again == 0))
            exchange();
        struct seccomp_notif_resp resp = {.id = n.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
    }
}

static unsigned step_through(const struct files_request *r, unsigned when, unsigned again)
{
    int in[2], out[2], word[2], hold[2];
    char block[4096];
    cr_assert(pipe(in) == 0 && pipe(out) == 0 && pipe(word) == 0 && pipe(hold) == 0);
    cr_assert_eq(write(in[1], "written", 7), 7);
    pid_t pid = fork();
    if (pid == 0) {
        close(in[1]);
        close(hold[1]);
        lab_enter();
        int listener = stop_at_calls();
        if (write(word[1], &listener, sizeof listener) < 0 || read(hold[0], block, 1) != 0)
            _exit(91);
        close(listener);
        _exit(files_work_child(r, in[0], out[1]));
    }
    close(in[1]);
    int listener = take_listener(pid, word[0]);
    close(hold[1]);
    unsigned calls = let_run(listener, when, again);
    waitpid(pid, NULL, 0);
    close(out[1]);
    ssize_t n = read(out[0], block, sizeof block);
    cr_assert_gt(n, 0);
    cr_assert(!memmem(block, (size_t)n, "secret", 6) && !memmem(block, (size_t)n, "kept", 4));
    const int fds[] = {in[0], out[0], word[0], word[1], hold[0], listener};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        close(fds[i]);
    return calls;
}

/* /work/a: a folder with a file and a folder in it. /work/b: a link to "/precious", in the root. */
static void set_the_stage(void)
{
    lab_do(FILES_REMOVE, "/work");
    lab_dir("work");
    lab_dir("work/a");
    lab_file("work/a/f", "mine", 0666);
    lab_dir("work/a/sub");
    lab_file("work/a/sub/f", "mine", 0666);
    lab_link("/precious", "work/b");
}

static bool precious_is_untouched(void)
{
    return strcmp(lab_text("precious/f"), "kept") == 0 &&
           strcmp(lab_text("precious/sub/f"), "kept") == 0 && lab_count("precious") == 2 &&
           lab_count("precious/sub") == 1;
}

static void at_every_call(struct files_request r)
{
    unsigned calls = 1000;
    for (unsigned when = 1; when <= calls; when++)
        for (unsigned again = 0; again < 3; again++) {
            set_the_stage();
            calls = step_through(&r, when, again);
            cr_assert_gt(calls, 0);
            cr_assert(precious_is_untouched(), "%s: call %u of %u", files_op_name(r.op), when,
                      calls);
        }
}

static void precious(void)
{
    lab_dir("precious");
    lab_file("precious/f", "kept", 0666);
    lab_dir("precious/sub");
    lab_file("precious/sub/f", "kept", 0666);
}

LAB_TEST(files_paths, at_no_call_does_a_removal_lose_its_way)
{
    precious();
    at_every_call(lab_request(FILES_REMOVE, "/work/a"));
    at_every_call(lab_request(FILES_REMOVE, "/work"));
    /* The control: by path, there is such a call. */
    set_the_stage();
    exchange();
    cr_assert_eq(lab_do(FILES_REMOVE, "/work/a/sub")->error, 0, "asked for by this name");
    cr_assert(!precious_is_untouched());
}

LAB_TEST(files_paths, at_no_call_does_a_list_lose_its_way)
{
    struct files_request r = lab_request(FILES_LIST, "/work");
    precious();
    lab_file("precious/kept", "", 0666);
    cr_assert_eq(unlinkat(lab.root, "precious/f", 0), 0);
    lab_file("precious/sub/kept", "", 0666);
    cr_assert_eq(unlinkat(lab.root, "precious/sub/f", 0), 0);
    r.depth = 5;
    unsigned calls = 1000;
    for (unsigned when = 1; when <= calls; when++) {
        set_the_stage();
        calls = step_through(&r, when, 0);
    }
    cr_assert_gt(calls, 5);
    r.path = "/precious";
    cr_assert_eq(lab_run(&r, NULL, 0)->entries, 3, "the control: asked for, it is listed");
}

LAB_TEST(files_paths, at_no_call_does_a_write_to_a_link_go_through_it)
{
    /* Here the two are files: the leaf itself becomes a link. */
    struct files_request r = lab_request(FILES_WRITE, "/work/a");
    unsigned calls = 1000;
    precious();
    for (unsigned when = 1; when <= calls; when++)
        for (unsigned again = 0; again < 3; again++) {
            lab_do(FILES_REMOVE, "/work");
            lab_dir("work");
            lab_file("work/a", "mine", 0666);
            lab_link("../precious/f", "work/b");
            calls = step_through(&r, when, again);
            cr_assert(precious_is_untouched());
        }
    /* The control: who opens the link writes through it. */
    lab_do(FILES_REMOVE, "/work/link");
    lab_link("../precious/f", "work/link");
    int fd = openat(lab.root, "work/link", O_WRONLY | O_CLOEXEC);
    cr_assert_eq(write(fd, "lost", 4), 4);
    close(fd);
    cr_assert(!precious_is_untouched());
}

/* Somebody who fills what is being emptied cannot keep the worker for longer than who asked waits.
 */
static void *fill(void *ctx)
{
    int dir = *(int *)ctx;
    char name[32];
    for (unsigned i = 0; !stop; i++) {
        snprintf(name, sizeof name, "%u", i);
        int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

LAB_TEST(files_paths, a_folder_that_fills_as_it_is_emptied)
{
    struct files_request r = lab_request(FILES_REMOVE, "/work");
    pthread_t thread;
    lab_dir("work");
    int dir = openat(lab.root, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC), status;
    stop = false;
    cr_assert_eq(pthread_create(&thread, NULL, fill, &dir), 0);
    usleep(20000);
    struct started s = lab_start(&r);
    usleep(100000);
    close(s.out);
    cr_assert_eq(waitpid(s.pid, &status, 0), s.pid);
    stop = true;
    pthread_join(thread, NULL);
    close(dir);
}
