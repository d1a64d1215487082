/* Checks ids of sandboxes and runs. They become names of files and of cgroups: nothing else gets
 * through.
 */
#include "base/id.h"

#include "base/text.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"
#define PREFIX  "brig-"

bool box_id_valid(const char *id)
{
    return id && strspn(id, LETTERS) == BOX_ID_LEN && !id[BOX_ID_LEN];
}

bool run_id_valid(const char *id)
{
    if (!id || !text_begins(id, PREFIX))
        return false;
    const char *rest = id + sizeof PREFIX - 1;
    size_t len = strspn(rest, LETTERS);
    return len > 0 && !rest[len] && len < RUN_ID_SIZE - (sizeof PREFIX - 1);
}
