/* The modules that attack: well-formed, and with an attack and a control for each of their rows.
 * That an engine takes them is shown where they run (tests/integration/test_verify.py). */
#include "verify/modules.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct place place = {.folder = "/nowhere", .limit = 64, .patience = 1000};

static uint64_t number(const struct buf *b, size_t *at)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && *at < b->len; shift += 7) {
        uint8_t byte = (uint8_t)b->data[(*at)++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

static bool contains(const struct buf *b, const char *text)
{
    return memmem(b->data, b->len, text, strlen(text)) != NULL;
}

Test(modules, sections_fill_the_file_in_their_order)
{
    for (int scene = SCENE_MODULE; scene < SCENE_COUNT; scene++) {
        cleanup_buf struct buf b;
        uint64_t last = 0;
        buf_init(&b, 1 << 18);
        cr_assert(modules_text((enum scene_id)scene, &place, &b));
        cr_assert(memcmp(b.data, "\0asm\1\0\0", 8) == 0);
        size_t at = 8;
        while (at < b.len) {
            uint64_t id = number(&b, &at), len = number(&b, &at);
            cr_assert_gt(id, last, "%s", scene_name((enum scene_id)scene));
            cr_assert_leq(len, b.len - at);
            last = id;
            at += len;
        }
        cr_assert_eq(at, b.len);
        cr_assert_eq(last, 11);
    }
}

/* Of W-09 the attack is the import, and its control is in another module. */
Test(modules, every_row_has_its_attack_and_its_control)
{
    for (size_t i = 0; i < row_count; i++) {
        cleanup_buf struct buf b;
        char text[64];
        buf_init(&b, 1 << 18);
        if (!(rows[i].flags & ROW_MODULE) || rows[i].look)
            continue;
        cr_assert(modules_text(rows[i].scene, &place, &b));
        snprintf(text, sizeof text, "%s\t0\t", rows[i].id);
        cr_assert(contains(&b, text), "%s", rows[i].id);
        if (rows[i].flags & ROW_REFUSED) {
            buf_reset(&b);
            cr_assert(modules_text(SCENE_MODULE_EDGE, &place, &b));
        }
        snprintf(text, sizeof text, "=%s\t0\t", rows[i].id);
        cr_assert(contains(&b, text), "%s", rows[i].id);
    }
}

Test(modules, one_imports_what_is_not_of_wasi)
{
    cleanup_buf struct buf good, bad;
    buf_init(&good, 1 << 18);
    buf_init(&bad, 1 << 18);
    cr_assert(modules_text(SCENE_MODULE, &place, &good));
    cr_assert(modules_text(SCENE_MODULE_IMPORT, &place, &bad));
    cr_assert(contains(&bad, "toString") && !contains(&good, "toString"));
}

Test(modules, one_that_cannot_be_written_is_an_error)
{
    struct err err = ERR_INIT;
    char path[128];
    cr_assert_lt(modules_place(SCENE_MODULE, &place, path, sizeof path, &err), 0);
    cr_assert(strstr(err.message, "/nowhere"));
}
