/* IM-21: a layer has the name of what brig-unpack was given. Here somebody else stands in its
 * place, and in the place of the sandbox that says what it was given. */
#define unpack_run unpack_somehow
#include "images/load/load.c"
#undef unpack_run

#include "os/remove.h"

#include "../../lib/unit/image_store.h"

#include <criterion/criterion.h>

static char top[64];
static struct store store = STORE_INIT;
static struct held_layers held;
static struct err err;
static int source;

static const char honest[] = "the bytes of the blob";
static const char *given;     /* what it is given; the file may have something else */
static const char *meanwhile; /* what the file has when it is done */
static enum err_code ends;

static enum unpack_kind asked;

int unpack_somehow(int archive, enum unpack_kind kind, const char *folder, const char *empty,
                   uint64_t max_bytes, uint64_t max_entries, struct unpacked *ret, struct err *why)
{
    asked = kind;
    (void)folder;
    (void)empty;
    (void)max_bytes;
    (void)max_entries;
    *ret = (struct unpacked){.bytes = 0};
    stream_hash_init(&ret->given);
    stream_hash_add(&ret->given, given, strlen(given));
    cr_assert(pwrite(archive, meanwhile, strlen(meanwhile), 0) == (ssize_t)strlen(meanwhile));
    if (ends != ERR_NONE)
        return err_set(why, ends, "so it ended");
    memcpy(ret->diff_id, "sha256:", 8);
    memset(ret->diff_id + 7, 'a', 64);
    return 0;
}

static void setup(void)
{
    snprintf(top, sizeof top, "/tmp/test-load-XXXXXX");
    cr_assert(mkdtemp(top));
    err = (struct err)ERR_INIT;
    store_make(&store, top);
    source = openat(store.fd, "blob", O_RDWR | O_CREAT | O_EXCL, 0600);
    given = meanwhile = honest;
    ends = ERR_NONE;
}

static void teardown(void)
{
    layers_done(&store, &held);
    int dir = open(top, O_RDONLY | O_DIRECTORY);
    cr_assert(remove_folder(AT_FDCWD, top, dir) == 0);
}

TestSuite(load, .init = setup, .fini = teardown);

/* The layer of the honest blob. */
static int load_it(const char *diff_id)
{
    char blob[DIGEST_SIZE] = "sha256:", plain[DIGEST_SIZE] = "sha256:";
    sha256_hex(honest, strlen(honest), blob + 7);
    memset(plain + 7, diff_id[0], 64);
    if (diff_id[0] == '=')
        memcpy(plain, blob, sizeof plain);
    const struct layer_request q = {.store = &store,
                                    .name = {.blob = blob, .diff_id = plain},
                                    .source = source,
                                    .size = strlen(honest),
                                    .max_bytes = 1000,
                                    .max_entries = 10};
    return load_layer(&q, &held, &err);
}

Test(load, what_was_given_is_the_blob)
{
    cr_assert(load_it("a") >= 0, "%s", err.message);
    cr_assert(held.count == 1 && held.items[0].facts.packed == strlen(honest));
}

Test(load, what_was_not_asked_for_counts_as_well)
{
    given = "the by";
    cr_assert(load_it("a") >= 0, "%s", err.message);
    cr_assert(held.items[0].facts.packed == strlen(honest));
}

Test(load, a_source_that_is_another_one_while_it_is_read)
{
    given = "taken over by someone";
    cr_assert(load_it("a") < 0 && held.count == 0);
    cr_assert(strstr(err.message, "another digest"), "%s", err.message);
}

Test(load, a_beginning_that_is_another_one)
{
    given = "evil";
    cr_assert(load_it("a") < 0 && held.count == 0);
    cr_assert(strstr(err.message, "another digest"), "%s", err.message);
}

Test(load, a_file_that_grows)
{
    meanwhile = "the bytes of the blob, and more";
    given = "the";
    cr_assert(load_it("a") < 0 && strstr(err.message, "another size"), "%s", err.message);
}

Test(load, who_ends_early_is_not_asked_what_the_blob_was)
{
    given = "";
    meanwhile = "taken over by someone";
    cr_assert(load_it("a") < 0 && strstr(err.message, "another digest"), "%s", err.message);
}

Test(load, it_must_be_the_layer_that_the_config_names)
{
    cr_assert(load_it("b") < 0 && held.count == 0);
    cr_assert(strstr(err.message, "not the layer that the config names"), "%s", err.message);
}

/* Of one that is not packed, and which brig-unpack must not unpack. */
Test(load, a_plain_layer_is_hashed_by_nobody_else)
{
    cr_assert(load_it("=") >= 0 && asked == UNPACK_PLAIN, "%s", err.message);
    cr_assert(memcmp(held.items[0].facts.diff_id + 7, "aaaa", 4) != 0, "not what it says");
    layers_done(&store, &held);
    given = "evil";
    cr_assert(load_it("=") < 0 && strstr(err.message, "another digest"), "%s", err.message);
    given = honest;
    err = (struct err)ERR_INIT;
    cr_assert(load_it("a") >= 0 && asked == UNPACK_LAYER, "%s", err.message);
}

Test(load, what_was_refused_for_another_reason_says_so)
{
    ends = ERR_REFUSED;
    cr_assert(load_it("a") < 0 && strstr(err.message, "so it ended"), "%s", err.message);
    given = "evil";
    err = (struct err)ERR_INIT;
    cr_assert(load_it("a") < 0 && strstr(err.message, "another digest"), "%s", err.message);
    ends = ERR_LIMIT;
    err = (struct err)ERR_INIT;
    cr_assert(load_it("a") < 0 && strstr(err.message, "so it ended"), "%s", err.message);
}
