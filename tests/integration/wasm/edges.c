/* What calls on files say at their edges, built for the host and as a module: what both print must
 * be the same. Its first argument is a folder that it may write to. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
} names[] = {{EACCES, "EACCES"},   {EBADF, "EBADF"},         {EBUSY, "EBUSY"},
             {EEXIST, "EEXIST"},   {EFBIG, "EFBIG"},         {EINVAL, "EINVAL"},
             {EISDIR, "EISDIR"},   {ELOOP, "ELOOP"},         {ENOENT, "ENOENT"},
             {ENOTDIR, "ENOTDIR"}, {EPERM, "EPERM"},         {ENAMETOOLONG, "ENAMETOOLONG"},
             {ENOTTY, "ENOTTY"},   {EOVERFLOW, "EOVERFLOW"}, {ENOTEMPTY, "ENOTEMPTY"},
             {ESPIPE, "ESPIPE"},   {EXDEV, "EXDEV"},         {ENOSYS, "ENOSYS"}};

/* errno is read after the call: the arguments of one call are computed in no particular order. */
static void say(const char *what, long long result)
{
    int code = errno;
    const char *name = "another";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == code)
            name = names[i].name;
    if (result >= 0)
        printf("%s: %lld\n", what, result);
    else
        printf("%s: %s\n", what, name);
}
#define SAY(call) say(#call, (call))

static int make(const char *name, const char *text)
{
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
    if (write(fd, text, strlen(text)) < 0)
        return -1;
    return close(fd);
}

static int opened(int fd)
{
    return fd < 0 ? -1 : close(fd);
}

static void names_at_their_end(void)
{
    char text[64], longest[300];
    make("file", "text");
    SAY(mkdir("folder", 0755));
    SAY(symlink("folder", "to-folder"));
    SAY(symlink("file", "to-file"));
    SAY(symlink("nowhere", "dangling"));
    SAY(mkdir(".", 0755));
    SAY(mkdir("folder/.", 0755));
    SAY(mkdir("folder/..", 0755));
    SAY(mkdir("new/.", 0755));
    SAY(mkdir("slash/", 0755));
    SAY(mkdir("file/", 0755));
    SAY(mkdir("dangling", 0755));
    SAY(rmdir("."));
    SAY(rmdir("folder/."));
    SAY(rmdir("file"));
    SAY(rmdir("file/"));
    SAY(rmdir("to-folder/"));
    SAY(rmdir("slash/"));
    SAY(unlink("file/"));
    SAY(unlink("folder/"));
    SAY(unlink("nothing/"));
    SAY(unlink("to-file/"));
    SAY(symlink("file", "made/"));
    SAY(symlink("file", "folder/"));
    SAY(symlink("file", "file/"));
    SAY(symlink("file", "."));
    SAY(symlink("", "empty-target"));
    SAY(rename("file/", "moved"));
    SAY(rename("file", "moved/"));
    SAY(rename("folder/", "moved/"));
    SAY(rename("moved", "folder"));
    SAY(rename(".", "dot"));
    SAY(rename("folder", "folder/below"));
    SAY(rename("folder", "file"));
    SAY(rename("file", "folder"));
    SAY(rename("file", "file"));
    SAY(rename("nothing", "file"));
    SAY(mkdir("other", 0755));
    SAY(rename("folder", "other"));
    SAY(mkdir("folder", 0755));
    make("folder/in", "");
    SAY(rename("other", "folder"));
    SAY(rename("to-file", "renamed-link"));
    SAY(readlink("renamed-link", text, sizeof text));
    SAY(readlink("renamed-link", text, 2));
    SAY(readlink("file", text, sizeof text));
    SAY(readlink("folder", text, sizeof text));
    SAY(link("file", "second"));
    SAY(link("file/", "third"));
    SAY(link("file", "third/"));
    SAY(link("folder", "third"));
    SAY(link("file", "second"));
    SAY(link("nothing", "third"));
    SAY(link("dangling", "dangling-too"));
    SAY(opened(open("file/", O_RDONLY)));
    SAY(opened(open("folder/", O_RDONLY)));
    SAY(opened(open("renamed-link/", O_RDONLY)));
    SAY(opened(open("to-folder/", O_RDONLY)));
    SAY(opened(open("new/", O_CREAT | O_RDWR, 0644)));
    SAY(opened(open("dangling", O_RDONLY)));
    SAY(opened(open("dangling", O_RDONLY | O_CREAT | O_EXCL, 0644)));
    SAY(opened(open("renamed-link", O_RDONLY | O_NOFOLLOW)));
    SAY(opened(open("file", O_RDONLY | O_DIRECTORY)));
    SAY(opened(open("folder", O_WRONLY)));
    SAY(opened(open("file/below", O_RDONLY)));
    SAY(symlink("loop-b", "loop-a"));
    SAY(symlink("loop-a", "loop-b"));
    SAY(opened(open("loop-a", O_RDONLY)));
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    say("a name that is too long", opened(open(longest, O_CREAT | O_RDWR, 0644)));
}

static void places_and_sizes(void)
{
    char text[64] = "";
    struct stat sb;
    int fd = open("sized", O_CREAT | O_RDWR | O_EXCL, 0644);
    struct iovec pieces[3] = {{"one ", 4}, {"", 0}, {"two three", 9}};
    SAY(writev(fd, pieces, 3));
    SAY(pwrite(fd, "TWO", 3, 4));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(lseek(fd, -100, SEEK_CUR));
    SAY(lseek(fd, 5, 77));
    SAY(lseek(fd, 100, SEEK_END));
    SAY(write(fd, "far", 3));
    SAY(fstat(fd, &sb));
    printf("size %lld\n", (long long)sb.st_size);
    SAY(pread(fd, text, sizeof text, 0));
    printf("%s\n", text);
    SAY(pread(fd, text, sizeof text, 1000));
    SAY(pread(fd, text, sizeof text, -1));
    SAY(ftruncate(fd, 7));
    SAY(ftruncate(fd, -1));
    say("allocated", posix_fallocate(fd, 0, 4096));
    SAY(fstat(fd, &sb));
    printf("size %lld\n", (long long)sb.st_size);
    SAY(fsync(fd));
    SAY(fdatasync(fd));
    SAY(close(fd));
    SAY(close(fd));
    SAY(lseek(fd, 0, SEEK_CUR));
    fd = open("sized", O_RDONLY);
    SAY(write(fd, "x", 1));
    close(fd);
    fd = open("sized", O_WRONLY | O_APPEND);
    SAY(lseek(fd, 0, SEEK_SET));
    SAY(write(fd, "end", 3));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(fcntl(fd, F_GETFL) & O_APPEND ? 1 : 0);
    SAY(fcntl(fd, F_SETFL, 0));
    SAY(lseek(fd, 0, SEEK_SET));
    SAY(write(fd, "BEG", 3));
    SAY(lseek(fd, 0, SEEK_CUR));
    close(fd);
    SAY(truncate("sized", 3));
    SAY(truncate("folder", 3));
    SAY(truncate("nothing", 3));
    fd = open("folder", O_RDONLY | O_DIRECTORY);
    SAY(read(fd, text, 1));
    SAY(fstatat(fd, "in", &sb, 0));
    SAY(openat(fd, "nothing", O_RDONLY));
    SAY(unlinkat(fd, "in", 0));
    SAY(close(fd));
    SAY(isatty(0));
    SAY(isatty(1));
}

static void show_times(const char *name, int flags)
{
    struct stat sb;
    if (fstatat(AT_FDCWD, name, &sb, flags) == 0)
        printf("%s %lld.%09ld %lld.%09ld\n", name, (long long)sb.st_atim.tv_sec,
               (long)sb.st_atim.tv_nsec, (long long)sb.st_mtim.tv_sec, (long)sb.st_mtim.tv_nsec);
}

static void times(void)
{
    struct timespec two[2] = {{1000000000, 1}, {2000000000, 999999999}}, one[2] = {{5, 5}, {7, 7}},
                    left[2] = {{0, UTIME_OMIT}, {9, 9}};
    make("timed", "x");
    symlink("timed", "timed-link");
    SAY(utimensat(AT_FDCWD, "timed", two, 0));
    show_times("timed", 0);
    SAY(utimensat(AT_FDCWD, "timed-link", one, AT_SYMLINK_NOFOLLOW));
    show_times("timed", 0);
    SAY(utimensat(AT_FDCWD, "timed-link", left, 0));
    show_times("timed", 0);
    SAY(utimensat(AT_FDCWD, "folder", one, 0));
    show_times("folder", 0);
    SAY(utimensat(AT_FDCWD, "dangling", one, AT_SYMLINK_NOFOLLOW));
    SAY(utimensat(AT_FDCWD, "dangling", one, 0));
    SAY(utimensat(AT_FDCWD, "timed/", one, AT_SYMLINK_NOFOLLOW));
    int fd = open("timed", O_RDWR);
    SAY(futimens(fd, one));
    show_times("timed", 0);
    close(fd);
}

/* As `rm -r` does it: what was read is removed before the next is read. */
static void a_folder_that_changes(void)
{
    char name[64];
    int removed = 0, seen = 0;
    mkdir("large", 0755);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "large/entry-with-a-longer-name-%05d", i);
        make(name, "");
    }
    DIR *dir = opendir("large");
    int folder = open("large", O_RDONLY | O_DIRECTORY);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            removed += unlinkat(folder, e->d_name, 0) == 0;
    printf("removed %d\n", removed);
    rewinddir(dir);
    for (struct dirent *e; (e = readdir(dir));)
        seen++;
    printf("left %d\n", seen);
    closedir(dir);
    SAY(rmdir("large"));
    close(folder);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Places of a folder can be gone back to. */
static void places_in_a_folder(void)
{
    static char *first[64], *again[64];
    static long at[64];
    int count = 0, same = 0;
    mkdir("places", 0755);
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "places/%d", i);
        make(name, "");
    }
    DIR *dir = opendir("places");
    for (struct dirent *e; (at[count] = telldir(dir), e = readdir(dir)) && count < 60;)
        first[count++] = strdup(e->d_name);
    for (int i = count; i-- > 0;) {
        seekdir(dir, at[i]);
        struct dirent *e = readdir(dir);
        again[i] = e ? strdup(e->d_name) : "";
        same += strcmp(first[i], again[i]) == 0;
    }
    closedir(dir);
    qsort(first, (size_t)count, sizeof first[0], by_name);
    printf("%d entries, %d found again, %s to %s\n", count, same, first[0], first[count - 1]);
}

static void waiting(void)
{
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = 1, .events = POLLOUT}};
    char byte;
    SAY(poll(fds, 2, 60000));
    printf("out %d\n", (fds[1].revents & POLLOUT) != 0);
    while (read(0, &byte, 1) > 0)
        ;
    fds[0].events = POLLIN;
    SAY(poll(fds, 1, 60000));
    printf("ended %d\n", (fds[0].revents & (POLLHUP | POLLIN)) != 0);
    SAY(poll(NULL, 0, 1));
    fds[0].fd = 400;
    fds[0].revents = 0;
    SAY(poll(fds, 1, 0));
    printf("bad %d\n", (fds[0].revents & POLLNVAL) != 0);
    int fd = open("file", O_RDWR);
    fds[0] = (struct pollfd){.fd = fd, .events = POLLIN | POLLOUT};
    SAY(poll(fds, 1, 0));
    printf("a file %d\n", fds[0].revents == (POLLIN | POLLOUT));
    close(fd);
}

int main(int argc, char *argv[])
{
    if (argc != 2 || chdir(argv[1]) < 0)
        return 2;
    names_at_their_end();
    places_and_sizes();
    times();
    a_folder_that_changes();
    places_in_a_folder();
    waiting();
    return 0;
}
