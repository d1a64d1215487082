/* Any text as /etc/subuid or /etc/passwd: no id that is the system's or nobody's comes out, each
 * place of the ranges has one id in its range, and a name ends. */
#include "kernel/subid_parse.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_ranges(const struct subid_ranges *r)
{
    uint64_t place = 0;
    require(r->count <= SUBID_RANGES_MAX && r->next >= 100000);
    for (unsigned i = 0; i < r->count; i++) {
        const struct subid_range *one = &r->at[i];
        require(one->first >= 1000 && one->count > 0 && one->first + (one->count - 1) < UINT32_MAX);
        require(one->first + (one->count - 1) >= one->first);
        require(subid_at(r, place) == one->first);
        place += one->count;
        require(subid_at(r, place - 1) == one->first + (one->count - 1));
    }
    require(subid_total(r) == place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct subid_ranges r;
    char name[16];
    char *text = malloc(size ? size : 1); /* of this size exactly: who reads beyond it is seen */
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    subid_parse(text, size, "anna", 1000, &r);
    check_ranges(&r);
    subid_parse(text, size, NULL, 0, &r);
    check_ranges(&r);
    if (passwd_name(text, size, 1000, name, sizeof name))
        require(memchr(name, '\0', sizeof name) && name[0] && !strchr(name, ':'));
    free(text);
    return 0;
}
