/* A tool of files, built for the host and as a module: what both print must be the same. Its first
 * argument is a folder that it may write to. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char place[600];
static const char *in(const char *folder, const char *name)
{
    snprintf(place, sizeof place, "%s/%s", folder, name);
    return place;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The call is over when errno is read. */
static void fails(const char *what, int result, int with)
{
    printf("%s %d %d\n", what, result, errno == with);
}

static void list(const char *folder)
{
    char *names[2000];
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) && count < 2000;)
        if (e->d_name[0] != '.')
            names[count++] = strdup(e->d_name);
    if (dir)
        closedir(dir);
    qsort(names, (size_t)count, sizeof names[0], by_name);
    printf("%d entries:", count);
    for (int i = 0; i < count; i++)
        if (i < 3 || i == count - 1)
            printf(" %s", names[i]);
    printf("\n");
}

static void change(const char *folder)
{
    struct stat sb;
    char other[600], text[64] = "";
    FILE *f = fopen(in(folder, "one"), "w");
    fprintf(f, "first line\nsecond line\n");
    fclose(f);
    f = fopen(in(folder, "one"), "a");
    fputs("third", f);
    fclose(f);
    f = fopen(in(folder, "one"), "r");
    fseek(f, -5, SEEK_END);
    fread(text, 1, 5, f);
    printf("read %s at %ld\n", text, ftell(f));
    fclose(f);
    stat(in(folder, "one"), &sb);
    printf("size %lld kind %d links %d\n", (long long)sb.st_size, S_ISREG(sb.st_mode),
           (int)sb.st_nlink);
    printf("mkdir %d\n", mkdir(in(folder, "sub"), 0755));
    fails("again", mkdir(in(folder, "sub"), 0755), EEXIST);
    snprintf(other, sizeof other, "%s/sub/two", folder);
    printf("rename %d\n", rename(in(folder, "one"), other));
    fails("gone", stat(in(folder, "one"), &sb), ENOENT);
    printf("symlink %d\n", symlink("sub/two", in(folder, "link")));
    f = fopen(in(folder, "link"), "r");
    printf("through the link: %s", f && fgets(text, sizeof text, f) ? text : "nothing\n");
    if (f)
        fclose(f);
    ssize_t n = readlink(in(folder, "link"), text, sizeof text);
    printf("readlink %.*s\n", (int)n, text);
    printf("truncate %d\n", truncate(other, 5));
    stat(other, &sb);
    printf("size %lld\n", (long long)sb.st_size);
    fails("rmdir", rmdir(in(folder, "sub")), ENOTEMPTY);
}

static void many(const char *folder)
{
    char name[32];
    mkdir(in(folder, "many"), 0755);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "many/file%04d", i);
        int fd = open(in(folder, name), O_CREAT | O_WRONLY | O_EXCL, 0644);
        close(fd);
    }
    list(in(folder, "many"));
    fails("exclusive", open(in(folder, "many/file0001"), O_CREAT | O_WRONLY | O_EXCL, 0644),
          EEXIST);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "many/file%04d", i);
        unlink(in(folder, name));
    }
    list(in(folder, "many"));
}

int main(int argc, char *argv[])
{
    char line[128];
    struct timespec t;
    for (int i = 2; i < argc; i++)
        printf("argument %s\n", argv[i]);
    printf("variable %s\n", getenv("FOR_THE_MODULE") ? getenv("FOR_THE_MODULE") : "none");
    while (fgets(line, sizeof line, stdin))
        printf("line %s", line);
    change(argv[1]);
    many(argv[1]);
    clock_gettime(CLOCK_REALTIME, &t);
    printf("after 2020 %d\n", t.tv_sec > 1577836800);
    struct timespec nap = {.tv_nsec = 1000000};
    printf("nap %d\n", nanosleep(&nap, NULL));
    fprintf(stderr, "to the other stream\n");
    return 7;
}
