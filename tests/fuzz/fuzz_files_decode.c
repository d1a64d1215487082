/* Any bytes as a request to the file worker: refused, or all that the worker relies on holds and
 * lies within the block. */
#include "files/files.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_text(const char *text, size_t max, const uint8_t *data, size_t size)
{
    const uint8_t *at = (const uint8_t *)text;
    require(at >= data && (size_t)(at - data) < size);
    size_t len = strnlen(text, size - (size_t)(at - data));
    require(len < size - (size_t)(at - data) && len <= max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct files_request r;
    struct err err = ERR_INIT;
    if (files_request_decode(data, size, &r, &err) < 0) {
        require(err.code == ERR_PROTOCOL);
        return 0;
    }
    require(r.op > FILES_NONE && r.op < FILES_OP_COUNT && r.depth <= FILES_DEPTH_MAX);
    require((r.op == FILES_MOVE) == (r.to != NULL) && r.metadata_count <= FILES_METADATA_MAX);
    check_text(r.path, FILES_PATH_MAX, data, size);
    check_text(r.home, FILES_PATH_MAX, data, size);
    require(r.path[0] && r.home[0] == '/');
    if (r.to)
        check_text(r.to, FILES_PATH_MAX, data, size);
    for (unsigned i = 0; i < r.metadata_count; i++) {
        check_text(r.metadata[i].name, 200, data, size);
        check_text(r.metadata[i].value, 2048, data, size);
    }
    return 0;
}
