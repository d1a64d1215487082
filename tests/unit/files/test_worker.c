/* The file worker: each operation, its limits, and what happens when somebody goes away. */
#include "lab.h"

#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

TestSuite(files_worker, .init = lab_begin, .fini = lab_end, .timeout = 100);

/* ---- read ---- */

LAB_TEST(files_worker, a_file_is_read)
{
    lab_dir("home");
    lab_dir("home/user");
    lab_file("home/user/a", "hello", 0644);
    struct answer *a = lab_do(FILES_READ, "/home/user/a");
    cr_assert_eq(a->error, 0);
    cr_assert_eq(a->size, 5);
    cr_assert_str_eq(a->start, "hello");
    cr_assert_str_eq(lab_do(FILES_READ, "a")->start, "hello", "relative to home");
    lab_file("home/user/empty", "", 0644);
    a = lab_do(FILES_READ, "empty");
    cr_assert(a->error == 0 && a->size == 0 && a->bytes == 0 && a->end == 0);
    assert_error(lab_do(FILES_READ, "none"), ENOENT);
    assert_error(lab_do(FILES_READ, "/home/user"), EISDIR);
    assert_error(lab_do(FILES_READ, "a/b"), ENOTDIR);
    assert_error(lab_do(FILES_READ, "/"), EISDIR);
}

LAB_TEST(files_worker, many_bytes_come_and_go_as_they_are)
{
    size_t len = (5 << 20) + 321;
    char *data = malloc(len);
    uint64_t sum = 0;
    for (size_t i = 0; i < len; i++) {
        data[i] = (char)((i * 7) ^ (i >> 9));
        sum += (uint8_t)data[i] * (i + 1);
    }
    struct files_request r = lab_request(FILES_WRITE, "/big");
    struct answer *a = lab_run(&r, data, len);
    cr_assert_eq(a->error, 0);
    cr_assert_eq(a->size, len);
    a = lab_do(FILES_READ, "/big");
    cr_assert(a->size == len && a->bytes == len && a->sum == sum && a->end == 0);
    free(data);
}

LAB_TEST(files_worker, a_limit_is_known_before_a_byte_is_read)
{
    int fd = openat(lab.root, "sparse", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    off_t size = INT64_MAX;
    if (ftruncate(fd, size) < 0)
        cr_assert_eq(ftruncate(fd, size = (off_t)1 << 42), 0);
    close(fd);
    struct answer *a = lab_do(FILES_READ, "/sparse");
    cr_assert_eq(a->error, EFBIG);
    cr_assert_eq(a->size, (uint64_t)size);
    cr_assert_eq(a->bytes, 0);
    cr_assert_eq(lab_do(FILES_STAT, "/sparse")->entry[0].size, (uint64_t)size);
    /* The control: a sparse file below the limit. */
    struct files_request r = lab_request(FILES_READ, "/small");
    lab_file("small", "", 0644);
    fd = openat(lab.root, "small", O_WRONLY | O_CLOEXEC);
    cr_assert_eq(ftruncate(fd, 3 << 20), 0);
    close(fd);
    r.limit = 3 << 20;
    cr_assert_eq(lab_run(&r, NULL, 0)->bytes, 3u << 20);
    r.limit--;
    assert_error(lab_run(&r, NULL, 0), EFBIG);
}

/* The answer has begun and the pipe is full when the file gets shorter. */
LAB_TEST(files_worker, a_file_that_shrinks_is_an_error_at_the_end)
{
    static char block[1 << 16];
    struct files_request r = lab_request(FILES_READ, "/file");
    struct answer a;
    lab_file("file", "x", 0644);
    int fd = openat(lab.root, "file", O_WRONLY | O_CLOEXEC);
    cr_assert_eq(ftruncate(fd, 8 << 20), 0);
    struct started s = lab_start(&r);
    struct files_reader *reader = lab_reader(FILES_READ, &a);
    for (ssize_t n; (n = read(s.out, block, sizeof block)) > 0;) {
        cr_assert_eq(files_reader_feed(reader, block, (size_t)n, NULL), 0);
        cr_assert_eq(ftruncate(fd, 10), 0);
    }
    cr_assert_eq(files_reader_finish(reader, NULL), 0);
    cr_assert(a.headed && a.error == 0 && a.ended && a.end == EIO);
    files_reader_free(reader);
    waitpid(s.pid, NULL, 0);
}

/* ---- write ---- */

LAB_TEST(files_worker, a_write_makes_folders_and_keeps_the_mode)
{
    struct answer *a = lab_write("/a/b/c/file", "one");
    cr_assert_eq(a->error, 0);
    cr_assert_eq(a->size, 3);
    cr_assert_str_eq(lab_text("a/b/c/file"), "one");
    cr_assert_eq(lab_stat("a/b/c/file").st_mode & 07777, 0644);
    cr_assert_eq(lab_stat("a/b").st_mode & 07777, 0755);
    cr_assert_eq(fchmodat(lab.root, "a/b/c/file", 0750, 0), 0);
    cr_assert_eq(lab_write("/a/b/c/file", "two")->error, 0);
    cr_assert_str_eq(lab_text("a/b/c/file"), "two");
    cr_assert_eq(lab_stat("a/b/c/file").st_mode & 07777, 0750);
    cr_assert_eq(fchmodat(lab.root, "a/b/c/file", 0444, 0), 0);
    cr_assert_eq(lab_write("/a/b/c/file", "three")->error, 0);
    cr_assert_eq(lab_stat("a/b/c/file").st_mode & 07777, 0444);
    cr_assert_eq(lab_count("a/b/c"), 1, "nothing else stays behind");
    assert_error(lab_write("/a/b", "x"), EISDIR);
    assert_error(lab_write("/", "x"), EISDIR);
    assert_error(lab_write("/a/b/c/file/below", "x"), ENOTDIR);
    cr_assert_eq(lab_write("/a/empty", "")->error, 0);
    cr_assert_eq(lab_stat("a/empty").st_size, 0);
}

LAB_TEST(files_worker, set_id_bits_do_not_survive_a_write)
{
    lab_file("tool", "old", 0644);
    cr_assert_eq(fchmodat(lab.root, "tool", 06755, 0), 0);
    cr_assert_eq(lab_write("/tool", "new")->error, 0);
    cr_assert_eq(lab_stat("tool").st_mode & 07777, 0755);
}

LAB_TEST(files_worker, a_write_over_the_limit_leaves_the_old_file)
{
    struct files_request r = lab_request(FILES_WRITE, "/file");
    lab_file("file", "old", 0644);
    r.limit = 4;
    assert_error(lab_run(&r, "12345", 5), EFBIG);
    cr_assert_str_eq(lab_text("file"), "old");
    cr_assert_eq(lab_count("."), 1);
    cr_assert_eq(lab_run(&r, "1234", 4)->error, 0);
    cr_assert_str_eq(lab_text("file"), "1234");
    r.limit = 0;
    assert_error(lab_run(&r, "1", 1), EFBIG);
    cr_assert_eq(lab_run(&r, "", 0)->error, 0);
}

static void upload_a_part(struct started *s, const struct files_request *r)
{
    *s = lab_start(r);
    cr_assert_eq(write(s->in, "half", 4), 4);
    /* The worker took it. */
    for (int waiting = 4; waiting > 0; usleep(1000))
        cr_assert_eq(ioctl(s->in, FIONREAD, &waiting), 0);
}

LAB_TEST(files_worker, an_upload_that_is_given_up_leaves_nothing)
{
    struct files_request r = lab_request(FILES_WRITE, "/file");
    struct started s;
    int status;
    upload_a_part(&s, &r);
    close(s.out);
    close(s.in);
    waitpid(s.pid, &status, 0);
    cr_assert_eq(WEXITSTATUS(status), 1);
    cr_assert_eq(lab_count("."), 0);
    /* At once, without the end of its data. */
    upload_a_part(&s, &r);
    close(s.out);
    waitpid(s.pid, &status, 0);
    close(s.in);
    cr_assert_eq(lab_count("."), 0);
    /* The control: the end of the data alone is the end of the file. */
    upload_a_part(&s, &r);
    close(s.in);
    waitpid(s.pid, &status, 0);
    close(s.out);
    cr_assert_eq(status, 0);
    cr_assert_str_eq(lab_text("file"), "half");
}

static int wait_for_word(void)
{
    return raise(SIGSTOP);
}

/* The worker finds data and its end without ever having had to wait. */
LAB_TEST(files_worker, an_upload_that_is_given_up_before_it_began)
{
    struct files_request r = lab_request(FILES_WRITE, "/file");
    lab.before = wait_for_word;
    for (int give_up = 1; give_up >= 0; give_up--) {
        int status;
        struct started s = lab_start(&r);
        cr_assert_eq(waitpid(s.pid, &status, WUNTRACED), s.pid);
        cr_assert_eq(write(s.in, "half", 4), 4);
        if (give_up)
            close(s.out);
        close(s.in);
        kill(s.pid, SIGCONT);
        cr_assert_eq(waitpid(s.pid, &status, 0), s.pid);
        cr_assert_eq(WEXITSTATUS(status), give_up);
        cr_assert_eq(lab_count("."), !give_up);
        if (!give_up)
            close(s.out);
    }
}

/* So it is with whatever was asked for, if who asked was told meanwhile that it failed. */
LAB_TEST(files_worker, what_is_given_up_before_it_began_is_not_done)
{
    static const enum files_op ops[] = {FILES_MKDIR, FILES_REMOVE};
    lab.before = wait_for_word;
    for (int i = 0; i < 4; i++) {
        bool give_up = i % 2 == 0, removes = ops[i / 2] == FILES_REMOVE;
        int status;
        struct files_request r = lab_request(ops[i / 2], "/folder");
        struct started s = lab_start(&r);
        cr_assert_eq(waitpid(s.pid, &status, WUNTRACED), s.pid);
        if (give_up)
            close(s.out);
        close(s.in);
        kill(s.pid, SIGCONT);
        cr_assert_eq(waitpid(s.pid, &status, 0), s.pid);
        cr_assert_eq(WEXITSTATUS(status), give_up);
        cr_assert_eq(lab_has("folder"), give_up == removes);
        if (!give_up)
            close(s.out);
    }
}

Test(files_worker, half_an_upload_has_no_name_and_does_not_outlive_its_worker)
{
    struct files_request r = lab_request(FILES_WRITE, "/file");
    struct started s;
    upload_a_part(&s, &r);
    cr_assert_eq(lab_count("."), 0);
    kill(s.pid, SIGKILL);
    waitpid(s.pid, NULL, 0);
    cr_assert_eq(lab_count("."), 0);
}

LAB_TEST(files_worker, other_names_of_a_file_keep_the_old_content)
{
    lab_file("one", "old", 0644);
    cr_assert_eq(linkat(lab.root, "one", lab.root, "two", 0), 0);
    cr_assert_eq(lab_write("/one", "new")->error, 0);
    cr_assert_str_eq(lab_text("one"), "new");
    cr_assert_str_eq(lab_text("two"), "old");
}

LAB_TEST(files_worker, attributes_are_kept_and_replaced_as_a_whole)
{
    struct files_request r = lab_request(FILES_WRITE, "/file");
    r.metadata_count = 2;
    r.metadata[0].name = "owner";
    r.metadata[0].value = "me";
    r.metadata[1].name = "empty";
    r.metadata[1].value = "";
    struct answer *a = lab_run(&r, "x", 1);
    if (a->error == EOPNOTSUPP)
        cr_skip("the file system of %s has no attributes", lab.base);
    cr_assert_eq(a->error, 0);
    a = lab_do(FILES_STAT, "/file");
    cr_assert_eq(a->entry[0].metadata_len, sizeof "owner\0me\0empty\0");
    /* In whichever order the file system keeps them. */
    cr_assert(memcmp(a->entry[0].metadata, "owner\0me\0empty\0", 16) == 0 ||
              memcmp(a->entry[0].metadata, "empty\0\0owner\0me", 16) == 0);
    r.metadata[0].name = "other";
    r.metadata_count = 1;
    cr_assert_eq(lab_run(&r, "y", 1)->error, 0);
    a = lab_do(FILES_LIST, "/");
    cr_assert_eq(a->entry[0].metadata_len, 9);
    cr_assert_arr_eq(a->entry[0].metadata, "other\0me", 9);
}

LAB_TEST(files_worker, attributes_from_inside_are_cut_to_what_fits)
{
    char name[64], value[1500];
    lab_file("file", "x", 0644);
    int fd = openat(lab.root, "file", O_WRONLY | O_CLOEXEC);
    memset(value, 'v', sizeof value);
    if (fsetxattr(fd, "user.e2b.nul", "a\0b", 3, 0) < 0)
        cr_skip("no attributes here");
    fsetxattr(fd, "user.other", "x", 1, 0);
    fsetxattr(fd, "user.e2b.", "x", 1, 0);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "user.e2b.n%d", i);
        fsetxattr(fd, name, value, i == 3 ? sizeof value : 100, 0);
    }
    close(fd);
    struct answer *a = lab_do(FILES_STAT, "/file");
    cr_assert_eq(a->error, 0);
    cr_assert_gt(a->entry[0].metadata_len, 100);
}

/* ---- the quota ---- */

static int mount_small(void)
{
    return mount("none", "small", "tmpfs", 0, "size=64k,mode=0777");
}

static int is_clean_again(void)
{
    struct statvfs fs;
    return statvfs("/small", &fs) == 0 && fs.f_bfree == fs.f_blocks ? 0 : 77;
}

LAB_TEST(files_worker, a_full_disk_is_said_and_nothing_stays)
{
    static char data[256 << 10];
    struct files_request r = lab_request(FILES_WRITE, "/small/file");
    lab_dir("small");
    lab.before = mount_small;
    lab.after = is_clean_again;
    assert_error(lab_run(&r, data, sizeof data), ENOSPC);
    lab.after = NULL;
    cr_assert_eq(lab_run(&r, data, 32 << 10)->error, 0, "the control");
}

/* ---- stat, mkdir, move ---- */

LAB_TEST(files_worker, an_entry_tells_what_it_is)
{
    lab_dir("d");
    lab_file("d/file", "12345", 0640);
    lab_link("some/where", "d/link");
    cr_assert_eq(mkfifoat(lab.root, "d/fifo", 0600), 0);
    struct answer *a = lab_do(FILES_STAT, "/d/file");
    cr_assert_eq(a->entries, 1);
    cr_assert(a->entry[0].kind == FILES_REGULAR && a->entry[0].mode == 0640 &&
              a->entry[0].size == 5);
    cr_assert_eq(a->entry[0].mtime_sec, lab_stat("d/file").st_mtim.tv_sec);
    cr_assert_str_eq(a->entry[0].path, "/d/file");
    a = lab_do(FILES_STAT, "/d/link");
    cr_assert_eq(a->entry[0].kind, FILES_SYMLINK);
    cr_assert_str_eq(a->entry[0].target, "some/where");
    cr_assert_eq(lab_do(FILES_STAT, "/d/fifo")->entry[0].kind, FILES_OTHER);
    cr_assert_eq(lab_do(FILES_STAT, "/d")->entry[0].kind, FILES_DIRECTORY);
    a = lab_do(FILES_STAT, "/");
    cr_assert_eq(a->entry[0].kind, FILES_DIRECTORY);
    cr_assert_str_eq(a->entry[0].path, "/");
    assert_error(lab_do(FILES_STAT, "/d/none"), ENOENT);
}

LAB_TEST(files_worker, a_link_tells_what_it_leads_to)
{
    lab_dir("d");
    lab_dir("d/sub");
    lab_file("d/sub/file", "12345", 0640);
    lab_link("sub/file", "d/file");
    lab_link("file", "d/twice");
    lab_link("/d/sub", "d/folder");
    lab_link("loop", "d/loop");
    struct answer *a = lab_do(FILES_STAT, "/d/file");
    cr_assert(a->entry[0].kind == FILES_SYMLINK && a->entry[0].target_kind == FILES_REGULAR &&
              a->entry[0].target_mode == 0640 && a->entry[0].mode == 0777);
    cr_assert_str_eq(a->entry[0].target, "/d/sub/file");
    a = lab_do(FILES_STAT, "/d/folder");
    cr_assert_eq(a->entry[0].target_kind, FILES_DIRECTORY);
    cr_assert_str_eq(a->entry[0].target, "/d/sub");
    cr_assert_eq(lab_do(FILES_STAT, "/d/twice")->entry[0].target_kind, FILES_REGULAR);
    a = lab_do(FILES_STAT, "/d/loop");
    cr_assert(a->entry[0].target_kind == 0 && a->entry[0].target_mode == 0);
    cr_assert_str_eq(a->entry[0].target, "loop");
}

LAB_TEST(files_worker, a_list_is_sorted)
{
    static const char *const names[] = {"b", "a", "B", "10", "9", "c", "a-"};
    lab_dir("d");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[16];
        snprintf(path, sizeof path, "d/%s", names[i]);
        lab_file(path, "", 0644);
    }
    struct answer *a = lab_do(FILES_LIST, "/d");
    cr_assert(a->entries == 7 && a->unsorted == 0);
    cr_assert_str_eq(a->entry[0].path, "/d/10");
    cr_assert_str_eq(a->entry[6].path, "/d/c");
}

/* More than the worker remembers at once, made in an order of their own. */
LAB_TEST(files_worker, a_long_list_is_sorted_too)
{
    enum { MANY = 1500 };
    lab_dir("d");
    for (unsigned i = 0; i < MANY; i++) {
        char path[16];
        snprintf(path, sizeof path, "d/%06u", i * 7919 % 100003);
        lab_file(path, "", 0644);
    }
    struct answer *a = lab_do(FILES_LIST, "/d");
    cr_assert(a->entries == MANY && a->unsorted == 0, "%u, %u", a->entries, a->unsorted);
}

LAB_TEST(files_worker, folders_are_made_once)
{
    struct answer *a = lab_do(FILES_MKDIR, "/x/y/z/");
    cr_assert_eq(a->error, 0);
    cr_assert_eq(a->entry[0].kind, FILES_DIRECTORY);
    cr_assert_str_eq(a->entry[0].path, "/x/y/z");
    assert_error(lab_do(FILES_MKDIR, "/x/y/z"), EEXIST);
    assert_error(lab_do(FILES_MKDIR, "/"), EEXIST);
    lab_file("x/file", "", 0644);
    assert_error(lab_do(FILES_MKDIR, "/x/file"), ENOTDIR);
    lab_link("y", "x/link");
    assert_error(lab_do(FILES_MKDIR, "/x/link"), EEXIST);
    assert_error(lab_do(FILES_MKDIR, "/x/file/below"), ENOTDIR);
}

static int mount_other(void)
{
    return mount("none", "other", "tmpfs", 0, "size=1m,mode=0777");
}

LAB_TEST(files_worker, moves_replace)
{
    lab_file("a", "a", 0644);
    struct answer *a = lab_move("/a", "/new/folder/b");
    cr_assert_eq(a->error, 0);
    cr_assert_str_eq(a->entry[0].path, "/new/folder/b");
    cr_assert_str_eq(lab_text("new/folder/b"), "a");
    lab_file("c", "c", 0644);
    cr_assert_eq(lab_move("/c", "/new/folder/b")->error, 0);
    cr_assert_str_eq(lab_text("new/folder/b"), "c");
    assert_error(lab_move("/none", "/not/made"), ENOENT);
    cr_assert(!lab_has("not"), "no folder for what does not come");
    assert_error(lab_move("/new", "/new/folder/in/itself"), EINVAL);
    assert_error(lab_move("/", "/x"), EINVAL);
    assert_error(lab_move("/new", "/"), EINVAL);
}

/* "other" is a file system of 1 MiB. */
LAB_TEST(files_worker, moves_across_file_systems)
{
    static char big[2 << 20];
    memset(big, 'b', sizeof big - 1);
    lab_dir("other");
    lab_file("small", "s", 0755);
    lab_file("big", big, 0644);
    lab_dir("folder");
    lab_dir("folder/in");
    lab.before = mount_other;
    struct answer *a = lab_move("/small", "/other/made/s");
    cr_assert_eq(a->error, 0);
    cr_assert_str_eq(a->entry[0].path, "/other/made/s");
    cr_assert_eq(a->entry[0].mode & 0777, 0755);
    cr_assert(!lab_has("small"));
    assert_error(lab_move("/big", "/other/b"), ENOSPC);
    cr_assert(lab_has("big"), "what could not be moved is there");
    assert_error(lab_move("/folder", "/other/folder"), EXDEV);
    cr_assert(lab_has("folder/in"));
    assert_error(lab_move("/big", "/other"), EISDIR);
    lab.before = NULL;
    cr_assert_eq(lab_move("/folder", "/other/folder")->error, 0, "without the mount, the control");
}

/* A file that is mounted by itself cannot leave its place, and the kernel says so last. */
static int mount_single(void)
{
    if (mount_other() < 0 || symlink("nowhere", "other/link") < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        int fd = open(i ? "other/below" : "other/single", O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, i ? "below" : "above", 5) != 5 || fchmod(fd, 0666) < 0)
            return -1;
        close(fd);
    }
    return mount("other/below", "other/single", NULL, MS_BIND, NULL);
}

static unsigned count_names(void)
{
    unsigned count = 0;
    int fd = openat(lab.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fdopendir(fd);
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

LAB_TEST(files_worker, a_move_that_is_refused_changes_nothing)
{
    lab_dir("other");
    lab_file("keep", "precious", 0644);
    unsigned before = count_names();
    lab.before = mount_single;
    assert_error(lab_move("/other/single", "/keep"), EBUSY);
    cr_assert_str_eq(lab_text("keep"), "precious");
    assert_error(lab_move("/other/single", "/fresh"), EBUSY);
    cr_assert(!lab_has("fresh"));
    cr_assert_eq(count_names(), before, "and nothing is left behind");
    cr_assert_eq(lab_move("/other/below", "/keep")->error, 0, "one that can leave, the control");
    cr_assert_str_eq(lab_text("keep"), "below");
    cr_assert_eq(lab_move("/other/link", "/keep")->error, 0);
    cr_assert_eq(count_names(), before);
}

LAB_TEST(files_worker, holes_of_what_is_moved_stay_holes)
{
    static const off_t size = 20ll << 30;
    lab_dir("other");
    lab_file("sparse", "", 0644);
    int fd = openat(lab.root, "sparse", O_WRONLY | O_CLOEXEC);
    cr_assert(ftruncate(fd, size) == 0 && pwrite(fd, "x", 1, 5ll << 30) == 1);
    close(fd);
    lab.before = mount_other;
    struct answer *a = lab_move("/sparse", "/other/sparse");
    cr_assert_eq(a->error, 0, "error %d: it has 1 MiB", a->error);
    cr_assert_eq(a->entry[0].size, (uint64_t)size);
}

/* ---- list ---- */

static void make_chain(const char *name, unsigned depth)
{
    int fd = dup(lab.root);
    for (unsigned i = 0; i < depth; i++) {
        cr_assert_eq(mkdirat(fd, name, 0755), 0);
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (geteuid() == 0)
            cr_assert_eq(fchown(next, LAB_UID, LAB_UID), 0);
        close(fd);
        fd = next;
    }
    close(fd);
}

LAB_TEST(files_worker, lists_go_as_deep_as_asked)
{
    struct files_request r = lab_request(FILES_LIST, "/a");
    lab_dir("a");
    lab_dir("a/b");
    lab_dir("a/b/c");
    lab_file("a/b/c/file", "", 0644);
    lab_link("/a", "a/b/loop");
    cr_assert_eq(lab_run(&r, NULL, 0)->entries, 1);
    r.depth = 2;
    struct answer *a = lab_run(&r, NULL, 0);
    cr_assert_eq(a->entries, 3);
    r.depth = 64;
    a = lab_run(&r, NULL, 0);
    cr_assert_eq(a->entries, 4, "a link is not entered");
    cr_assert_eq(a->end, 0);
    bool found = false;
    for (unsigned i = 0; i < 4; i++)
        found = found || strcmp(a->entry[i].path, "/a/b/c/file") == 0;
    cr_assert(found);
    r.path = "/";
    r.depth = 1;
    cr_assert_str_eq(lab_run(&r, NULL, 0)->entry[0].path, "/a");
    assert_error(lab_do(FILES_LIST, "/a/b/c/file"), ENOTDIR);
    assert_error(lab_do(FILES_LIST, "/none"), ENOENT);
    cr_assert_eq(lab_do(FILES_LIST, "/a/b/loop")->entries, 1, "what was asked for is followed");
}

LAB_TEST(files_worker, deep_and_long_trees_end_somewhere)
{
    char name[201];
    struct files_request r = lab_request(FILES_LIST, "/d");
    r.depth = FILES_DEPTH_MAX;
    make_chain("d", 3000);
    struct answer *a = lab_run(&r, NULL, 0);
    cr_assert_eq(a->entries, FILES_DEPTH_MAX);
    cr_assert_eq(a->end, 0);
    cr_assert_eq(lab_do(FILES_REMOVE, "/d")->error, 0);
    cr_assert_eq(lab_count("."), 0);
    memset(name, 'n', 200);
    name[200] = '\0';
    make_chain(name, 40);
    r.path = "/";
    a = lab_run(&r, NULL, 0);
    cr_assert_eq(a->entries, 4096 / 201);
    cr_assert_eq(a->end, ENAMETOOLONG);
}

LAB_TEST(files_worker, names_are_any_bytes)
{
    lab_dir("d");
    lab_file("d/new\nline", "1", 0644);
    lab_file("d/\xff\xfe", "22", 0644);
    lab_file("d/ -rf *", "333", 0644);
    struct answer *a = lab_do(FILES_LIST, "/d");
    cr_assert_eq(a->entries, 3);
    unsigned seen = 0;
    for (unsigned i = 0; i < 3; i++)
        seen |= strcmp(a->entry[i].path, "/d/new\nline") == 0                  ? 1u
                : strcmp(a->entry[i].path, "/d/\xef\x9f\xbf\xef\x9f\xbe") == 0 ? 2u
                : strcmp(a->entry[i].path, "/d/ -rf *") == 0                   ? 4u
                                                                               : 8u;
    cr_assert_eq(seen, 7);
    cr_assert_str_eq(lab_do(FILES_READ, "/d/\xff\xfe")->start, "22");
    cr_assert_eq(lab_do(FILES_REMOVE, "/d/new\nline")->error, 0);
    cr_assert_eq(lab_count("d"), 2);
}

Test(files_worker, more_entries_than_are_listed)
{
    char name[32];
    struct files_request r = lab_request(FILES_LIST, "/many");
    lab_dir("many");
    int dir = openat(lab.root, "many", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < FILES_ENTRIES_MAX + 1000; i++) {
        snprintf(name, sizeof name, "%d", i);
        int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        cr_assert_geq(fd, 0);
        close(fd);
    }
    close(dir);
    struct answer *a = lab_run(&r, NULL, 0);
    cr_assert_eq(a->entries, FILES_ENTRIES_MAX);
    cr_assert_eq(a->end, EFBIG);
    r.limit = 7;
    a = lab_run(&r, NULL, 0);
    cr_assert(a->entries == 7 && a->end == EFBIG);
    cr_assert_eq(lab_do(FILES_REMOVE, "/many")->error, 0);
    cr_assert(!lab_has("many"));
}

/* ---- remove ---- */

LAB_TEST(files_worker, removing_takes_what_is_below)
{
    lab_dir("a");
    lab_dir("a/b");
    lab_file("a/b/file", "", 0444);
    lab_file("keep", "kept", 0644);
    lab_link("/keep", "a/link");
    lab_link("/", "a/b/root");
    cr_assert_eq(linkat(lab.root, "keep", lab.root, "a/hard", 0), 0);
    cr_assert_eq(mkfifoat(lab.root, "a/fifo", 0600), 0);
    cr_assert_eq(lab_do(FILES_REMOVE, "/a")->error, 0);
    cr_assert_eq(lab_count("."), 1);
    cr_assert_str_eq(lab_text("keep"), "kept");
    assert_error(lab_do(FILES_REMOVE, "/a"), ENOENT);
    assert_error(lab_do(FILES_REMOVE, "/"), EINVAL);
    cr_assert_eq(lab_do(FILES_REMOVE, "/keep")->error, 0);
    cr_assert_eq(lab_count("."), 0);
}

LAB_TEST(files_worker, what_cannot_go_is_said_and_the_rest_goes)
{
    lab_dir("a");
    lab_dir("a/stays");
    lab_file("a/stays/file", "", 0644);
    lab_file("a/goes", "", 0644);
    cr_assert_eq(fchmodat(lab.root, "a/stays", 0555, 0), 0);
    assert_error(lab_do(FILES_REMOVE, "/a"), EACCES);
    cr_assert(lab_has("a/stays/file") && !lab_has("a/goes"));
}

static int kept_elsewhere(void)
{
    struct stat sb;
    return stat("/a/other/file", &sb) == 0 ? 0 : 78;
}

static int mount_inside(void)
{
    if (mount("none", "a/other", "tmpfs", 0, "size=1m,mode=0777") < 0)
        return -1;
    int fd = open("a/other/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    close(fd);
    return fd < 0 ? -1 : 0;
}

LAB_TEST(files_worker, what_is_mounted_is_not_emptied)
{
    lab_dir("a");
    lab_dir("a/other");
    lab.before = mount_inside;
    lab.after = kept_elsewhere;
    assert_error(lab_do(FILES_REMOVE, "/a"), EBUSY);
    assert_error(lab_do(FILES_REMOVE, "/a/other"), EBUSY);
}

LAB_TEST(files_worker, a_removal_that_nobody_waits_for_stops)
{
    char name[64];
    struct files_request r = lab_request(FILES_REMOVE, "/many");
    lab_dir("many");
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "many/%d", i);
        lab_file(name, "", 0644);
    }
    lab.before = wait_for_word;
    struct started s = lab_start(&r);
    waitpid(s.pid, NULL, WUNTRACED);
    close(s.out);
    kill(s.pid, SIGCONT);
    waitpid(s.pid, NULL, 0);
    cr_assert_gt(lab_count("many"), 0);
    lab.before = NULL;
    cr_assert_eq(lab_do(FILES_REMOVE, "/many")->error, 0, "the control");
}
