/* The folder of a container's state, and in which order it goes. */
#include "oci/state.h"

#include "oci/receipt.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

static void make_file(int dir, const char *name)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
}

/* The name of the last file that went from the watched folder. */
static void last_gone(int watch, char out[static 64])
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t n;
    out[0] = '\0';
    while ((n = read(watch, events, sizeof events)) > 0)
        for (char *at = events; at < events + n;) {
            const struct inotify_event *e = (const struct inotify_event *)(const void *)at;
            if (e->mask & IN_DELETE)
                snprintf(out, 64, "%s", e->name);
            at += sizeof *e + e->len;
        }
}

/* Whoever removes it may be killed in between: what is left still says whose it is, and what is to
 * be done for it. */
Test(oci_state, what_says_what_the_rest_is_goes_last)
{
    char top[] = "/tmp/test-brig-state-XXXXXX", path[128], last[64];
    struct oci_state s;
    struct err err = ERR_INIT;
    cr_assert_not_null(mkdtemp(top));
    int root = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(oci_state_make(&s, root, "one", &err), 0, "%s", err.message);
    cr_assert_eq(oci_state_save(&s, &err), 0);
    cr_assert_eq(oci_state_keep_config(&s, "{}", 2, &err), 0);
    make_file(s.dir_fd, OCI_RECEIPT_FILE);
    make_file(s.dir_fd, ".brig-0123456789abcdef");
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    snprintf(path, sizeof path, "%s/one", top);
    cr_assert_geq(inotify_add_watch(watch, path, IN_DELETE), 0);
    oci_state_remove(&s);
    last_gone(watch, last);
    cr_assert_str_eq(last, "state.json");
    cr_assert_lt(access(path, F_OK), 0, "it is gone");
    close(watch);
    oci_state_done(&s);
    close(root);
    rmdir(top);
}
