/* The documents of an image. The first byte chooses which; what is taken has digests that are some,
 * and counts within their bounds. */
#include "images/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
    if (!holds)
        abort();
}

static void try_manifest(const char *text, size_t size)
{
    static struct image_manifest m;
    struct err err = ERR_INIT;
    if (manifest_parse(text, size, &m, &err) < 0) {
        expect(err.message[0]);
        return;
    }
    expect(digest_valid(m.config.digest) && m.layer_count <= IMAGE_LAYERS_MAX);
    for (unsigned i = 0; i < m.layer_count; i++)
        expect(digest_valid(m.layers[i].digest));
}

static void try_index(const char *text, size_t size)
{
    static struct image_index index;
    struct err err = ERR_INIT;
    struct reference ref;
    if (index_parse(text, size, &index, &err) < 0) {
        expect(err.message[0]);
        return;
    }
    for (unsigned i = 0; i < index.count; i++)
        expect(
            digest_valid(index.entries[i].at.digest) &&
            (!index.entries[i].name[0] || reference_parse(index.entries[i].name, &ref, &err) >= 0));
}

static void try_archive(const char *text, size_t size)
{
    struct archive_list list;
    struct err err = ERR_INIT;
    if (archive_list_parse(text, size, &list, &err) < 0) {
        expect(err.message[0]);
        return;
    }
    for (unsigned i = 0; i < list.count; i++)
        expect(list.images[i].config && list.images[i].layer_count <= IMAGE_LAYERS_MAX);
    archive_list_done(&list);
}

/* Of blobs that are as plain as they can be. */
static void try_chains(const struct image_config *c)
{
    static struct image_manifest m;
    char chain[65], before[65];
    m.layer_count = c->diff_count;
    for (unsigned i = 0; i < c->diff_count; i++)
        snprintf(m.layers[i].digest, sizeof m.layers[i].digest, "%s", c->diff_ids[i]);
    image_chain(&m, c, chain);
    image_chain_before(c, before);
    expect(strlen(chain) == 64 && strncmp(chain, "blobs-", 6) == 0);
    expect(strspn(chain + 6, "0123456789abcdef") == 58);
    expect(strlen(before) == 64 && strspn(before, "0123456789abcdef") == 64);
}

static void try_config(const char *text, size_t size)
{
    static struct image_config c;
    struct err err = ERR_INIT;
    if (config_parse(text, size, &c, &err) < 0) {
        expect(err.message[0]);
        return;
    }
    expect(!c.folder || c.folder[0] == '/');
    for (unsigned i = 0; i < c.env_count; i++)
        expect(c.env[i]);
    try_chains(&c);
    config_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(const char *text, size_t size) = {try_manifest, try_index,
                                                                   try_archive, try_config};
    if (size)
        tries[data[0] % 4]((const char *)data + 1, size - 1);
    return 0;
}
