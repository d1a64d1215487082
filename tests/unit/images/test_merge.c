/* IM-4, IM-20: what a layer does to the files below it, when it is laid over them. */
#include "base/layer_marks.h"
#include "images/merge.h"
#include "os/remove.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];
static int layer, root; /* folders below it */
static struct merge_room room;
static struct err err;

static void setup(void)
{
    snprintf(top, sizeof top, "/tmp/test-merge-XXXXXX");
    cr_assert(mkdtemp(top) && chdir(top) == 0);
    cr_assert(mkdir("layer", 0755) == 0 && mkdir("root", 0755) == 0);
    layer = open("layer", O_RDONLY | O_DIRECTORY);
    root = open("root", O_RDONLY | O_DIRECTORY);
    room = (struct merge_room){.entries = 100, .bytes = 1000};
    err = (struct err)ERR_INIT;
}

static void teardown(void)
{
    int dir = open(top, O_RDONLY | O_DIRECTORY);
    cr_assert(remove_folder(AT_FDCWD, top, dir) == 0);
}

TestSuite(merge, .init = setup, .fini = teardown);

static void file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
    close(fd);
}

static void folder(const char *path)
{
    cr_assert(mkdir(path, 0755) == 0, "%s", path);
}

/* As brig-unpack leaves a folder that no entry names. */
static void via(const char *path)
{
    char mark[300];
    folder(path);
    snprintf(mark, sizeof mark, "%s/" LAYER_VIA, path);
    file(mark, "");
}

static void points(const char *path, const char *target)
{
    cr_assert(symlink(target, path) == 0, "%s", path);
}

static bool is_there(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0;
}

static ino_t ino(const char *path)
{
    struct stat sb;
    cr_assert(lstat(path, &sb) == 0, "%s", path);
    return sb.st_ino;
}

static const char *text(const char *path)
{
    static char out[100];
    int fd = open(path, O_RDONLY | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, out, sizeof out - 1);
    cr_assert(n >= 0, "%s", path);
    out[n] = '\0';
    close(fd);
    return out;
}

static void merged(void)
{
    cr_assert(merge_layer(layer, root, &room, &err) == 0, "%s", err.message);
}

static void refused(const char *why)
{
    cr_assert(merge_layer(layer, root, &room, &err) < 0);
    cr_assert(strstr(err.message, why), "%s", err.message);
}

/* Whom a folder's mode binds. */
static void be_ordinary(void)
{
    if (geteuid() != 0)
        return;
    cr_assert(chown(top, 4321, 4321) == 0 && fchown(layer, 4321, 4321) == 0 &&
              fchown(root, 4321, 4321) == 0);
    cr_assert(setgroups(0, NULL) == 0 && setresgid(4321, 4321, 4321) == 0 &&
              setresuid(4321, 4321, 4321) == 0);
}

/* A folder that nobody may change stands for a disk that fails. */
Test(merge, what_a_layer_hides_and_cannot_be_removed_is_no_image)
{
    be_ordinary();
    folder("root/d");
    file("root/d/hidden", "1");
    folder("layer/d");
    file("layer/d/" LAYER_OPAQUE, "");
    cr_assert(chmod("root/d", 0500) == 0);
    refused("remove what a folder of the layer hides");
    cr_assert(is_there("root/d/hidden"));
    cr_assert(chmod("root/d", 0700) == 0);
    merged(); /* the control */
    cr_assert(is_there("root/d") && !is_there("root/d/hidden"));
}

Test(merge, a_file_is_one_more_name_of_the_layers)
{
    file("layer/f", "1");
    points("layer/l", "f");
    folder("layer/d");
    file("layer/d/g", "2");
    merged();
    cr_assert(ino("root/f") == ino("layer/f") && ino("root/d/g") == ino("layer/d/g"));
    cr_assert(ino("root/d") != ino("layer/d"));
    cr_assert(is_there("root/l") && room.entries == 96);
    merged(); /* a layer that an image has twice */
    cr_assert_str_eq(text("root/d/g"), "2");
}

Test(merge, what_is_replaced_stays_as_it_was_in_its_layer)
{
    struct stat before, after;
    folder("lower");
    file("lower/f", "old");
    cr_assert(link("lower/f", "root/f") == 0 && lstat("lower/f", &before) == 0);
    file("layer/f", "new");
    merged();
    cr_assert_str_eq(text("root/f"), "new");
    cr_assert_str_eq(text("lower/f"), "old");
    cr_assert(lstat("lower/f", &after) == 0 && before.st_mode == after.st_mode &&
              before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

Test(merge, a_whiteout_hides_what_is_below_and_nothing_of_its_layer)
{
    file("root/gone", "1");
    folder("root/d");
    file("root/d/old", "1");
    folder("root/full");
    file("root/full/old", "1");
    file("layer/.wh.gone", "");
    file("layer/.wh.d", "");
    folder("layer/d");
    file("layer/d/new", "2");
    file("layer/d/.wh.new", "");
    folder("layer/full");
    file("layer/full/" LAYER_OPAQUE, "");
    file("layer/full/new", "2");
    merged();
    cr_assert(!is_there("root/gone") && !is_there("root/d/old") && !is_there("root/full/old"));
    cr_assert(is_there("root/d/new") && is_there("root/full/new"));
    cr_assert(!is_there("root/.wh.gone") && !is_there("root/full/" LAYER_OPAQUE));
}

Test(merge, files_and_folders_take_each_others_place)
{
    folder("root/a");
    file("root/a/in", "1");
    file("root/b", "1");
    points("root/c", "a");
    file("layer/a", "2");
    folder("layer/b");
    file("layer/b/in", "2");
    folder("layer/c");
    file("layer/c/in", "2");
    merged();
    cr_assert_str_eq(text("root/a"), "2");
    cr_assert_str_eq(text("root/b/in"), "2");
    cr_assert_str_eq(text("root/c/in"), "2");
}

Test(merge, a_folder_that_no_entry_names_is_what_is_below)
{
    folder("root/usr");
    folder("root/usr/lib");
    file("root/usr/lib/old", "1");
    points("root/lib", "usr/lib");
    via("layer/lib");
    file("layer/lib/new", "2");
    file("layer/lib/.wh.old", "");
    via("layer/fresh");
    file("layer/fresh/x", "2");
    merged();
    cr_assert(is_there("root/usr/lib/new") && !is_there("root/usr/lib/old"));
    cr_assert(is_there("root/fresh/x") && !is_there("root/fresh/" LAYER_VIA));
}

Test(merge, no_link_leads_above_the_root)
{
    struct stat sb;
    const char *const targets[] = {"/", "../../..", "/../../tmp", top};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char from[40], to[40], name[80];
        snprintf(from, sizeof from, "root/l%zu", i);
        snprintf(to, sizeof to, "layer/l%zu", i);
        points(from, targets[i]);
        via(to);
        snprintf(name, sizeof name, "%s/escaped%zu", to, i);
        file(name, "2");
        snprintf(name, sizeof name, "%s/.wh.root", to); /* as the folder above is called */
        file(name, "");
    }
    merged();
    cr_assert(is_there("root/escaped0") && is_there("root/escaped1") &&
              is_there("root/tmp/escaped2"));
    cr_assert(is_there("root") && !is_there("escaped1") && !is_there("escaped3"));
    cr_assert(lstat("/tmp/escaped2", &sb) < 0);
    char inside[200];
    snprintf(inside, sizeof inside, "root%s/escaped3", top);
    cr_assert(is_there(inside));
}

Test(merge, links_without_an_end)
{
    points("root/a", "b");
    points("root/b", "a");
    via("layer/a");
    file("layer/a/x", "");
    refused("too many links");
}

Test(merge, nothing_lies_below_a_file)
{
    file("root/a", "");
    via("layer/a");
    file("layer/a/x", "");
    refused("below a file");
}

Test(merge, hard_links_to_files_of_lower_layers)
{
    folder("root/d");
    file("root/d/f", "12345");
    points("root/way", "d");
    points("layer/" LAYER_LINK "one", "d/f");
    points("layer/" LAYER_LINK "two", "way/f");
    file("layer/own", "2");
    points("layer/" LAYER_LINK "d2", "own");
    merged();
    cr_assert(ino("root/one") == ino("root/d/f") && ino("root/two") == ino("root/d/f"));
    cr_assert(ino("root/d2") == ino("layer/own"));
    cr_assert(room.bytes == 1000 - 5 - 5 - 1);
}

Test(merge, hard_links_to_nothing_of_the_image)
{
    const char *const targets[] = {"../victim", "/../victim", "missing", "d",
                                   "d/..",      "d/",         "d/no/f"};
    file("victim", "1");
    folder("root/d");
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        points("layer/" LAYER_LINK "x", targets[i]);
        err = (struct err)ERR_INIT;
        refused("no file of the image");
        cr_assert(unlink("layer/" LAYER_LINK "x") == 0 && !is_there("root/x"));
    }
}

/* What a brig-unpack that was taken over could leave. */
Test(merge, what_no_layer_has)
{
    file("layer/f", "");
    cr_assert(chmod("layer/f", 04755) == 0);
    refused("set-id");
    cr_assert(unlink("layer/f") == 0 && mkfifo("layer/f", 0600) == 0);
    refused("a file that is none");
}

Test(merge, no_more_than_there_is_room_for)
{
    points("root/l", "a/b/c/d/e");
    via("layer/l");
    file("layer/l/x", "");
    room.entries = 4;
    refused("entries");
    room.entries = 100;
    merged();
    cr_assert(is_there("root/a/b/c/d/e/x"));
    room.bytes = 2;
    file("root/big", "123");
    points("layer/" LAYER_LINK "x", "big");
    refused("bytes");
}

Test(merge, a_root_is_taken_as_it_is)
{
    folder("layer/d");
    file("layer/d/.wh.x", "a name");
    merged();
    cr_assert(!is_there("root/d/.wh.x"), "the control: in a layer it is a mark");
    cr_assert(merge_root(layer, root, &room, &err) == 0, "%s", err.message);
    cr_assert_str_eq(text("root/d/.wh.x"), "a name");
}

/* Where a file system gives no more names, as ext4 after 65 000: here another file system stands
 * for that. */
Test(merge, where_there_is_no_other_name_it_is_a_copy)
{
    char other[] = "/dev/shm/test-merge-XXXXXX";
    struct stat here, there, from, copy;
    cr_assert(mkdtemp(other));
    int away = open(other, O_RDONLY | O_DIRECTORY);
    cr_assert(fstat(away, &there) == 0 && fstat(root, &here) == 0);
    file("layer/f", "12345");
    cr_assert(chmod("layer/f", 0751) == 0);
    const struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 1000000}};
    cr_assert(utimensat(AT_FDCWD, "layer/f", times, 0) == 0);
    points("layer/l", "f");
    room.bytes = 4;
    bool copies = here.st_dev != there.st_dev;
    if (copies) {
        cr_assert(merge_layer(layer, away, &room, &err) < 0 && strstr(err.message, "bytes"));
        cr_assert(remove_contents(away) == 0);
        err = (struct err)ERR_INIT;
    }
    room.bytes = 5;
    cr_assert(merge_layer(layer, away, &room, &err) == 0, "%s", err.message);
    cr_assert(room.bytes == (copies ? 0 : 5));
    cr_assert(fstatat(layer, "f", &from, 0) == 0 && fstatat(away, "f", &copy, 0) == 0);
    cr_assert(copy.st_mode == from.st_mode && copy.st_size == 5);
    cr_assert(copy.st_mtim.tv_sec == 1000000);
    cr_assert(fstatat(away, "l", &copy, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(copy.st_mode));
    cr_assert(remove_folder(AT_FDCWD, other, away) == 0);
}
