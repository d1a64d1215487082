/* Watching: what is told, what is not, and how it ends. */
#include "lab.h"

TestSuite(files_watch, .init = lab_begin, .fini = lab_end, .timeout = 100);

struct watching {
    struct started s;
    struct files_reader *reader;
    struct answer a;
};

/* Reads until `done` says so; an end of the pipe ends it too. */
static void listen_until(struct watching *w, bool (*done)(const struct answer *, const void *),
                         const void *ctx)
{
    static char block[1 << 16];
    while (!done(&w->a, ctx)) {
        ssize_t n = read(w->s.out, block, sizeof block);
        cr_assert_gt(n, 0, "the worker ended, error %d", w->a.end);
        cr_assert_eq(files_reader_feed(w->reader, block, (size_t)n, NULL), 0);
    }
}

static bool headed(const struct answer *a, const void *ctx)
{
    return a->headed;
}

static bool ended(const struct answer *a, const void *ctx)
{
    return a->ended;
}

struct expected {
    enum files_event_kind kind;
    const char *name;
};

static bool told(const struct answer *a, const void *ctx)
{
    const struct expected *e = ctx;
    for (unsigned i = 0; i < a->events && i < 64; i++)
        if (a->event[i].kind == e->kind && strcmp(a->event[i].name, e->name) == 0)
            return true;
    return false;
}

static void expect(struct watching *w, enum files_event_kind kind, const char *name)
{
    struct expected e = {kind, name};
    listen_until(w, told, &e);
}

static bool was_told(const struct watching *w, enum files_event_kind kind, const char *name)
{
    struct expected e = {kind, name};
    return told(&w->a, &e);
}

static void begin(struct watching *w, const char *path, bool recursive)
{
    struct files_request r = lab_request(FILES_WATCH, path);
    r.recursive = recursive;
    w->s = lab_start(&r);
    w->reader = lab_reader(FILES_WATCH, &w->a);
    listen_until(w, headed, NULL);
}

/* The reader goes: so does the worker, without another event. */
static void leave(struct watching *w)
{
    int status;
    close(w->s.out);
    close(w->s.in);
    cr_assert_eq(waitpid(w->s.pid, &status, 0), w->s.pid);
    cr_assert_eq(WEXITSTATUS(status), 1);
    files_reader_free(w->reader);
}

LAB_TEST(files_watch, the_events_of_a_folder)
{
    struct watching w;
    lab_dir("d");
    lab_dir("d/sub");
    lab_file("d/old", "x", 0644);
    begin(&w, "/d", false);
    lab_file("d/new", "text", 0644);
    expect(&w, FILES_CREATE, "new");
    expect(&w, FILES_MODIFY, "new");
    cr_assert_eq(fchmodat(lab.root, "d/old", 0600, 0), 0);
    expect(&w, FILES_CHMOD, "old");
    cr_assert_eq(renameat(lab.root, "d/old", lab.root, "d/renamed"), 0);
    expect(&w, FILES_RENAME, "old");
    expect(&w, FILES_CREATE, "renamed");
    lab_file("d/sub/unseen", "", 0644);
    unlinkat(lab.root, "d/renamed", 0);
    expect(&w, FILES_DELETE, "renamed");
    for (unsigned i = 0; i < w.a.events; i++)
        cr_assert(!strstr(w.a.event[i].name, "unseen"), "not recursive");
    leave(&w);
}

LAB_TEST(files_watch, a_later_write_is_told_again)
{
    struct watching w;
    lab_file("f", "", 0644);
    begin(&w, "/", false);
    int fd = openat(lab.root, "f", O_WRONLY | O_CLOEXEC);
    for (unsigned i = 1; i <= 3; i++) {
        unsigned before = w.a.events;
        cr_assert_eq(write(fd, "x", 1), 1);
        while (w.a.events == before) {
            char block[4096];
            ssize_t n = read(w.s.out, block, sizeof block);
            cr_assert_gt(n, 0);
            cr_assert_eq(files_reader_feed(w.reader, block, (size_t)n, NULL), 0);
        }
    }
    close(fd);
    leave(&w);
}

LAB_TEST(files_watch, folders_that_appear_are_watched)
{
    struct watching w;
    lab_dir("d");
    lab_dir("d/there");
    begin(&w, "/d", true);
    lab_file("d/there/f", "", 0644);
    expect(&w, FILES_CREATE, "there/f");
    lab_dir("d/new");
    lab_dir("d/new/deep");
    lab_file("d/new/deep/f", "", 0644);
    expect(&w, FILES_CREATE, "new/deep/f");
    /* Another name, and the old one no longer. */
    cr_assert_eq(renameat(lab.root, "d/new", lab.root, "d/moved"), 0);
    expect(&w, FILES_RENAME, "new");
    expect(&w, FILES_CREATE, "moved/deep/f");
    lab_file("d/moved/deep/g", "", 0644);
    expect(&w, FILES_CREATE, "moved/deep/g");
    cr_assert(!was_told(&w, FILES_CREATE, "new/deep/g"));
    /* Out of sight. */
    lab_dir("away");
    cr_assert_eq(renameat(lab.root, "d/moved", lab.root, "away/moved"), 0);
    expect(&w, FILES_RENAME, "moved");
    lab_file("away/moved/deep/h", "", 0644);
    lab_file("d/last", "", 0644);
    expect(&w, FILES_CREATE, "last");
    for (unsigned i = 0; i < w.a.events; i++)
        cr_assert(!strstr(w.a.event[i].name, "/h"));
    leave(&w);
}

LAB_TEST(files_watch, a_link_is_an_entry_and_no_way)
{
    struct watching w;
    lab_dir("d");
    lab_dir("other");
    begin(&w, "/d", true);
    lab_link("/other", "d/link");
    expect(&w, FILES_CREATE, "link");
    lab_file("other/f", "", 0644);
    lab_file("d/last", "", 0644);
    expect(&w, FILES_CREATE, "last");
    cr_assert(!was_told(&w, FILES_CREATE, "link/f"));
    leave(&w);
}

LAB_TEST(files_watch, an_upload_is_one_file)
{
    struct watching w;
    lab_dir("d");
    begin(&w, "/d", true);
    cr_assert_eq(lab_write("/d/f", "one")->error, 0);
    expect(&w, FILES_CREATE, "f");
    cr_assert_eq(lab_write("/d/f", "two")->error, 0);
    lab_file("d/last", "", 0644);
    expect(&w, FILES_CREATE, "last");
    for (unsigned i = 0; i < w.a.events; i++)
        cr_assert(!strstr(w.a.event[i].name, "brig"), "%s", w.a.event[i].name);
    leave(&w);
}

static void told_of(const struct watching *w, const char *name, char ret[static 32])
{
    static const char letters[] = "?CWDRP"; /* created, written, deleted, renamed, permissions */
    size_t n = 0;
    for (unsigned i = 0; i < w->a.events && n < 31; i++)
        if (strcmp(w->a.event[i].name, name) == 0)
            ret[n++] = letters[w->a.event[i].kind];
    ret[n] = '\0';
}

/* What a program that waits for a file to be written goes by, though it is written elsewhere. */
LAB_TEST(files_watch, an_upload_tells_what_a_write_tells)
{
    struct watching w;
    char told[32];
    lab_dir("d");
    lab_file("d/old", "old", 0444);
    lab_link("/nowhere", "d/link");
    begin(&w, "/d", false);
    cr_assert_eq(lab_write("/d/new", "one")->error, 0);
    cr_assert_eq(lab_write("/d/old", "two")->error, 0);
    cr_assert_eq(lab_write("/d/empty", "")->error, 0);
    cr_assert_eq(lab_write("/d/link", "x")->error, 0);
    lab_file("d/last", "", 0644);
    expect(&w, FILES_CREATE, "last");
    told_of(&w, "new", told);
    cr_assert_str_eq(told, "CPW");
    told_of(&w, "old", told);
    cr_assert_str_eq(told, "PW", "it was there before: %s", told);
    told_of(&w, "empty", told);
    cr_assert_str_eq(told, "CP");
    told_of(&w, "link", told);
    cr_assert_str_eq(told, "CPW", "a link is replaced: %s", told);
    cr_assert_eq(lab_stat("d/old").st_mode & 07777, 0444);
    cr_assert_eq(lab_stat("d/new").st_mode & 07777, 0644);
    leave(&w);
}

LAB_TEST(files_watch, the_end_of_the_folder_is_the_end)
{
    struct watching w;
    lab_dir("d");
    lab_dir("d/e");
    begin(&w, "/d/e", true);
    cr_assert_eq(lab_do(FILES_REMOVE, "/d")->error, 0);
    listen_until(&w, ended, NULL);
    cr_assert_eq(w.a.end, ENOENT);
    close(w.s.out);
    waitpid(w.s.pid, NULL, 0);
    files_reader_free(w.reader);
}

Test(files_watch, lost_events_are_told)
{
    struct watching w;
    char name[32];
    lab_dir("d");
    begin(&w, "/d", false);
    kill(w.s.pid, SIGSTOP);
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "d/%d", i);
        lab_file(name, "", 0644);
    }
    kill(w.s.pid, SIGCONT);
    listen_until(&w, ended, NULL);
    cr_assert_eq(w.a.end, EOVERFLOW);
    close(w.s.out);
    waitpid(w.s.pid, NULL, 0);
    files_reader_free(w.reader);
}

Test(files_watch, there_is_a_limit_to_folders)
{
    struct watching w;
    char name[32];
    lab_dir("d");
    for (int i = 0; i < FILES_FOLDERS_MAX - 1; i++) {
        snprintf(name, sizeof name, "d/%d", i);
        lab_dir(name);
    }
    begin(&w, "/d", true);
    cr_assert_eq(w.a.error, 0);
    lab_dir("d/one-more");
    listen_until(&w, ended, NULL);
    cr_assert_eq(w.a.end, EFBIG);
    close(w.s.out);
    waitpid(w.s.pid, NULL, 0);
    files_reader_free(w.reader);
    struct files_request r = lab_request(FILES_WATCH, "/d");
    r.recursive = true;
    assert_error(lab_run(&r, NULL, 0), EFBIG);
}

/* A folder that comes to lie in itself, as far as the names of old events go: 3 000 moves of two
 * folders into and out of each other, and the worker still tells what happens after. */
LAB_TEST(files_watch, folders_that_change_places_confuse_nobody)
{
    struct watching w;
    lab_dir("d");
    lab_dir("d/a");
    lab_dir("d/b");
    begin(&w, "/d", true);
    kill(w.s.pid, SIGSTOP);
    for (int i = 0; i < 500; i++) {
        renameat(lab.root, "d/a", lab.root, "d/b/a");
        renameat(lab.root, "d/b/a", lab.root, "d/c");
        renameat(lab.root, "d/b", lab.root, "d/c/a");
        renameat(lab.root, "d/c", lab.root, "d/a");
        renameat(lab.root, "d/a/a", lab.root, "d/b");
    }
    kill(w.s.pid, SIGCONT);
    w.a.events = 0;
    lab_file("d/last", "", 0644);
    static char block[1 << 16];
    bool found = false;
    while (!found) {
        ssize_t n = read(w.s.out, block, sizeof block);
        cr_assert_gt(n, 0);
        w.a.events = 0;
        cr_assert_eq(files_reader_feed(w.reader, block, (size_t)n, NULL), 0);
        found = memmem(block, (size_t)n, "last", 4);
    }
    lab_file("d/b/after", "", 0644);
    w.a.events = 0;
    expect(&w, FILES_CREATE, "b/after");
    leave(&w);
}

/* By the time that its first event is looked at, "a/b" is the folder that "a" was. */
LAB_TEST(files_watch, a_folder_that_is_told_to_lie_in_itself)
{
    struct watching w;
    lab_dir("d");
    lab_dir("d/a");
    begin(&w, "/d", true);
    kill(w.s.pid, SIGSTOP);
    lab_dir("d/a/b");
    cr_assert_eq(renameat(lab.root, "d/a", lab.root, "d/c"), 0);
    lab_dir("d/a");
    cr_assert_eq(renameat(lab.root, "d/c", lab.root, "d/a/b"), 0);
    kill(w.s.pid, SIGCONT);
    expect(&w, FILES_CREATE, "a/b");
    lab_file("d/a/b/b/deep", "", 0644);
    expect(&w, FILES_CREATE, "a/b/b/deep");
    cr_assert_eq(lab_do(FILES_REMOVE, "/d/a")->error, 0);
    expect(&w, FILES_DELETE, "a");
    leave(&w);
}
