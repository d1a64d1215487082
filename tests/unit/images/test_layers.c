/* IM-7, IM-9: layers in the store: taken, waited for, put, settled; and what the killed left. */
#include "images/store.h"
#include "os/remove.h"

#include "../../lib/unit/image_store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DIGEST "sha256:00000000000000000000000000000000000000000000000000000000000000aa"
#define OTHER  "sha256:10000000000000000000000000000000000000000000000000000000000000bb"

static char top[64];
static struct store store = STORE_INIT;
static struct held_layers held;
static struct err err;
/* What both of them are without compression: two blobs may be one layer, packed in two ways. */
#define PLAIN "sha256:2000000000000000000000000000000000000000000000000000000000000000"
static const struct root_facts facts = {
    .tree = DIGEST, .bytes = 7, .files = 1, .diff_id = PLAIN, .packed = 5};

static void setup(void)
{
    snprintf(top, sizeof top, "/tmp/test-layers-XXXXXX");
    cr_assert(mkdtemp(top) && setenv("XDG_STATE_HOME", top, 1) == 0 && setenv("HOME", top, 1) == 0);
    err = (struct err)ERR_INIT;
    store_make(&store, top);
}

static void teardown(void)
{
    int dir = open(top, O_RDONLY | O_DIRECTORY);
    cr_assert(remove_folder(AT_FDCWD, top, dir) == 0);
}

TestSuite(layers, .init = setup, .fini = teardown, .timeout = 60);

static int take(const char *digest, int *making)
{
    const struct layer_name name = {.blob = digest, .diff_id = PLAIN};
    int r = layers_take(&store, &held, &name, making, &err);
    cr_assert(r >= 0, "%s", err.message);
    return r;
}

static void put(const char *digest)
{
    struct scratch t = SCRATCH_INIT;
    const struct layer_name name = {.blob = digest, .diff_id = PLAIN};
    cr_assert(scratch_make(&store, &t, &err) == 0 && mkdirat(t.fd, "tree", 0755) == 0);
    cr_assert(layers_put(&store, &held, &name, &t, &facts, &err) >= 0, "%s", err.message);
    cr_assert(t.fd < 0);
    scratch_done(&store, &t);
}

static bool is_there(const char *digest)
{
    char name[100];
    struct stat sb;
    snprintf(name, sizeof name, "unpacked/%s", digest + 7);
    return fstatat(store.fd, name, &sb, 0) == 0;
}

Test(layers, what_is_settled_stays)
{
    int making;
    cr_assert(take(DIGEST, &making) == 0 && making >= 0);
    put(DIGEST);
    close(making);
    put(OTHER);
    cr_assert(layers_settle(&held, &err) == 0 && held.count == 2);
    layers_done(&store, &held);
    cr_assert(is_there(DIGEST) && is_there(OTHER) && layers_sweep(&store) == 0);
    cr_assert(take(DIGEST, &making) == 1 && making < 0);
    cr_assert(held.items[0].facts.bytes == 7);
    layers_done(&store, &held);
    cr_assert(is_there(DIGEST));
}

Test(layers, what_was_refused_goes)
{
    put(DIGEST);
    layers_done(&store, &held);
    cr_assert(!is_there(DIGEST));
}

/* A child makes it and dies without a word. */
static void left_by_the_killed(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        put(DIGEST);
        raise(SIGKILL);
    }
    int status;
    cr_assert(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    cr_assert(is_there(DIGEST));
}

Test(layers, what_the_killed_left_is_not_taken)
{
    int making;
    left_by_the_killed();
    cr_assert(take(DIGEST, &making) == 0 && making >= 0 && !is_there(DIGEST));
    close(making);
    left_by_the_killed();
    cr_assert(layers_sweep(&store) == 1 && !is_there(DIGEST));
}

Test(layers, what_somebody_makes_is_shared_before_it_is_settled)
{
    int up[2], down[2], making;
    char byte = 0;
    cr_assert(pipe(up) == 0 && pipe(down) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        put(DIGEST);
        (void)!write(up[1], "x", 1);
        (void)!read(down[0], &byte, 1);
        layers_done(&store, &held); /* its image was refused */
        _exit(0);
    }
    cr_assert(read(up[0], &byte, 1) == 1);
    cr_assert(take(DIGEST, &making) == 1);
    cr_assert(layers_sweep(&store) == 0 && is_there(DIGEST));
    cr_assert(write(down[1], "x", 1) == 1);
    cr_assert(waitpid(pid, NULL, 0) == pid);
    cr_assert(is_there(DIGEST), "another load holds it");
    cr_assert(layers_settle(&held, &err) == 0);
    layers_done(&store, &held);
    cr_assert(is_there(DIGEST));
}

Test(layers, one_unpacks_and_the_other_waits)
{
    int up[2], making;
    char byte = 0;
    cr_assert(pipe(up) == 0 && take(DIGEST, &making) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int theirs;
        close(making);
        cr_assert(take(OTHER, &theirs) == 0, "another layer is not waited for");
        close(theirs);
        (void)!write(up[1], "a", 1);
        _exit(take(DIGEST, &theirs) == 1 && theirs < 0 ? 0 : 1);
    }
    cr_assert(read(up[0], &byte, 1) == 1);
    cr_assert(waitpid(pid, NULL, WNOHANG) == 0);
    put(DIGEST);
    close(making);
    int status;
    cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    layers_done(&store, &held);
}

/* IM-21: what came out of one blob is no other's layer, whatever it says that it is. */
Test(layers, a_layer_is_of_its_blob_alone)
{
    int making;
    put(DIGEST);
    cr_assert(layers_settle(&held, &err) == 0);
    layers_done(&store, &held);
    cr_assert(take(OTHER, &making) == 0 && making >= 0, "another blob of the same layer");
    close(making);
    /* Who says that this blob is something else is not given it. */
    const struct layer_name wrong = {.blob = DIGEST, .diff_id = OTHER};
    cr_assert(layers_take(&store, &held, &wrong, &making, &err) < 0 && making < 0);
    cr_assert(strstr(err.message, "not the layer that the config names"), "%s", err.message);
    err = (struct err)ERR_INIT;
    cr_assert(take(DIGEST, &making) == 1, "the control");
    cr_assert(held.items[0].facts.packed == 5);
    layers_done(&store, &held);
}

Test(layers, what_is_said_to_be_another_layer_is_not_put)
{
    struct scratch t = SCRATCH_INIT;
    const struct layer_name name = {.blob = DIGEST, .diff_id = OTHER};
    cr_assert(scratch_make(&store, &t, &err) == 0 && mkdirat(t.fd, "tree", 0755) == 0);
    cr_assert(layers_put(&store, &held, &name, &t, &facts, &err) < 0 && t.fd >= 0);
    scratch_done(&store, &t);
    cr_assert(!is_there(DIGEST));
}

/* ---- what a root is called ---- */

static void chain_of(const char *blob, const char *diff_id, char ret[65])
{
    static struct image_manifest m;
    static struct image_config c;
    m.layer_count = c.diff_count = 2;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(m.layers[i].digest, DIGEST_SIZE, "%s", i ? blob : DIGEST);
        snprintf(c.diff_ids[i], DIGEST_SIZE, "%s", i ? diff_id : PLAIN);
    }
    image_chain(&m, &c, ret);
}

Test(layers, a_root_is_of_its_blobs_and_of_what_they_are_said_to_be)
{
    char first[65], again[65], blob[65], diff[65], both[65];
    chain_of(DIGEST, PLAIN, first);
    chain_of(DIGEST, PLAIN, again);
    chain_of(OTHER, PLAIN, blob);
    chain_of(DIGEST, OTHER, diff);
    chain_of(OTHER, DIGEST, both);
    cr_assert_str_eq(first, again);
    cr_assert(strcmp(first, blob) != 0 && strcmp(first, diff) != 0 && strcmp(blob, diff) != 0);
    cr_assert(strcmp(both, first) != 0 && strcmp(both, blob) != 0 && strcmp(both, diff) != 0);
}

/* ---- the digest of a tree ---- */

static void digest(struct tree_known *known, char ret[DIGEST_SIZE])
{
    struct root_facts seen;
    int tree = openat(store.fd, "tmp", O_RDONLY | O_DIRECTORY);
    cr_assert(tree_digest(tree, known, &seen, &err) == 0, "%s", err.message);
    cr_assert(seen.files == 41 && seen.bytes > 100);
    snprintf(ret, DIGEST_SIZE, "%s", seen.tree);
    close(tree);
}

static void fill(const char *folder, int files)
{
    for (int i = 0; i < files; i++) {
        char name[64], text[16];
        snprintf(name, sizeof name, "%s/%d", folder, i);
        int len = snprintf(text, sizeof text, "text %d", i % 7);
        int fd = openat(store.fd, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
        cr_assert(write(fd, text, (size_t)len) == len);
        close(fd);
    }
}

Test(layers, a_digest_is_the_same_whether_files_were_read_before)
{
    char plain[DIGEST_SIZE], first[DIGEST_SIZE], again[DIGEST_SIZE], changed[DIGEST_SIZE];
    struct tree_known *known = tree_known_new();
    cr_assert(mkdirat(store.fd, "tmp/d", 0755) == 0);
    fill("tmp", 20);
    fill("tmp/d", 19);
    cr_assert(linkat(store.fd, "tmp/3", store.fd, "tmp/d/link", 0) == 0);
    digest(NULL, plain);
    digest(known, first);
    digest(known, again);
    cr_assert_str_eq(plain, first);
    cr_assert_str_eq(plain, again);
    /* What was not read before is. */
    cr_assert(unlinkat(store.fd, "tmp/5", 0) == 0);
    cr_assert(symlinkat("5", store.fd, "tmp/5") == 0);
    digest(known, changed);
    cr_assert(strcmp(plain, changed) != 0);
    digest(NULL, again);
    cr_assert_str_eq(changed, again);
    tree_known_free(&known);
}
