/* Any bytes as what brig-unpack says, which a layer may have taken over: a digest of the one
 * spelling, or an error in words that can be shown. The first byte is how it ended. */
#include "base/quote.h"
#include "images/load/load.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct unpacked got = {.bytes = 0};
    if (size == 0)
        return 0;
    bool hashed = data[0] & 1;
    int status = data[0] >> 1;
    char *text = malloc(size); /* no byte behind it */
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    int r = unpack_report_read(text, size - 1, status, hashed, &got, &err);
    require((r < 0) == (err.code != ERR_NONE));
    require(r >= 0 || (err.message[0] && !text_has_control(err.message)));
    require(!text_has_control(err.hint));
    require(r < 0 || status == 0);
    require(r < 0 || !hashed || digest_valid(got.diff_id));
    require(err.code != ERR_NOT_FOUND && err.code != ERR_USAGE);
    free(text);
    return 0;
}
